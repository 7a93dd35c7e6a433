"""Ways of saying the same thing, all of which a client has to understand."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any, ClassVar

from launchers.simulator import wire
from launchers.simulator.twists import Twist

if TYPE_CHECKING:
    from launchers.simulator.answering import Answering


class Pings(Twist):
    """Comments between events, as keep-alive."""

    name = "pings"

    def bytes_out(self, answering: Answering, data: bytes) -> bytes:
        return b": ping\n\n" + data if answering.asked.get("stream") else data


class Crlf(Twist):
    """Lines end in CRLF."""

    name = "crlf"

    def bytes_out(self, answering: Answering, data: bytes) -> bytes:
        return data.replace(b"\n", b"\r\n") if answering.asked.get("stream") else data


class NoSpace(Twist):
    """No space behind `data:`."""

    name = "no-space"

    def bytes_out(self, answering: Answering, data: bytes) -> bytes:
        return data.replace(b"data: ", b"data:") if answering.asked.get("stream") else data


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

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind != "text":
            return [value]
        value["choices"][0]["delta"]["content"] += "–"
        return [b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"]

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        at = data.find(self.letter)
        if at < 0:
            return framed
        # The head of the chunk goes now; nothing may overtake its rest, so both are written here.
        answering.connection.write(framed[: framed.find(self.letter) + 1])
        return framed[framed.find(self.letter) + 1 :]


class ExtraFields(Twist):
    """Fields that nobody asked for."""

    name = "extra-fields"

    def body(self, answering: Answering, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "system_fingerprint": "x", "timings": {"prompt_ms": 1.5}, "prompt_token_ids": None}

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [self.body(answering, value)] if isinstance(value, dict) else [value]


class UsageNull(Twist):
    """`usage: null` in every chunk but the last."""

    name = "usage-null"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [{**value, "usage": None}] if kind in ("role", "text", "finish") else [value]


class UsageOnLastChunk(Twist):
    """Usage rides on the chunk with the finish reason, not on one without choices."""

    name = "usage-on-finish"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "usage":
            return []
        if kind == "finish":
            return [{**value, "usage": answering.usage(answering.request.generated)}]
        return [value]


class FinishOnText(Twist):
    """The last text chunk carries the finish reason."""

    name = "finish-on-text"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "finish":
            return []
        if kind == "text" and answering.request.ended:
            value["choices"][0]["finish_reason"] = answering.finish_reason
        return [value]


class RoleWithNull(Twist):
    """The role comes with `content: null`."""

    name = "role-null"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "role":
            value["choices"][0]["delta"] = {"role": "assistant", "content": None}
        return [value]


class RoleBare(Twist):
    """The role comes without any content."""

    name = "role-bare"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "role":
            value["choices"][0]["delta"] = {"role": "assistant"}
        return [value]


class RoleWithText(Twist):
    """The role rides on every text chunk, and has none of its own."""

    name = "role-with-text"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "role":
            return []
        if kind == "text":
            value["choices"][0]["delta"]["role"] = "assistant"
        return [value]


class Renamed(Twist):
    """The first half of the text is reasoning, under one of its two names."""

    key: ClassVar[str]

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "text" and 2 * answering.request.generated <= answering.request.budget:
            delta = value["choices"][0]["delta"]
            delta[self.key] = delta.pop("content")
        return [value]


class ReasoningContent(Renamed):
    """Reasoning first, as vLLM used to name it."""

    name = key = "reasoning_content"


class Reasoning(Renamed):
    """Reasoning first, as vLLM names it now."""

    name = key = "reasoning"


class ToolCalls(Twist):
    """The text is the arguments of a tool call."""

    name = "tool-calls"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "text":
            delta = value["choices"][0]["delta"]
            call = {"index": 0, "function": {"arguments": delta.pop("content")}}
            delta["tool_calls"] = [call]
        return [value]


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
        if answering.asked.get("stream"):
            return data
        body = gzip.compress(data.partition(b"\r\n\r\n")[2])
        return wire.response(200, body, extra="content-encoding: gzip\r\n")


class SeveralTokens(Twist):
    """Three tokens an event."""

    name = "three-tokens-an-event"
    profile: ClassVar[dict[str, object]] = {"tokens_per_event": 3}


class EarlyRole(Twist):
    """The role chunk comes long before the first token."""

    name = "role-early"
    profile: ClassVar[dict[str, object]] = {"role_before_prefill": True}


class ClosesStreams(Twist):
    """Promises keep-alive but closes after each stream, as llama.cpp does."""

    name = "closes-after-stream"

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        if framed == wire.LAST_CHUNK:
            asyncio.get_running_loop().call_soon(answering.connection.transport.close)
        return framed
