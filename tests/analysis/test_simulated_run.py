"""A real run on simulated engines of known width: the analysis has to find what the simulator wrote down."""

from __future__ import annotations

import subprocess
import sys

import pytest

from analysis import Run, judge, load, tables
from analysis.batching import inferred

WIDTHS = (1, 2, 4, 6, 8)
ARM = """
[[arm]]
name = "width{width}"
engine = "simulated"
mode = "batch"
settings = {{ profile = "tiny", width = {width}, time_scale = 2.0 }}
"""
PLAN = """
name = "widths"
[workload]
warmups = 0
repeats = 1
ladder = [8]
cases = ["single", "ladder", "streams"]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("widths")
    (folder / "plan.toml").write_text(PLAN + "".join(ARM.format(width=width) for width in WIDTHS))
    command = [
        sys.executable,
        "-m",
        "launchers",
        "run",
        str(folder / "plan.toml"),
        "--out",
        str(folder / "run"),
    ]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, timeout=240)
    return load(folder / "run")


def test_the_inferred_width_is_the_one_that_the_simulator_had(run: Run) -> None:
    assert [arm.name for arm in run.arms] == [f"width{width}" for width in WIDTHS]
    for arm, width in zip(run.arms, WIDTHS, strict=True):
        found = inferred(arm)
        assert found is not None
        assert found.width == width == arm.truth["width_max"].max()


def test_our_counts_are_locusts(run: Run) -> None:
    for arm in run.arms:
        rows = next(v for v in judge(arm.path)["verdicts"] if v["check"] == "client.rows")
        assert rows["status"] == "pass"


def test_the_measurement_error_is_known_and_small_against_what_is_measured(run: Run) -> None:
    found = tables(run)["measurement_error"]
    assert set(found["metric"]) == {"TTFT", "latency", "ITL"}
    assert found.loc[found["metric"] == "ITL", "median_ms"].abs().max() < 1.0
