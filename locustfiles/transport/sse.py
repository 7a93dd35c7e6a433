"""Server-sent events out of a finished reply.

The rules are https://html.spec.whatwg.org/multipage/server-sent-events.html. Written here rather than taken
from sseclient-py because every event has to know the byte at which it ended, to be mapped to the read that
completed it, and because an unfinished last event must not pass for a whole one.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from locustfiles.transport.reply import Reply

LINE_END = rb"(?:\r\n|\n|\r(?!\n))"
BLANK_LINE = re.compile(LINE_END * 2)
FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_PROBLEMS = 10


class Event(NamedTuple):
    """`at_ns`: arrival of the read that completed it. `raw_end`: length of the body up to and including it.

    A block of nothing but comment lines (a keep-alive ping) is an event too, with `comment` set and its text
    as `data`.
    """

    at_ns: int
    event: str
    data: str
    raw_end: int
    comment: bool = False


@dataclass(slots=True)
class Decoded:
    """`problems`: what is not SSE, one line each. `truncated`: ends in an unfinished event, `rest`."""

    events: list[Event] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    truncated: bool = False
    rest: str = ""


def decode(reply: Reply) -> Decoded:
    """All events of a reply. Never raises, whatever the bytes."""
    body = reply.body
    decoded = Decoded()
    start = len(BYTE_ORDER_MARK) if body.startswith(BYTE_ORDER_MARK) else 0
    arrival = 0
    for blank in BLANK_LINE.finditer(body, start):
        stop = blank.end()
        block = _Block(body[start : blank.start()], decoded.problems)
        start = stop
        if block.data is None and not block.comments:
            continue
        while reply.arrivals[arrival][1] < stop:
            arrival += 1
        at_ns = reply.arrivals[arrival][0]
        if block.data is not None:
            decoded.events.append(Event(at_ns, block.event or "message", block.data, stop))
        else:
            decoded.events.append(Event(at_ns, "", "\n".join(block.comments), stop, comment=True))
    rest = body[start:]
    if rest.strip():
        decoded.truncated = True
        decoded.rest = rest.decode("utf-8", "replace")
        if not decoded.events:
            _note(decoded.problems, f"not SSE: {decoded.rest[:80]!r}")
    return decoded


class Counter:
    """Counts the events in a body that is still arriving, each byte looked at once or twice."""

    def __init__(self) -> None:
        self._count = 0
        self._start = 0
        self._scanned = 0

    def count(self, body: bytearray) -> int:
        """How many events (comments not among them) `body`, which only ever grows, holds so far."""
        scan_from = max(self._start, self._scanned - 3)
        for blank in BLANK_LINE.finditer(body, scan_from):
            raw = bytes(body[self._start : blank.start()])
            if self._start == 0:
                raw = raw.removeprefix(BYTE_ORDER_MARK)
            self._count += _Block(raw, []).data is not None
            self._start = blank.end()
        self._scanned = len(body)
        return self._count


class _Block:
    """The lines between two blank lines."""

    def __init__(self, raw: bytes, problems: list[str]) -> None:
        self.event = ""
        self.comments: list[str] = []
        self.data: str | None = None
        data: list[str] = []
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = raw.decode("utf-8", "replace")
            _note(problems, f"not UTF-8: {text[:80]!r}")
        for line in _lines(text):
            name, colon, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data.append(value)
            elif name == "event":
                self.event = value
            elif not line:
                pass
            elif not name:
                self.comments.append(value)
            elif name not in ("id", "retry") and not (colon and FIELD_NAME.fullmatch(name)):
                _note(problems, f"line without a field name: {line[:80]!r}")
        if data:
            self.data = "\n".join(data)


def _lines(text: str) -> list[str]:
    # Not str.splitlines: that also breaks at form feeds and Unicode separators inside the data.
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def _note(problems: list[str], problem: str) -> None:
    if len(problems) < MAX_PROBLEMS and problem not in problems:
        problems.append(problem)
