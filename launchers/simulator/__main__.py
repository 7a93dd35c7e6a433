"""`python -m launchers.simulator`: the simulated engine as a server of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from launchers.simulator import catalogue
from launchers.simulator import profile as profiles
from launchers.simulator.catalogue import DIALECTS, FAULTS
from launchers.simulator.server import Simulator
from launchers.simulator.truth import Truth


def run(
    profile: Annotated[str, typer.Option(help="Name of a profile, or a TOML file.")] = "tiny",
    mode: Annotated[str, typer.Option(help="batch or serial.")] = "batch",
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one, named in the log.")] = 8000,
    width: Annotated[int | None, typer.Option(help="Slots; the profile's own if not given.")] = None,
    time_scale: Annotated[float, typer.Option(min=1e-3, help="Engine seconds in one real second.")] = 1.0,
    truth: Annotated[Path | None, typer.Option(help="Folder for truth.csv and truth_events.csv.")] = None,
    served_model_name: str = "m",
    set_: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE of the profile.")] = None,
    fault: Annotated[list[str] | None, typer.Option(help="NAME or NAME:SHARE.")] = None,
    list_faults: Annotated[
        bool, typer.Option(help="Name faults and dialects, and the verdict each one earns.")
    ] = False,
    dialect: Annotated[list[str] | None, typer.Option(help="NAME or NAME:SHARE.")] = None,
) -> None:
    """Serve a simulated engine until a signal stops it."""
    if list_faults:
        print(catalogue.listing())
        return
    changes = [*(set_ or []), *([f"width={width}"] if width is not None else [])]
    try:
        asked = profiles.load(profile, mode, changes)
        twists = catalogue.twists([*asked.faults, *(fault or [])], FAULTS)
        twists += catalogue.twists([*asked.dialects, *(dialect or [])], DIALECTS)
        written = Truth(truth) if truth else None
        simulator = Simulator(
            catalogue.twisted(asked, twists), served_model_name, time_scale, written, twists
        )
    except (ValueError, OSError) as error:
        sys.exit(_complain(str(error)))
    told = simulator.profile if any(twist.clamps for twist in twists) else asked
    sys.exit(asyncio.run(serve(simulator, host, port, told.width)))


def _complain(line: str) -> int:
    print(f"simulator: {line}", file=sys.stderr, flush=True)
    return 2


async def serve(simulator: Simulator, host: str, port: int, told_width: int) -> int:
    loop = asyncio.get_running_loop()
    try:
        server = await simulator.listen(host, port)
    except OSError as error:
        return _complain(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    engine = asyncio.create_task(simulator.engine.run())
    gc.collect()
    gc.freeze()
    bound = server.sockets[0].getsockname()
    budget = simulator.profile.prefill_token_budget
    print(f"batch width {told_width}, prefill budget {budget}", file=sys.stderr)
    print(f"listening on http://{host}:{bound[1]}", file=sys.stderr, flush=True)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({stopped, engine}, return_when=asyncio.FIRST_COMPLETED)
    if simulator.listener is not None:
        simulator.listener.close()
    if engine.done():
        engine.result()
    engine.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await engine
    return 0


if __name__ == "__main__":
    typer.run(run)
