"""Clients that leave: while served, queued, or waiting for a whole answer, politely or not."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from tests.simulator.serving import Client, Engine, becomes, serving

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
LONG = 100_000


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with serving("--width", "1") as engine:
        yield engine


def leave(client: Client, how: str) -> None:
    if how == "RST":
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("how", ["FIN", "RST"])
def test_a_running_request_is_cancelled_when_its_client_leaves(
    engine: Engine, stream: bool, how: str
) -> None:
    client = engine.client()
    client.send_chat(max_tokens=LONG, stream=stream)
    assert becomes(lambda: engine.metric(RUNNING) == 1)
    leave(client, how)
    assert becomes(lambda: engine.metric(RUNNING) == 0)
    with engine.client() as after:
        assert after.chat().status == 200


def test_a_queued_request_is_taken_out_of_the_queue_when_its_client_leaves(engine: Engine) -> None:
    served, queued = engine.client(), engine.client()
    served.send_chat(max_tokens=LONG, stream=True)
    assert becomes(lambda: engine.metric(RUNNING) == 1)
    queued.send_chat(max_tokens=LONG, stream=True)
    assert becomes(lambda: engine.metric(WAITING) == 1)
    leave(queued, "FIN")
    assert becomes(lambda: engine.metric(WAITING) == 0)
    assert engine.metric(RUNNING) == 1
    leave(served, "FIN")
    assert becomes(lambda: engine.metric(RUNNING) == 0)


def test_an_engine_may_run_an_abandoned_request_to_its_end() -> None:
    with serving("--set", "cancels_on_disconnect=false") as engine:
        client = engine.client()
        client.send_chat(max_tokens=60, stream=True)
        client.read(until=lambda raw: b"data:" in raw)
        leave(client, "RST")
        assert becomes(lambda: engine.metric(RUNNING) == 0)
        assert engine.metric("vllm:generation_tokens_total") == 60
