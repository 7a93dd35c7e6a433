"""The whole acceptance as a person runs it, in one process and in several."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.locustfiles.support import Run, outcomes, read_csv, scripted_server

CASES = "single ladder interleave streams disconnect"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The same acceptance, side by side: in one process and with two workers."""
    folder = tmp_path_factory.mktemp("acceptance")
    with (
        scripted_server() as one,
        scripted_server() as two,
        Run(folder / "local", one, "--cases", CASES) as local,
        Run(folder / "spread", two, "--cases", CASES, workers=2) as spread,
    ):
        assert (local.end(), spread.end()) == (0, 0), local.output + spread.output
    return {"local": local, "spread": spread}


@pytest.mark.parametrize("name", ["local", "spread"])
def test_every_case_has_its_rows(runs: dict[str, Run], name: str) -> None:
    rows = runs[name].rows

    assert Counter((row["case"], row["repeat"], row["count"]) for row in rows) == {
        ("single", "0", "1"): 1, ("ladder", "0", "2"): 2, ("ladder", "0", "4"): 4, ("ladder", "0", "8"): 8,
        ("single", "1", "1"): 1, ("ladder", "1", "2"): 2, ("ladder", "1", "4"): 4, ("ladder", "1", "8"): 8,
        ("interleave", "1", "1"): 1, ("interleave", "1", "2"): 2, ("streams", "1", "2"): 2,
        ("disconnect", "1", "1"): 1, ("recover", "1", "1"): 1,
    }  # fmt: skip
    assert outcomes(rows) == {("ok", ""), ("disconnected", "")}
    assert {row["clock"] for row in rows} == {"kernel" if sys.platform == "linux" else "user"}
    assert {row["user"] for row in rows} == {"ChatUser", "StreamingChatUser", "DisconnectingChatUser"}
    assert len({row["request"] for row in rows}) == len(rows)


@pytest.mark.parametrize("name", ["local", "spread"])
def test_every_wave_starts_together_and_says_how_well(runs: dict[str, Run], name: str) -> None:
    widest = [wave for wave in runs[name].conduct["waves"] if wave["count"] == 8]
    slowest_ms = max(float(row["latency_ms"]) for row in runs[name].rows if row["count"] == "8")

    assert len(widest) == 2
    assert all(0 < wave["start_spread_ms"] < slowest_ms / 4 for wave in widest)


@pytest.mark.parametrize("name", ["local", "spread"])
def test_locusts_own_statistics_count_the_same_requests(runs: dict[str, Run], name: str) -> None:
    assert runs[name].locust_total == (len(runs[name].rows), 0)
    conduct = runs[name].conduct
    assert (conduct["status"], conduct["planned"], conduct["sent"], conduct["finished"]) == (
        "complete",
        37,
        37,
        37,
    )


def test_the_same_seed_sends_the_same_bytes_from_any_number_of_processes(runs: dict[str, Run]) -> None:
    local, spread = (
        {row["request"]: row["payload_sha256"] for row in runs[name].rows} for name in ("local", "spread")
    )

    assert local == spread
    assert len(set(local.values())) == len(local)  # no prompt twice: no cache can serve one


def test_rows_name_the_worker_that_sent_them(runs: dict[str, Run]) -> None:
    assert {row["worker"] for row in runs["local"].rows} == {""}
    assert {row["worker"] for row in runs["spread"].rows} == {"w0", "w1"}


def test_a_short_request_comes_half_a_second_behind_the_long_one(runs: dict[str, Run]) -> None:
    long, short = [row for row in runs["local"].rows if row["wave"] == "interleave-r1"]
    if long["request"].endswith("-1"):
        long, short = short, long

    assert int(short["scheduled_ns"]) - int(long["scheduled_ns"]) == 500_000_000
    assert int(short["sent_ns"]) >= int(short["scheduled_ns"])


def test_a_leaver_leaves_after_two_events_and_the_slot_is_seen_to_be_free(runs: dict[str, Run]) -> None:
    (leaver,) = [row for row in runs["local"].rows if row["case"] == "disconnect"]
    (reclaim,) = runs["local"].conduct["reclaims"]

    assert (leaver["outcome"], leaver["events"], leaver["text_events"]) == ("disconnected", "2", "1")
    assert (reclaim["variant"], reclaim["how"]) == ("events", "metrics")
    assert reclaim["reclaim_s"] is not None


def test_streams_keep_the_arrival_of_every_event_and_every_text(runs: dict[str, Run]) -> None:
    arm = runs["local"].arm
    events = [event for event in read_csv(arm / "events.csv") if event["request"] == "streams-2-r1-0"]
    (row,) = [row for row in runs["local"].rows if row["request"] == "streams-2-r1-0"]

    assert [event["kind"] for event in events] == ["role", *["text"] * 32, "usage", "done"]
    assert [int(event["event"]) for event in events] == list(range(35))
    assert (row["events"], row["text_events"], row["completion_tokens"]) == ("35", "32", "32")
    assert (row["token_source"], row["prompt_tokens"], row["role_chunk"]) == ("usage", "100", "1")
    assert row["first_event_ms"] == events[0]["at_ms"]
    assert row["ttft_ms"] == events[1]["at_ms"]
    assert row["last_token_ms"] == events[32]["at_ms"]
    assert '"request": "streams-2-r1-0"' in (arm / "texts.jsonl").read_text()


def test_ways_of_leaving_a_leak_and_the_solo_references(tmp_path: Path) -> None:
    cases = "single disconnect_variants leak isolation"
    arguments = ("--cases", cases, "--warmups", "0", "--width", "4", "--ladder", "4")
    with scripted_server("--width", "4") as server, Run(tmp_path, server, *arguments) as run:
        assert run.end() == 0, run.output

    by_wave = Counter((row["wave"], row["outcome"]) for row in run.rows)
    for variant, bystanders in (("prefill", 1), ("body", 1), ("reset", 1), ("queued", 4)):
        assert by_wave[f"disconnect_{variant}-r1", "disconnected"] == 1
        assert by_wave[f"disconnect_{variant}-r1", "ok"] == bystanders
        assert by_wave[f"recover_{variant}-r1", "ok"] == 1
    (reset,) = [row for row in run.rows if row["request"] == "disconnect_reset-r1-0"]
    assert reset["events"] == "2", "by RST after as many events as by FIN"
    assert by_wave["leak_leavers-r1", "disconnected"] == 2 * 4 + 1
    assert by_wave["leak_before-r1", "ok"] == by_wave["leak_after-r1", "ok"] == 4
    variants = [reclaim["variant"] for reclaim in run.conduct["reclaims"]]
    assert variants == ["prefill", "body", "reset", "queued", "leak"]
    payloads = {row["request"]: row["payload_sha256"] for row in run.rows}
    for i in range(4):
        assert payloads[f"isolation_alone{i}-r1-0"] == payloads[f"isolation-4-r1-{i}"]
