"""The engine's own record: every request, every event, and token times that follow an absolute schedule."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.simulator.serving import becomes, serving

USAGE = {"include_usage": True}


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    return (
        pd.read_csv(folder / "truth.csv").set_index("request"),
        pd.read_csv(folder / "truth_events.csv"),
    )


def test_every_request_has_its_times_in_order_and_every_event_its_own(tmp_path: Path) -> None:
    with serving("--truth", str(tmp_path)) as engine, engine.client() as client:
        client.chat(id="body", max_tokens=6)
        stream = client.chat(id="stream", max_tokens=6, stream=True, stream_options=USAGE)
    requests, events = read(tmp_path)
    assert list(requests.index) == ["body", "stream"]
    assert list(requests["outcome"]) == ["ok", "ok"]
    assert list(requests["tokens"]) == [6, 6]
    times = requests[["arrived_ns", "first_write_ns", "first_token_ns", "last_token_ns", "end_ns"]]
    streamed = times.loc["stream"]
    assert streamed.is_monotonic_increasing
    body = times.loc["body"]
    assert body["arrived_ns"] < body["first_token_ns"] < body["first_write_ns"] == body["end_ns"]
    written = events[events["request"] == "stream"]
    assert list(written["event"]) == list(range(len(stream.data)))
    assert written["at_ns"].is_monotonic_increasing
    assert written["at_ns"].iloc[1] == streamed["first_token_ns"]


def test_lateness_does_not_add_up(tmp_path: Path) -> None:
    # 300 sleeps, each late by what the machine makes of it: against a schedule only the last one counts.
    costs = ["--set", 'step_s={"1": 0.002}', "--set", "prefill_token_s=0"]
    with serving("--truth", str(tmp_path), *costs) as engine, engine.client() as client:
        client.chat(id="long", max_tokens=301, stream=True)
    requests, _ = read(tmp_path)
    spent_s = (requests["last_token_ns"] - requests["first_token_ns"]).loc["long"] / 1e9
    assert spent_s == pytest.approx(300 * 0.002, rel=0.15)


def test_the_clock_can_run_faster(tmp_path: Path) -> None:
    costs = ["--set", 'step_s={"1": 0.1}', "--time-scale", "20"]
    with serving("--truth", str(tmp_path), *costs) as engine, engine.client() as client:
        client.chat(id="scaled", max_tokens=21, stream=True)
    requests, _ = read(tmp_path)
    spent_s = (requests["last_token_ns"] - requests["first_token_ns"]).loc["scaled"] / 1e9
    assert spent_s == pytest.approx(20 * 0.1 / 20, rel=0.5)


def test_the_width_that_a_request_met_is_kept(tmp_path: Path) -> None:
    with serving("--truth", str(tmp_path), "--width", "2") as engine:
        clients = [engine.client() for _ in range(3)]
        for number, client in enumerate(clients):
            client.send_chat(id=f"{number}", max_tokens=30 * (number + 1))
        for client in clients:
            assert client.read().status == 200
            client.socket.close()
        with engine.client() as client:
            client.chat(id="alone")
    requests, _ = read(tmp_path)
    width = {str(request): number for request, number in requests["width_max"].items()}
    assert width == {"0": 2, "1": 2, "2": 2, "alone": 1}


def test_a_client_that_leaves_is_in_the_record(tmp_path: Path) -> None:
    with serving("--truth", str(tmp_path)) as engine:
        with engine.client() as client:
            client.send_chat(id="leaver", max_tokens=5000, stream=True)
            client.read(until=lambda raw: raw.count(b"data:") >= 3)
        assert becomes(lambda: len((tmp_path / "truth.csv").read_text().splitlines()) == 2)
    requests, _ = read(tmp_path)
    leaver = requests.loc["leaver"]
    assert leaver["outcome"] == "cancelled"
    assert 2 <= leaver["tokens"] < 5000
    assert pd.isna(leaver["end_ns"])
