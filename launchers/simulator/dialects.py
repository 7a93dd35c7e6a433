"""Ways of saying the same thing in JSON, all of which a client has to understand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from launchers.simulator.twists import Twist

if TYPE_CHECKING:
    from launchers.simulator.answering import Answering


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


class AllOnText(FinishOnText):
    """The last text chunk carries the finish reason and the usage."""

    name = "all-on-text"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "usage":
            return []
        if kind == "text" and answering.request.ended:
            value["usage"] = answering.usage(answering.request.generated)
        return super().event(answering, kind, value)


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


class SeveralTokens(Twist):
    """Three tokens an event."""

    name = "three-tokens-an-event"
    profile: ClassVar[dict[str, object]] = {"tokens_per_event": 3}


class TokensCounted(SeveralTokens):
    """Three tokens an event, and the count so far with each."""

    name = "three-tokens-counted"

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        if kind == "text":
            value["usage"] = answering.usage(answering.request.generated)
        return [value]


class NoMetrics(Twist):
    """No /metrics page."""

    name = "no-metrics"
    profile: ClassVar[dict[str, object]] = {"metrics": False}


class EarlyRole(Twist):
    """The role chunk comes long before the first token."""

    name = "role-early"
    profile: ClassVar[dict[str, object]] = {"role_before_prefill": True}
