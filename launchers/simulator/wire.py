"""HTTP and OpenAI bytes: what goes over the socket for each kind of answer."""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from typing import Any

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def response(status: int, body: Any, content_type: str = "application/json", extra: str = "") -> bytes:
    """A whole response; `body` is made JSON unless it is bytes. `extra`: more header lines."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    phrase = HTTPStatus(status).phrase
    lines = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: {content_type}\r\ncontent-length: {len(data)}\r\n"
    return f"{lines}{extra}\r\n".encode() + data


def error(status: int, message: str, kind: str = "invalid_request_error") -> bytes:
    return response(status, {"error": {"message": message, "type": kind, "code": status}})


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def usage(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


class Answer:
    """The JSON of one answer. Made when the request arrives, so that a token costs little when it is due."""

    def __init__(self, id: str, model: str) -> None:
        self.id = id
        self.base = {"id": id, "created": int(time.time()), "model": model}

    def completion(self, text: str, finish_reason: str, usage: dict[str, Any] | None) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
        whole = {**self.base, "object": "chat.completion", "choices": [choice]}
        return whole if usage is None else {**whole, "usage": usage}

    def chunk(
        self, delta: dict[str, Any], finish_reason: str | None = None, usage: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        whole = {**self.base, "object": "chat.completion.chunk", "choices": [choice]}
        return whole if usage is None else {**whole, "usage": usage}

    def usage_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        return {**self.base, "object": "chat.completion.chunk", "choices": [], "usage": usage}
