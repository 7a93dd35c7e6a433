"""An engine of several processes: all are watched, all are stopped, and the one that failed is named."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from launchers import lifecycle, ports
from launchers.engines.base import Capabilities, Engine, EngineSettings, Found, ProcessSpec
from launchers.errors import EngineMissing, EngineStartError, PortTaken
from launchers.interruption import Interruption
from launchers.lifecycle import RunningEngine
from tests.launchers import tiny_server
from tests.launchers.support import becomes, processes_marked


class Ranks(Engine):
    """Two ranks: the first serves, the second only has to stay alive."""

    name = "ranks"
    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ("--load", "600")

    def capabilities(self) -> Capabilities:
        return Capabilities()

    @classmethod
    def found(cls, settings: EngineSettings | None = None) -> Found:
        return Found(True)

    def processes(self, mode: str, port: int, workdir: Path) -> list[ProcessSpec]:
        serve = [sys.executable, tiny_server.__file__, "--mark", str(workdir)]
        env = {"OF_THE_TEST": str(workdir)}
        return [
            ProcessSpec("rank 0", [*serve, str(port), *self.first], env, "engine-rank0.log"),
            ProcessSpec("rank 1", [*serve, "1", *self.second], env, "engine-rank1.log"),
        ]

    def cleanup(self, workdir: Path) -> None:
        (workdir / "cleaned").touch()


class Failing(Ranks):
    first = ("--load", "600")
    second = ("--load", "600", "--die", "0")


class Unfindable(Ranks):
    def processes(self, mode: str, port: int, workdir: Path) -> list[ProcessSpec]:
        raise EngineMissing("its checkpoint is gone; make it again")


def running(
    engine: Engine, folder: Path, interruption: Interruption, port: int | None = None
) -> AbstractContextManager[RunningEngine]:
    return lifecycle.running(
        "arm", engine, "batch", port=port, folder=folder, deadline_s=20, interruption=interruption
    )


def test_a_rank_that_is_killed_is_named_and_all_are_stopped(tmp_path: Path) -> None:
    with (
        Interruption() as interruption,
        running(Ranks(EngineSettings()), tmp_path, interruption) as up,
    ):
        assert up.exited() is None
        assert becomes(up.processes[1].tail)
        os.kill(up.processes[1].pid, signal.SIGKILL)
        assert becomes(up.exited)
        died = up.exited()

    assert died
    assert str(died).startswith("arm: rank 1 was killed by signal 9 under load; its log: ")
    assert died.log_tail == ["loading"]
    assert not any(process.running for process in up.processes)
    assert processes_marked(str(tmp_path)) == []
    assert (tmp_path / "cleaned").exists()


def test_a_rank_that_fails_while_loading_stops_the_others(tmp_path: Path) -> None:
    with (
        Interruption() as interruption,
        pytest.raises(EngineStartError, match="arm: rank 1 exited with code 5 while loading") as told,
        running(Failing(EngineSettings()), tmp_path, interruption),
    ):
        raise AssertionError("it must not get ready")

    assert told.value.log_tail[-1] == "fatal: out of memory"
    assert processes_marked(str(tmp_path)) == []
    assert (tmp_path / "cleaned").exists()


def test_an_engine_that_cannot_say_how_to_start_fails_its_arm_only(tmp_path: Path) -> None:
    with (
        Interruption() as interruption,
        pytest.raises(EngineStartError, match="arm: its checkpoint is gone; make it again"),
        running(Unfindable(EngineSettings()), tmp_path, interruption),
    ):
        raise AssertionError("it must not get ready")


def test_a_fixed_port_is_checked_before_anything_is_started(tmp_path: Path) -> None:
    port = ports.free_port()
    with (
        Interruption() as interruption,
        running(Ranks(EngineSettings()), tmp_path, interruption, port=port),
        pytest.raises(PortTaken, match=f"port {port} is in use by process"),
        running(Ranks(EngineSettings()), tmp_path, interruption, port=port),
    ):
        raise AssertionError("it must not get ready")


def test_the_key_for_the_server_under_test_is_not_handed_to_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_API_KEY", "sk-secret")
    with Interruption() as interruption, running(Ranks(EngineSettings()), tmp_path, interruption) as up:
        environment = Path(f"/proc/{up.processes[0].pid}/environ").read_bytes()

    assert b"OF_THE_TEST=" in environment
    assert b"sk-secret" not in environment
