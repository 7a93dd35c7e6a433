"""The clock: right while the reader is late, and honest about which clock it was."""

import time

import gevent
import pytest

from locustfiles.transport import Clock, Connection, Reply, fire, sse

from .scripted_server import Peer, ScriptedServer, sleep

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def one_event(peer: Peer) -> None:
    peer.request()
    peer.send(HEAD + b"data: token\n\n")


def while_we_are_busy(clock: Clock) -> tuple[int, Reply]:
    """One event written while our event loop is blocked: the time of its write, and the reply."""
    with ScriptedServer(one_event) as server:
        exchange = Connection(server.target, clock=clock).prepare("GET", "/", {})
        exchange.send()
        sleep(0.2)
        return server.peers[0].written_ns[0], exchange.wait(20)


def test_the_kernel_clock_is_right_although_the_reader_comes_late() -> None:
    written_ns, reply = while_we_are_busy("kernel")
    assert reply.clock == "kernel"
    assert 0 <= sse.decode(reply).events[0].at_ns - written_ns < 100_000_000


def test_the_user_clock_shows_the_readers_own_lateness() -> None:
    written_ns, reply = while_we_are_busy("user")
    assert reply.clock == "user"
    assert sse.decode(reply).events[0].at_ns - written_ns > 100_000_000


def test_sent_comes_before_the_server_can_have_the_request() -> None:
    got_ns = []

    def script(peer: Peer) -> None:
        peer.request()
        got_ns.append(time.time_ns())
        one_event(peer)

    with ScriptedServer(script) as server:
        exchange = Connection(server.target).prepare("POST", "/", {}, b"{}")
        prepared_ns = time.time_ns()
        exchange.send()
        assert prepared_ns <= exchange.sent_ns <= time.time_ns()
        while not got_ns:
            gevent.sleep(0.001)
    assert exchange.sent_ns < got_ns[0]


@pytest.mark.parametrize("n", [1, 8, 256])
def test_a_wave_is_fired_in_less_time_than_it_takes_to_prepare(n: int) -> None:
    def hears(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    with ScriptedServer(hears) as server:
        started = time.perf_counter()
        exchanges = [Connection(server.target).prepare("POST", "/", {}, b"{}") for _ in range(n)]
        prepare_ms = (time.perf_counter() - started) * 1000
        spread_ms = fire(exchanges)
        assert [exchange.wait(20).status for exchange in exchanges] == [204] * n
    stamps = [exchange.sent_ns for exchange in exchanges]
    assert stamps == sorted(stamps)
    assert spread_ms == (stamps[-1] - stamps[0]) / 1e6
    assert spread_ms < prepare_ms
