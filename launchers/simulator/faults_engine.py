"""Faults of the scheduler: widths that are not what they seem, and clients that leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from launchers.simulator import wire
from launchers.simulator.twists import Twist

if TYPE_CHECKING:
    from launchers.simulator.answering import Answering


class Widened(Twist):
    """The serial control batches, and says nothing of it."""

    name = "serial-batches"
    profile: ClassVar[dict[str, object]] = {"width": 8, "step_s": {1: 0.003, 8: 0.003}}


class Serialised(Twist):
    """Asked to batch, it serves one at a time, and says nothing of it."""

    name = "batch-serialises"
    profile: ClassVar[dict[str, object]] = {"width": 1}


class Clamped(Twist):
    """Admits half of the width asked for, and says so in its log."""

    name = "width-clamped"
    clamps = True
    profile: ClassVar[dict[str, object]] = {"width": 4}


class Narrowed(Twist):
    """Admits half of the width asked for, and says nothing of it."""

    name = "width-narrowed"
    profile: ClassVar[dict[str, object]] = {"width": 4}


class PrefixCache(Twist):
    """Serves known prompts from memory."""

    name = "prefix-cache"
    profile: ClassVar[dict[str, object]] = {"prefix_cache": True}


class PrefixCacheUntold(PrefixCache):
    """Serves known prompts from memory, and counts none of it."""

    name = "prefix-cache-untold"

    def body(self, answering: Answering, body: dict[str, Any]) -> dict[str, Any]:
        usage = body.get("usage")
        if not usage:
            return body
        return {**body, "usage": {key: usage[key] for key in usage if key != "prompt_tokens_details"}}

    def event(self, answering: Answering, kind: str, value: Any) -> list[Any]:
        return [self.body(answering, value)] if isinstance(value, dict) else [value]


class PrefixCacheFull(PrefixCache):
    """Has seen every prompt before: an earlier run sent the same ones."""

    name = "prefix-cache-full"

    def begin(self, answering: Answering) -> None:
        answering.simulator.engine.scheduler.remember(answering.request)


class NeverCancels(Twist):
    """A request whose client left runs to its end."""

    name = "disconnect-ignored"

    def keeps_running(self, answering: Answering) -> bool:
        return True


class NeverCancelsUntold(NeverCancels):
    """The same on a server without /metrics: only a probe can tell."""

    name = "disconnect-ignored-untold"
    profile: ClassVar[dict[str, object]] = {"metrics": False}


class BodyUnwatched(Twist):
    """A client that leaves goes unnoticed unless it streams."""

    name = "disconnect-of-body-ignored"

    def keeps_running(self, answering: Answering) -> bool:
        return not answering.asked.stream


class QueueUnwatched(Twist):
    """A client that leaves while it waits for a slot goes unnoticed."""

    name = "disconnect-in-queue-ignored"

    def keeps_running(self, answering: Answering) -> bool:
        return answering.request.width_max == 0


class PrefillUnwatched(Twist):
    """A client that leaves before its first token goes unnoticed."""

    name = "disconnect-in-prefill-ignored"

    def keeps_running(self, answering: Answering) -> bool:
        return answering.request.generated == 0


class LeaksSlot(Twist):
    """A slot is lost for ever with every client that leaves."""

    name = "slot-leaked"

    def after_cancel(self, answering: Answering) -> None:
        scheduler = answering.simulator.engine.scheduler
        scheduler.lost_slots = min(scheduler.lost_slots + 1, scheduler.profile.width - 1)


class HurtsBystander(Twist):
    """With a client that leaves, another one's request is ended too."""

    name = "bystander-aborted"

    def hurts(self, answering: Answering) -> bool:
        return True

    def after_cancel(self, answering: Answering) -> None:
        others = [one for one in answering.simulator.answering.values() if one is not answering]
        if not others or not self.hurts(answering):
            return
        victim = others[0]
        answering.simulator.engine.cancel(victim.request)
        answering.simulator.close(victim, "aborted")
        victim.connection.transport.close()


class HurtsBystanderQueued(HurtsBystander):
    """The same, but only when the leaver was still in the queue."""

    name = "bystander-aborted-by-queued"

    def hurts(self, answering: Answering) -> bool:
        return answering.request.width_max == 0


class BrokenAfterDisconnect(Twist):
    """The next request after a client that left fails."""

    name = "disconnect-breaks-next"

    def __init__(self, share: float = 1.0) -> None:
        super().__init__(share)
        self.broken = False

    def after_cancel(self, answering: Answering) -> None:
        self.broken = True

    def refuse(self, answering: Answering) -> bool:
        if not self.broken:
            return False
        self.broken = False
        answering.connection.write(wire.error(500, "simulated: the cache is corrupt", "server_error"))
        answering.connection.finished()
        return True
