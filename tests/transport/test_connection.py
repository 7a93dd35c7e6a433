"""Connections: opened on demand, reused while they live, never used when dead."""

import gc
import json
import resource
import socket

import gevent
import pytest

from locustfiles.transport import Connection, Target, fire

from .scripted_server import Peer, PlainSocket, ScriptedServer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def keeps_alive(peer: Peer) -> None:
    while peer.request():
        peer.send(OK)


def answers_once_then_closes(peer: Peer) -> None:
    peer.request()
    peer.send(OK)


def test_a_connection_is_reused_while_the_server_keeps_it_alive() -> None:
    with ScriptedServer(keeps_alive) as server:
        connection = Connection(server.target)
        opened = []
        for _ in range(3):
            exchange = connection.prepare("POST", "/", {}, b"{}")
            exchange.send()
            reply = exchange.wait(20)
            assert (reply.end, reply.body) == ("complete", b"ok")
            opened.append(reply.connect_ms is not None)
        assert len(server.peers) == 1
        assert opened == [True, False, False]


def test_an_opened_connection_costs_the_request_no_connect_time() -> None:
    with ScriptedServer(keeps_alive) as server:
        connection = Connection(server.target)
        connection.open()
        exchange = connection.prepare("GET", "/", {})
        exchange.send()
        assert exchange.wait(20).connect_ms is None


def test_a_connection_closed_by_the_server_while_idle_is_reopened_before_sending() -> None:
    with ScriptedServer(answers_once_then_closes) as server:
        connection = Connection(server.target)
        for _ in range(3):
            exchange = connection.prepare("POST", "/", {}, b"{}")
            exchange.send()
            assert exchange.wait(20).end == "complete"
            while connection.is_open:  # the FIN may still be on its way
                gevent.sleep(0.001)
        assert len(server.peers) == 3


def test_one_closed_between_prepare_and_send_is_reopened_too() -> None:
    def closes_at_once(peer: Peer) -> None:
        peer.pause(0.01)

    with ScriptedServer(closes_at_once, keeps_alive) as server:
        connection = Connection(server.target)
        exchange = connection.prepare("POST", "/", {}, b"{}")
        while connection.is_open:
            gevent.sleep(0.001)
        fire([exchange])
        assert exchange.wait(20).end == "complete"


def test_a_request_that_was_sent_is_never_sent_again() -> None:
    def swallows(peer: Peer) -> None:
        peer.request()

    with ScriptedServer(swallows, keeps_alive) as server:
        exchange = Connection(server.target).prepare("POST", "/", {}, b"{}")
        exchange.send()
        assert exchange.wait(20).end == "closed_clean"
        assert len(server.peers) == 1


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray",
        OK + b"stray bytes",
    ],
)
def test_a_connection_that_cannot_be_trusted_with_another_request_is_closed(response: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(response)
        peer.sees()

    with ScriptedServer(script) as server:
        connection = Connection(server.target)
        exchange = connection.prepare("GET", "/", {})
        exchange.send()
        reply = exchange.wait(20)
        assert (reply.status, reply.end, reply.body) == (200, "complete", b"ok")
        assert not connection.is_open


def test_the_bytes_of_a_request() -> None:
    received = []

    def script(peer: Peer) -> None:
        received.append(peer.request())
        peer.send(OK)

    with ScriptedServer(script) as server:
        target = Target.parse(f"http://localhost:{server.target.port}/openai/v1/")
        body = json.dumps({"é": 1}).encode()
        exchange = Connection(target).prepare("POST", "/chat/completions", {"x-request-id": "w-1"}, body)
        exchange.send()
        assert exchange.wait(20).status == 200
    head, _, sent_body = received[0].partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /openai/v1/chat/completions HTTP/1.1",
        b"Host: localhost:%d" % server.target.port,
        b"x-request-id: w-1",
        b"Content-Length: %d" % len(body),
    ]
    assert sent_body == body


def test_a_header_with_a_line_break_is_not_sent() -> None:
    connection = Connection(Target.parse("http://127.0.0.1:9"))
    with pytest.raises(ValueError, match="line break in the request header 'authorization'"):
        connection.prepare("GET", "/", {"authorization": "Bearer key\nx: y"})


def test_a_body_larger_than_the_socket_buffers_is_sent_whole() -> None:
    body = b"x" * 8_000_000

    def script(peer: Peer) -> None:
        peer.pause(0.05)
        _, _, received = peer.request().partition(b"\r\n\r\n")
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n%d" % len(received))

    with ScriptedServer(script) as server:
        exchange = Connection(server.target).prepare("POST", "/", {}, body)
        exchange.send()
        assert exchange.wait(20).body == b"8000000"


def test_a_server_that_answers_before_it_has_read_everything_is_heard() -> None:
    def script(peer: Peer) -> None:
        peer.sock.recv(1000)
        peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
        peer.pause(0.05)

    with ScriptedServer(script) as server:
        connection = Connection(server.target)
        exchange = connection.prepare("POST", "/", {}, b"x" * 8_000_000)
        exchange.send()
        reply = exchange.wait(20)
        assert (reply.status, reply.body) == (413, b"big")
        assert not connection.is_open


def test_a_connection_carries_one_exchange_at_a_time() -> None:
    def waits(peer: Peer) -> None:
        peer.request()
        peer.sees()

    with ScriptedServer(waits, keeps_alive) as server:
        connection = Connection(server.target)
        exchange = connection.prepare("GET", "/", {})
        exchange.send()
        with pytest.raises(RuntimeError, match="not over"):
            connection.prepare("GET", "/", {})
        connection.close()
        assert exchange.wait(20).end == "left"
        replaced, last = connection.prepare("GET", "/", {}), connection.prepare("GET", "/", {})
        with pytest.raises(RuntimeError, match="prepared after it"):
            replaced.send()
        last.send()
        replaced.leave()
        assert last.wait(20).end == "complete"


def test_ipv6() -> None:
    with ScriptedServer(keeps_alive, family=socket.AF_INET6) as server:
        exchange = Connection(server.target).prepare("GET", "/", {})
        exchange.send()
        assert exchange.wait(20).end == "complete"


def test_file_descriptors_above_1023_work_and_keep_alive() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this system allows fewer than 2048 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    gc.collect()  # sockets of other tests may still hold low numbers, and give them back at any time
    others = [PlainSocket() for _ in range(1100)]
    try:
        with ScriptedServer(keeps_alive) as server:
            connection = Connection(server.target)
            for _ in range(2):
                exchange = connection.prepare("POST", "/", {}, b"{}")
                exchange.send()
                assert exchange.wait(20).end == "complete"
            assert connection.sock is not None
            assert connection.sock.fileno() > 1023
            assert len(server.peers) == 1
    finally:
        for other in others:
            other.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("http://localhost:8000", ("http", "localhost", 8000, "", "localhost:8000")),
        ("https://api.example.org/v1/", ("https", "api.example.org", 443, "/v1", "api.example.org")),
        (" http://[::1]:80/a/b ", ("http", "::1", 80, "/a/b", "[::1]")),
    ],
)
def test_a_base_url_is_taken_apart(url: str, parsed: tuple[str, str, int, str, str]) -> None:
    target = Target.parse(url)
    assert (target.scheme, target.host, target.port, target.prefix, target.authority) == parsed


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("localhost:8000", "must begin with http://"),
        ("ftp://host", "must begin with http://"),
        ("http://", "names no host"),
        ("http://host:99999", "Port out of range"),
        ("http://host:port", "Port could not be cast to integer"),
        ("http://user:secret@host", "no user or password"),
        ("http://host/v1?key=1", "no query"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("http://a..b:8000", "label empty or too long"),
    ],
)
def test_a_wrong_base_url_is_refused_with_one_line(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        Target.parse(url)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)
