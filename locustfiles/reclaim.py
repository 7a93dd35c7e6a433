"""How many requests the server itself says it is busy with: the proof that a slot is free again."""

import json
import time
from collections.abc import Callable

import gevent
from prometheus_client.parser import text_string_to_metric_families

from locustfiles.settings import Settings
from locustfiles.transport import Connection

BUSY_METRICS = frozenset(
    {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "llamacpp:requests_processing",
        "llamacpp:requests_deferred",
        "pocket_requests_running",
        "pocket_requests_waiting",
    }
)
"""SGLang's are not among them: it refreshes them every 40 decode steps, and where none follow, every 30 s."""
ASK_EVERY_S = 0.02
# llama.cpp answers no question about itself while it reads a prompt; for a long one that took 2.7 s here.
ANSWER_WITHIN_S = 10.0


class Slots:
    """Asks /metrics; where that says nothing, SGLang's /v1/loads or llama.cpp's /slots."""

    def __init__(self, settings: Settings) -> None:
        self._connection = Connection(settings.target)
        self._headers = {name: settings.headers[name] for name in settings.headers if name != "content-type"}
        self._how: str | None = None

    @property
    def how(self) -> str:
        """Where the server tells: "metrics", "loads", "slots", or "" if nowhere."""
        if self._how is None:
            self._how = next((how for how in SOURCES if self._busy(how) is not None), "")
        return self._how

    def seconds_until_free(self, left_ns: int, others: Callable[[], int], within_s: float) -> float | None:
        """Seconds from `left_ns` until no more than `others()` requests are served or queued.

        Counted to the question, not to its answer, which a busy server may give late: a lower bound there.
        None if that takes longer than `within_s`.
        """
        while (time.time_ns() - left_ns) / 1e9 < within_s:
            asked_ns = time.time_ns()
            busy = self._busy(self.how)
            if busy is not None and busy <= others():
                return max(asked_ns - left_ns, 0) / 1e9
            gevent.sleep(ASK_EVERY_S)
        return None

    def _busy(self, how: str) -> int | None:
        path, busy = SOURCES[how]
        exchange = self._connection.prepare("GET", path, self._headers)
        exchange.send()
        reply = exchange.wait(ANSWER_WITHIN_S)
        if reply.end != "complete" or reply.status != 200:
            return None
        return busy(reply.body.decode("utf-8", "replace"))


def busy_by_metrics(text: str) -> int | None:
    """Requests running and waiting, out of a Prometheus page; None if it tells of none."""
    names = ((line.partition("{")[0].partition(" ")[0], line) for line in text.splitlines())
    wanted = [line for name, line in names if name in BUSY_METRICS]
    try:
        families = list(text_string_to_metric_families("\n".join([*wanted, ""])))
        values = [sample.value for family in families for sample in family.samples]
    except ValueError:
        return None
    return int(sum(values)) if values else None


def busy_by_loads(text: str) -> int | None:
    """Requests running and waiting, out of SGLang's /v1/loads; None if it is something else.

    One whose prompt is being read is in neither count, but holds tokens.
    """
    try:
        loads = json.loads(text)["loads"]
        counts = [int(load["num_running_reqs"]) + int(load["num_waiting_reqs"]) for load in loads]
        held = [int(load.get("num_used_tokens", 0)) for load in loads]
        return sum(max(count, int(tokens > 0)) for count, tokens in zip(counts, held, strict=True))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def busy_by_slots(text: str) -> int | None:
    """Busy slots, out of llama.cpp's /slots; None if it is something else."""
    try:
        slots = json.loads(text)
    except ValueError:
        return None
    if not isinstance(slots, list) or not all(isinstance(slot, dict) for slot in slots):
        return None
    return sum(bool(slot.get("is_processing")) for slot in slots)


SOURCES: dict[str, tuple[str, Callable[[str], int | None]]] = {
    "metrics": ("/metrics", busy_by_metrics),
    "loads": ("/v1/loads?include=core", busy_by_loads),
    "slots": ("/slots", busy_by_slots),
}
