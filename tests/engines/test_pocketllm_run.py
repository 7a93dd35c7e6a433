"""Whole runs against the stand-in: the acceptance passes, and a rank that is lost in a wave is named."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil

from tests.engines.test_pocketllm import settings
from tests.launchers.bench import ENDLESS, Bench
from tests.launchers.support import becomes

WORKLOAD = """
name = "pocketllm"
[workload]
cases = ["single", "ladder", "streams", "disconnect"]
ladder = [2]
repeats = 2
max_tokens = 8
stream_options = {}
"""


def arm(folder: Path, mode: str, devices: list[int]) -> str:
    own = settings(folder)
    return f"""
[[arm]]
name = "{mode}"
engine = "pocketllm"
mode = "{mode}"
[arm.settings]
checkpoint = "{own.checkpoint}"
binary = "{own.binary}"
python = "{own.python}"
sidecar = "{own.sidecar}"
devices = {devices}
"""


def rank(bench: Bench, number: int) -> psutil.Process:
    """The rank itself: what its guard has started."""
    wanted = ["--tp-rank", str(number)]
    return next(
        process
        for process in bench.processes()
        if (words := process.cmdline())[2:3] == ["--serve"]
        and words[words.index("--tp-rank") :][:2] == wanted
    )


def test_batch_and_serial_pass_and_run_at_the_width_that_the_engine_told(
    bench: Bench, tmp_path: Path
) -> None:
    code, stdout, stderr = bench.run(WORKLOAD + arm(tmp_path, "batch", [0]) + arm(tmp_path, "serial", [0]))
    assert code in (0, 1), stdout + stderr  # 1: this machine may be too busy to show that batching pays
    for mode, width in (("batch", 8), ("serial", 1)):
        assert bench.record(mode)["effective_width"] == width
        assert {row["failure"] for row in bench.rows(mode)} == {""}
        for row in bench.rows(mode):
            told = row["finish_reason"] == "length"  # its streams carry no usage, but end for want of budget
            source = "events" if not told else "budget" if row["stream"] == "1" else "usage"
            assert row["token_source"] == source, row
            assert not told or row["completion_tokens"] == row["max_tokens"]


def test_a_rank_killed_in_the_middle_of_a_wave_ends_the_arm_with_its_name(
    bench: Bench, tmp_path: Path
) -> None:
    with bench.start(ENDLESS + arm(tmp_path, "batch", [0, 1])) as process:
        assert becomes(lambda: len(list(tmp_path.glob("the-run/batch/telemetry.csv"))) == 1, 40)
        assert becomes(lambda: ",4" in running_gauge(bench), 40)
        rank(bench, 1).send_signal(signal.SIGKILL)
        process.communicate(timeout=60)

    assert process.returncode == 1
    record = bench.record("batch")
    assert (record["status"], record["failure"]) == ("fail", "engine.died")
    assert "rank1 was killed by signal 9 under load" in record["failure_line"]
    ends = [(row["outcome"], row["failure"]) for row in bench.rows("batch")]
    assert len(ends) == 4
    assert set(ends) <= {("unfinished", ""), ("failed", "http.connection")}
    assert not list((bench.out / "batch").glob("rendezvous-*"))


def running_gauge(bench: Bench) -> str:
    text = (bench.out / "batch" / "telemetry.csv").read_text()
    return " ".join(
        line for line in text.splitlines() if "pocket_requests_running" in line and ",4" in line[-6:]
    )
