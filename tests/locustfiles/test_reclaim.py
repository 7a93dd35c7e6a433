"""How many requests a server is busy with, by what it says of itself."""

import json

import pytest

from locustfiles.reclaim import busy_by_loads, busy_by_metrics, busy_by_slots


@pytest.mark.parametrize(
    ("running", "waiting", "tokens", "busy"),
    [(0, 0, 0, 0), (2, 1, 500, 3), (0, 0, 300, 1)],
    ids=["idle", "busy", "reading a prompt"],
)
def test_the_load_of_a_scheduler(running: int, waiting: int, tokens: int, busy: int) -> None:
    load = {"num_running_reqs": running, "num_waiting_reqs": waiting, "num_used_tokens": tokens}
    assert busy_by_loads(json.dumps({"loads": [load]})) == busy


def test_gauges_that_lag_tell_nothing() -> None:
    assert busy_by_metrics("vllm:num_requests_running 2.0\nvllm:num_requests_waiting 1.0\n") == 3
    assert busy_by_metrics("sglang:num_running_reqs 2.0\n") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"loads": 3}', '{"loads": [3]}', "<html>"])
def test_what_is_no_load_tells_nothing(text: str) -> None:
    assert busy_by_loads(text) is None


@pytest.mark.parametrize("text", ["", "{}", "[3]", "<html>"])
def test_what_is_no_list_of_slots_tells_nothing(text: str) -> None:
    assert busy_by_slots(text) is None
