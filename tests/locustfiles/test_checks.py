"""What a response must look like: recorded streams of real servers pass, each single flaw has its code."""

import json
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locustfiles.checks import Expected, check
from locustfiles.reading import Reading, read
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


# Damage


@pytest.mark.parametrize("name", ["vllm-usage", "llamacpp"])
def test_no_stream_that_lost_its_end_is_ok(name: str) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes()
    whole = len(body.rstrip())

    for stop in range(len(body)):
        code = verdict(reply(body[:stop]), 8)
        assert (code == "ok") == (stop >= whole), f"{stop} of {whole} bytes: {code}"


def sound(reading: Reading) -> bool:
    """What an "ok" promises, said once more in other words."""
    ends = [event.kind for event in reading.events if event.kind in ("done", "error")]
    usage = reading.usage
    return (
        ends == ["done"]
        and reading.data_events[-1].kind == "done"
        and len(reading.finish_reasons) == len(reading.ids) == 1
        and reading.roles > 0
        and usage is not None
        and usage.completion is not None
        and usage.prompt is not None
        and usage.total == usage.prompt + usage.completion
        and usage.completion >= 8
    )


@pytest.mark.parametrize("name", ["vllm-usage", "vllm-continuous-usage", "llamacpp"])
@pytest.mark.parametrize("put", [b"", b"\n", b"\x00", b"\xff", b"}", b'"', b"7"])
def test_no_byte_of_a_stream_can_be_lost_or_changed_unseen(name: str, put: bytes) -> None:
    """Each byte in turn; letters of the text may change, what holds the stream together may not."""
    body = (STREAMS / f"{name}.sse").read_bytes()
    whole = len(body.rstrip())
    for at in range(whole):
        answer = reply(body[:at] + put + body[at + 1 :])
        if verdict(answer, 8) == "ok":
            assert sound(read(answer, True)), f"byte {at} of {name}"


@pytest.mark.parametrize("name", ["vllm-usage", "llamacpp"])
def test_a_stream_may_be_split_at_any_byte(name: str) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes()
    whole = read(reply(body), True)
    for at in range(1, len(body)):
        first, last = SENT_NS + 1_000_000, SENT_NS + 2_000_000
        halves = read(reply(body, arrivals=[(first, at), (last, len(body))], end_ns=last), True)
        assert verdict(halves.reply, 8) == "ok"
        assert [event.kind for event in halves.events] == [event.kind for event in whole.events]
        assert (halves.text, halves.usage) == (whole.text, whole.usage)


@given(data=st.data())
@settings(deadline=None, max_examples=300)
def test_damage_is_never_an_exception_and_never_a_wrong_ok(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["vllm-usage", "vllm-continuous-usage", "llamacpp"]))
    body = bytearray((STREAMS / f"{name}.sse").read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=8))
    answer = reply(bytes(body), data.draw(st.integers(1, 50)))

    if verdict(answer, 8) == "ok":
        assert sound(read(answer, True))


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda c: (
            st.lists(c)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "object",
                        "choices",
                        "message",
                        "delta",
                        "usage",
                        "id",
                        "role",
                        "content",
                        "finish_reason",
                        "error",
                        "prompt_tokens",
                        "completion_tokens",
                        "total_tokens",
                        "tool_calls",
                        "function",
                    ]
                ),
                c,
            )
        ),
    )
)
@settings(deadline=None, max_examples=300)
def test_no_json_is_too_strange(value: Any) -> None:
    text = json.dumps(value)
    verdict(reply(text.encode()), streamed=False)
    verdict(reply(f"data: {text}\n\ndata: [DONE]\n\n".encode()))
    if isinstance(value, dict):
        chunk_text = json.dumps({"object": "chat.completion.chunk", **value})
        verdict(reply(f"{ROLE}\n\ndata: {chunk_text}\n\n{FINISH}\n\n{USAGE}\n\n{DONE}\n\n".encode()), 2)
