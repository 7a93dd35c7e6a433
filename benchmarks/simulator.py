"""How late is the simulated engine itself? N simultaneous streams at 50 tokens/s from one core.

Its iterations end on a grid of 20 ms that never shifts, so each write is compared with the grid laid through
the earliest one. Only writes after the last stream has begun count: until then iterations are longer.

    python benchmarks/simulator.py
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import psutil
from rich.console import Console
from rich.table import Table
from serving import client_core, on_cores, paced_server, served_model

CLIENT = Path(__file__).with_name("streaming_client.py")
STEP_NS = 20_000_000


def lateness_ms(written: pd.DataFrame) -> pd.Series:
    """Of each write; `written` has one row an event, those of a request in order."""
    first = written.groupby("request").at_ns.transform("first")
    on_grid = written[written.at_ns > first.max() + STEP_NS].copy()
    on_grid["phase"] = on_grid.at_ns - on_grid.groupby("request").cumcount() * STEP_NS
    earliest = on_grid.groupby("request").phase.transform("min")
    steps = ((earliest - earliest.min()) / STEP_NS).round()
    return (on_grid.phase - earliest.min() - steps * STEP_NS) / 1e6


def measure(streams: int, tokens: int) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder, paced_server(Path(folder), "--width", str(streams)) as url:
        (engine,) = [
            process for process in psutil.Process().children() if "launchers.simulator" in process.cmdline()
        ]
        model = served_model(url)
        before = engine.cpu_times()
        with on_cores(client_core()):
            command = [sys.executable, str(CLIENT), "kernel", "--url", url, "--model", model, "--label", "s"]
            command += ["--streams", str(streams), "--tokens", str(tokens), "--out", f"{folder}/events.csv"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = engine.cpu_times()
        written = pd.read_csv(Path(folder) / "truth_events.csv")
    # [DONE] and the finish reason go out with the last token: one write an event is all that is looked at.
    written = written[written.event.between(1, tokens)]
    late = lateness_ms(written)
    lasted_s = (written.at_ns.max() - written.at_ns.min()) / 1e9
    cpu_s = after.user + after.system - before.user - before.system
    times_ms = (f"{time:.2f}" for time in (late.median(), late.quantile(0.99), late.max()))
    return str(streams), f"{len(written) / lasted_s:,.0f}", f"{cpu_s / lasted_s:.0%}", *times_ms


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--streams", type=int, nargs="+", default=[1, 64, 256, 1024])
    arguments.add_argument("--tokens", type=int, default=250, help="per stream")
    options = arguments.parse_args()

    table = Table(title="The simulated engine on one core: writes behind their schedule, in ms")
    for heading in ("streams", "tokens/s", "CPU", "median", "p99", "max"):
        table.add_column(heading, justify="right")
    for streams in options.streams:
        table.add_row(*measure(streams, options.tokens))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
