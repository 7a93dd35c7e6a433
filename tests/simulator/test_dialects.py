"""Each dialect differs from the plain engine in the way it says, and in nothing that matters."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from launchers.simulator.catalogue import DIALECTS
from tests.simulator.serving import Client, Seen, metric, serving, serving_many

PLAIN = "plain"
TOKENS = 8


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    # Slow enough that two tokens are never on the way at once.
    changes = ['step_s={"1": 0.02, "8": 0.02}', "prefill_s=0.2"]
    wanted = {PLAIN: {"changes": changes}}
    with serving_many(wanted | {name: {"dialect": name, "changes": changes} for name in DIALECTS}) as ports:
        yield ports


def ask_all(ports: dict[str, int], **asked: Any) -> dict[str, Seen]:
    def ask(port: int) -> Seen:
        with Client(port) as client:
            return client.chat(max_tokens=TOKENS, **asked)

    with ThreadPoolExecutor(len(ports)) as pool:
        return dict(zip(ports, pool.map(ask, ports.values()), strict=True))


@pytest.fixture(scope="module")
def streams(ports: dict[str, int]) -> dict[str, Seen]:
    return ask_all(ports, stream=True, stream_options={"include_usage": True})


@pytest.fixture(scope="module")
def answers(ports: dict[str, int]) -> dict[str, Seen]:
    return ask_all(ports)


def deltas(seen: Seen) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in seen.chunks for choice in chunk["choices"]]


def finish_with_text(seen: Seen) -> bool:
    [choice] = [
        choice for chunk in seen.chunks for choice in chunk["choices"] if choice["finish_reason"] is not None
    ]
    return bool(choice["delta"].get("content"))


def usages(seen: Seen) -> list[dict[str, Any]]:
    return [chunk for chunk in seen.chunks if chunk.get("usage")]


def ended_by_closing(seen: Seen) -> bool:
    return "transfer-encoding" not in seen.headers and seen.headers["connection"] == "close" and seen.whole


def letters_are_split(seen: Seen) -> bool:
    return any(
        part.endswith(b"\xe2") and after.startswith(b"\x80\x93") for part, after in pairwise(seen.parts)
    )


def both_reasoning_and_text(key: str) -> Callable[[Seen], bool]:
    return lambda seen: [key in delta for delta in deltas(seen)[1:-1]] == [True] * 4 + [False] * 4


STREAMED: dict[str, Callable[[Seen], object]] = {
    "pings": lambda seen: seen.body.count(b": ping\n\n") > TOKENS,
    "crlf": lambda seen: seen.body.count(b"\r\n\r\n") == seen.body.count(b"\n") / 2,
    "no-space": lambda seen: b"data:{" in seen.body and b"data: " not in seen.body,
    "byte-order-mark": lambda seen: seen.body.startswith(b"\xef\xbb\xbfdata:"),
    "two-in-one-read": lambda seen: any(part.count(b"data:") == 2 for part in seen.parts[1:-1]),
    "split-letters": letters_are_split,
    "sse-fields": lambda seen: b"\nid: 7\n" in seen.body,
    "extra-fields": lambda seen: all("system_fingerprint" in chunk for chunk in seen.chunks),
    "usage-null": lambda seen: (
        [chunk.get("usage", 0) is None for chunk in seen.chunks] == [True] * 10 + [False]
    ),
    "usage-on-finish": lambda seen: usages(seen) == [seen.chunks[-1]] and seen.chunks[-1]["choices"],
    "finish-on-text": finish_with_text,
    "all-on-text": lambda seen: finish_with_text(seen) and usages(seen) == [seen.chunks[-1]],
    "role-null": lambda seen: deltas(seen)[0] == {"role": "assistant", "content": None},
    "role-bare": lambda seen: deltas(seen)[0] == {"role": "assistant"},
    "role-with-text": lambda seen: all(delta["role"] and delta["content"] for delta in deltas(seen)[:-1]),
    "reasoning_content": both_reasoning_and_text("reasoning_content"),
    "reasoning": both_reasoning_and_text("reasoning"),
    "tool-calls": lambda seen: sum("tool_calls" in delta for delta in deltas(seen)) == TOKENS,
    "done-with-space": lambda seen: seen.data[-1] == "[DONE] ",
    "close-delimited": ended_by_closing,
    "three-tokens-an-event": lambda seen: (
        not seen.chunks[1].get("usage")
        and [len(d["content"].split()) for d in deltas(seen)[1:-1]] == [3, 3, 2]
    ),
    "three-tokens-counted": lambda seen: (
        [chunk["usage"]["completion_tokens"] for chunk in usages(seen)] == [3, 6, 8, 8]
    ),
}
ELSEWHERE = {"gzip", "gzip-stream", "closes-after-stream", "role-early", "no-metrics"}


def test_every_dialect_is_tried() -> None:
    assert STREAMED.keys() | ELSEWHERE == DIALECTS.keys()


@pytest.mark.parametrize("name", STREAMED)
def test_a_stream_in_a_dialect(streams: dict[str, Seen], name: str) -> None:
    if name != "two-in-one-read":  # two writes may come in one read anyhow
        assert not STREAMED[name](streams[PLAIN]), "the plain engine does it too"
    assert STREAMED[name](streams[name]), streams[name].raw.decode(errors="replace")


@pytest.mark.parametrize(
    "name", [name for name in STREAMED if name not in ("split-letters", "byte-order-mark")]
)
def test_it_says_the_same(streams: dict[str, Seen], name: str) -> None:
    said = ""
    for delta in deltas(streams[name]):
        said += delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or ""
        said += "".join(call["function"]["arguments"] for call in delta.get("tool_calls", []))
    assert said == streams[PLAIN].text
    assert usages(streams[name])[-1]["usage"]["completion_tokens"] == TOKENS


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_whole_answer_says_the_same(answers: dict[str, Seen], name: str) -> None:
    plain, seen = answers[PLAIN].json, answers[name]
    body = gzip.decompress(seen.body) if name == "gzip" else seen.body
    answer = json.loads(body)
    assert ("content-encoding" in seen.headers) == (name == "gzip")
    assert answer["usage"] == plain["usage"]
    text = answer["choices"][0]["message"]["content"]
    assert text.replace("–", "") == plain["choices"][0]["message"]["content"]


def test_a_compressed_stream_still_comes_event_by_event(streams: dict[str, Seen]) -> None:
    seen = streams["gzip-stream"]
    assert seen.headers["content-encoding"] == "gzip"
    assert len(seen.parts) > TOKENS
    lines = gzip.decompress(seen.body).decode().splitlines()
    assert lines[-2:] == ["data: [DONE]", ""]


def test_a_connection_that_promised_to_live_is_closed_behind_a_stream(ports: dict[str, int]) -> None:
    with Client(ports["closes-after-stream"]) as client:
        assert client.chat().status == 200
        seen = client.chat(stream=True)
        assert seen.whole
        assert "connection" not in seen.headers
        assert client.socket.recv(1) == b""


@pytest.mark.parametrize(("name", "generated"), [("role-early", False), (PLAIN, True)])
def test_the_role_chunk_may_come_before_the_prefill(
    ports: dict[str, int], name: str, generated: bool
) -> None:
    with Client(ports[name]) as client:
        client.send_chat(f"Something new for {name}.", max_tokens=500, stream=True)
        before = metric(ports[name], "vllm:generation_tokens_total")
        client.read(until=lambda raw: b'"role"' in raw)
        assert (metric(ports[name], "vllm:generation_tokens_total") > before) == generated


def test_there_may_be_no_metrics(ports: dict[str, int]) -> None:
    with Client(ports["no-metrics"]) as client:
        assert client.get("/metrics").status == 404
        assert client.chat().status == 200


def test_a_profile_may_have_faults_and_dialects_of_its_own(tmp_path: Path) -> None:
    profile = tmp_path / "odd.toml"
    profile.write_text('faults = ["done-missing"]\ndialects = ["pings", "crlf:1"]\n')
    with serving("--profile", str(profile)) as engine, engine.client() as client:
        seen = client.chat(stream=True)
    assert b": ping\r\n" in seen.body
    assert b"[DONE]" not in seen.body
