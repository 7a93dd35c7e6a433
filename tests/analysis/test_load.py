"""Reading a run: whole, killed in the middle, half there, or not one at all."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis import RunError, load, load_many, waves
from tests.analysis.made_run import Engine, make_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return make_run(tmp_path, {"alpha": Engine(), "beta": Engine(speed=1.2)}, repeats=2)


def test_a_run_has_its_arms_in_order_and_knows_which_belong_together(run_dir: Path) -> None:
    run = load(run_dir)
    assert [arm.name for arm in run.arms] == ["alpha-batch", "alpha-serial", "beta-batch", "beta-serial"]
    assert run.subjects == ["alpha", "beta"]
    assert run.modes == ["batch", "serial"]


def test_arms_of_one_engine_are_told_apart_by_their_names(tmp_path: Path) -> None:
    """Two profiles of the simulated engine are two subjects."""
    run_dir = make_run(tmp_path, {"pocketllm": Engine(), "vllm": Engine()}, repeats=1)
    for record in run_dir.glob("*/record.json"):
        record.write_text(json.dumps(json.loads(record.read_text()) | {"engine": "simulated"}))
    assert load(run_dir).subjects == ["pocketllm", "vllm"]


def test_simulated_time_is_read_as_the_engines_own(tmp_path: Path) -> None:
    real = load(make_run(tmp_path / "real", {"a": Engine()}, repeats=1))
    fast = load(make_run(tmp_path / "fast", {"a": Engine()}, repeats=1, time_scale=20.0))
    expected, found = (waves(run)[["wall_s", "mean_latency_s", "ttft_ms"]] for run in (real, fast))
    assert (expected - found).abs().max().max() < 0.05  # rows hold microseconds of real time
    assert fast.arms[0].events["at_ms"].max() == pytest.approx(real.arms[0].events["at_ms"].max(), rel=1e-3)


def test_a_run_killed_while_writing_keeps_every_whole_row(run_dir: Path) -> None:
    path = run_dir / "alpha-batch" / "requests.csv"
    whole = path.read_text()
    lines = whole.splitlines()
    path.write_text("\n".join(lines[:20]) + "\n" + lines[20][:60])
    (run_dir / "alpha-batch" / "record.json").write_text("{}")
    run = load(run_dir)
    assert len(run.arms[0].requests) == 19
    assert run.arms[0].engine == "alpha"


def test_an_arm_that_recorded_nothing_is_there_and_empty(run_dir: Path) -> None:
    for name in ("requests.csv", "events.csv", "texts.jsonl", "conduct.json"):
        (run_dir / "beta-serial" / name).unlink()
    arm = load(run_dir).arms[3]
    assert len(arm.requests) == 0
    assert arm.texts == {}


def test_events_may_be_gzipped(run_dir: Path) -> None:
    plain = run_dir / "alpha-batch" / "events.csv"
    expected = load(run_dir).arms[0].events
    with gzip.open(plain.with_name("events.csv.gz"), "wb") as file:
        file.write(plain.read_bytes())
    plain.unlink()
    assert load(run_dir).arms[0].events.equals(expected)


def test_worker_clocks_are_set_to_the_masters(run_dir: Path) -> None:
    before = waves(load(run_dir))
    for worker in ("", "w1"):
        (run_dir / "alpha-batch" / "clock.json").write_text(json.dumps({"offsets_ms": {worker: 250.0}}))
        after = waves(load(run_dir))
        assert (before["wall_s"] - after["wall_s"]).abs().max() < 1e-6


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    one = make_run(tmp_path / "monday", {"alpha": Engine()}, repeats=1)
    two = make_run(tmp_path / "tuesday", {"alpha": Engine()}, repeats=1)
    assert load_many([one, two]).subjects == ["monday: alpha", "tuesday: alpha"]


def broken_record(path: Path) -> Path:
    (path / "run.json").write_text("{")
    return path


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path / "nowhere", "no such folder"),
        (lambda path: path, "no arm with a requests.csv"),
        (broken_record, "not JSON"),
    ],
)
def test_what_is_no_run_is_refused_in_one_line(
    tmp_path: Path, spoil: Callable[[Path], Path], says: str
) -> None:
    with pytest.raises(RunError, match=says) as error:
        load(spoil(tmp_path))
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_ours_is_named(run_dir: Path) -> None:
    path = run_dir / "alpha-batch" / "requests.csv"
    path.write_text(path.read_text().replace(",32,", ",thirty-two,"))
    with pytest.raises(RunError, match=r"requests\.csv"):
        load(run_dir)
