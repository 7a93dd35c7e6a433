"""The simulated engine as a server: what it answers, what it refuses, and what a connection goes through."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulator.serving import Engine, serving

USER = [{"role": "user", "content": "Say it."}]
WITH_USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
COUNTED: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with serving("--width", "4", "--set", "max_context=2000") as engine:
        yield engine


def test_a_whole_answer(engine: Engine) -> None:
    with engine.client() as client:
        answer = client.chat("One two, three.", max_tokens=5)
    assert answer.status == 200
    assert answer.json["object"] == "chat.completion"
    assert answer.json["model"] == "m"
    [choice] = answer.json["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] == "length"
    assert len(choice["message"]["content"].split()) == 5
    usage = answer.json["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (13, 5, 18)


def test_a_stream_is_a_role_then_text_then_a_finish_then_usage_then_done(engine: Engine) -> None:
    with engine.client() as client:
        answer = client.chat(max_tokens=3, **WITH_USAGE)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.data[-1] == "[DONE]"
    role, *texts, finish, usage = answer.chunks
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [bool(chunk["choices"][0]["delta"]["content"]) for chunk in texts] == [True] * 3
    assert (finish["choices"][0]["delta"], finish["choices"][0]["finish_reason"]) == ({}, "length")
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 3
    assert {chunk["id"] for chunk in answer.chunks} == {role["id"]}
    assert {chunk["object"] for chunk in answer.chunks} == {"chat.completion.chunk"}


def test_usage_comes_in_streams_only_when_asked_for_and_along_the_way_only_when_asked_for_that(
    engine: Engine,
) -> None:
    with engine.client() as client:
        plain, once, along = (
            client.chat(max_tokens=3, **asked) for asked in ({"stream": True}, WITH_USAGE, COUNTED)
        )
    assert not any("usage" in chunk for chunk in plain.chunks)
    assert ["usage" in chunk for chunk in once.chunks] == [False] * 5 + [True]
    assert [chunk["usage"]["completion_tokens"] for chunk in along.chunks] == [0, 1, 2, 3, 3, 3]


def test_the_text_depends_on_the_prompt_and_on_nothing_else(engine: Engine) -> None:
    with engine.client() as client:
        first, again = (client.chat("One prompt.", id=id, max_tokens=20).text for id in ("a", "b"))
        streamed = client.chat("One prompt.", max_tokens=20, stream=True).text
        longer = client.chat("One prompt.", max_tokens=30).text
        other = client.chat("Another prompt.", max_tokens=20).text
    assert first == again == streamed
    assert longer.startswith(first)
    assert other != first


def test_tokenize_counts_what_a_chat_is_charged(engine: Engine) -> None:
    messages = [{"role": "system", "content": "Be brief."}, *USER]
    with engine.client() as client:
        client.send("POST", "/tokenize", {"messages": messages})
        counted = client.read().json["count"]
        client.send("POST", "/tokenize", {"prompt": "four words, no template"})
        bare = client.read().json["count"]
        client.send("POST", "/v1/chat/completions", {"messages": messages})
        assert client.read().json["usage"]["prompt_tokens"] == counted
    assert bare == 5


def test_health_and_models(engine: Engine) -> None:
    with engine.client() as client:
        assert client.get("/health").status == 200
        [card] = client.get("/v1/models").json["data"]
        assert (card["id"], card["max_model_len"]) == ("m", 2000)
        assert client.get("/v1/nothing").status == 404


def test_the_metrics_count_under_the_names_that_vllm_uses(engine: Engine) -> None:
    names = ["prompt_tokens_total", "generation_tokens_total", "iteration_tokens_total_count"]
    before = [engine.metric(f"vllm:{name}") for name in names]
    with engine.client() as client:
        client.chat("One two.", max_tokens=6)
    after = [engine.metric(f"vllm:{name}") for name in names]
    assert [late - early for late, early in zip(after, before, strict=True)] == [11, 6, 6]
    assert engine.metric("vllm:num_requests_running") == engine.metric("vllm:num_requests_waiting") == 0


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (b"not json", "body"),
        ([], "body"),
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "Say it."}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "robot", "content": ""}]}, "messages.0.role"),
        ({"messages": USER, "max_tokens": 0}, "max_tokens"),
        ({"messages": USER, "max_tokens": "8"}, "max_tokens"),
        ({"messages": USER, "max_completion_tokens": -1}, "max_completion_tokens"),
        ({"messages": USER, "min_tokens": "x"}, "min_tokens"),
        ({"messages": USER, "temperature": 3}, "temperature"),
        ({"messages": USER, "top_p": 0}, "top_p"),
        ({"messages": USER, "n": 2}, "n"),
        ({"messages": USER, "stream": "yes"}, "stream"),
        ({"messages": USER, "stream_options": {"include_usage": True}}, "stream_options"),
        ({"messages": USER, "stream": True, "stream_options": {"include_usage": 1}}, "include_usage"),
        ({"messages": USER, "max_tokens": 2000}, "context"),
    ],
)
def test_a_wrong_request_is_refused_by_name_and_the_connection_lives_on(
    engine: Engine, asked: Any, named: str
) -> None:
    with engine.client() as client:
        client.send("POST", "/v1/chat/completions", asked)
        refused = client.read()
        assert refused.status == 400
        assert named in refused.json["error"]["message"]
        assert client.chat().status == 200


def test_another_model_is_not_found(engine: Engine) -> None:
    with engine.client() as client:
        assert client.chat(model="other").status == 404
        assert client.chat(model="m").status == 200


def test_content_may_come_in_parts(engine: Engine) -> None:
    parts = [{"type": "text", "text": "One "}, {"type": "text", "text": "prompt."}]
    with engine.client() as client:
        client.send("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": parts}]})
        assert client.read().text == client.chat("One prompt.", max_tokens=16).text


def test_a_connection_serves_many_requests_also_when_the_next_comes_early(engine: Engine) -> None:
    with engine.client() as client:
        client.send_chat("First.", id="first", stream=True)
        client.send_chat("Second.", id="second")
        first = client.read(until=lambda raw: b"0\r\n\r\n" in raw)
        assert "chatcmpl-first" in first.data[0]
        assert client.read().json["id"] == "chatcmpl-second"


def test_connection_close_is_honoured(engine: Engine) -> None:
    with engine.client() as client:
        client.send("GET", "/health", connection="close")
        assert client.read().status == 200
        assert client.socket.recv(1) == b""


def test_a_client_that_waits_to_be_told_to_go_on_is_told(engine: Engine) -> None:
    body = json.dumps({"messages": USER}).encode()
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: test", "expect: 100-continue"]
    lines += [f"content-length: {len(body)}", "", ""]
    with engine.client() as client:
        client.socket.sendall("\r\n".join(lines).encode())
        assert client.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.socket.sendall(body)
        assert client.read().status == 200


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET\r\n\r\n"])
def test_what_is_not_http_gets_400_and_no_more(engine: Engine, junk: bytes) -> None:
    with engine.client() as client:
        client.socket.sendall(junk)
        assert client.read().status == 400
        assert client.socket.recv(1) == b""


def test_an_engine_that_ends_by_itself_does_so_unless_told_not_to() -> None:
    with serving("--set", "stops_after=4") as engine, engine.client() as client:
        ended = client.chat(max_tokens=10).json
        ignored = client.chat(max_tokens=10, ignore_eos=True).json
        held = client.chat(max_tokens=10, min_tokens=7).json
        short = client.chat(max_tokens=3).json
    said = [
        (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"])
        for answer in (ended, ignored, held, short)
    ]
    assert said == [(4, "stop"), (10, "length"), (7, "stop"), (3, "length")]


def test_a_known_prompt_is_told_as_cached() -> None:
    words = " ".join(f"word{i}" for i in range(100))
    with serving("--set", "prefix_cache=true") as engine, engine.client() as client:
        spared = [
            client.chat(words).json["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(2)
        ]
        assert engine.metric("vllm:prefix_cache_hits_total") == 96
    assert spared == [0, 96]


def test_the_role_may_come_long_before_the_first_token() -> None:
    def waits(raw: bytes) -> bool:
        return b'"role"' in raw

    for early, generated in (("true", False), ("false", True)):
        options = ["--set", f"role_before_prefill={early}", "--set", "prefill_s=0.5"]
        with serving(*options) as engine, engine.client() as client:
            client.send_chat(max_tokens=500, stream=True)
            client.read(until=waits)
            assert (engine.metric("vllm:generation_tokens_total") > 0) == generated


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--profile", "nope"], "no profile 'nope'"),
        (["--profile", "nope.toml"], "no profile 'nope.toml'"),
        (["--mode", "sideways"], "must be batch or serial"),
        (["--set", "width"], "must be KEY=VALUE"),
        (["--set", "width=none"], "width"),
        (["--set", "colour=1"], "colour"),
        (["--width", "0"], "width"),
        (["--fault", "nope"], "no 'nope'; known:"),
        (["--fault", "reset:2"], "share"),
        (["--dialect", "crlf:x"], "share"),
    ],
)
def test_a_wrong_command_line_is_one_clear_line(options: list[str], says: str) -> None:
    code, lines = refused(*options)
    assert code == 2
    assert len(lines) == 1
    assert says in lines[0]


def test_a_port_in_use_is_said_so(engine: Engine) -> None:
    code, [line] = refused("--port", str(engine.port))
    assert code == 2
    assert f"cannot listen on 127.0.0.1:{engine.port}" in line


def test_a_signal_ends_it_also_in_the_middle_of_a_stream() -> None:
    with serving() as engine, engine.client() as client:
        client.send_chat(max_tokens=5000, stream=True)
        client.read(until=lambda raw: b"data:" in raw)
        engine.process.terminate()
        assert engine.process.wait(20) == 0


def refused(*options: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "launchers.simulator", *options],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr.splitlines()
