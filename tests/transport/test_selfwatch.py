"""The load process watched from inside: lag, CPU and requests in flight, on disk as they happen."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import gevent

from locustfiles.selfwatch import SelfWatch
from locustfiles.transport import Connection

from .scripted_server import Peer, ScriptedServer, sleep


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as lines:
        return list(csv.DictReader(lines))


def until_rows(path: Path, count: int) -> list[dict[str, str]]:
    while len(found := rows(path)) < count:
        gevent.sleep(0.01)
    return found


def test_a_blocked_event_loop_shows_as_lag(tmp_path: Path) -> None:
    path = tmp_path / "client.csv"
    watch = SelfWatch(path, worker="w1")
    watch.start()
    before = len(until_rows(path, 1))
    sleep(0.5)
    blocked = until_rows(path, before + 1)[before]
    watch.stop()
    assert float(blocked["lag_ms"]) > 400
    assert (blocked["worker"], blocked["pid"]) == ("w1", str(os.getpid()))
    assert list(blocked) == ["at_ns", "pid", "worker", "cpu_percent", "lag_ms", "running"]


def test_requests_in_flight_are_counted(tmp_path: Path) -> None:
    def waits(peer: Peer) -> None:
        peer.request()
        peer.sees()

    path = tmp_path / "client.csv"
    watch = SelfWatch(path)
    with ScriptedServer(waits) as server:
        exchanges = [Connection(server.target).prepare("GET", "/", {}) for _ in range(3)]
        for exchange in exchanges:
            exchange.send()
        watch.start()
        assert until_rows(path, 1)[-1]["running"] == "3"
        for exchange in exchanges:
            exchange.leave()
        counted = len(rows(path))
        assert until_rows(path, counted + 2)[-1]["running"] == "0"
    watch.stop()


def test_a_second_watch_appends_to_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "client.csv"
    for _ in range(2):
        watch = SelfWatch(path)
        watch.start()
        until_rows(path, len(rows(path)) + 1)
        watch.stop()
    assert path.read_text().count("at_ns") == 1
    assert len(rows(path)) >= 2


def test_everything_works_under_locusts_monkey_patching(tmp_path: Path) -> None:
    """In a process of its own: transport, kernel clock and self-watch after `import locust`."""
    script = Path(__file__).with_name("under_locust.py")
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.split() == ["complete", "kernel", "complete", "kernel", "left", "watched"]
