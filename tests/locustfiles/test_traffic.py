"""Sustained load from real Locust processes."""

import statistics
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.locustfiles.support import Run, outcomes, scripted_server

BRIEFLY = ("--hold", "3", "--settle", "1")


def due_latency_ms(row: dict[str, str]) -> float:
    """From when it was due to its end."""
    return float(row["latency_ms"]) + (int(row["sent_ns"]) - int(row["scheduled_ns"])) / 1e6


@pytest.mark.parametrize("workers", [0, 2])
def test_a_closed_loop_goes_through_its_levels(tmp_path: Path, workers: int) -> None:
    asked = ("--load", "closed", "--levels", "4 2", "--mix", "chat=1 stream=1")
    with (
        scripted_server() as server,
        Run(tmp_path, server, *asked, *BRIEFLY, workers=workers, file="traffic") as run,
    ):
        assert run.end() == 0, run.output

    waves = Counter(row["wave"] for row in run.rows)
    names = {f"traffic-closed-{users}-r1{settling}" for users in (4, 2) for settling in ("", "-settling")}
    assert waves.keys() == names
    assert waves["traffic-closed-4-r1"] > 1.3 * waves["traffic-closed-2-r1"]
    assert outcomes(run.rows) == {("ok", "")}
    assert run.locust_total == (len(run.rows), 0)
    assert {row["repeat"] for row in run.rows if row["wave"].endswith("settling")} == {"0"}


def test_an_open_loop_keeps_to_its_schedule_whoever_sends_it(tmp_path: Path) -> None:
    asked = ("--load", "poisson", "--levels", "40", "--mix", "chat=1 stream=2 leave=1")
    with scripted_server("--width", "64") as server:
        with Run(tmp_path / "one", server, *asked, *BRIEFLY, file="traffic") as one:
            assert one.end() == 0, one.output
        with Run(tmp_path / "two", server, *asked, *BRIEFLY, file="traffic", workers=2) as two:
            assert two.end() == 0, two.output

    by_request = [{row["request"]: row for row in run.rows} for run in (one, two)]
    assert by_request[0].keys() == by_request[1].keys()
    assert all(
        row["payload_sha256"] == by_request[1][name]["payload_sha256"] for name, row in by_request[0].items()
    )
    for rows in by_request:
        first_ns = min(int(row["scheduled_ns"]) for row in rows.values())
        due = sorted((int(row["scheduled_ns"]) - first_ns) / 1e9 for row in rows.values())
        assert due[-1] == pytest.approx(3, abs=0.5)
    assert {row["worker"] for row in by_request[1].values()} == {"w0", "w1"}
    conduct = two.conduct
    assert (conduct["status"], conduct["planned"], conduct["sent"]) == (
        "complete",
        len(two.rows),
        len(two.rows),
    )


def test_only_an_open_loop_shows_what_a_stall_does_to_those_who_come_meanwhile(tmp_path: Path) -> None:
    """The server stands still for 1.5 s. By the closed loop's figures 4 requests were slow, one a user."""
    stall = ("--width", "64", "--stall-at", "30", "--stall-s", "1.5")
    latencies = []
    for load, level in (("constant", "40"), ("closed", "4")):
        asked = ("--load", load, "--levels", level, "--hold", "4", "--settle", "0", "--mix", "chat=1")
        with scripted_server(*stall) as server, Run(tmp_path / load, server, *asked, file="traffic") as run:
            assert run.end() == 0, run.output
        latencies.append([due_latency_ms(row) for row in run.rows])

    in_open, in_closed = (sum(latency > 200 for latency in found) for found in latencies)
    assert in_closed == 4
    assert in_open > 30  # 40 a second for 1.3 of the 1.5 s
    assert statistics.mean(latencies[0]) > 2 * statistics.mean(latencies[1])


def test_a_worker_killed_in_traffic_is_missed_by_exactly_what_it_had_in_flight(tmp_path: Path) -> None:
    asked = ("--load", "constant", "--levels", "20", "--hold", "10", "--settle", "0", "--mix", "stream=1")
    with (
        scripted_server("--width", "64", "--token-ms", "20") as server,
        Run(tmp_path, server, *asked, workers=2, file="traffic") as run,
    ):
        run.until(lambda run: len(run.rows) > 30)
        psutil.Process(run.process.pid).children()[0].kill()
        assert run.end() == 1, run.output

    conduct, rows = run.conduct, run.rows
    assert outcomes(rows) == {("ok", "")}
    assert conduct["lost"] > 0
    assert f"died with {conduct['lost']} requests in flight" in run.output
    # What came before its death was noticed is not sent; afterwards the other worker sends all.
    assert conduct["sent"] == len(rows) < conduct["planned"] - conduct["lost"]
    begin_ns = min(int(row["scheduled_ns"]) for row in rows)
    late = [row for row in rows if (int(row["scheduled_ns"]) - begin_ns) / 1e9 > 9]
    assert {row["worker"] for row in late} in ({"w0"}, {"w1"})
    assert len(late) == pytest.approx(20, abs=2)
