"""Faults of streams: events that are missing, doubled, broken, late, or somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from launchers.simulator import text, wire
from launchers.simulator.twists import Twist

if TYPE_CHECKING:
    from launchers.simulator.answering import Answering

THIRD_TOKEN = 3


def at_third_token(answering: Answering, kind: str) -> bool:
    return kind == "text" and answering.request.generated == THIRD_TOKEN


class Drops(Twist):
    """Leaves out all events of one kind."""

    kind: ClassVar[str]

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [] if kind == self.kind else [value]


class NoDone(Drops):
    """No [DONE]."""

    name, kind = "done-missing", "done"


class NoRole(Drops):
    """No chunk that says who speaks."""

    name, kind = "role-missing", "role"


class NoFinish(Drops):
    """No finish reason."""

    name, kind = "finish-missing", "finish"


class Repeats(Twist):
    """Sends all events of one kind twice."""

    kind: ClassVar[str]

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [value, value] if kind == self.kind else [value]


class TwoDone(Repeats):
    """A second [DONE]."""

    name, kind = "done-twice", "done"


class TwoFinish(Repeats):
    """A second finish reason."""

    name, kind = "finish-twice", "finish"


class DataAfterDone(Twist):
    """Says more after [DONE]."""

    name = "data-after-done"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [value, answering.json.chunk({"content": " more"})] if kind == "done" else [value]


class Inserts(Twist):
    """Puts raw bytes in front of the third token."""

    data: ClassVar[bytes]

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [self.data, value] if at_third_token(answering, kind) else [value]


class BadJson(Inserts):
    """A line of broken JSON."""

    name, data = "bad-json", b'data: {"id": "x", "choices": [\n\n'


class ErrorObject(Inserts):
    """An error object inside a 200 stream."""

    name = "error-object"
    data = b'data: {"error": {"message": "simulated: out of cache blocks", "type": "server_error"}}\n\n'


class ErrorEvent(Inserts):
    """An event of type error inside a 200 stream."""

    name = "error-event"
    data = b'event: error\ndata: {"message": "simulated: out of cache blocks"}\n\n'


class NotSse(Inserts):
    """Lines that are no SSE."""

    name, data = "not-sse", b"Traceback (most recent call last):\n\n"


class CutMidEvent(Twist):
    """Closes the connection inside an event, without ending the chunked body."""

    name = "cut-mid-event"

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        if answering.request.generated == THIRD_TOKEN and not answering.connection.transport.is_closing():
            answering.connection.write(framed[: len(framed) // 2])
            answering.connection.transport.close()
            return b""
        return framed


class EndsMidEvent(Twist):
    """Ends the chunked body properly, but inside an event."""

    name = "ends-mid-event"

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        if answering.request.generated == THIRD_TOKEN and not answering.connection.transport.is_closing():
            answering.connection.write(wire.chunk(data[: len(data) // 2]) + wire.LAST_CHUNK)
            answering.connection.transport.close()
            return b""
        return framed


class Stalls(Twist):
    """Says nothing any more after the third token."""

    name = "stalls"

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        return b"" if answering.request.generated > THIRD_TOKEN else framed


class SharedId(Twist):
    """All answers have one id."""

    name = "ids-shared"

    def begin(self, answering: Answering) -> None:
        answering.json = wire.Answer("chatcmpl-same", answering.simulator.model)


class SwappedChunks(Twist):
    """A stream's third token carries another stream's id and text."""

    name = "chunks-swapped"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if not at_third_token(answering, kind):
            return [value]
        others = [other for other in answering.simulator.answering.values() if other is not answering]
        if not others:
            return [value]
        return [others[0].json.chunk({"content": others[0].words[THIRD_TOKEN - 1]})]


class MixedText(Twist):
    """Beside another request, goes on with that one's text."""

    name = "text-mixed"

    def begin(self, answering: Answering) -> None:
        others = list(answering.simulator.answering.values())
        if others:
            other = text.answer(others[0].request.prompt, len(answering.words))
            answering.words = answering.words[:2] + other[2:]


class DiffersStreamed(Twist):
    """Says something else when it streams."""

    name = "stream-differs"

    def begin(self, answering: Answering) -> None:
        if answering.asked.stream:
            answering.words = text.answer(["streamed", *answering.request.prompt], len(answering.words))
