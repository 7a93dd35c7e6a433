"""A plan run by real processes: what ends up on disk, and what is left when something breaks.

Every test starts `headtohead` as a user would, on a simulated engine of a few milliseconds a token.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.launchers import tiny_server
from tests.launchers.support import becomes, processes_marked

ARM = """
[[arm]]
name = "{name}"
engine = "simulated"
mode = "{mode}"
[arm.settings]
profile = "tiny"
{settings}
"""
QUICK = """
name = "quick"
[workload]
cases = ["single", "ladder", "streams"]
ladder = [2]
max_tokens = 8
"""
# A wave that takes minutes, to break something in the middle of it.
ENDLESS = """
name = "endless"
[workload]
cases = ["streams"]
warmups = 0
stream_count = 4
max_tokens = 4000
"""


def arm(name: str, mode: str = "batch", settings: str = "") -> str:
    return ARM.format(name=name, mode=mode, settings=settings)


class Bench:
    """A folder with a plan and, once run, its run; every process of it is found by the folder's name."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "the-run"
        self.plan = folder / "plan.toml"

    def start(
        self, plan: str, *options: str, program: Sequence[str] = ("-m", "launchers")
    ) -> subprocess.Popen[str]:
        self.plan.write_text(plan)
        argv = [sys.executable, *program, "run", str(self.plan), "--out", str(self.out), *options]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, plan: str, *options: str) -> tuple[int, str, str]:
        with self.start(plan, *options) as process:
            stdout, stderr = process.communicate(timeout=120)
        return process.returncode, stdout, stderr

    def run_json(self) -> dict[str, Any]:
        return read_json(self.out / "run.json")

    def record(self, name: str) -> dict[str, Any]:
        return read_json(self.out / name / "record.json")

    def rows(self, name: str) -> list[dict[str, str]]:
        path = self.out / name / "requests.csv"
        if not path.exists():
            return []
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    def processes(self) -> list[psutil.Process]:
        return processes_marked(str(self.out.parent))

    def engine(self) -> psutil.Process:
        """The simulator itself, not its guard."""
        return next(p for p in self.processes() if p.cmdline()[1:3] == ["-m", "launchers.simulator"])

    def streaming(self, name: str) -> bool:
        """Whether the endless wave is under way: the server counts four running requests."""
        path = self.out / name / "telemetry.csv"
        return path.exists() and bool(re.search(r"num_requests_running,.*,4\.0\b", path.read_text()))

    def passed(self, name: str) -> bool:
        """Whether the engine passed. A test machine may be too busy to measure on: not its fault."""
        record = self.record(name)
        failed = [v["check"] for v in record["verdicts"] if v["status"] == "fail"]
        return record["failure"] is None and all(check.startswith("client.") for check in failed)


def read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    left = bench.processes()
    for process in left:
        process.kill()
    assert left == [], "a test has to leave no process behind"


def test_two_arms_pass_and_leave_the_whole_record(bench: Bench) -> None:
    code, stdout, stderr = bench.run(QUICK + arm("a") + arm("b", "serial"))

    assert (code, bench.run_json()["status"]) in ((0, "pass"), (1, "fail")), stderr
    assert bench.passed("a")
    assert bench.passed("b")
    assert "Single request" in stdout
    a, b = bench.record("a"), bench.record("b")
    assert a["payload_sha256"] == b["payload_sha256"] == bench.run_json()["payload_sha256"] is not None
    assert (a["effective_width"], b["effective_width"]) == (8, 1)
    assert a["locust_exit"] == 0
    assert a["provenance"]["command"][1:3] == ["-m", "launchers.simulator"]
    assert a["provenance"]["time_to_ready_s"] > 0
    assert a["workload"]["payload"] == {"ignore_eos": True}
    for name in ("events.csv.gz", "telemetry.csv", "locust_stats.csv", "locust.html", "logs/engine.log"):
        assert (bench.out / "a" / name).stat().st_size > 0
    assert {row["outcome"] for row in bench.rows("a")} == {"ok"}


def test_json_is_all_that_is_printed(bench: Bench) -> None:
    code, stdout, stderr = bench.run(QUICK + arm("a"), "--json", "--junit", str(bench.out / "junit.xml"))

    assert code in (0, 1)
    assert json.loads(stdout)["status"] == ("pass" if code == 0 else "fail")
    assert stderr == ""
    assert "testsuite" in (bench.out / "junit.xml").read_text()


def test_arms_take_turns_in_blocks(bench: Bench) -> None:
    plan = QUICK.replace('name = "quick"', 'name = "quick"\nblocks = 2') + "repeats = 3" + arm("a") + arm("b")
    _, _, stderr = bench.run(plan)

    assert bench.passed("a"), stderr
    assert len(bench.record("a")["provenance"]["starts"]) == 2
    recorded = {name: [row for row in bench.rows(name) if row["case"] == "single" and row["repeat"] != "0"]
                for name in "ab"}  # fmt: skip
    assert [row["repeat"] for row in recorded["a"]] == ["1", "2", "3"]
    order = sorted((int(row["sent_ns"]), name) for name, rows in recorded.items() for row in rows)
    assert "".join(name for _, name in order) == "aabbab"
    names = [row["request"] for row in bench.rows("a")]
    assert len(set(names)) == len(names)
    conduct = read_json(bench.out / "a" / "conduct.json")
    assert conduct["planned"] == conduct["finished"] == len(names)


def test_several_locust_processes_share_the_load(bench: Bench) -> None:
    _, _, stderr = bench.run(QUICK + arm("a"), "--workers", "2")

    assert bench.passed("a"), stderr
    assert len({row["worker"] for row in bench.rows("a")}) == 2


def test_a_folder_that_holds_a_run_is_left_alone(bench: Bench) -> None:
    bench.out.mkdir()
    (bench.out / "run.json").write_text("{}")

    code, _, stderr = bench.run(QUICK + arm("a"))

    assert (code, (bench.out / "run.json").read_text()) == (2, "{}")
    assert stderr == f"headtohead: {bench.out} already holds a run; give another folder with --out\n"


def test_wrong_settings_are_told_before_anything_starts(bench: Bench) -> None:
    code, _, stderr = bench.run(
        QUICK + arm("a", settings="widht = 4") + arm("b").replace("simulated", "simulatd")
    )

    assert code == 2
    assert [line.removeprefix(f"headtohead: {bench.plan}: ") for line in stderr.splitlines()] == [
        "arm 1 settings.widht: unknown key; did you mean 'width'?",
        "arm 2 engine: is 'simulatd'; did you mean 'simulated'?",
    ]
    assert not bench.out.exists()


def test_a_missing_binary_is_told_before_anything_starts(bench: Bench) -> None:
    missing = command("x", "").replace(sys.executable, "nowhere")
    code, _, stderr = bench.run(QUICK + arm("a") + missing)

    assert code == 2
    assert len(stderr.splitlines()) == 1
    assert "'nowhere' is not on PATH; install it" in stderr
    assert not bench.out.exists()


def command(name: str, options: str, more: str = "") -> str:
    words = f"{sys.executable} {tiny_server.__file__} {{port}} {options}"
    head = f'[[arm]]\nname = "{name}"\nengine = "command"\nmode = "batch"\n{more}\n'
    return f'{head}[arm.settings]\ncommand = "{words}"\n'


def test_a_port_in_use_fails_the_arm_and_the_next_one_runs(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        plan = QUICK + arm("a").replace("[arm.settings]", f"port = {port}\n[arm.settings]") + arm("b")
        code, _, stderr = bench.run(plan)

    assert code == 1
    assert bench.record("a")["failure"] == "engine.start"
    assert f"fail a: engine.start: port {port} is in use by process {os.getpid()} (" in stderr
    assert bench.passed("b")


def test_an_engine_that_dies_while_loading(bench: Bench) -> None:
    code, _, stderr = bench.run(QUICK + command("a", "--load 60 --die 0.3") + arm("b"))

    assert code == 1
    assert bench.record("a")["log_tail"] == ["loading", "fatal: out of memory"]
    assert "fail a: engine.start: exited with code 5 while loading; its log: " in stderr
    assert bench.passed("b")


def test_a_server_that_is_never_ready(bench: Bench) -> None:
    code, _, stderr = bench.run(QUICK + command("a", "--load 60", "start_deadline_s = 0.5") + arm("b"))

    assert code == 1
    assert "fail a: engine.start: not ready after 0.5 s at " in stderr
    assert bench.passed("b")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_ctrl_c_in_the_middle_of_a_wave(bench: Bench, number: signal.Signals) -> None:
    with bench.start(ENDLESS + arm("a") + arm("b")) as process:
        assert becomes(lambda: bench.streaming("a"), 40)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)

    assert process.returncode == 128 + number
    assert f"{number.name}: everything is stopped; the rows are kept in {bench.out}" in stderr
    assert bench.processes() == []
    assert [row["outcome"] for row in bench.rows("a")] == ["unfinished"] * 4
    assert bench.record("a")["status"] == "unfinished"
    assert bench.run_json()["status"] == "interrupted"


def test_kill_9_in_the_middle_of_a_wave_leaves_the_rows_and_no_process(bench: Bench) -> None:
    plan = ENDLESS.replace('["streams"]', '["single", "streams"]').replace("4000", "1500") + arm("a")
    with bench.start(plan) as process:
        assert becomes(lambda: bench.streaming("a"), 40)
        process.kill()

    assert becomes(lambda: bench.processes() == [], 40)
    assert bench.rows("a")[0]["case"] == "single"
    assert bench.rows("a")[0]["outcome"] == "ok"
    assert bench.run_json()["status"] == "running"


def test_an_engine_killed_in_the_middle_of_its_streams(bench: Bench) -> None:
    with bench.start(ENDLESS + arm("a") + arm("b")) as process:
        assert becomes(lambda: bench.streaming("a"), 40)
        bench.engine().kill()
        assert becomes(lambda: bench.streaming("b"), 40)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    record = bench.record("a")
    assert (record["status"], record["failure"], record["engine_exit"]) == ("fail", "engine.died", -9)
    assert {row["failure"] for row in bench.rows("a")} == {"http.connection"}
    assert "a was killed by signal 9 under load" in record["failure_line"]
    assert bench.record("b")["status"] == "unfinished"


def test_a_guard_that_is_killed_takes_its_engine_along(bench: Bench) -> None:
    with bench.start(ENDLESS + arm("a")) as process:
        assert becomes(lambda: bench.streaming("a"), 40)
        guard = bench.engine().parent()
        assert guard
        guard.kill()
        process.communicate(timeout=60)

    assert bench.record("a")["failure"] == "engine.died"
    assert bench.processes() == []


def test_locust_that_wedges_is_an_error_of_its_arm(bench: Bench) -> None:
    impatient = "import launchers.arm as arm, launchers.cli as cli; arm.SILENCE_SECONDS = 4; cli.main()"
    with bench.start(ENDLESS + arm("a"), "--deadline", "1", program=["-c", impatient]) as process:
        assert becomes(lambda: bench.streaming("a"), 40)
        locust = next(p for p in bench.processes() if p.cmdline()[1:3] == ["-m", "locust"])
        locust.suspend()
        _, stderr = process.communicate(timeout=90)

    assert process.returncode == 1
    assert "error a: Locust showed no sign of life for 5 s; see " in stderr
    assert bench.record("a")["status"] == bench.run_json()["status"] == "error"


def test_an_engine_that_hangs_is_stopped_and_the_next_arm_runs(bench: Bench) -> None:
    with bench.start(ENDLESS + arm("a") + arm("b"), "--deadline", "1") as process:
        assert becomes(lambda: bench.streaming("a"), 40)
        bench.engine().suspend()
        assert becomes(lambda: bench.streaming("b"), 40)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)

    assert bench.record("a")["failure"] == "engine.hang"
    assert {row["failure"] for row in bench.rows("a")} == {"engine.hang"}
    assert "fail a: engine.hang: no byte for 1 s; the engine was stopped" in stderr


def test_a_disk_that_is_full_for_logs(bench: Bench) -> None:
    (bench.out / "a" / "logs").mkdir(parents=True)
    (bench.out / "a" / "logs" / "locust.log").symlink_to("/dev/full")
    _, _, stderr = bench.run(QUICK + arm("a"))

    assert bench.passed("a")
    assert "a: locust.log: lines lost, No space left on device" in stderr
    assert bench.record("a")["notes"] == ["locust.log: lines lost, No space left on device"]


@pytest.fixture
def small_disk(bench: Bench) -> Iterator[Path]:
    """The run's folder as a file system of 256 KiB."""
    bench.out.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", bench.out], check=False)
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small file system")
    yield bench.out
    subprocess.run(["umount", "--lazy", bench.out], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="needs mount")
def test_a_disk_that_fills_up_in_the_middle_of_a_run(bench: Bench, small_disk: Path) -> None:
    code, _, stderr = bench.run(QUICK + "repeats = 200" + arm("a"))

    assert code in (1, 2)
    assert "No space left on device" in stderr
    assert "Traceback" not in stderr
    assert len(bench.rows("a")) > 10
