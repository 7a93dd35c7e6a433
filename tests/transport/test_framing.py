"""However a server frames its body, the same bytes come out, with the same stamps."""

import gzip
import time
import zlib

import pytest

from locustfiles.transport import Connection, Reply, sse

from .scripted_server import Peer, Script, ScriptedServer

EVENTS = [b'data: {"n": %d}\n\n' % n for n in range(4)] + [b"data: [DONE]\n\n"]
BODY = b"".join(EVENTS)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
FRAMINGS = {
    "chunked": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0\r\n\r\n"),
    "content-length": (HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY), b""),
    "close-delimited": (HEAD + b"Connection: close\r\n\r\n", b""),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\n", b""),
}


def framed(framing: str, piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece) if framing == "chunked" else piece


def get(server: ScriptedServer) -> Reply:
    exchange = Connection(server.target).prepare("GET", "/", {})
    exchange.send()
    return exchange.wait(idle_deadline_s=20)


def answers(*pieces: bytes) -> Script:
    """Sends each piece in a packet of its own."""

    def script(peer: Peer) -> None:
        peer.request()
        for piece in pieces:
            peer.send(piece)
            peer.pause(0.0005)

    return script


@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_framing_gives_each_event_the_time_of_its_write(framing: str) -> None:
    head, tail = FRAMINGS[framing]

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(head)
        for event in EVENTS:
            peer.pause(0.03)
            peer.send(framed(framing, event))
        peer.pause(0.03)
        peer.send(tail)

    with ScriptedServer(script) as server:
        reply = get(server)
        head_written, *written = server.peers[0].written_ns[: 1 + len(EVENTS)]
    assert (reply.end, reply.error, reply.clock) == ("complete", "", "kernel")
    assert reply.body == BODY
    events = sse.decode(reply).events
    assert [event.data for event in events] == ['{"n": 0}', '{"n": 1}', '{"n": 2}', '{"n": 3}', "[DONE]"]
    for before, event, after in zip(written, events, [*written[1:], time.time_ns()], strict=True):
        assert before <= event.at_ns < after
    assert reply.head_ns is not None
    assert head_written <= reply.head_ns < written[0]
    assert reply.end_ns == events[-1].at_ns, "the end is the last body byte, not the framing after it"


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_response_split_at_any_byte_is_the_same_response(framing: str) -> None:
    head, tail = FRAMINGS[framing]
    whole = head + b"".join(framed(framing, event) for event in EVENTS) + tail
    cuts = range(1, len(whole))
    with ScriptedServer(*(answers(whole[:cut], whole[cut:]) for cut in cuts)) as server:
        for cut in cuts:
            reply = get(server)
            assert (reply.end, reply.body) == ("complete", BODY), f"cut at byte {cut}"
            assert len(sse.decode(reply).events) == len(EVENTS)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_response_that_comes_byte_by_byte_is_the_same_response(framing: str) -> None:
    head, tail = FRAMINGS[framing]
    whole = head + b"".join(framed(framing, event) for event in EVENTS) + tail
    with ScriptedServer(answers(*(whole[i : i + 1] for i in range(len(whole))))) as server:
        reply = get(server)
    assert (reply.end, reply.body) == ("complete", BODY)


@pytest.mark.parametrize(
    ("coding", "compressed"),
    [
        pytest.param("gzip", gzip.compress(BODY), id="gzip"),
        pytest.param("x-gzip", gzip.compress(BODY[:20]) + gzip.compress(BODY[20:]), id="two gzip members"),
        pytest.param("deflate", zlib.compress(BODY), id="deflate"),
    ],
)
def test_compressed_bodies_are_undone(coding: str, compressed: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n"
    with ScriptedServer(answers(head % (coding.encode(), len(compressed)) + compressed)) as server:
        reply = get(server)
    assert (reply.end, reply.error, reply.body) == ("complete", "", BODY)


def test_a_compressed_stream_keeps_the_time_of_each_event() -> None:
    encoder = zlib.compressobj(wbits=31)

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(HEAD + b"Content-Encoding: gzip\r\n\r\n")
        for event in EVENTS:
            peer.pause(0.02)
            peer.send(encoder.compress(event) + encoder.flush(zlib.Z_SYNC_FLUSH))
        peer.pause(0.02)
        peer.send(encoder.flush())

    with ScriptedServer(script) as server:
        reply = get(server)
        _, *written = server.peers[0].written_ns
    for before, event, after in zip(written[:-1], sse.decode(reply).events, written[1:], strict=True):
        assert before <= event.at_ns < after


@pytest.mark.parametrize(
    ("headers", "body", "complaint"),
    [
        (b"Content-Encoding: gzip", gzip.compress(BODY)[:-9], "gzip body ends too early"),
        (b"Content-Encoding: gzip", b"plain after all", "broken gzip body"),
        (b"Content-Encoding: zstd", b"whatever", "'zstd' is not understood"),
    ],
    ids=["cut", "not gzip", "unknown"],
)
def test_a_body_that_cannot_be_decompressed_is_said_to_be_so(
    headers: bytes, body: bytes, complaint: str
) -> None:
    response = b"HTTP/1.1 200 OK\r\n%s\r\nContent-Length: %d\r\n\r\n%s" % (headers, len(body), body)
    with ScriptedServer(answers(response)) as server:
        reply = get(server)
    assert complaint in reply.error


def test_interim_responses_are_passed_over() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with ScriptedServer(answers(interim, final), answers(interim + final)) as server:
        for _ in range(2):
            reply = get(server)
            assert (reply.status, reply.end, reply.body) == (200, "complete", b"ok")
            assert "link" not in reply.headers


def test_a_redirect_is_a_reply_like_any_other() -> None:
    with ScriptedServer(
        answers(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /v2\r\nContent-Length: 0\r\n\r\n")
    ) as server:
        reply = get(server)
        assert len(server.peers) == 1, "not followed"
    assert (reply.status, reply.headers["location"], reply.end) == (307, "/v2", "complete")


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_a_response_without_a_body_ends_with_its_head(status: str) -> None:
    with ScriptedServer(answers(f"HTTP/1.1 {status}\r\n\r\n".encode())) as server:
        reply = get(server)
    assert (reply.end, reply.body, reply.end_ns) == ("complete", b"", reply.head_ns)


def test_repeated_headers_are_joined_and_names_are_lower_case() -> None:
    head = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nX-Empty:\r\nX-Latin: \xe9\r\nContent-Length: 0\r\n\r\n"
    with ScriptedServer(answers(head)) as server:
        reply = get(server)
    assert reply.headers == {"x-a": "1, 2", "x-empty": "", "x-latin": "é", "content-length": "0"}
