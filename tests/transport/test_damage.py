"""Damaged responses over real sockets: never an exception, never a wrong "complete"."""

from pathlib import Path

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locustfiles.transport import Connection, sse

from .scripted_server import Peer, ScriptedServer

STREAM = (Path(__file__).parents[1] / "data" / "streams" / "vllm-usage.sse").read_bytes()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = [b"%x\r\n%s\n\n\r\n" % (len(event) + 2, event) for event in STREAM.split(b"\n\n")[:-1]]
WHOLE = HEAD + b"".join(CHUNKS) + b"0\r\n\r\n"


def exchange(*pieces: bytes) -> tuple[str, bytes, list[str]]:
    """The end, the body and the data of its events, of a response sent in these pieces."""

    def script(peer: Peer) -> None:
        peer.request()
        for piece in pieces:
            peer.send(piece)
            peer.pause(0.0002)

    with ScriptedServer(script) as server:
        sent = Connection(server.target).prepare("POST", "/", {}, b"{}")
        sent.send()
        reply = sent.wait(20)
    return reply.end, reply.body, [event.data for event in sse.decode(reply).events]


def as_h11_reads_it(response: bytes) -> tuple[str, bytes]:
    """A second opinion: "complete", "cut" or "invalid", and the body."""
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Content-Length", "0")]))
    reader.send(h11.EndOfMessage())
    body = b""
    try:
        reader.receive_data(response)
        reader.receive_data(b"")
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body += event.data
            elif event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                return "cut", body
    except h11.RemoteProtocolError as error:
        return ("cut" if "closed" in str(error) or "without" in str(error) else "invalid"), body
    return "complete", body


@pytest.mark.parametrize("stop", range(0, len(WHOLE) - 1, 7))
def test_a_chunked_stream_that_is_cut_anywhere_is_cut(stop: int) -> None:
    end, body, data = exchange(WHOLE[:stop])
    assert end == ("cut" if stop else "closed_clean")
    assert STREAM.startswith(body)
    assert len(data) == body.count(b"\n\n")


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_a_damaged_response_ends_one_way_or_the_other(data: st.DataObject) -> None:
    whole = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 2))
        if data.draw(st.booleans()):
            whole[at] = data.draw(st.integers(0, 255))
        else:
            del whole[at : at + data.draw(st.integers(1, 30))]
    cut = data.draw(st.integers(0, len(whole)))
    end, body, _ = exchange(bytes(whole[:cut]), bytes(whole[cut:]))
    assert end in ("complete", "cut", "closed_clean")
    h11_end, h11_body = as_h11_reads_it(bytes(whole))
    if end == "complete":
        assert h11_end != "cut"
    if end == h11_end == "complete":
        assert body == h11_body
