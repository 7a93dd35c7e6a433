"""Goodput: which requests count as answered in time, and what our own trouble leaves open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.goodput import Slo, Sustained, phases, sustained
from analysis.rundata import load_arm
from tests.analysis.made_run import Asked, Engine, MadeArm

# Alone on this engine an answer takes 1 s: 0.1 s to its first token, and 9 more at 0.1 s each.
ENGINE = Engine(iteration_s=0.1, per_request_s=0.0, per_prompt_word_s=0.0)


def made(
    slo: dict[str, float] | None, count: int = 20, stream: bool = True, time_scale: float = 1.0
) -> MadeArm:
    """One request every 2 s, each alone."""
    record: dict[str, Any] = {"workload": {"slo": slo}}
    arm = MadeArm("mine", "external", "batch", ENGINE, 0.0, tokens=10, time_scale=time_scale, record=record)
    arm.wave("steady", "traffic", 1, 1, [Asked(8, 2.0 * n, stream=stream) for n in range(count)])
    return arm


def found(arm: MadeArm, folder: Path) -> Sustained:
    loaded = load_arm(arm.write(folder))
    ((wave, rows),) = phases(loaded)
    return sustained(loaded, wave, rows)


@pytest.mark.parametrize(
    ("slo", "share"),
    [
        ({"latency_ms": 1001}, 1.0),
        ({"latency_ms": 999}, 0.0),
        ({"ttft_ms": 101, "tpot_ms": 101}, 1.0),
        ({"ttft_ms": 99, "latency_ms": 5000}, 0.0),
        ({"tpot_ms": 99, "latency_ms": 5000}, 0.0),
    ],
)
def test_a_request_is_good_when_it_keeps_to_every_limit(
    slo: dict[str, float], share: float, tmp_path: Path
) -> None:
    assert found(made(slo), tmp_path).share == share


def test_waits_count_from_when_a_request_was_due(tmp_path: Path) -> None:
    arm = made({"ttft_ms": 150})
    for row in arm.rows[:5]:
        row["scheduled_ns"] -= 60_000_000
    one = found(arm, tmp_path)

    assert (one.good, one.due, one.missed) == (15, 20, {"TTFT": 5})


def test_limits_are_milliseconds_of_the_engines_clock(tmp_path: Path) -> None:
    one = found(made({"latency_ms": 1001}, time_scale=10.0), tmp_path)

    assert one.share == 1.0
    assert one.latency_p95_ms == pytest.approx(1000, rel=1e-3)
    assert one.completed_s == pytest.approx(0.5, rel=0.1)
    assert one.good_s == pytest.approx(0.5, rel=0.01)


def test_failed_and_unfinished_requests_are_not_good_and_those_who_left_do_not_count(tmp_path: Path) -> None:
    arm = made({"latency_ms": 2000})
    arm.rows[0] |= {"outcome": "failed", "failure": "http.status"}
    arm.rows[1] |= {"outcome": "unfinished", "latency_ms": "", "last_token_ms": ""}
    arm.rows[2] |= {"outcome": "disconnected"}
    one = found(arm, tmp_path)

    assert (one.good, one.due) == (17, 19)
    assert one.missed == {"http.status": 1, "unfinished": 1}


def test_a_limit_on_tokens_does_not_count_answers_that_show_none(tmp_path: Path) -> None:
    assert found(made({"ttft_ms": 50}, stream=False), tmp_path).due == 0
    assert found(made({"ttft_ms": 50, "latency_ms": 2000}, stream=False), tmp_path / "both").share == 1.0


def test_without_limits_there_is_no_goodput(tmp_path: Path) -> None:
    one = found(made(None), tmp_path)

    assert (one.good, one.share, one.good_s, one.least) == (None, None, None, None)
    assert one.completed_s == pytest.approx(0.5, rel=0.1)


def test_what_a_saturated_load_generator_touched_might_be_either(tmp_path: Path) -> None:
    arm = made({"latency_ms": 2000})
    arm.rows[0] |= {"outcome": "failed", "failure": "http.status"}
    folder = arm.write(tmp_path)
    samples = ["at_ns,pid,worker,cpu_percent,lag_ms,running"]
    for number, row in enumerate(arm.rows):  # busy while each of the first five was in flight
        for after_ms in (0, 500, 1500):
            samples.append(f"{row['sent_ns'] + after_ms * 1_000_000},1,,{99 if number < 5 else 10},1,1")
    (folder / "client.csv").write_text("\n".join(samples) + "\n")
    loaded = load_arm(folder)
    ((wave, rows),) = phases(loaded)
    one = sustained(loaded, wave, rows)

    assert (one.share, one.least, one.most) == (19 / 20, 15 / 20, 1.0)


def test_lateness_of_our_own_can_only_have_made_a_request_look_worse(tmp_path: Path) -> None:
    arm = made({"latency_ms": 1500})
    for row in arm.rows[:4]:
        row["scheduled_ns"] -= 800_000_000
    one = found(arm, tmp_path)

    assert (one.share, one.least, one.most) == (16 / 20, 16 / 20, 1.0)


def test_limits_in_words() -> None:
    assert str(Slo(ttft_ms=500, latency_ms=5000)) == "TTFT ≤ 500 ms, latency ≤ 5000 ms"
