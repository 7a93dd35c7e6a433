"""What a stall of the server looks like in a closed loop, and in an open one with the same load.

    python benchmarks/stall.py [SECONDS]

The simulated engine is stopped (SIGSTOP) for 3 s in the middle of a run of each kind. Users who wait for
their answer ask nothing meanwhile, so a closed loop sees one slow answer a user; an open loop sends what is
due.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

HOLD_S, STALL_S = float((sys.argv[1:] or ["30"])[0]), 3.0
PLAN = """
name = "stall"
[workload.traffic]
load = "{load}"
levels = [{level}]
hold_s = {hold_s}
settle_s = 2
mix = {{ chat = 1 }}
[workload.slo]
latency_ms = 500
[[arm]]
name = "tiny"
engine = "simulated"
mode = "batch"
settings = {{ profile = "tiny" }}
"""
COLUMNS = ("requests_s", "latency_p50_s", "latency_p90_s", "latency_p99_s", "in_time")


def measured(load: str, level: float, stalled: bool) -> tuple[dict[str, float], int]:
    """The row of the traffic table, and how many requests took more than half a second."""
    with tempfile.TemporaryDirectory() as folder:
        plan, out = Path(folder) / "plan.toml", Path(folder) / "run"
        plan.write_text(PLAN.format(load=load, level=level, hold_s=HOLD_S))
        argv = [sys.executable, "-m", "launchers", "run", str(plan), "--out", str(out), "--json"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
            if stalled:
                stall(out, HOLD_S / 2)
            assert run.stdout is not None
            (row,) = json.load(run.stdout)["traffic"]
        return row, round(row["requests"] * (1 - row["in_time"] / 100))


def stall(out: Path, after_s: float) -> None:
    """Stop the engine of the run, some time after its load began."""
    while not list(out.glob("tiny/requests.csv")):
        time.sleep(0.05)
    time.sleep(after_s)
    (engine,) = (process for process in psutil.process_iter() if is_engine(process, out / "tiny"))
    engine.send_signal(signal.SIGSTOP)
    time.sleep(STALL_S)
    engine.send_signal(signal.SIGCONT)


def is_engine(process: psutil.Process, folder: Path) -> bool:
    try:
        argv = process.cmdline()
    except psutil.Error:
        return False
    return argv[1:3] == ["-m", "launchers.simulator"] and str(folder) in argv


def main() -> None:
    print("| load | stall | requests | requests/s | p50 (s) | p90 (s) | p99 (s) | above 0.5 s |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for load, level, name in (("closed", 4, "closed, 4 users"), ("poisson", 22, "open, 22/s")):
        for stalled in (False, True):
            row, slow = measured(load, level, stalled)
            figures = " | ".join(f"{row[column]:.2f}" for column in COLUMNS[:-1])
            share = f"{slow} ({slow / row['requests']:.1%})"
            print(
                f"| {name} | {'3 s' if stalled else 'none'} | {row['requests']} | {figures} | {share} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
