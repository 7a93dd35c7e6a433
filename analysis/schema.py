"""Names and types of the columns that a run's files have; what is missing in a file reads as not known."""

from __future__ import annotations

REQUEST_TYPES: dict[str, str] = {
    "run": "string",
    "arm": "string",
    "engine": "string",
    "mode": "string",
    "case": "string",
    "repeat": "int32",
    "count": "int32",
    "wave": "string",
    "request": "string",
    "user": "string",
    "stream": "int8",
    "prompt_words": "Int32",
    "max_tokens": "Int32",
    "payload_sha256": "string",
    "scheduled_ns": "Int64",
    "sent_ns": "Int64",
    "connect_ms": "float64",
    "first_event_ms": "float64",
    "ttft_ms": "float64",
    "last_token_ms": "float64",
    "latency_ms": "float64",
    "events": "Int32",
    "text_events": "Int32",
    "prompt_tokens": "Int64",
    "completion_tokens": "Int64",
    "cached_tokens": "Int64",
    "token_source": "string",
    "finish_reason": "string",
    "http_status": "Int32",
    "outcome": "string",
    "failure": "string",
    "detail": "string",
    "clock": "string",
    "role_chunk": "string",
    "response_id": "string",
    "text_sha256": "string",
    "worker": "string",
}
EVENT_TYPES: dict[str, str] = {
    "request": "category",
    "event": "int32",
    "at_ms": "float64",
    "kind": "category",
    "tokens": "float32",
}
CLIENT_TYPES: dict[str, str] = {
    "at_ns": "int64",
    "pid": "int64",
    "worker": "string",
    "cpu_percent": "float64",
    "lag_ms": "float64",
    "running": "float64",
}
TRUTH_TYPES: dict[str, str] = {
    "request": "string",
    "arrived_ns": "Int64",
    "first_write_ns": "Int64",
    "first_token_ns": "Int64",
    "last_token_ns": "Int64",
    "end_ns": "Int64",
    "tokens": "Int64",
    "width_max": "Int64",
    "outcome": "string",
}
TRUTH_EVENT_TYPES: dict[str, str] = {"request": "category", "event": "int32", "at_ns": "int64"}
TELEMETRY_TYPES: dict[str, str] = {
    "at_ns": "int64",
    "source": "string",
    "name": "string",
    "labels": "string",
    "value": "float64",
}

ENGINE_CLOCK_COLUMNS = ("first_event_ms", "ttft_ms", "last_token_ms", "latency_ms")
"""Times that a simulated engine's clock decides; multiplied by the arm's `time_scale` when read."""

MEASURED_CASES = ("single", "ladder")
"""The cases that make up the concurrency ladder: `single` is its level 1."""

Verdict = dict[str, object]
"""{"check", "status": "pass|fail|warn|skip", "observed", "limit", "detail"}"""


def verdict(check: str, status: str, observed: object, limit: object = "", detail: str = "") -> Verdict:
    """One check's outcome, in the shape that record.json, the report and JUnit carry."""
    return {"check": check, "status": status, "observed": observed, "limit": limit, "detail": detail}
