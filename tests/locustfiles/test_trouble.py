"""Servers that fail, runs that are stopped, workers that die: each named, every row kept."""

import os
import signal
from contextlib import ExitStack

import psutil
import pytest

from tests.locustfiles.support import Run, outcomes, running, scripted_server

SLOW = ("--token-ms", "100")
ONE_PASS = ("--warmups", "0", "--cases")
HANGING = (*ONE_PASS, "ladder", "--ladder", "4", "--repeats", "2", "--deadline", "1")
# Name: what the server does, Locust's arguments, workers.
FAILING: dict[str, tuple[tuple[str, ...], tuple[str, ...], int]] = {
    "bad answers": (
        ("--script", "streams-2-r1-1=no-done", "single-r1=500"), (*ONE_PASS, "single streams"), 0
    ),
    "hang": (("--script", "ladder-4-r1=hang"), HANGING, 0),
    "hang, 2 workers": (("--script", "ladder-4-r1=hang"), HANGING, 2),
    "a worker killed": (
        SLOW, (*ONE_PASS, "ladder", "--ladder", "2 8", "--repeats", "2", "--max-tokens", "10"), 2
    ),
}  # fmt: skip
NOBODY_THERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Run, int]]:
    """All of them side by side, since they do little but wait, and their exit codes."""
    folder = tmp_path_factory.mktemp("failed")
    with ExitStack() as stack:
        runs = {}
        for name, (does, asked, workers) in FAILING.items():
            server = stack.enter_context(scripted_server(*does))
            runs[name] = stack.enter_context(Run(folder / name, server, *asked, workers=workers))
        asked = (*ONE_PASS, "single", "--repeats", "9")
        runs["nobody there"] = stack.enter_context(Run(folder / "nobody", NOBODY_THERE, *asked))
        doomed = runs["a worker killed"]
        doomed.until(lambda run: len(run.rows) >= 2)
        doomed.until(lambda _: running(server) == 8)  # the last server begun is its own
        psutil.Process(doomed.process.pid).children()[0].kill()
        return {name: (run, run.end()) for name, run in runs.items()}


def test_a_failed_response_is_a_failure_with_its_code_to_locust_too(
    failed: dict[str, tuple[Run, int]],
) -> None:
    run, exit_code = failed["bad answers"]

    assert exit_code == 1, run.output
    rows = {row["request"]: row for row in run.rows}
    assert outcomes(list(rows.values())) == {("failed", "http.status"), ("ok", ""), ("failed", "stream.done")}
    assert rows["single-r1-0"]["detail"].startswith("HTTP 500: ")
    assert run.locust_total == (3, 2)
    failures = (run.arm.parent / "locust_failures.csv").read_text()
    assert "stream.done" in failures
    assert "http.status" in failures


@pytest.mark.parametrize("name", ["hang", "hang, 2 workers"])
def test_a_server_that_never_answers_is_a_hang(failed: dict[str, tuple[Run, int]], name: str) -> None:
    run, exit_code = failed[name]

    assert exit_code == 3, run.output
    assert outcomes(run.rows) == {("failed", "engine.hang")}
    assert (run.conduct["status"], len(run.rows)) == ("hang", 4)  # the second repeat is not even tried


def test_a_server_that_is_not_there_ends_the_run_early(failed: dict[str, tuple[Run, int]]) -> None:
    run, exit_code = failed["nobody there"]

    assert exit_code == 1, run.output
    assert outcomes(run.rows) == {("failed", "http.connection")}
    assert (run.conduct["status"], len(run.rows)) == ("stopped", 3)
    assert "Traceback" not in run.output


# Signal, whether to all processes, number of workers.
STOPS = {
    "Ctrl-C": (signal.SIGINT, False, 0),
    "TERM": (signal.SIGTERM, False, 0),
    "Ctrl-C with workers": (signal.SIGINT, True, 2),
    "TERM to the master of workers": (signal.SIGTERM, False, 2),
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Run, int]]:
    """Runs stopped in the middle of a wave of 8, and their exit codes."""
    folder = tmp_path_factory.mktemp("stopped")
    asked = ("--warmups", "0", "--cases", "single ladder", "--ladder", "8")
    with ExitStack() as stack:
        begun = []
        for name, (which, to_all, workers) in STOPS.items():
            server = stack.enter_context(scripted_server(*SLOW))
            run = stack.enter_context(Run(folder / name, server, *asked, workers=workers))
            begun.append((name, run, server, which, to_all))
        for _, run, server, which, to_all in begun:
            run.until(lambda run: len(run.rows) == 1)
            run.until(lambda _, server=server: running(server) == 8)
            if to_all:
                os.killpg(run.process.pid, which)
            else:
                run.process.send_signal(which)
        return {name: (run, run.end()) for name, run, *_ in begun}


@pytest.mark.parametrize("name", STOPS)
def test_a_run_stopped_by_a_signal_keeps_what_is_in_flight(
    stopped: dict[str, tuple[Run, int]], name: str
) -> None:
    run, exit_code = stopped[name]

    assert exit_code == 130, run.output
    assert [(row["outcome"], row["wave"]) for row in run.rows] == [
        ("ok", "single-r1"), *[("unfinished", "ladder-8-r1")] * 8
    ]  # fmt: skip
    conduct = run.conduct
    assert (conduct["status"], conduct["sent"], conduct["unfinished"], conduct["lost"]) == (
        "stopped",
        9,
        8,
        0,
    )


def test_a_worker_killed_in_a_wave_is_counted_and_the_others_go_on(
    failed: dict[str, tuple[Run, int]],
) -> None:
    run, exit_code = failed["a worker killed"]

    assert exit_code == 1, run.output
    lost = [row for row in run.rows if row["outcome"] == "unfinished"]
    assert {row["detail"] for row in lost} == {"its worker died"}
    assert {row["wave"] for row in lost} == {"ladder-8-r1"}
    assert len(run.rows) == run.conduct["planned"] == 20
    assert run.conduct["lost"] == len(lost) == 4
    assert outcomes([row for row in run.rows if row["repeat"] == "2"]) == {("ok", "")}
