"""The width an engine really has, from completion times alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.batching import inferred
from analysis.checks import arm_verdicts
from analysis.rundata import load_arm
from tests.analysis.made_run import Asked, Engine, MadeArm


def made(folder: Path, engine: Engine, mode: str = "batch", noise: float = 0.02, asked: int = 8) -> Path:
    arm = MadeArm(f"w-{mode}", "w", mode, engine, noise, record={"requested_width": asked})
    arm.record["effective_width"] = None
    for repeat in (1, 2, 3):
        arm.wave(f"single-r{repeat}", "single", 1, repeat, [Asked()])
        arm.wave(f"ladder-8-r{repeat}", "ladder", 8, repeat, [Asked()] * 8)
    return arm.write(folder)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_inferred_width_is_the_true_one(tmp_path: Path, width: int, noise: float) -> None:
    found = inferred(load_arm(made(tmp_path, Engine(width), noise=noise)))
    assert found is not None
    assert found.width == width
    assert found.kind == {1: "serial", 8: "batching"}.get(width, "partial")


def test_prompts_read_one_after_the_other_do_not_look_like_a_narrow_server(tmp_path: Path) -> None:
    """Chunked prefill spreads completions over half of a lone request's latency; the width is still 8."""
    folder = made(tmp_path, Engine(8))
    arm = load_arm(folder)
    ladder = arm.requests["case"] == "ladder"
    place = arm.requests["request"].str[-1].astype(int)
    alone_ms = arm.requests.loc[~ladder, "latency_ms"].median()
    arm.requests.loc[ladder, "latency_ms"] += place[ladder] * alone_ms / 14
    found = inferred(arm)
    assert found is not None
    assert found.width == 8


def test_a_server_narrower_than_asked_fails_with_the_evidence(tmp_path: Path) -> None:
    verdict = width_verdict(made(tmp_path, Engine(4)))
    assert verdict["status"] == "fail"
    assert verdict["observed"] == "4"
    assert "partial at n = 8" in str(verdict["detail"])
    assert "4 by" in str(verdict["detail"])


def test_the_engines_own_word_counts_first(tmp_path: Path) -> None:
    arm = load_arm(made(tmp_path, Engine(8)))
    arm.record["effective_width"] = 6
    verdict = next(v for v in arm_verdicts(arm) if v["check"] == "batch.width")
    assert (verdict["status"], verdict["observed"]) == ("fail", "6")


def test_as_wide_as_asked_passes_also_in_serial_mode(tmp_path: Path) -> None:
    assert width_verdict(made(tmp_path, Engine(8)))["status"] == "pass"
    assert width_verdict(made(tmp_path, Engine(1), "serial", asked=1))["status"] == "pass"


def test_a_serial_control_that_batches_is_told(tmp_path: Path) -> None:
    verdict = width_verdict(made(tmp_path, Engine(8), "serial", asked=1))
    assert verdict["status"] == "warn"
    assert "more at once than asked" in str(verdict["detail"])


def width_verdict(folder: Path) -> dict[str, object]:
    return next(v for v in arm_verdicts(load_arm(folder)) if v["check"] == "batch.width")
