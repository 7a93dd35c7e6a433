"""Every way in which an exchange can end has its own name, and none of them raises."""

from typing import Any

import gevent
import pytest

from locustfiles.transport import Connection, Reply, Target, in_flight

from .scripted_server import Peer, PlainSocket, Script, ScriptedServer, sleep

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b"10\r\ndata: {'a': 1}\n\n\r\n"
COMMENT = b"8\r\n: ping\n\n\r\n"


def post(server: ScriptedServer, deadline_s: float = 20, **how: Any) -> Reply:
    exchange = Connection(server.target).prepare("POST", "/", {}, b"{}")
    exchange.send()
    return exchange.wait(deadline_s, **how)


def sending(*pieces: bytes, then: str = "close") -> Script:
    def script(peer: Peer) -> None:
        peer.request()
        for piece in pieces:
            peer.send(piece)
        if then == "reset":
            peer.pause(0.05)
            peer.reset()
        elif then == "silence":
            peer.sees()

    return script


@pytest.mark.parametrize(
    ("script", "end", "body"),
    [
        (sending(), "closed_clean", b""),
        (sending(b"HTTP/1.1 200 O"), "cut", b""),
        (sending(b"HTTP/1.1 200 OK\r\nContent-Le"), "cut", b""),
        (sending(b"HTTP/1.1 100 Continue\r\n\r\n"), "cut", b""),
        (sending(STREAM, EVENT), "cut", b"data: {'a': 1}\n\n"),
        (sending(STREAM, EVENT[:10]), "cut", b"data: "),
        (sending(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "cut", b"half"),
        (sending(then="reset"), "reset", b""),
        (sending(STREAM, EVENT, then="reset"), "reset", b"data: {'a': 1}\n\n"),
        (sending(b"HTTP/1.1 200 OK\r\n\r\nhalf", then="reset"), "reset", b"half"),
        (sending(b"SSH-2.0-OpenSSH_9.6\r\n"), "cut", b""),
        (sending(STREAM, b"not a chunk size\r\n"), "cut", b""),
    ],
)
def test_a_response_that_breaks_off_says_how(script: Script, end: str, body: bytes) -> None:
    with ScriptedServer(script) as server:
        reply = post(server)
    assert (reply.end, reply.body) == (end, body)
    assert reply.error
    assert reply.end_ns > reply.sent_ns
    assert in_flight() == 0


def test_refused() -> None:
    with PlainSocket() as free:
        free.bind(("127.0.0.1", 0))
        target = Target.parse(f"http://127.0.0.1:{free.getsockname()[1]}")
        exchange = Connection(target).prepare("GET", "/", {})
        exchange.send()
        reply = exchange.wait(20)
    assert (reply.end, reply.status) == ("refused", None)
    assert target.authority in reply.error
    assert in_flight() == 0


def test_a_server_that_resets_whatever_connects() -> None:
    """Before the request or in the midst of it, as it happens: an end with a name in any case."""
    with ScriptedServer(Peer.reset) as server:
        for _ in range(20):
            connection = Connection(server.target)
            exchange = connection.prepare("POST", "/", {}, b"{}")
            gevent.sleep(0.001)
            exchange.send()
            reply = exchange.wait(20)
            assert reply.end in ("reset", "refused", "closed_clean")
            assert reply.error
            assert not connection.is_open
    assert in_flight() == 0


def test_a_server_that_resets_the_connection_made_beforehand_gets_the_request_on_another() -> None:
    made: list[bool] = []

    def reset_once_made(peer: Peer) -> None:
        while not made:
            sleep(0.001)
        peer.reset()

    with ScriptedServer(reset_once_made, sending(b"HTTP/1.1 204 No Content\r\n\r\n")) as server:
        connection = Connection(server.target)
        exchange = connection.prepare("POST", "/", {}, b"{}")
        assert connection.is_open
        made.append(True)
        while connection.is_open:
            gevent.sleep(0.001)
        exchange.send()
        assert exchange.wait(20).status == 204


def test_a_server_that_says_nothing_hangs() -> None:
    with ScriptedServer(sending(then="silence")) as server:
        reply = post(server, deadline_s=0.1)
    assert (reply.end, reply.status, reply.error) == ("hang", None, "no byte for 0.1 s")


def test_a_stall_in_mid_stream_hangs_and_keeps_what_came() -> None:
    with ScriptedServer(sending(STREAM, EVENT, then="silence")) as server:
        reply = post(server, deadline_s=0.2)
    assert (reply.end, reply.status, reply.body) == ("hang", 200, b"data: {'a': 1}\n\n")


@pytest.mark.parametrize("then", ["close", "silence"])
def test_our_own_lateness_is_not_the_servers_silence(then: str) -> None:
    """All of it has come, but our process did not get to run for longer than the deadline."""
    with ScriptedServer(sending(STREAM, EVENT, b"0\r\n\r\n", then=then)) as server:
        exchange = Connection(server.target).prepare("POST", "/", {}, b"{}")
        exchange.send()
        sleep(0.3)
        reply = exchange.wait(0.1)
    assert (reply.end, reply.body) == ("complete", b"data: {'a': 1}\n\n")


def test_the_deadline_is_for_silence_not_for_the_whole() -> None:
    def slow(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM)
        for _ in range(10):
            peer.pause(0.1)
            peer.send(EVENT)
        peer.send(b"0\r\n\r\n")

    with ScriptedServer(slow) as server:
        assert post(server, deadline_s=0.6).end == "complete"
        reply = post(server, deadline_s=0.6, total_s=0.3)
    assert (reply.end, reply.error) == ("hang", "not over after 0.3 s")


@pytest.mark.parametrize(("reset", "seen_by_server"), [(False, "fin"), (True, "reset")])
@pytest.mark.parametrize("events", [1, 2, 3])
def test_leaving_after_so_many_events_closes_the_socket_at_once(
    events: int, reset: bool, seen_by_server: str
) -> None:
    seen = []

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM + COMMENT)
        for _ in range(events):
            peer.send(COMMENT + EVENT)
        seen.append(peer.sees())

    with ScriptedServer(script) as server:
        reply = post(server, leave_after_events=events, leave_with_reset=reset)
        while not seen:
            gevent.sleep(0.001)
    assert reply.end == "left"
    assert reply.body.count(b"data:") == events
    assert seen == [seen_by_server]


def test_events_that_came_before_wait_count_too() -> None:
    with ScriptedServer(sending(STREAM, EVENT, EVENT, then="silence")) as server:
        exchange = Connection(server.target).prepare("POST", "/", {}, b"{}")
        exchange.send()
        while exchange.arrivals < 1 or len(exchange.reply().body) < 32:
            gevent.sleep(0.001)
        assert exchange.wait(20, leave_after_events=2).end == "left"


def test_leaving_after_more_events_than_come_changes_nothing() -> None:
    with ScriptedServer(sending(STREAM, EVENT, b"0\r\n\r\n")) as server:
        assert post(server, leave_after_events=5).end == "complete"


@pytest.mark.parametrize(("reset", "seen_by_server"), [(False, "fin"), (True, "reset")])
def test_leaving_before_any_answer(reset: bool, seen_by_server: str) -> None:
    seen = []

    def script(peer: Peer) -> None:
        peer.request()
        seen.append(peer.sees())

    with ScriptedServer(script) as server:
        connection = Connection(server.target)
        exchange = connection.prepare("POST", "/", {}, b"{}")
        exchange.send()
        gevent.spawn_later(0.02, exchange.leave, reset)
        reply = exchange.wait(20)
        while not seen:
            gevent.sleep(0.001)
    assert (reply.end, reply.status, reply.body) == ("left", None, b"")
    assert seen == [seen_by_server]
    assert not connection.is_open


def test_a_killed_greenlet_lets_go_of_the_connection_and_can_still_tell_what_came() -> None:
    seen = []

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM + EVENT)
        seen.append(peer.sees())

    with ScriptedServer(script) as server:
        exchange = Connection(server.target).prepare("POST", "/", {}, b"{}")
        exchange.send()
        greenlet = gevent.spawn(exchange.wait, 20)
        while not exchange.arrivals:
            gevent.sleep(0.001)
        greenlet.kill()
        while not seen:
            gevent.sleep(0.001)
    assert (exchange.reply().end, exchange.reply().body) == ("left", b"data: {'a': 1}\n\n")
    assert in_flight() == 0


def test_an_exchange_is_used_once() -> None:
    with ScriptedServer(sending(b"HTTP/1.1 204 No Content\r\n\r\n")) as server:
        exchange = Connection(server.target).prepare("GET", "/", {})
        with pytest.raises(RuntimeError, match="before send"):
            exchange.wait(1)
        exchange.send()
        assert exchange.wait(20).status == 204
        with pytest.raises(RuntimeError, match="only once"):
            exchange.send()


def test_one_that_was_left_before_it_was_sent_is_not_sent() -> None:
    with ScriptedServer(sending(b"HTTP/1.1 204 No Content\r\n\r\n")) as server:
        exchange = Connection(server.target).prepare("GET", "/", {})
        exchange.leave()
        exchange.send()
        reply = exchange.wait(20)
    assert (reply.end, reply.status) == ("left", None)
    assert in_flight() == 0
