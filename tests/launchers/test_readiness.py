"""Ready means: a process of ours answers 200 in time. Everything else is one line with the log's tail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launchers import ports, readiness
from launchers.errors import EngineStartError
from launchers.interruption import Interrupted, Interruption
from launchers.process import Supervised
from tests.launchers import tiny_server
from tests.launchers.support import becomes

Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the tiny server, supervised, as an engine."""
    started = []

    def supervised(port: int, *options: str) -> Supervised:
        argv = [sys.executable, tiny_server.__file__, str(port), *options]
        started.append(Supervised("engine", argv, tmp_path / "engine.log", grace_s=1))
        return started[-1]

    yield supervised
    for process in started:
        process.stop()


def wait(port: int, process: Supervised, deadline_s: float = 20.0) -> None:
    url = f"http://127.0.0.1:{port}"
    with Interruption() as interruption:
        readiness.wait_until_ready(
            "arm", url, "/health", lambda body: b"ok" in body, [process], deadline_s, interruption
        )


def test_it_waits_while_the_engine_loads(start: Start) -> None:
    port = ports.free_port()
    process = start(port, "--load", "0.5")

    wait(port, process)

    assert process.running


def test_an_engine_that_dies_while_loading(start: Start) -> None:
    port = ports.free_port()
    process = start(port, "--load", "60", "--die", "0.3")

    with pytest.raises(EngineStartError, match=r"^arm exited with code 5 while loading; its log: ") as told:
        wait(port, process)

    assert told.value.log_tail == ["loading", "fatal: out of memory"]


def test_an_engine_that_never_listens_in_time(start: Start) -> None:
    port = ports.free_port()
    process = start(port, "--load", "60")

    with pytest.raises(
        EngineStartError, match=r"^arm: not ready after 0\.5 s at .*/health \(last: .*refused"
    ):
        wait(port, process, deadline_s=0.5)


def test_an_engine_that_stays_unhealthy(start: Start) -> None:
    port = ports.free_port()
    process = start(port, "--status", "503")

    with pytest.raises(EngineStartError, match=r"not ready after 1 s .*\(last: HTTP 503\)"):
        wait(port, process, deadline_s=1)


def test_health_from_a_stale_server_that_shares_the_port(start: Start) -> None:
    port = ports.free_port()
    with subprocess.Popen([sys.executable, tiny_server.__file__, str(port), "--reuse"]) as stale:
        assert becomes(lambda: ports.strangers(port, {stale.pid})[0])
        process = start(port, "--reuse", "--load", "60")

        with pytest.raises(EngineStartError, match=rf"port {port} is answered by process {stale.pid} \("):
            wait(port, process)
        stale.kill()


def test_both_listen_and_nobody_knows_who_answers(start: Start) -> None:
    port = ports.free_port()
    with subprocess.Popen([sys.executable, tiny_server.__file__, str(port), "--reuse"]) as stale:
        assert becomes(lambda: ports.strangers(port, {stale.pid})[0])
        process = start(port, "--reuse")
        members = {member.pid for member in process.tree()}
        assert becomes(lambda: ports.strangers(port, members)[0])

        with pytest.raises(EngineStartError, match=f"by process {stale.pid} "):
            wait(port, process)
        stale.kill()


def test_a_port_stolen_between_check_and_bind(start: Start) -> None:
    port = ports.free_port()
    ports.require_free(port)
    with subprocess.Popen([sys.executable, tiny_server.__file__, str(port)]) as thief:
        assert becomes(lambda: ports.strangers(port, {thief.pid})[0])
        process = start(port)

        with pytest.raises(EngineStartError) as told:
            wait(port, process)
        thief.kill()

    assert f"process {thief.pid}" in str(told.value) or "Address already in use" in told.value.log_tail[-1]


def test_ctrl_c_ends_the_waiting(start: Start) -> None:
    port = ports.free_port()
    process = start(port, "--load", "60")
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()

    with pytest.raises(Interrupted) as told:
        wait(port, process)

    assert told.value.exit_code == 130
