"""Ways of putting the same answer on the wire, all of which a client has to understand."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from launchers.simulator import wire
from launchers.simulator.twists import Twist

if TYPE_CHECKING:
    from launchers.simulator.answering import Answering

MOMENT_S = 0.001
GZIP_WBITS = 31


class Pings(Twist):
    """Comments between events, as keep-alive."""

    name = "pings"

    def bytes_out(self, answering: Answering, data: bytes) -> bytes:
        return b": ping\n\n" + data if answering.asked.stream else data


class Crlf(Twist):
    """Lines end in CRLF."""

    name = "crlf"

    def bytes_out(self, answering: Answering, data: bytes) -> bytes:
        return data.replace(b"\n", b"\r\n") if answering.asked.stream else data


class NoSpace(Twist):
    """No space behind `data:`."""

    name = "no-space"

    def bytes_out(self, answering: Answering, data: bytes) -> bytes:
        return data.replace(b"data: ", b"data:") if answering.asked.stream else data


class ByteOrderMark(Twist):
    """A byte-order mark before the first event."""

    name = "byte-order-mark"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [b"\xef\xbb\xbf" + wire.event(value)] if kind == "role" else [value]


class InOneRead(Twist):
    """Every two tokens' events arrive in one piece."""

    name = "two-in-one-read"

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        answering.held += framed
        if answering.request.generated % 2 and not answering.request.ended:
            return b""
        framed, answering.held = answering.held, b""
        return framed


class Split(Twist):
    """Events are cut in two inside a UTF-8 letter; the second half comes a moment later."""

    name = "split-letters"
    letter = "–".encode()

    def begin(self, answering: Answering) -> None:
        answering.words = [word + "–" for word in answering.words]

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind != "text":
            return [value]
        return [b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"]

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        framed, answering.held = answering.held + framed, b""
        at = framed.rfind(self.letter)
        if at < 0:
            return framed
        answering.held = framed[at + 1 :]
        asyncio.get_running_loop().call_later(MOMENT_S, self._send_rest, answering)
        return framed[: at + 1]

    def _send_rest(self, answering: Answering) -> None:
        rest, answering.held = answering.held, b""
        if rest:
            answering.connection.write(rest)


class SseFields(Twist):
    """Events say more than their data: a type, an id, when to come back."""

    name = "sse-fields"

    def bytes_out(self, answering: Answering, data: bytes) -> bytes:
        return b"event: message\nid: 7\nretry: 3000\n" + data if answering.asked.stream else data


class DoneWithSpace(Twist):
    """White space behind [DONE]."""

    name = "done-with-space"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [b"data: [DONE] \n\n"] if kind == "done" else [value]


class CloseDelimited(Twist):
    """No chunked encoding: the body ends with the connection."""

    name, closes = "close-delimited", True

    def head(self, answering: Answering, head: bytes) -> bytes:
        return head.replace(b"transfer-encoding: chunked", b"connection: close")

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        return b"" if framed == wire.LAST_CHUNK else data


class Gzipped(Twist):
    """Whole answers come compressed."""

    name = "gzip"

    def bytes_out(self, answering: Answering, data: bytes) -> bytes:
        if answering.asked.stream:
            return data
        body = gzip.compress(data.partition(b"\r\n\r\n")[2])
        return wire.response(200, body, extra="content-encoding: gzip\r\n")


class GzippedStream(Twist):
    """Streams come compressed, each event flushed."""

    name = "gzip-stream"

    def __init__(self, share: float = 1.0) -> None:
        super().__init__(share)
        self._packers: WeakKeyDictionary[Answering, zlib._Compress] = WeakKeyDictionary()

    def begin(self, answering: Answering) -> None:
        self._packers[answering] = zlib.compressobj(wbits=GZIP_WBITS)

    def head(self, answering: Answering, head: bytes) -> bytes:
        return head.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        packer = self._packers[answering]
        if framed == wire.LAST_CHUNK:
            return wire.chunk(packer.flush()) + framed
        return wire.chunk(packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))


class ClosesStreams(Twist):
    """Promises keep-alive but closes after each stream, as llama.cpp does."""

    name = "closes-after-stream"

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        if framed == wire.LAST_CHUNK:
            asyncio.get_running_loop().call_soon(answering.connection.transport.close)
        return framed
