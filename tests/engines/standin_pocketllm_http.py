"""What PocketLLM's native server 0.1.1 answers, as it was seen on the real one, over the simulated engine."""

from __future__ import annotations

import json
import secrets
from typing import Any

from launchers.simulator import wire
from launchers.simulator.answering import Answering
from launchers.simulator.asking import BadRequest
from launchers.simulator.engine import Engine
from launchers.simulator.profile import Profile
from launchers.simulator.server import Connection, Simulator
from launchers.simulator.twists import Twist

READ = (
    "messages",
    "max_tokens",
    "stream",
    "temperature",
    "top_p",
)  # of the fields that our requests may have
TOKENS_WITHOUT_A_WORD = 256


class Wording(Twist):
    """Its JSON: no usage in streams, a bare role, ids of its own, `cancelled`."""

    name = "pocketllm"

    def begin(self, answering: Answering) -> None:
        answering.json = wire.Answer(answering.request.id, answering.simulator.model)

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "done":
            return [value]
        choice = value["choices"][0]
        choice.pop("logprobs")
        if kind == "role":
            choice["delta"] = {"role": "assistant"}
        if kind == "text" and not choice["delta"]["content"]:
            return []
        if kind == "finish" and was_cut(answering):
            choice["finish_reason"] = "cancelled"
        return [value]

    def body(self, answering: Answering, body: dict[str, Any]) -> dict[str, Any]:
        choice = body["choices"][0]
        choice.pop("logprobs")
        body["usage"].pop("prompt_tokens_details")
        if was_cut(answering):
            choice["finish_reason"] = "cancelled"
        return body


def was_cut(answering: Answering) -> bool:
    return answering.request.generated < answering.request.budget


class PocketServer(Simulator):
    """At more than one rank the temperature is the engine's own, 0."""

    def __init__(self, profile: Profile, ranks: int) -> None:
        super().__init__(profile, "qwen3_5", twists=[Wording()])
        self.ranks = ranks

    def answer(self, connection: Connection, headers: dict[str, str], body: bytes) -> None:
        try:
            asked = json.loads(body)
        except ValueError as error:
            raise BadRequest(f"invalid JSON: {error}") from error
        if not isinstance(asked, dict):
            raise BadRequest("request body must be JSON object")
        kept = {name: asked[name] for name in READ if name in asked}
        if kept.get("max_tokens", 0) <= 0:
            kept["max_tokens"] = TOKENS_WITHOUT_A_WORD
        if self.ranks > 1 and kept.get("temperature", 0) != 0:
            wish = f"temperature={kept['temperature']}"
            raise BadRequest(f"this engine's effective temperature is 0 and it cannot apply {wish}")
        name = asked.get("request_id") or f"req_{secrets.token_hex(8)}"
        super().answer(connection, {"x-request-id": name}, json.dumps(kept).encode())

    def cancelled(self, name: str) -> bool:
        for request, answering in list(self.answering.items()):
            if request.id == name and request in self.engine.scheduler.running:
                self.engine.cancel(request)
                answering.token()
                self.close(answering, "cancelled")
                return True
        return False


class PocketConnection(Connection):
    simulator: PocketServer

    def write(self, data: bytes) -> None:
        """Errors of every kind are called server_error."""
        super().write(data.replace(b'"type": "invalid_request_error"', b'"type": "server_error"         '))

    def _small_answer(self, method: str, path: str) -> bytes:
        if method == "DELETE" and path.startswith("/v1/requests/"):
            name = path.rpartition("/")[2]
            if self.simulator.cancelled(name):
                said = {"id": name, "object": "request.cancel", "cancelled": True}
                return wire.response(200, said)
            return wire.error(404, f"no request {name}")
        card = {"id": self.simulator.model, "object": "model", "owned_by": "local"}
        known = {
            "/health": {"status": "ok"},
            "/ready": {"ready": True},
            "/alive": {"alive": True},
            "/v1/models": {"object": "list", "data": [card]},
        }
        if method == "GET" and path in known:
            return wire.response(200, known[path])
        if (method, path) == ("GET", "/metrics"):
            return wire.response(200, metrics(self.simulator.engine).encode(), "text/plain; version=0.0.4")
        return wire.response(404, b"", extra="connection: close\r\n")


def metrics(engine: Engine) -> str:
    scheduler = engine.scheduler
    running = len(scheduler.running)
    found = {
        "pocket_requests_waiting": len(scheduler.waiting),
        "pocket_requests_running": running,
        "pocket_slots_free": scheduler.profile.width - running,
    }
    lines = [f"# TYPE {name} gauge\n{name} {value}\n" for name, value in found.items()]
    tokens = {"prompt": scheduler.counters.prompt_tokens, "generation": scheduler.counters.generated_tokens}
    lines += ["# TYPE pocket_tokens_total counter\n"]
    lines += [f'pocket_tokens_total{{type="{kind}"}} {count}\n' for kind, count in tokens.items()]
    return "".join(lines)
