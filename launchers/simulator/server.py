"""The HTTP side: one protocol object a connection, requests parsed by h11, answers written as bytes."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field

import h11

from launchers.simulator import asking, metrics, text, wire
from launchers.simulator.answering import Answering, BodyAnswering, StreamAnswering
from launchers.simulator.asking import BadRequest, ChatRequest, TokenizeRequest
from launchers.simulator.engine import Engine
from launchers.simulator.profile import Profile
from launchers.simulator.scheduler import Request
from launchers.simulator.truth import Truth, Written
from launchers.simulator.twists import Twist, chosen

MAX_BODY = 64 * 1024 * 1024
MAX_HEAD = 256 * 1024
ACCEPTED_WITHIN_S = 0.01


@dataclass
class Simulator:
    """What all connections share. `twists`: faults and dialects, each for its share of the requests."""

    profile: Profile
    model: str
    time_scale: float = 1.0
    truth: Truth | None = None
    twists: list[Twist] = field(default_factory=list)
    _reopening: set[asyncio.Future[asyncio.Server]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.refusing = False
        self.listener: asyncio.Server | None = None
        self.engine = Engine(self.profile, self.time_scale, self._on_token)
        self.answering: dict[Request, Answering] = {}

    def _on_token(self, request: Request) -> None:
        answering = self.answering[request]
        answering.token()
        if request.ended:
            self.close(answering)

    def stop_listening(self, seconds: float) -> None:
        """Refuse connections for a while; the open ones stay."""
        if self.listener is None or self.refusing:
            return
        self.refusing = True
        loop = asyncio.get_running_loop()
        # A server that is closed forgets connections it has accepted but not yet given to a protocol.
        loop.remove_reader(self.listener.sockets[0].fileno())
        loop.call_later(ACCEPTED_WITHIN_S, self._refuse, self.listener, seconds)

    def _refuse(self, listener: asyncio.Server, seconds: float) -> None:
        address = listener.sockets[0].getsockname()[:2]
        listener.close()
        asyncio.get_running_loop().call_later(
            seconds, lambda: self._reopening.add(asyncio.ensure_future(self.listen(*address)))
        )

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Take connections. Raises OSError."""
        loop = asyncio.get_running_loop()
        backlog = self.profile.listen_backlog
        self.listener = await loop.create_server(lambda: Connection(self), host, port, backlog=backlog)
        self.refusing = False
        return self.listener

    def close(self, answering: Answering, outcome: str = "ok") -> None:
        """An answer is over, or its client has gone: write down what was true of it."""
        request = answering.request
        if self.answering.pop(request, None) is None:
            return
        written = answering.written
        written.outcome, written.tokens, written.width_max = outcome, request.generated, request.width_max
        if self.truth:  # later: others may still wait for their token of the same iteration
            asyncio.get_running_loop().call_soon(self.truth.write, written)

    def answer(self, connection: Connection, headers: dict[str, str], body: bytes) -> None:
        """Take one chat completion into the scheduler. Raises BadRequest."""
        arrived_ns = time.time_ns()
        asked = asking.read(ChatRequest, body)
        if asked.model not in (None, self.model):
            raise BadRequest(f"the model {asked.model!r} is not here; it is called {self.model!r}", 404)
        prompt = text.tokens(asked.messages)
        budget = asked.budget(len(prompt), self.profile)
        id = headers.get("x-request-id") or uuid.uuid4().hex
        twists = chosen(self.twists, id)
        request = Request(id, prompt, budget)
        kind = StreamAnswering if asked.stream else BodyAnswering
        answering = kind(self, connection, request, asked, Written(id, arrived_ns), twists)
        connection.answering = answering
        for twist in twists:
            if twist.refuse(answering):
                return
        self.answering[request] = answering
        answering.accepted()
        self.engine.submit(request)

    def client_left(self, answering: Answering) -> None:
        """The connection is gone before the answer's end."""
        if not self.profile.cancels_on_disconnect or any(
            twist.keeps_running(answering) for twist in answering.twists
        ):
            return  # it runs to its end, for nobody
        self.engine.cancel(answering.request)
        for twist in answering.twists:
            twist.after_cancel(answering)
        self.close(answering, "cancelled")


class Connection(asyncio.Protocol):
    """One client. Requests are taken one after another."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.answering: Answering | None = None
        self.answered = 0
        self.transport: asyncio.Transport
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._request: h11.Request | None = None
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._read()

    def eof_received(self) -> bool:
        return False  # a client that closes its half is gone: HTTP clients do not half-close

    def connection_lost(self, exc: Exception | None) -> None:
        if self.answering is not None:
            answering, self.answering = self.answering, None
            self.simulator.client_left(answering)

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    def finished(self, close: bool = False) -> None:
        """The answer is complete; the connection takes the next request, or is closed."""
        self.answering = None
        self.answered += 1
        assert self._request is not None
        close = close or (b"connection", b"close") in self._request.headers
        if close:
            self.transport.close()
            return
        early, _ = self._http.trailing_data
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._request = None
        if early:
            asyncio.get_running_loop().call_soon(self.data_received, early)

    def _read(self) -> None:
        try:
            while self._http.their_state is not h11.DONE:
                event = self._http.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    return
                if isinstance(event, h11.Request):
                    self._request, self._body = event, bytearray()
                    if self._http.they_are_waiting_for_100_continue:
                        self.write(wire.CONTINUE)
                elif isinstance(event, h11.Data):
                    self._body += event.data
                    if len(self._body) > MAX_BODY:
                        raise h11.RemoteProtocolError("body too large", error_status_hint=413)
                elif isinstance(event, h11.EndOfMessage):
                    self._answer()
                    return
        except h11.RemoteProtocolError as error:
            self.write(wire.error(error.error_status_hint, str(error)))
            self.transport.close()

    def _answer(self) -> None:
        assert self._request is not None
        method, path = self._request.method.decode(), self._request.target.decode().partition("?")[0]
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in self._request.headers}
        if (method, path) == ("POST", "/v1/chat/completions"):
            try:
                self.simulator.answer(self, headers, bytes(self._body))
            except BadRequest as error:
                self.write(wire.error(error.status, str(error)))
                self.finished()
            return
        self.write(self._small_answer(method, path))
        self.finished()

    def _small_answer(self, method: str, path: str) -> bytes:
        simulator = self.simulator
        if (method, path) in (("GET", "/health"), ("GET", "/ready")):
            return wire.response(200, {"status": "ok"})
        if (method, path) == ("GET", "/v1/models"):
            card = {"id": simulator.model, "object": "model", "max_model_len": simulator.profile.max_context}
            return wire.response(200, {"object": "list", "data": [card]})
        if (method, path) == ("GET", "/metrics") and simulator.profile.metrics:
            page = metrics.page(simulator.engine.scheduler, simulator.model)
            return wire.response(200, page.encode(), "text/plain; version=0.0.4; charset=utf-8")
        if (method, path) == ("POST", "/tokenize"):
            try:
                asked = asking.read(TokenizeRequest, bytes(self._body))
            except BadRequest as error:
                return wire.error(error.status, str(error))
            found = text.tokens(asked.messages) if asked.messages else text.TOKEN.findall(asked.prompt or "")
            body = {
                "count": len(found),
                "max_model_len": simulator.profile.max_context,
                "tokens": list(range(len(found))),
            }
            return wire.response(200, body)
        return wire.response(404, {"detail": "Not Found"})
