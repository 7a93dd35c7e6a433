"""What a response must look like: recorded streams of real servers pass, each single flaw has its code."""

import json
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest

from locustfiles.checks import Expected, check
from locustfiles.reading import Reading, read
from locustfiles.transport import Reply
from tests.locustfiles.replies import (
    CLEAN,
    DONE,
    FINISH,
    ROLE,
    STREAMS,
    USAGE,
    WORDS,
    chunk,
    reply,
    stream,
    verdict,
)

# Recorded streams


@pytest.mark.parametrize(
    ("name", "budget", "usage", "done"),
    [
        ("vllm-usage", 8, True, True),
        ("vllm-continuous-usage", 8, True, True),
        ("vllm-no-usage", 8, False, True),
        ("vllm-cpu", 32, True, True),
        ("llamacpp", 32, True, True),
        ("transformers", 32, False, False),
    ],
)
@pytest.mark.parametrize("reads", [1, 7, 1000])
def test_real_servers_pass(name: str, budget: int, usage: bool, done: bool, reads: int) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes()

    assert verdict(reply(body, reads), budget, usage=usage, done=done) == "ok"


def test_a_missing_done_fails_unless_the_server_is_known_for_it() -> None:
    body = (STREAMS / "transformers.sse").read_bytes()

    assert verdict(reply(body), 32, usage=False, done=True) == "stream.done"


def facts(name: str, reads: int = 10_000) -> Reading:
    return read(reply((STREAMS / f"{name}.sse").read_bytes(), reads), streamed=True)


def test_every_kind_of_event_is_known() -> None:
    llamacpp, transformers = facts("llamacpp"), facts("transformers")

    kinds = [
        [kind for kind, _ in groupby(event.kind for event in found.events)]
        for found in (llamacpp, transformers)
    ]
    assert kinds == [["role", "text", "finish", "usage", "done"], ["role", "text", "finish"]]
    assert llamacpp.usage is not None
    assert (llamacpp.usage.completion, llamacpp.usage.cached) == (32, 35)
    assert llamacpp.text.startswith("I'm sorry")


def test_tokens_of_an_event_are_known_only_where_the_server_counts_with_every_event() -> None:
    assert sum(event.tokens or 0 for event in facts("vllm-continuous-usage").text_events) == 8
    assert {event.tokens for event in facts("vllm-usage").text_events} == {None}


def test_usage_on_the_last_content_chunk_is_not_that_chunk_s_own() -> None:
    last = chunk(
        {"content": " more"}, "length", usage={"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    )
    body = "\n\n".join([ROLE, WORDS[0], last, DONE, ""]).encode()

    assert [event.tokens for event in read(reply(body), True).text_events] == [None, None]
    assert verdict(reply(body), 2) == "ok"


# Dialects


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("data: ", "data:"),
        lambda text: text.replace("data: ", ": keep-alive\n\ndata: "),
        lambda text: text.replace("[DONE]", "[DONE] "),
        lambda text: text.removesuffix("\n\n"),
        lambda text: text.replace("data: {", 'event: message\nid: 4\nretry: 10\ndata: {"extra": [1], '),
        lambda text: text.replace('"finish_reason": null}]', '"finish_reason": null}], "usage": null'),
        lambda text: text.replace(
            '"role": "assistant", "content": ""', '"role": "assistant", "content": null'
        ),
        lambda text: text.replace('"role": "assistant", "content": ""', '"role": "assistant"'),
        lambda text: text.replace('"content": " word"', '"reasoning_content": " word"'),
        lambda text: text.replace('"content": " word"', '"reasoning": " word", "content": ""'),
        lambda text: text.replace(
            '"content": " word"',
            '"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]',
        ),
        lambda text: text.replace('"content": " word"', '"content": " wörd 字\\u2028"'),
    ],
)
@pytest.mark.parametrize("reads", [1, 999])
def test_dialects_that_are_fine(change: Callable[[str], str], reads: int) -> None:
    body = change("".join(f"{event}\n\n" for event in CLEAN)).encode()

    reading = read(reply(body, reads), True)

    assert verdict(reply(body, reads), 2) == "ok"
    assert len(reading.text_events) == 2
    assert reading.data_events[0].kind == "role"


def test_a_role_may_come_with_the_first_text_and_the_finish_with_the_last() -> None:
    assert (
        stream(chunk({"role": "assistant", "content": "a"}), chunk({"content": "b"}, "stop"), USAGE, DONE)
        == "ok"
    )


# Flaws of streams


@pytest.mark.parametrize(
    ("code", "events"),
    [
        ("stream.done", [*CLEAN, DONE]),
        ("stream.done", CLEAN[:-1]),
        ("stream.done", [*CLEAN, WORDS[0]]),
        ("stream.role", CLEAN[1:]),
        ("stream.finish", [ROLE, *WORDS, USAGE, DONE]),
        ("stream.finish", [ROLE, *WORDS, FINISH, FINISH, USAGE, DONE]),
        ("stream.json", [ROLE, 'data: {"id": ', *WORDS, FINISH, USAGE, DONE]),
        ("stream.json", [ROLE, "data: 7", *WORDS, FINISH, USAGE, DONE]),
        ("stream.error", [ROLE, 'data: {"error": {"message": "no memory"}}', DONE]),
        ("stream.error", [ROLE, 'event: error\ndata: {"message": "no memory"}', DONE]),
        ("stream.framing", [ROLE, "Traceback (most recent call last):", *WORDS, FINISH, USAGE, DONE]),
        ("stream.framing", ['{"object": "chat.completion"}']),
        ("stream.identity", [ROLE, chunk({"content": "x"}, id="chat-2"), FINISH, USAGE, DONE]),
        ("http.body", [ROLE, chunk({"content": "x"}, object="text_completion"), FINISH, USAGE, DONE]),
        ("finish.reason", [ROLE, *WORDS, chunk({}, "timeout"), USAGE, DONE]),
        ("usage.missing", [ROLE, *WORDS, FINISH, DONE]),
        ("usage.missing", [*CLEAN[:4], chunk(usage={"prompt_tokens": 5, "completion_tokens": 0}), DONE]),
        ("usage.total", [*CLEAN[:4], USAGE.replace("7", "8"), DONE]),
        ("budget.short", [*CLEAN[:4], USAGE.replace("2", "1").replace("7", "6"), DONE]),
    ],
)
def test_one_flaw_one_code(code: str, events: list[str]) -> None:
    assert stream(*events) == code


def test_without_usage_an_early_end_shows_by_its_reason() -> None:
    events = [ROLE, *WORDS, chunk({}, "stop"), DONE]

    assert stream(*events, usage=False) == "budget.short"
    assert stream(*CLEAN[:4], DONE, usage=False) == "ok"


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("http.status", reply(b"busy", status=429, headers={"retry-after": "3"})),
        ("http.status", reply(b"", status=307, headers={"location": "/v2"})),
        ("http.connection", reply(b"", status=None, end="refused")),
        ("http.connection", reply(b"", status=None, end="closed_clean")),
        ("http.connection", reply(b"data: {", end="reset")),
        ("http.connection", reply(b"data: {", end="cut")),
        ("http.connection", reply(f"{ROLE}\n\n{WORDS[0][:9]}".encode(), headers={})),
        ("http.connection", reply(f"{ROLE}\n\n{WORDS[0]}\n\n".encode(), headers={})),
        ("stream.framing", reply(f"{ROLE}\n\n{WORDS[0][:9]}".encode())),
        ("engine.hang", reply(b"", status=None, end="hang")),
    ],
)
def test_trouble_below_the_stream(code: str, answer: Reply) -> None:
    assert verdict(answer) == code


def test_a_redirect_is_refused_and_says_where_it_leads() -> None:
    fault = check(
        read(reply(b"", status=308, headers={"location": "https://x/v1"}), True), Expected(2, True, True)
    )
    assert fault is not None
    assert fault.detail == "HTTP 308 to https://x/v1: not followed, give the final address"


# Bodies

BODY: dict[str, Any] = {
    "id": "chat-1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("ok", {}),
        ("ok", {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "length"}]}),
        ("http.body", {"object": "chat.completion.chunk"}),
        ("http.body", {"choices": []}),
        ("http.body", {"choices": [{"message": {"role": "user", "content": "Hi"}, "finish_reason": "stop"}]}),
        ("http.body", {"error": {"message": "no memory"}}),
        ("finish.reason", {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}),
        ("usage.missing", {"usage": None}),
        ("usage.missing", {"usage": {"prompt_tokens": 0, "completion_tokens": 2, "total_tokens": 2}}),
        ("usage.total", {"usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 9}}),
        ("budget.short", {"usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}}),
    ],
)
def test_bodies(code: str, change: dict[str, Any]) -> None:
    body = json.dumps({**BODY, **change}).encode()

    assert verdict(reply(body), budget=2, streamed=False) == code


def test_a_body_that_is_no_json() -> None:
    assert verdict(reply(b"<html>"), streamed=False) == "http.body"
