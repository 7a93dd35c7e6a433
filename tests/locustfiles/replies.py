"""Replies as a transport hands them over, made of given bytes; and what the checks say of one."""

import json
from pathlib import Path
from typing import Any

from locustfiles.checks import Expected, check
from locustfiles.reading import read
from locustfiles.transport import End, Reply

STREAMS = Path(__file__).parents[1] / "data" / "streams"
SENT_NS = 1_000_000_000
CHUNKED = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}


def reply(body: bytes, reads: int = 1, end: End = "complete", **changes: Any) -> Reply:
    """A reply whose body came in so many reads, one a millisecond."""
    cuts = [len(body) * i // reads for i in range(1, reads + 1)]
    facts: dict[str, Any] = {
        "status": 200,
        "headers": CHUNKED,
        "sent_ns": SENT_NS,
        "connect_ms": None,
        "body": body,
        "arrivals": [(SENT_NS + i * 1_000_000, cut) for i, cut in enumerate(cuts, 1)] if body else [],
        "head_ns": SENT_NS,
        "end_ns": SENT_NS + reads * 1_000_000,
        "clock": "kernel",
        "end": end,
        "error": "",
    }
    return Reply(**{**facts, **changes})


def verdict(
    answer: Reply, budget: int = 32, streamed: bool = True, usage: bool = True, done: bool = True
) -> str:
    fault = check(read(answer, streamed), Expected(budget, usage, done))
    return fault.code if fault else "ok"


def chunk(delta: dict[str, Any] | None = None, reason: str | None = None, **more: Any) -> str:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    value = {"id": "chat-1", "object": "chat.completion.chunk", "choices": choices, **more}
    return f"data: {json.dumps(value)}"


ROLE = chunk({"role": "assistant", "content": ""})
WORDS = [chunk({"content": " word"}), chunk({"content": " more"})]
FINISH = chunk({}, "length")
USAGE = chunk(usage={"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})
DONE = "data: [DONE]"
CLEAN = [ROLE, *WORDS, FINISH, USAGE, DONE]


def stream(*events: str, **how: Any) -> str:
    return verdict(reply("".join(f"{event}\n\n" for event in events).encode()), budget=2, **how)
