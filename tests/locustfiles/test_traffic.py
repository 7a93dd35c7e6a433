"""Sustained load from real Locust processes."""

import statistics
from collections import Counter
from contextlib import ExitStack

import psutil
import pytest

from tests.locustfiles.support import Run, outcomes, scripted_server

BRIEFLY = ("--hold", "3", "--settle", "1")
CLOSED = ("--load", "closed", "--levels", "4 2", "--mix", "chat=1 stream=1", *BRIEFLY)
OPEN = ("--load", "poisson", "--levels", "40", "--mix", "chat=1 stream=2 leave=1", *BRIEFLY)
STALLED = ("--hold", "4", "--settle", "0", "--mix", "chat=1")
WIDE = ("--width", "64")
STALLING = (*WIDE, "--stall-at", "30", "--stall-s", "1.5")
# Name: the server's arguments, Locust's arguments, workers.
ASKED: dict[str, tuple[tuple[str, ...], tuple[str, ...], int]] = {
    "closed": ((), CLOSED, 0),
    "closed, 2 workers": ((), CLOSED, 2),
    "open": (WIDE, OPEN, 0),
    "open, 2 workers": (WIDE, OPEN, 2),
    "open, stalled": (STALLING, ("--load", "constant", "--levels", "40", *STALLED), 0),
    "closed, stalled": (STALLING, ("--load", "closed", "--levels", "4", *STALLED), 0),
    "a worker killed": (
        (*WIDE, "--token-ms", "20"),
        ("--load", "constant", "--levels", "20", "--hold", "9", "--settle", "0", "--mix", "stream=1"),
        2,
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """All of them side by side, since they do little but wait. Of one, a worker is killed on the way."""
    folder = tmp_path_factory.mktemp("traffic")
    with ExitStack() as stack:
        started = {}
        for name, (server, asked, workers) in ASKED.items():
            host = stack.enter_context(scripted_server(*server))
            run = Run(folder / name, host, *asked, workers=workers, file="traffic")
            started[name] = stack.enter_context(run)
        doomed = started["a worker killed"]
        doomed.until(lambda run: len(run.rows) > 30)
        psutil.Process(doomed.process.pid).children()[0].kill()
        for run in started.values():
            assert run.end() == (run is doomed), run.output
    return started


def due_latency_ms(row: dict[str, str]) -> float:
    """From when it was due to its end."""
    return float(row["latency_ms"]) + (int(row["sent_ns"]) - int(row["scheduled_ns"])) / 1e6


@pytest.mark.parametrize("name", ["closed", "closed, 2 workers"])
def test_a_closed_loop_goes_through_its_levels(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    waves = Counter(row["wave"] for row in run.rows)

    names = {f"traffic-closed-{users}-r1{settling}" for users in (4, 2) for settling in ("", "-settling")}
    assert waves.keys() == names
    assert waves["traffic-closed-4-r1"] > 1.3 * waves["traffic-closed-2-r1"]
    assert outcomes(run.rows) == {("ok", "")}
    assert run.locust_total == (len(run.rows), 0)
    assert {row["repeat"] for row in run.rows if row["wave"].endswith("settling")} == {"0"}


def test_an_open_loop_keeps_to_its_schedule_whoever_sends_it(runs: dict[str, Run]) -> None:
    one, two = runs["open"], runs["open, 2 workers"]
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


def test_only_an_open_loop_shows_what_a_stall_does_to_those_who_come_meanwhile(runs: dict[str, Run]) -> None:
    """The server stands still for 1.5 s. By the closed loop's figures 4 requests were slow, one a user."""
    in_open, in_closed = (
        [due_latency_ms(row) for row in runs[name].rows] for name in ("open, stalled", "closed, stalled")
    )

    assert sum(latency > 500 for latency in in_closed) == 4
    assert sum(latency > 500 for latency in in_open) > 20  # 40 a second for 1 of the 1.5 s
    assert statistics.mean(in_open) > 2 * statistics.mean(in_closed)


def test_a_killed_worker_is_missed_by_exactly_what_it_had_in_flight(runs: dict[str, Run]) -> None:
    run = runs["a worker killed"]
    conduct, rows = run.conduct, run.rows
    assert outcomes(rows) == {("ok", "")}
    assert conduct["lost"] > 0
    assert f"died with {conduct['lost']} requests in flight" in run.output
    # What came before its death was noticed is not sent; afterwards the other worker sends all.
    assert conduct["sent"] == len(rows) < conduct["planned"] - conduct["lost"]
    begin_ns = min(int(row["scheduled_ns"]) for row in rows)
    late = [row for row in rows if (int(row["scheduled_ns"]) - begin_ns) / 1e9 > 8]
    assert {row["worker"] for row in late} in ({"w0"}, {"w1"})
    assert len(late) == pytest.approx(20, abs=2)
