"""Checks that have to tell a fault from a finding, and either from what only looks like one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.checks import arm_verdicts
from analysis.comparability import compare
from analysis.rundata import Arm, load_arm
from tests.analysis.made_run import Asked, Engine, MadeArm


def found(arm: Arm, check: str) -> tuple[str, str]:
    [verdict] = [v for v in arm_verdicts(arm) if v["check"] == check]
    return str(verdict["status"]), f"{verdict['observed']} {verdict['detail']}"


# compare.cache


def cached(tmp_path: Path, spoil: Callable[[MadeArm], None], both: bool = False) -> tuple[str, str]:
    """The verdict on a sound arm beside one that is spoilt (or two)."""
    arms = []
    for name in ("one", "two"):
        arm = MadeArm(f"{name}-batch", name, "batch", Engine(), noise=0.0)
        for repeat in (1, 2):
            arm.wave(f"single-r{repeat}", "single", 1, repeat, [Asked()])
            for wave in ("new", "again"):
                arm.wave(f"isolation_{wave}-r{repeat}", "isolation", 1, repeat, [Asked(1600, stream=True)])
                arm.rows[-1]["payload_sha256"] = f"long-{repeat}"
        if both or name == "two":
            spoil(arm)
        arms.append(load_arm(arm.write(tmp_path)))
    [verdict] = [v for v in compare(*arms) if v["check"] == "compare.cache"]
    return str(verdict["status"]), str(verdict["observed"])


def counts_the_repeated(arm: MadeArm) -> None:
    for row in arm.rows:
        row["cached_tokens"] = 1600 if "again" in row["wave"] else 0


def answers_the_repeated_sooner(arm: MadeArm) -> None:
    for row in arm.rows:
        row["cached_tokens"] = ""
        if "again" in row["wave"]:
            row["ttft_ms"] = str(0.1 * float(row["ttft_ms"]))


def served_a_measured_request(arm: MadeArm) -> None:
    arm.rows[0]["cached_tokens"] = 64


def test_no_cache_no_word(tmp_path: Path) -> None:
    assert cached(tmp_path, lambda arm: None)[0] == "pass"


@pytest.mark.parametrize("spoil", [counts_the_repeated, answers_the_repeated_sooner])
def test_a_cache_left_on_is_named_but_touched_no_measured_cell(
    tmp_path: Path, spoil: Callable[[MadeArm], None]
) -> None:
    status, observed = cached(tmp_path, spoil)
    assert status == "warn"
    assert observed.startswith("two-batch: a cache is on")


def test_a_measured_request_served_from_a_cache_on_one_side_fails_on_both_it_warns(tmp_path: Path) -> None:
    assert cached(tmp_path / "1", served_a_measured_request)[0] == "fail"
    assert cached(tmp_path / "2", served_a_measured_request, both=True)[0] == "warn"


# stream.identity


def test_whole_answers_with_one_id_are_a_finding(tmp_path: Path) -> None:
    arm = MadeArm("a-batch", "a", "batch", Engine())
    arm.acceptance(repeats=1)
    for row in arm.rows:
        if row["wave"] == "ladder-4-r1":
            row["response_id"] = "chatcmpl-1764590000123"
    status, said = found(load_arm(arm.write(tmp_path)), "stream.identity")
    assert status == "warn"
    assert "ladder-4-r1-0, ladder-4-r1-1" in said


# interleave.overlap


def test_requests_that_never_met_did_not_fail_to_overlap(tmp_path: Path) -> None:
    arm = MadeArm("a-batch", "a", "batch", Engine())
    for repeat in (1, 2):
        late = [Asked(64, stream=True), Asked(32, at_s=20.0)]
        arm.wave(f"interleave-r{repeat}", "interleave", 2, repeat, late)
    assert found(load_arm(arm.write(tmp_path)), "interleave.overlap")[0] == "skip"


# disconnect.*


def left(
    tmp_path: Path, mode: str, held_s: float, spoil: Callable[[MadeArm], None] = lambda arm: None
) -> Arm:
    """An arm of a server that tells nothing of itself, and goes on with leavers for so long."""
    arm = MadeArm("a", "a", mode, Engine(8 if mode == "batch" else 1), noise=0.02)
    arm.acceptance(repeats=3)
    for repeat in (1, 2, 3):
        for when in ("before", "probe", "after"):
            arm.wave(f"leak_{when}-r{repeat}", "leak", 8, repeat, [Asked()] * 8)
    for row in arm.rows:
        if row["wave"].startswith("leak_probe") or (mode == "serial" and row["case"] == "recover"):
            row["latency_ms"] = str(float(row["latency_ms"]) + 1000 * held_s)
    spoil(arm)
    return load_arm(arm.write(tmp_path))


@pytest.mark.parametrize("mode", ["batch", "serial"])
def test_a_probe_finds_a_slot_that_is_held_where_the_server_does_not_tell(tmp_path: Path, mode: str) -> None:
    status, said = found(left(tmp_path / "held", mode, held_s=0.6), "disconnect.reclaims")
    assert status == "fail"
    assert "by probe" in said
    assert found(left(tmp_path / "free", mode, held_s=0.0), "disconnect.reclaims")[0] == "pass"


def test_one_late_probe_is_no_held_slot(tmp_path: Path) -> None:
    def delay(arm: MadeArm) -> None:
        for row in arm.rows:
            if row["wave"] == "leak_probe-r2":
                row["latency_ms"] = str(float(row["latency_ms"]) + 2000)

    assert found(left(tmp_path, "batch", 0.0, delay), "disconnect.reclaims")[0] == "pass"


def test_a_wave_with_a_failed_request_says_nothing_about_leaked_slots(tmp_path: Path) -> None:
    def refuse(arm: MadeArm) -> None:
        for row in arm.rows:
            if row["wave"].startswith(("leak_before", "ladder-8")):
                row |= {"outcome": "failed", "failure": "http.status", "latency_ms": "1"}

    assert found(left(tmp_path, "batch", 0.0, refuse), "disconnect.leak")[0] == "skip"


def test_an_engine_that_died_while_clients_left_did_not_die_of_that(tmp_path: Path) -> None:
    arm = MadeArm("a-batch", "a", "batch", Engine(), record={"failure": "engine.died"})
    arm.acceptance(repeats=1)
    arm.rows[-1] |= {"outcome": "failed", "failure": "http.connection", "detail": "cut short"}
    arm_read = load_arm(arm.write(tmp_path))
    assert found(arm_read, "engine.died")[0] == "fail"
    assert found(arm_read, "http.connection")[0] == "fail"
    assert found(arm_read, "disconnect.recovers")[0] == "pass"
