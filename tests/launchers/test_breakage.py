"""What is left when something breaks in the middle of a run: the rows, a clear word, and no process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launchers.bench import ENDLESS, QUICK, Bench, arm, command
from tests.launchers.support import becomes


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
