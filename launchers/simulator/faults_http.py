"""Faults of whole responses: refused, reset, never answered, cut short, or a body that is wrong."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import TYPE_CHECKING, Any, ClassVar

from launchers.simulator import wire
from launchers.simulator.twists import Twist

if TYPE_CHECKING:
    from launchers.simulator.answering import Answering

RESET = struct.pack("ii", 1, 0)  # struct linger: on, zero seconds
REFUSING_SECONDS = 0.5


class Status(Twist):
    """Answers with an error status."""

    status: ClassVar[int] = 500
    extra: ClassVar[str] = ""

    def refuse(self, answering: Answering) -> bool:
        body = {"error": {"message": f"simulated {self.status}", "type": "server_error", "code": self.status}}
        answering.connection.write(wire.response(self.status, body, extra=self.extra))
        answering.connection.finished()
        return True


class Status400(Status):
    """Answers 400."""

    name, status = "http-400", 400


class Status429(Status):
    """Answers 429 with Retry-After."""

    name, status, extra = "http-429", 429, "retry-after: 1\r\n"


class Status500(Status):
    """Answers 500."""

    name, status = "http-500", 500


class Status503(Status):
    """Answers 503."""

    name, status = "http-503", 503


def reset(answering: Answering) -> None:
    sock = answering.connection.transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    answering.connection.transport.abort()


class Reset(Twist):
    """Resets the connection instead of answering."""

    name = "reset"

    def refuse(self, answering: Answering) -> bool:
        reset(answering)
        return True


class Refused(Twist):
    """Resets the connection, and nobody listens for a while."""

    name = "refused"

    def refuse(self, answering: Answering) -> bool:
        answering.simulator.stop_listening(REFUSING_SECONDS)
        reset(answering)
        return True


class ClosesIdle(Twist):
    """Promises keep-alive, and closes just as the next request arrives."""

    name = "keep-alive-broken"

    def refuse(self, answering: Answering) -> bool:
        if answering.connection.answered == 0:
            return False
        answering.connection.transport.close()
        return True


class NeverAnswers(Twist):
    """Accepts the request and says nothing."""

    name = "never-answers"

    def refuse(self, answering: Answering) -> bool:
        return True


class Exits(Twist):
    """The engine dies in the middle of the answer."""

    name = "exits"

    def begin(self, answering: Answering) -> None:
        asyncio.get_running_loop().call_later(0.01, os._exit, 3)


class EarlyEos(Twist):
    """Stops at half of the budget."""

    name = "early-eos"

    def begin(self, answering: Answering) -> None:
        answering.request.budget = max(answering.request.budget // 2, 1)


class UsageMissing(Twist):
    """Leaves usage out everywhere."""

    name = "usage-missing"

    def body(self, answering: Answering, body: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in body.items() if key != "usage"}

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "usage":
            return []
        return [self.body(answering, value)] if isinstance(value, dict) else [value]


class UsageChanged(Twist):
    """Usage whose numbers are wrong."""

    def changed(self, usage: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def body(self, answering: Answering, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "usage": self.changed(body["usage"])} if body.get("usage") else body

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [self.body(answering, value)] if isinstance(value, dict) else [value]


class UsageZero(UsageChanged):
    """Counts nothing."""

    name = "usage-zero"

    def changed(self, usage: dict[str, Any]) -> dict[str, Any]:
        return {**usage, "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


class UsageTotal(UsageChanged):
    """A total that is not the sum."""

    name = "usage-total"

    def changed(self, usage: dict[str, Any]) -> dict[str, Any]:
        return {**usage, "total_tokens": usage["total_tokens"] + 1}


class WrongObject(Twist):
    """Another type of object than asked for."""

    name = "wrong-object"

    def body(self, answering: Answering, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "object": "text_completion"}

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [self.body(answering, value)] if isinstance(value, dict) else [value]


class FinishReason(Twist):
    """A finish reason that no client knows."""

    reason: ClassVar[str] = "weary"

    def body(self, answering: Answering, body: dict[str, Any]) -> dict[str, Any]:
        choices = [
            {**choice, "finish_reason": self.reason if choice.get("finish_reason") else None}
            for choice in body["choices"]
        ]
        return {**body, "choices": choices}

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [self.body(answering, value)] if isinstance(value, dict) else [value]


class FinishUnknown(FinishReason):
    """A finish reason that no client knows."""

    name = "finish-unknown"


class FinishTimeout(FinishReason):
    """The server gave up on the request, and says so."""

    name, reason = "finish-timeout", "timeout"


class NotJson(Twist):
    """A whole answer that is cut off inside its JSON."""

    name = "body-not-json"

    def bytes_out(self, answering: Answering, data: bytes) -> bytes:
        if answering.asked.stream:
            return data
        return wire.response(200, data.partition(b"\r\n\r\n")[2][:-20])
