"""What one response must look like: the per-response verdict codes, the gravest first."""

from dataclasses import dataclass

from locustfiles.reading import Reading, Usage

FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})
ENDS = {
    "cut": "cut short",
    "reset": "connection reset",
    "refused": "connection refused",
    "closed_clean": "connection closed without an answer",
}


@dataclass(frozen=True, slots=True)
class Expected:
    """What was asked for, as far as the answer can be held to it; a budget of 0 may end at any length."""

    budget: int
    usage_in_stream: bool
    done: bool


@dataclass(frozen=True, slots=True)
class Fault:
    """A verdict code and one line about what was seen."""

    code: str
    detail: str


def check(reading: Reading, expected: Expected) -> Fault | None:
    """The first fault of a response that we waited for to its end, or None."""
    return check_transport(reading) or (
        _check_stream(reading, expected) if reading.streamed else _check_body(reading, expected)
    )


def check_transport(reading: Reading) -> Fault | None:
    """What can be wrong before anything is read: the connection, the status."""
    reply = reading.reply
    if reply.end == "hang":
        return Fault("engine.hang", reply.error)
    if reply.status is not None and not 200 <= reply.status < 300:
        return Fault("http.status", _status_line(reading))
    if reply.end in ENDS:
        return Fault("http.connection", _one_line(f"{ENDS[reply.end]}: {reply.error}"))
    return None


def _check_body(reading: Reading, expected: Expected) -> Fault | None:
    problems = [*reading.json_problems, *reading.server_errors, *reading.object_problems]
    if reading.reply.error:
        problems.insert(0, reading.reply.error)
    if problems:
        return Fault("http.body", _one_line(problems[0]))
    if not reading.finish_reasons:
        return Fault("finish.reason", "no finish_reason")
    return _check_usage(reading.usage) or _check_end(reading, expected)


def _check_stream(reading: Reading, expected: Expected) -> Fault | None:
    if reading.truncated and _ends_with_connection(reading):
        return Fault("http.connection", "cut short in the middle of an event")
    if reading.framing_problems or reading.truncated or reading.reply.error:
        problems = [reading.reply.error, *reading.framing_problems, "ends in the middle of an event"]
        return Fault("stream.framing", _one_line(next(filter(None, problems))))
    if reading.json_problems:
        return Fault("stream.json", _one_line(reading.json_problems[0]))
    if reading.server_errors:
        return Fault("stream.error", _one_line(reading.server_errors[0]))
    if reading.object_problems:
        return Fault("http.body", _one_line(reading.object_problems[0]))
    if len(reading.ids) > 1:
        return Fault("stream.identity", f"chunks of ids {', '.join(reading.ids[:3])} in one stream")
    if not reading.finish_reasons and not reading.done and _ends_with_connection(reading):
        return Fault("http.connection", "cut short between two events")
    if not reading.roles:
        return Fault("stream.role", "no chunk says role assistant")
    if len(reading.finish_reasons) != 1:
        return Fault("stream.finish", f"{len(reading.finish_reasons)} finish reasons, not one")
    if reading.after_done:
        return Fault("stream.done", "data after [DONE]")
    if reading.done != 1 and (expected.done or reading.done):
        return Fault("stream.done", f"{reading.done} [DONE], not one")
    if reading.usage is not None or expected.usage_in_stream:
        fault = _check_usage(reading.usage)
        if fault:
            return fault
    return _check_end(reading, expected)


def _check_usage(usage: Usage | None) -> Fault | None:
    if usage is None:
        return Fault("usage.missing", "no usage")
    if not usage.prompt or not usage.completion or usage.prompt < 0 or usage.completion < 0:
        return Fault("usage.missing", f"prompt {usage.prompt}, completion {usage.completion} tokens")
    if usage.total != usage.prompt + usage.completion:
        return Fault("usage.total", f"total {usage.total} is not {usage.prompt} + {usage.completion}")
    return None


def _check_end(reading: Reading, expected: Expected) -> Fault | None:
    reason = reading.finish_reasons[0]
    if reason not in FINISH_REASONS:
        return Fault("finish.reason", f"finish_reason {reason!r}")
    if reading.usage is not None and reading.usage.completion is not None:
        if reading.usage.completion < expected.budget:
            return Fault("budget.short", f"{reading.usage.completion} of {expected.budget} tokens, {reason}")
    elif (
        expected.budget and reason != "length"
    ):  # events are not tokens, but only a full budget ends in "length"
        return Fault("budget.short", f"finish_reason {reason!r} before {expected.budget} tokens")
    return None


def _ends_with_connection(reading: Reading) -> bool:
    """Whether only the connection's end says that the body is over, so that a loss looks like an end."""
    headers = reading.reply.headers
    return "content-length" not in headers and "transfer-encoding" not in headers


def _status_line(reading: Reading) -> str:
    reply = reading.reply
    if reply.status is not None and 300 <= reply.status < 400:
        where = reply.headers.get("location", "nowhere")
        return _one_line(f"HTTP {reply.status} to {where}: not followed, give the final address")
    retry = f", Retry-After {reply.headers['retry-after']}" if "retry-after" in reply.headers else ""
    return _one_line(f"HTTP {reply.status}{retry}: {reply.body[:160].decode('utf-8', 'replace')}")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
