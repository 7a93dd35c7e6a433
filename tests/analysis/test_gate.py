"""The gate, JUnit and Locust's own files: what a CI system reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from junitparser import JUnitXml

from analysis import RunError, gate, junit, load, read_locust
from tests.analysis.made_run import Engine, make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, speed, seed, repeats in (
        ("baseline", 1.0, 1, 8), ("same", 1.0, 2, 8), ("slower", 1.12, 3, 8), ("little", 1.03, 4, 8),
        ("once", 1.5, 5, 1),
    ):  # fmt: skip
        make_run(folder / name, {"a": Engine(speed=speed)}, repeats=repeats, seed=seed)
    return folder


def test_an_unchanged_run_passes(runs: Path) -> None:
    found = gate(load(runs / "same"), load(runs / "baseline"), "5%")
    assert found.passed
    assert "passed" in found.comment


def test_a_slower_run_fails_only_beyond_the_allowed_change(runs: Path) -> None:
    slower, baseline = load(runs / "slower"), load(runs / "baseline")
    found = gate(slower, baseline, "5%")
    assert not found.passed
    assert all(v["status"] == "fail" for v in found.verdicts)
    assert "a-batch, n = 8" in found.comment
    assert gate(slower, baseline, "20%").passed


def test_a_change_within_the_allowed_one_passes(runs: Path) -> None:
    assert gate(load(runs / "little"), load(runs / "baseline"), 0.05).passed


def test_one_run_has_no_interval_and_cannot_fail(runs: Path) -> None:
    found = gate(load(runs / "once"), load(runs / "baseline"), "5%")
    assert found.passed
    assert {v["status"] for v in found.verdicts} == {"warn"}


def test_the_gate_writes_junit(runs: Path, tmp_path: Path) -> None:
    gate(load(runs / "slower"), load(runs / "baseline"), "5%", junit=tmp_path / "gate.xml")
    document = JUnitXml.fromfile(str(tmp_path / "gate.xml"))
    assert document.failures == document.tests == 8


@pytest.mark.parametrize("text", ["", "five", "-1%", "5 percent"])
def test_a_change_that_is_no_share_is_refused(runs: Path, text: str) -> None:
    run = load(runs / "same")
    with pytest.raises(RunError, match="5%"):
        gate(run, run, text)


def test_runs_with_nothing_in_common_are_refused(runs: Path, tmp_path: Path) -> None:
    other = load(make_run(tmp_path, {"other": Engine()}, repeats=1))
    with pytest.raises(RunError, match="in common"):
        gate(other, load(runs / "baseline"))


def test_every_verdict_is_a_test_case(runs: Path, tmp_path: Path) -> None:
    document = JUnitXml.fromfile(str(junit(load(runs / "same"), tmp_path / "deep" / "verdicts.xml")))
    names = {suite.name: [case.name for case in suite] for suite in document}
    assert list(names) == ["a-batch", "a-serial", "between arms"]
    assert "stream.done" in names["a-batch"]
    assert document.failures == 0
    assert document.skipped > 0


PERCENTILES = "50%,66%,75%,80%,90%,95%,98%,99%,99.9%,99.99%,100%"
TIMES = "120,130,140,150,200,250,300,400,410,410,410"
STATS = f"""Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,\
Min Response Time,Max Response Time,Average Content Size,Requests/s,Failures/s,{PERCENTILES}
GET,/,90,2,120,131.5,80,410,12,9.0,0.2,{TIMES}
,Aggregated,90,2,120,131.5,80,410,12,9.0,0.2,{TIMES}
"""
HISTORY = f"""Timestamp,User Count,Type,Name,Requests/s,Failures/s,{PERCENTILES},Total Request Count
1700000000,0,,Aggregated,0,0,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,0
1700000010,5,,Aggregated,9,0,{TIMES},90
"""
FAILURES = "Method,Name,Error,Occurrences,First Seen,Last Seen\nGET,/,\"HTTPError('500')\",2,-,-\n"


def test_files_of_any_locust_run_become_frames_and_a_plain_summary(tmp_path: Path) -> None:
    for kind, text in (("stats", STATS), ("stats_history", HISTORY), ("failures", FAILURES)):
        (tmp_path / f"mine_{kind}.csv").write_text(text)
    found = read_locust(tmp_path / "mine")
    assert found.aggregated["Request Count"] == 90
    assert found.exceptions.empty
    assert found.history["at"].dt.year.tolist() == [2023, 2023]
    summary = found.summary()
    assert "90 requests, 2 failed (2.2%), 9.00 requests/s" in summary
    assert "10 s, at most 5 users" in summary
    assert "2 x GET /: HTTPError('500')" in summary


def test_what_is_not_locusts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="prefix"):
        read_locust(tmp_path / "nothing")
