"""A finished reply read: what kinds of events came when, what the server counted, what it said.

Reading never judges and never raises; `checks` decides what of it is a fault.
"""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from locustfiles.transport import Reply, sse

TEXT_KINDS = frozenset({"text", "reasoning", "tool"})


class StreamEvent(NamedTuple):
    """One SSE event. `tokens`: how many tokens it brought, if the server tells with every event."""

    at_ms: float
    kind: str
    tokens: int | None
    chars: int


@dataclass(slots=True)
class Usage:
    """The server's own counts; None where it gave none or something else than a whole number."""

    prompt: int | None
    completion: int | None
    total: int | None
    cached: int | None

    @classmethod
    def of(cls, usage: dict[str, Any]) -> "Usage":
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        counts = [usage.get(f"{name}_tokens") for name in ("prompt", "completion", "total")]
        return cls(*(_count(value) for value in [*counts, cached]))


@dataclass(slots=True)
class Reading:
    """Facts of one reply. Lists of `problems` are one line each, empty when there is nothing to say."""

    reply: Reply
    streamed: bool
    events: list[StreamEvent] = field(default_factory=list)
    framing_problems: list[str] = field(default_factory=list)
    json_problems: list[str] = field(default_factory=list)
    object_problems: list[str] = field(default_factory=list)
    server_errors: list[str] = field(default_factory=list)
    truncated: bool = False
    ids: list[str] = field(default_factory=list)
    finish_reasons: list[str] = field(default_factory=list)
    roles: int = 0
    lone_role: bool = False
    done: int = 0
    after_done: int = 0
    usage: Usage | None = None
    text: str = ""

    @property
    def text_events(self) -> list[StreamEvent]:
        """Those that carry text of the answer: content, reasoning or a tool call."""
        return [event for event in self.events if event.kind in TEXT_KINDS]

    @property
    def data_events(self) -> list[StreamEvent]:
        """All but comments."""
        return [event for event in self.events if event.kind != "comment"]


def read(reply: Reply, streamed: bool) -> Reading:
    """The facts of a reply that was asked for as a stream, or as one body."""
    reading = Reading(reply, streamed)
    if reply.status is None or not 200 <= reply.status < 300:
        return reading
    if streamed:
        _read_stream(reading)
    else:
        _read_body(reading)
    return reading


def _read_body(reading: Reading) -> None:
    value = _parse(reading.reply.body)
    if not isinstance(value, dict):
        reading.json_problems.append(f"not a JSON object: {reading.reply.body[:80]!r}")
        return
    if value.get("object") != "chat.completion":
        reading.object_problems.append(f"object is {value.get('object')!r}, not 'chat.completion'")
    _read_common(reading, value)
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        reading.object_problems.append("no choice with a message")
        return
    if message.get("role") != "assistant":
        reading.object_problems.append(f"message role is {message.get('role')!r}, not 'assistant'")
    if not isinstance(message.get("content"), str | None):
        reading.object_problems.append("message content is no text")
    if isinstance(reason := choice.get("finish_reason"), str):
        reading.finish_reasons.append(reason)
    reading.text = "".join(piece for _, piece in _pieces(message))


def _read_stream(reading: Reading) -> None:
    decoded = sse.decode(reading.reply)
    reading.framing_problems += decoded.problems
    # A server that leaves out the blank line behind its last [DONE] has still said all.
    unfinished_done = decoded.truncated and _is_done(decoded.rest.removeprefix("data:"))
    reading.truncated = decoded.truncated and not unfinished_done
    texts: list[str] = []
    counts: list[int | None] = []
    for event in decoded.events:
        at_ms = (event.at_ns - reading.reply.sent_ns) / 1e6
        if event.comment:
            reading.events.append(StreamEvent(at_ms, "comment", None, 0))
            counts.append(None)
            continue
        reading.after_done += reading.done > 0 and not _is_done(event.data)
        kind, text, count = _read_event(reading, event)
        reading.events.append(StreamEvent(at_ms, kind, None, len(text)))
        counts.append(count)
        texts.append(text)
    if unfinished_done:
        reading.done += 1
        at_ms = (reading.reply.end_ns - reading.reply.sent_ns) / 1e6
        reading.events.append(StreamEvent(at_ms, "done", None, 0))
        counts.append(None)
    reading.text = "".join(texts)
    _count_tokens(reading, counts)


def _read_event(reading: Reading, event: sse.Event) -> tuple[str, str, int | None]:
    """The event's kind, the text it carries, and the completion tokens counted up to and with it."""
    if _is_done(event.data):
        reading.done += 1
        return "done", "", None
    value = _parse(event.data)
    if event.event == "error":
        reading.server_errors.append(event.data[:200])
        return "error", "", None
    if not isinstance(value, dict):
        reading.json_problems.append(f"data is no JSON object: {event.data[:80]!r}")
        return "error", "", None
    if _read_common(reading, value):
        return "error", "", None
    if value.get("object") != "chat.completion.chunk":
        reading.object_problems.append(f"object is {value.get('object')!r}, not 'chat.completion.chunk'")
    usage = value.get("usage")
    count = Usage.of(usage).completion if isinstance(usage, dict) else None
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return ("usage" if isinstance(usage, dict) else "empty"), "", count
    delta = choice.get("delta")
    delta = delta if isinstance(delta, dict) else {}
    pieces = _pieces(delta)
    text = "".join(piece for _, piece in pieces)
    has_role = delta.get("role") == "assistant"
    reading.roles += has_role
    reading.lone_role |= has_role and not text
    reason = choice.get("finish_reason")
    if isinstance(reason, str):
        reading.finish_reasons.append(reason)
    if text:
        return pieces[0][0], text, count
    if isinstance(reason, str):
        return "finish", "", count
    return ("role" if has_role else "empty"), "", count


def _read_common(reading: Reading, value: dict[str, Any]) -> bool:
    """What bodies and chunks share; true if it is an error object instead of an answer."""
    if value.get("error"):
        error = value["error"]
        message = error.get("message", error) if isinstance(error, dict) else error
        reading.server_errors.append(str(message)[:200])
        return True
    if isinstance(name := value.get("id"), str) and name not in reading.ids:
        reading.ids.append(name)
    if isinstance(usage := value.get("usage"), dict):
        reading.usage = Usage.of(usage)
    return False


def _pieces(message: dict[str, Any]) -> list[tuple[str, str]]:
    """(kind, text) of what a message or delta says, in the order in which a reader would see it."""
    pieces = [
        ("reasoning", message.get("reasoning_content") or message.get("reasoning")),
        ("text", message.get("content")),
    ]
    tool_calls = message.get("tool_calls")
    for call in tool_calls if isinstance(tool_calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            pieces.append(("tool", f"{function.get('name') or ''}{function.get('arguments') or ''}"))
    return [(kind, text) for kind, text in pieces if isinstance(text, str) and text]


def _count_tokens(reading: Reading, counts: list[int | None]) -> None:
    """Fill in each text event's tokens, if every one of them came with the count so far.

    A server that counts only once puts that count on its last content chunk or behind it; taking it for
    that event's own tokens would be wrong.
    """
    texts = [i for i, event in enumerate(reading.events) if event.kind in TEXT_KINDS]
    if not texts or any(counts[i] is None for i in texts):
        return
    before = 0
    for i in texts:
        count = counts[i] or 0
        reading.events[i] = reading.events[i]._replace(tokens=max(count - before, 0))
        before = count


def _parse(data: str | bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _is_done(data: str) -> bool:
    return data.strip() == "[DONE]"


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
