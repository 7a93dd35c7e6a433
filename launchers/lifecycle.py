"""One engine from its command line to its end: started, ready, watched, stopped."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launchers import ports, readiness
from launchers.asking import API_KEY_VARIABLE
from launchers.engines.base import Engine
from launchers.errors import EngineDied, EngineError, EngineStartError, HeadToHeadError
from launchers.interruption import Interruption
from launchers.process import Supervised, stop_all

GRACE_SECONDS = 10.0


class RunningEngine:
    """A server that answered, with the processes behind it (none for an external one)."""

    def __init__(self, name: str, engine: Engine, base_url: str, processes: list[Supervised]) -> None:
        self.name = name
        self.engine = engine
        self.base_url = base_url
        self.processes = processes
        self.visible_devices: list[str | None] = []  # CUDA_VISIBLE_DEVICES of each process
        self.time_to_ready_s = 0.0
        self.effective: dict[str, Any] = {}

    @property
    def logs(self) -> dict[str, Path]:
        return {process.name: process.log for process in self.processes}

    @property
    def command(self) -> list[list[str]]:
        return [process.argv for process in self.processes]

    def exited(self) -> EngineDied | None:
        """The error to report when one of its processes has ended, else None."""
        for process in self.processes:
            if not process.running:
                line = readiness.exit_line(self.name, process, "under load")
                return EngineDied(line, process.tail())
        return None

    def tail(self) -> list[str]:
        return self.processes[0].tail() if self.processes else []


@contextlib.contextmanager
def running(
    name: str,
    engine: Engine,
    mode: str,
    *,
    port: int | None,
    folder: Path,
    deadline_s: float,
    interruption: Interruption,
) -> Iterator[RunningEngine]:
    """Start the engine and wait until it is ready; at the end stop it with all its children.

    Logs go to `folder`/logs. Raises EngineStartError (or PortTaken) with the tail of the log.
    """
    external = engine.external_url
    if port is not None:
        ports.require_free(port)
    port = port or ports.free_port()
    up = RunningEngine(name, engine, external or f"http://{ports.LOOPBACK}:{port}", [])
    began = time.monotonic()
    try:
        if not external:
            start_processes(up, mode, port, folder)
        readiness.wait_until_ready(
            name, up.base_url, engine.ready_path, engine.ready_check, up.processes, deadline_s, interruption
        )
        up.time_to_ready_s = time.monotonic() - began
        up.effective = engine.effective(up.logs, up.base_url)
        yield up
    finally:
        stop_all(up.processes)
        with contextlib.suppress(OSError):
            engine.cleanup(folder)


def start_processes(up: RunningEngine, mode: str, port: int, folder: Path) -> None:
    inherited = {key: value for key, value in os.environ.items() if key != API_KEY_VARIABLE}
    try:
        for spec in up.engine.processes(mode, port, folder):
            env = {**inherited, "PYTHONUNBUFFERED": "1", **spec.env}
            log = folder / "logs" / spec.log_name
            up.processes.append(Supervised(spec.name, spec.argv, log, env=env, grace_s=GRACE_SECONDS))
            up.visible_devices.append(env.get("CUDA_VISIBLE_DEVICES"))
    except EngineError:
        raise
    except (HeadToHeadError, OSError) as error:
        raise EngineStartError(f"{up.name}: {error}") from error
