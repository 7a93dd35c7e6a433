"""A supervised process ends with all its descendants, whoever dies first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchers.errors import HeadToHeadError
from launchers.process import Supervised, tail
from tests.launchers.support import becomes, processes_marked

# A parent with a child that ignores TERM, one that left the session, and a daemon (whose parent is gone).
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
FAMILY = f"""
import os, subprocess, sys, time
mark = sys.argv[1]
sleeper = [sys.executable, "-c", {DEAF!r}, mark]
subprocess.Popen(sleeper)
subprocess.Popen(sleeper, start_new_session=True)
if os.fork() == 0:
    os.setsid()
    subprocess.Popen(sleeper)
    os._exit(0)
print("family complete", flush=True)
time.sleep(600)
"""
FAMILY_SIZE = 4


@pytest.fixture
def mark() -> Iterator[str]:
    name = f"mark-{uuid.uuid4()}"
    yield name
    for process in processes_marked(name):  # only after a test that failed
        process.kill()


def family(mark: str) -> list[str]:
    return [sys.executable, "-c", FAMILY, mark]


def complete(mark: str) -> bool:
    return len([p for p in processes_marked(mark) if "guard.py" not in " ".join(p.cmdline())]) == FAMILY_SIZE


def test_stop_ends_the_whole_family(tmp_path: Path, mark: str) -> None:
    process = Supervised("family", family(mark), tmp_path / "log", grace_s=0.5)
    assert becomes(lambda: complete(mark))

    process.stop()

    assert processes_marked(mark) == []
    assert process.exit_code == -signal.SIGTERM
    assert process.left == []


def test_descendants_end_when_the_command_ends_by_itself(tmp_path: Path, mark: str) -> None:
    process = Supervised("family", family(mark), tmp_path / "log", grace_s=0.5)
    assert becomes(lambda: complete(mark))

    os.kill(process.pid, signal.SIGKILL)

    assert process.wait(20)
    assert process.exit_code == -signal.SIGKILL
    assert processes_marked(mark) == []


def test_a_command_that_ignores_term_is_killed(tmp_path: Path, mark: str) -> None:
    stubborn = DEAF.replace("time.sleep", "print('up', flush=True); time.sleep")
    process = Supervised("stubborn", [sys.executable, "-c", stubborn, mark], tmp_path / "log", grace_s=0.2)
    assert becomes(lambda: process.tail() == ["up"])

    process.stop()

    assert process.exit_code == -signal.SIGKILL
    assert processes_marked(mark) == []


def test_a_suspended_command_ends_in_order(tmp_path: Path, mark: str) -> None:
    orderly = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print('up', flush=True)"
    command = [sys.executable, "-c", f"{orderly}; time.sleep(600)", mark]
    process = Supervised("orderly", command, tmp_path / "log", grace_s=20)
    assert becomes(lambda: process.tail() == ["up"])
    os.kill(process.pid, signal.SIGSTOP)

    process.stop()

    assert process.exit_code == 7


def test_a_suspended_family_is_ended(tmp_path: Path, mark: str) -> None:
    process = Supervised("family", family(mark), tmp_path / "log", grace_s=0.2)
    assert becomes(lambda: complete(mark))
    for member in processes_marked(mark):
        if "guard.py" not in " ".join(member.cmdline()):
            member.suspend()

    process.stop()

    assert processes_marked(mark) == []


def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path, mark: str) -> None:
    script = """
import json, os, time
from pathlib import Path
from launchers.process import Supervised
Supervised("family", json.loads(os.environ["FAMILY"]), Path(os.environ["LOG"]), grace_s=0.5)
time.sleep(600)
"""
    env = {**os.environ, "FAMILY": json.dumps(family(mark)), "LOG": str(tmp_path / "log")}
    parent = subprocess.Popen([sys.executable, "-c", script], env=env)
    assert becomes(lambda: complete(mark))

    parent.kill()
    parent.wait()

    assert becomes(lambda: processes_marked(mark) == [])


def test_nothing_of_the_command_outlives_a_guard_that_is_killed(tmp_path: Path, mark: str) -> None:
    process = Supervised("family", family(mark), tmp_path / "log", grace_s=0.5)
    assert becomes(lambda: complete(mark))
    guard = [p for p in processes_marked(mark) if "guard.py" in " ".join(p.cmdline())]

    guard[0].kill()
    assert process.wait(20)
    assert not process.running
    process.stop()

    assert process.exit_code == -signal.SIGKILL


def test_exit_code_and_output_are_kept(tmp_path: Path) -> None:
    process = Supervised(
        "short", ["sh", "-c", "echo one; echo two >&2; exit 7"], tmp_path / "logs" / "short.log"
    )

    assert process.wait(20)

    assert process.exit_code == 7
    assert process.tail() == ["one", "two"]


def test_a_missing_binary_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(HeadToHeadError) as told:
        Supervised("engine", ["/nowhere/engine", "--serve"], tmp_path / "log")

    assert str(told.value) == "engine: cannot run /nowhere/engine: No such file or directory"


def test_a_log_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(HeadToHeadError, match=r"^engine: cannot start: .*file"):
        Supervised("engine", ["true"], tmp_path / "file" / "log")


def test_a_full_disk_costs_log_lines_and_not_the_command(tmp_path: Path) -> None:
    (tmp_path / "engine.log").symlink_to("/dev/full")
    script = "import sys\nfor _ in range(10000): print('x' * 100)\nsys.stdout.flush(); sys.exit(0)"

    process = Supervised("engine", [sys.executable, "-c", script], tmp_path / "engine.log")

    assert process.wait(20)
    assert process.exit_code == 0
    assert process.log_error == "No space left on device"


def test_the_tail_is_short_and_survives_bad_bytes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" + b"noise\n" * 50_000 + b"\xff\xfe\n\nlast\n")

    assert tail(log, 2) == ["��", "last"]
    assert tail(tmp_path / "none") == []
