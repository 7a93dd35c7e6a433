"""Faults of the scheduler: widths that are not what was asked for, and what goes wrong when clients leave."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.simulator.serving import Client, Engine, becomes, serving

TRIED_THERE = {
    "serial-batches",
    "batch-serialises",
    "width-clamped",
    "width-narrowed",
    "prefix-cache",
    "prefix-cache-untold",
    "prefix-cache-full",
    "disconnect-ignored",
    "disconnect-ignored-untold",
    "disconnect-of-body-ignored",
    "disconnect-in-queue-ignored",
    "disconnect-in-prefill-ignored",
    "slot-leaked",
    "bystander-aborted",
    "bystander-aborted-by-queued",
    "disconnect-breaks-next",
}
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
LONG = 50_000
AT_ONCE = 8


def at_once(engine: Engine) -> int:
    """How many of eight long requests run together."""
    with ExitStack() as stack:
        for number in range(AT_ONCE):
            client = stack.enter_context(engine.client())
            client.send_chat(id=f"{number}", max_tokens=LONG, stream=True)
        assert becomes(lambda: engine.metric(RUNNING) + engine.metric(WAITING) == AT_ONCE)
        return int(engine.metric(RUNNING))


def running_stream(engine: Engine, id: str) -> Client:
    """A client whose long stream has begun."""
    client = engine.client()
    client.send_chat(f"Prompt {id}.", id=id, max_tokens=LONG, stream=True)
    client.read(until=lambda raw: raw.count(b"data:") >= 2)
    return client


def ended(client: Client) -> bool:
    """Whether its stream brings no more tokens."""
    seen = client.read(silence_s=1.0, until=lambda raw: raw.count(b"data:") >= 20)
    return seen.raw.count(b"data:") < 20


@pytest.mark.parametrize(
    ("fault", "mode", "width", "told"),
    [
        (None, "batch", 8, 8),
        (None, "serial", 1, 1),
        ("serial-batches", "serial", 8, 1),
        ("batch-serialises", "batch", 1, 8),
        ("width-clamped", "batch", 4, 4),
        ("width-narrowed", "batch", 4, 8),
    ],
)
def test_the_true_width_and_what_the_log_says_of_it(
    fault: str | None, mode: str, width: int, told: int
) -> None:
    options = ["--fault", fault] if fault else []
    with serving("--mode", mode, *options) as engine:
        assert at_once(engine) == width
        assert f"batch width {told}, prefill budget 4096\n" in engine.log


def test_a_cache_that_was_left_on() -> None:
    words = " ".join(f"word{i}" for i in range(50))
    with serving("--fault", "prefix-cache") as engine, engine.client() as client:
        spared = [
            client.chat(words).json["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(2)
        ]
    assert spared == [0, 48]


def test_a_cache_that_has_seen_every_prompt_before() -> None:
    with serving("--fault", "prefix-cache-full") as engine, engine.client() as client:
        usage = client.chat(" ".join(f"word{i}" for i in range(50))).json["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 48


def test_a_cache_that_nobody_counts_shows_in_the_metrics_only() -> None:
    with serving("--fault", "prefix-cache-untold") as engine, engine.client() as client:
        words = " ".join(f"word{i}" for i in range(50))
        usages = [client.chat(words).json["usage"] for _ in range(2)]
        assert engine.metric("vllm:prefix_cache_hits_total") == 48
    assert [usage.get("prompt_tokens_details") for usage in usages] == [None, None]


def test_without_metrics_a_client_that_leaves_goes_unnoticed_too(tmp_path: Path) -> None:
    with serving("--fault", "disconnect-ignored-untold", "--truth", str(tmp_path)) as engine:
        client = engine.client()
        client.send_chat(id="leaver", max_tokens=60, stream=True)
        client.read(until=lambda raw: raw.count(b"data:") >= 2)
        client.socket.close()
        with engine.client() as other:
            assert other.get("/metrics").status == 404
        assert becomes(lambda: ",60," in (tmp_path / "truth.csv").read_text())


def test_a_client_that_leaves_the_queue_goes_unnoticed() -> None:
    with serving("--fault", "disconnect-in-queue-ignored", "--width", "1") as engine:
        served, queued = running_stream(engine, "served"), engine.client()
        queued.send_chat(id="queued", max_tokens=LONG, stream=True)
        assert becomes(lambda: engine.metric(WAITING) == 1)
        queued.socket.close()
        served.socket.close()
        generated = engine.metric("vllm:generation_tokens_total")
        assert becomes(lambda: engine.metric("vllm:generation_tokens_total") > generated + 20)


@pytest.mark.parametrize(("stream", "left"), [(True, 0), (False, 1)])
def test_a_client_that_leaves_goes_unnoticed_unless_it_streams(stream: bool, left: int) -> None:
    with serving("--fault", "disconnect-of-body-ignored") as engine:
        client = engine.client()
        client.send_chat(id="leaver", max_tokens=LONG, stream=stream)
        assert becomes(lambda: engine.metric("vllm:generation_tokens_total") > 2)
        client.socket.close()
        generated = engine.metric("vllm:generation_tokens_total")
        if left:
            assert becomes(lambda: engine.metric("vllm:generation_tokens_total") > generated + 20)
        else:
            assert becomes(lambda: engine.metric(RUNNING) == 0)


def test_a_client_that_leaves_goes_unnoticed() -> None:
    with serving("--fault", "disconnect-ignored") as engine:
        running_stream(engine, "leaver").socket.close()
        with engine.client() as client:
            assert client.chat().status == 200
        assert engine.metric(RUNNING) == 1


def test_a_client_that_leaves_goes_unnoticed_only_before_its_first_token() -> None:
    options = ["--fault", "disconnect-in-prefill-ignored", "--set", "prefill_s=0.3"]
    with serving(*options) as engine:
        running_stream(engine, "late").socket.close()
        assert becomes(lambda: engine.metric(RUNNING) == 0)
        client = engine.client()
        client.send_chat(id="early", max_tokens=LONG, stream=True)
        assert becomes(lambda: engine.metric(RUNNING) == 1)
        client.socket.close()
        generated = engine.metric("vllm:generation_tokens_total")
        assert becomes(lambda: engine.metric("vllm:generation_tokens_total") > generated + 20)


def test_every_client_that_leaves_takes_its_slot_along_but_the_last_slot_stays() -> None:
    with serving("--fault", "slot-leaked", "--width", "3") as engine:
        widths = [at_once(engine)]  # its eight leave again
        assert becomes(lambda: engine.metric(RUNNING) + engine.metric(WAITING) == 0)
        widths.append(at_once(engine))
    assert widths == [3, 1]


def test_another_clients_request_ends_when_one_leaves() -> None:
    with serving("--fault", "bystander-aborted") as engine:
        bystander, leaver = running_stream(engine, "bystander"), running_stream(engine, "leaver")
        leaver.socket.close()
        assert ended(bystander)


def test_another_clients_request_ends_when_one_leaves_from_the_queue() -> None:
    options = ["--fault", "bystander-aborted-by-queued", "--width", "2"]
    with serving(*options) as engine:
        bystander, leaver = running_stream(engine, "bystander"), running_stream(engine, "leaver")
        leaver.socket.close()
        assert not ended(bystander)
        other, queued = running_stream(engine, "other"), engine.client()
        queued.send_chat(id="queued", max_tokens=LONG)
        assert becomes(lambda: engine.metric(WAITING) == 1)
        queued.socket.close()
        assert ended(bystander) != ended(other)


def test_the_next_request_after_one_that_left_fails() -> None:
    with serving("--fault", "disconnect-breaks-next") as engine, engine.client() as client:
        assert client.chat().status == 200
        running_stream(engine, "leaver").socket.close()
        assert becomes(lambda: engine.metric(RUNNING) == 0)
        assert [client.chat().status for _ in range(2)] == [500, 200]
