"""What each fault does to one answer, byte by byte. Whether the verdicts find it: benchmarks/faults.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from launchers.simulator.catalogue import FAULTS
from tests.simulator.serving import Client, Seen, becomes, serving, serving_many
from tests.simulator.test_engine_faults import TRIED_THERE

PLAIN = "plain"
TOKENS = 8
SILENCE_S = 1.0


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    with serving_many({PLAIN: {}} | {name: {"fault": name} for name in FAULTS}) as ports:
        yield ports


def ask_all(ports: dict[str, int], *, stream: bool) -> dict[str, Seen]:
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}

    def ask(port: int) -> Seen:
        with Client(port) as client:
            return client.chat(max_tokens=TOKENS, silence_s=SILENCE_S, **options)

    wanted = {name: port for name, port in ports.items() if name not in ("exits", "refused")}
    with ThreadPoolExecutor(len(wanted)) as pool:
        return dict(zip(wanted, pool.map(ask, wanted.values()), strict=True))


@pytest.fixture(scope="module")
def streams(ports: dict[str, int]) -> dict[str, Seen]:
    return ask_all(ports, stream=True)


@pytest.fixture(scope="module")
def answers(ports: dict[str, int]) -> dict[str, Seen]:
    return ask_all(ports, stream=False)


def count(pattern: str) -> Callable[[Seen], int]:
    return lambda seen: len(re.findall(pattern.encode(), seen.body))


def status(code: int) -> Callable[[Seen], bool]:
    return lambda seen: seen.status == code


def nothing(seen: Seen) -> bool:
    return seen.raw == b""


USAGE = '"usage": {"prompt_tokens": [1-9]'
FINISH = '"finish_reason": "'
IN_BOTH: dict[str, Callable[[Seen], object]] = {
    "http-400": status(400),
    "http-429": lambda seen: seen.status == 429 and seen.headers["retry-after"] == "1",
    "http-500": status(500),
    "http-503": status(503),
    "reset": nothing,
    "never-answers": nothing,
    "early-eos": lambda seen: (
        count('"finish_reason": "stop"')(seen) and count('"completion_tokens": 4')(seen)
    ),
    "usage-missing": lambda seen: seen.whole and not count(USAGE)(seen),
    "usage-zero": count('"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0'),
    "usage-total": count('"prompt_tokens": 11, "completion_tokens": 8, "total_tokens": 20'),
    "wrong-object": count('"object": "text_completion"'),
    "finish-unknown": count('"finish_reason": "weary"'),
    "finish-timeout": count('"finish_reason": "timeout"'),
}
IN_STREAMS: dict[str, Callable[[Seen], object]] = {
    "done-missing": lambda seen: seen.whole and not count("DONE")(seen),
    "role-missing": lambda seen: seen.whole and not count('"role"')(seen),
    "finish-missing": lambda seen: seen.whole and not count(FINISH)(seen),
    "done-twice": lambda seen: count("DONE")(seen) == 2,
    "finish-twice": lambda seen: count(FINISH)(seen) == 2,
    "data-after-done": lambda seen: seen.data[-2] == "[DONE]" and seen.data[-1] != "[DONE]",
    "bad-json": lambda seen: 'data: {"id": "x", "choices": [\n\n' in seen.body.decode(),
    "error-object": count('data: {"error": {"message"'),
    "error-event": count("event: error\ndata: "),
    "not-sse": count("\n\nTraceback"),
    "cut-mid-event": lambda seen: seen.status == 200 and not seen.whole and seen.raw[-2:] != b"\r\n",
    "ends-mid-event": lambda seen: seen.whole and not seen.body.endswith(b"\n\n"),
    "stalls": lambda seen: not seen.whole and len(seen.data) == 4,
    "ids-shared": count('"id": "chatcmpl-same"'),
}
IN_BODIES: dict[str, Callable[[Seen], object]] = {
    "body-not-json": lambda seen: seen.whole and not seen.body.endswith(b"}"),
}
BELOW = {"refused", "keep-alive-broken", "exits", "chunks-swapped", "text-mixed", "stream-differs"}


def test_every_fault_is_tried() -> None:
    assert IN_BOTH.keys() | IN_STREAMS.keys() | IN_BODIES.keys() | BELOW | TRIED_THERE == FAULTS.keys()


@pytest.mark.parametrize("name", [*IN_BOTH, *IN_STREAMS])
def test_a_stream_with_a_fault(streams: dict[str, Seen], name: str) -> None:
    shows = {**IN_BOTH, **IN_STREAMS}[name]
    assert not shows(streams[PLAIN]), "the plain engine does it too"
    assert shows(streams[name]), streams[name].raw.decode()


@pytest.mark.parametrize("name", [*IN_BOTH, *IN_BODIES])
def test_a_whole_answer_with_a_fault(answers: dict[str, Seen], name: str) -> None:
    shows = {**IN_BOTH, **IN_BODIES}[name]
    assert not shows(answers[PLAIN]), "the plain engine does it too"
    assert shows(answers[name]), answers[name].raw.decode()


@pytest.mark.parametrize("name", sorted(FAULTS.keys() - {"exits", "refused"}))
def test_health_stays_good(ports: dict[str, int], streams: dict[str, Seen], name: str) -> None:
    with Client(ports[name]) as client:
        assert client.get("/health").status == 200


def test_a_share_of_the_requests_is_always_the_same_share() -> None:
    with serving("--fault", "http-500:0.3") as engine, engine.client() as client:
        rounds = [[client.chat(id=f"r{i}", max_tokens=1).status for i in range(60)] for _ in range(2)]
    assert rounds[0] == rounds[1]
    assert 6 <= rounds[0].count(500) <= 30


def test_two_faults_at_once() -> None:
    with serving("--fault", "done-missing", "--fault", "role-missing") as engine, engine.client() as client:
        seen = client.chat(stream=True)
    assert IN_STREAMS["done-missing"](seen)
    assert IN_STREAMS["role-missing"](seen)


def test_refused_connections_come_back_after_a_while(ports: dict[str, int]) -> None:
    def listens() -> bool:
        try:
            Client(ports["refused"]).socket.close()
        except ConnectionRefusedError:
            return False
        return True

    with Client(ports["refused"]) as client:
        assert client.chat().raw == b""
    assert becomes(lambda: not listens())
    assert becomes(listens)


def test_a_kept_connection_is_closed_under_the_second_request(ports: dict[str, int]) -> None:
    with Client(ports["keep-alive-broken"]) as client:
        first = client.chat()
        assert first.status == 200
        assert "connection" not in first.headers
        assert client.chat().raw == b""


def test_the_engine_dies_under_load() -> None:
    with serving("--fault", "exits") as engine, engine.client() as client:
        assert not client.chat(max_tokens=500, stream=True).whole
        assert engine.process.wait(20) == 3


def test_one_streams_chunk_comes_in_another_stream(ports: dict[str, int]) -> None:
    with Client(ports["chunks-swapped"]) as one, Client(ports["chunks-swapped"]) as two:
        for client, id in ((one, "one"), (two, "two")):
            client.send_chat(f"Prompt {id}.", id=id, stream=True)
        ids = [{chunk["id"] for chunk in client.read().chunks} for client in (one, two)]
    assert ids == [{"chatcmpl-one", "chatcmpl-two"}] * 2


def test_beside_another_request_the_text_goes_on_with_that_ones(ports: dict[str, int]) -> None:
    port = ports["text-mixed"]
    with Client(port) as one, Client(port) as two:
        alone = [client.chat(f"Prompt {i}.", max_tokens=12).text for i, client in enumerate((one, two))]
        for i, client in enumerate((one, two)):
            client.send_chat(f"Prompt {i}.", max_tokens=12)
        together = [client.read().text for client in (one, two)]
    assert together[0] == alone[0]
    assert together[1].split()[:2] == alone[1].split()[:2]
    assert together[1].split()[2:] == alone[0].split()[2:]


def test_a_stream_says_something_else(ports: dict[str, int]) -> None:
    with Client(ports["stream-differs"]) as client:
        assert client.chat(stream=True).text != client.chat().text
