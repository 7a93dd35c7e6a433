"""What a fault or a dialect may change about an answer; the plain engine has none of them."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from launchers.simulator.answering import Answering


class Twist:
    """Every hook does nothing; a fault or a dialect overrides the few it needs, for a `share` of requests."""

    name = ""
    closes = False  # the connection is closed behind the answer
    clamps = False  # the log says the width that `profile` leaves, not the one asked for
    profile: ClassVar[dict[str, object]] = {}  # what it changes about the whole engine

    def __init__(self, share: float = 1.0) -> None:
        self.share = share

    def refuse(self, answering: Answering) -> bool:
        """Deal with the request in another way; True: it never reaches the scheduler."""
        return False

    def begin(self, answering: Answering) -> None:
        """The answer is known but nothing is written."""

    def head(self, answering: Answering, head: bytes) -> bytes:
        """The response head of a stream."""
        return head

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        """One event of a stream (role, text, finish, usage, done) into any number of events."""
        return [value]

    def body(self, answering: Answering, body: dict[str, Any]) -> dict[str, Any]:
        """The object of an answer that is no stream."""
        return body

    def bytes_out(self, answering: Answering, data: bytes) -> bytes:
        """One event's bytes, or the bytes of a whole response that is no stream."""
        return data

    def frame(self, answering: Answering, data: bytes, framed: bytes) -> bytes:
        """The HTTP framing of one event's bytes."""
        return framed

    def keeps_running(self, answering: Answering) -> bool:
        """Whether a client's leaving goes unnoticed."""
        return False

    def after_cancel(self, answering: Answering) -> None:
        """The request of a client that left has just been cancelled."""


def chosen(twists: list[Twist], request: str) -> list[Twist]:
    """Those that this request gets: always the same for the same id."""
    return [
        twist for twist in twists
        if twist.share >= 1 or zlib.crc32(f"{twist.name}/{request}".encode()) / 2**32 < twist.share
    ]  # fmt: skip
