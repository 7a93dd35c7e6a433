"""One answer on its way out: a stream of events, or a body at the end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from launchers.simulator import text, wire
from launchers.simulator.asking import ChatRequest
from launchers.simulator.scheduler import Request
from launchers.simulator.truth import Written
from launchers.simulator.twists import Twist

if TYPE_CHECKING:
    from launchers.simulator.server import Connection, Simulator

MARK = "\x00"  # stands where the token goes in a rendered chunk


class Answering:
    """Called by the simulator: `accepted` once, `token` for each token when it is due."""

    def __init__(
        self,
        simulator: Simulator,
        connection: Connection,
        request: Request,
        asked: ChatRequest,
        written: Written,
        twists: list[Twist],
    ) -> None:
        self.simulator = simulator
        self.connection = connection
        self.request = request
        self.asked = asked
        self.written = written
        self.twists = twists
        self.held = b""  # for a dialect that waits before it writes
        self.json = wire.Answer(f"chatcmpl-{request.id}", simulator.model)
        self.words = text.answer(request.prompt, request.budget)
        for twist in twists:
            twist.begin(self)

    @property
    def finish_reason(self) -> str:
        return "length" if self.request.budget == self.asked.limit else "stop"

    def usage(self, completion: int) -> dict[str, Any]:
        return wire.usage(len(self.request.prompt), completion, self.request.cached)

    def accepted(self) -> None:
        """The request is in the queue."""

    def token(self) -> None:
        """`request.generated` tokens are there now."""
        raise NotImplementedError


class BodyAnswering(Answering):
    """Everything at the end."""

    def token(self) -> None:
        if not self.written.first_token_ns:
            self.written.first_token_ns = time.time_ns()
        if not self.request.ended:
            return
        count = self.request.generated
        body = self.json.completion("".join(self.words[:count]), self.finish_reason, self.usage(count))
        for twist in self.twists:
            body = twist.body(self, body)
        data = wire.response(200, body)
        for twist in self.twists:
            data = twist.bytes_out(self, data)
        self.written.last_token_ns = self.written.end_ns = time.time_ns()
        self.written.event_ns.clear()
        self.connection.write(data)
        self.connection.finished(any(twist.closes for twist in self.twists))


class StreamAnswering(Answering):
    """An event for every `tokens_per_event` tokens, between a role and a finish."""

    def accepted(self) -> None:
        options = self.asked.stream_options
        self.wants_usage = options is not None and options.include_usage
        self.counts_along = options is not None and options.include_usage and options.continuous_usage_stats
        self.said = 0
        self.role_sent = False
        template = json.dumps(self.json.chunk({"content": MARK}, None))
        before, after = template.split(json.dumps(MARK))
        self._before, self._after = b"data: " + before.encode(), after.encode() + b"\n\n"
        if self.simulator.profile.role_before_prefill:
            self._send_role()

    def _send_role(self) -> None:
        self.role_sent = True
        self.out_head()
        self.out("role", self.json.chunk({"role": "assistant", "content": ""}, None, self._running_usage(0)))

    def out_head(self) -> None:
        head = wire.STREAM_HEAD
        for twist in self.twists:
            head = twist.head(self, head)
        self.connection.write(head)

    def _running_usage(self, count: int) -> dict[str, Any] | None:
        return self.usage(count) if self.counts_along else None

    def token(self) -> None:
        if not self.role_sent:
            self._send_role()
        count = self.request.generated
        ended = self.request.ended
        if count - self.said < self.simulator.profile.tokens_per_event and not ended:
            return
        piece = "".join(self.words[self.said : count])
        self.said = count
        self._send_text(piece, count)
        if ended:
            self._end(count)

    def _send_text(self, piece: str, count: int) -> None:
        now_ns = time.time_ns()
        if not self.written.first_token_ns:
            self.written.first_token_ns = now_ns
        self.written.last_token_ns = now_ns
        if self.twists or self.counts_along:
            self.out("text", self.json.chunk({"content": piece}, None, self._running_usage(count)))
        else:  # the common case, as cheap as it can be: 256 streams share one instant
            self.written.event_ns.append(now_ns)
            self.connection.write(wire.chunk(self._before + json.dumps(piece).encode() + self._after))

    def _end(self, count: int) -> None:
        self.out("finish", self.json.chunk({}, self.finish_reason, self._running_usage(count)))
        if self.wants_usage:
            self.out("usage", self.json.usage_chunk(self.usage(count)))
        self.out("done", "[DONE]")
        self.written.end_ns = time.time_ns()
        self._out_bytes(wire.LAST_CHUNK, framed=True)
        self.connection.finished(any(twist.closes for twist in self.twists))

    def out(self, kind: str, value: Any) -> None:
        """Write one event, as the twists would have it: they may drop, change, repeat or delay it."""
        values: list[Any] = [value]
        for twist in self.twists:
            values = [new for old in values for new in twist.event(self, kind, old)]
        for one in values:
            data = one if isinstance(one, bytes) else wire.DONE if one == "[DONE]" else wire.event(one)
            for twist in self.twists:
                data = twist.bytes_out(self, data)
            if data:
                self._out_bytes(data)

    def _out_bytes(self, data: bytes, framed: bool = False) -> None:
        framed_data = data if framed else wire.chunk(data)
        for twist in self.twists:
            framed_data = twist.frame(self, data, framed_data)
        if not framed:
            self.written.event_ns.append(time.time_ns())
        if framed_data:
            self.connection.write(framed_data)
