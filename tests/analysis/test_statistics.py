"""What may be said about a difference, on samples whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis import estimate
from analysis.estimate import Estimate, finding

NOISE = 0.02


def ratio(top: np.ndarray, bottom: np.ndarray, paired: bool = False) -> Estimate:
    """As tables compare engines."""
    return estimate.ratio(top, bottom, paired, confidence=estimate.COMPARISON_CONFIDENCE)


def walls(seed: int, repeats: int, slower: float = 1.0) -> np.ndarray:
    """Wall times of one arm: 1 s times `slower`, with 2 % of lognormal noise."""
    return slower * np.random.default_rng(seed).lognormal(0.0, NOISE, repeats)


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_identical_arms_show_no_difference_in_at_least_19_of_20_seeds(repeats: int) -> None:
    said = [finding(ratio(walls(2 * seed, repeats), walls(2 * seed + 1, repeats))) for seed in range(20)]
    assert said.count("no difference shown") >= 19


def test_an_arm_5_percent_slower_is_found_with_10_repeats() -> None:
    said = [finding(ratio(walls(2 * seed, 10, slower=1.05), walls(2 * seed + 1, 10))) for seed in range(20)]
    assert said.count("slower") >= 18
    assert "faster" not in said


def test_identical_arms_rarely_differ_by_chance_over_many_seeds() -> None:
    """The interval's error rate: at most 5 %, and chance may add to that in 100 trials."""
    for repeats in (2, 3, 5, 10):
        said = [
            finding(ratio(walls(1000 + 2 * seed, repeats), walls(1001 + 2 * seed, repeats)))
            for seed in range(100)
        ]
        assert said.count("no difference shown") >= 87, repeats


def test_pairing_by_repeat_cancels_the_drift_of_the_machine() -> None:
    drift = np.linspace(1.0, 1.5, 10)
    a, b = walls(1, 10, slower=1.05) * drift, walls(2, 10) * drift
    assert finding(ratio(a, b, paired=True)) == "slower"
    assert finding(ratio(a, b, paired=False)) == "no difference shown"


def test_one_run_has_a_value_and_no_interval() -> None:
    one = estimate.median([0.763])
    assert (one.value, one.low, one.high, one.repeats) == (0.763, None, None, 1)
    assert finding(ratio([0.763], [0.928])) == "one run: no interval"


def test_the_interval_holds_the_median_and_is_the_same_every_time() -> None:
    first, second = estimate.median(walls(3, 7)), estimate.median(walls(3, 7))
    assert first == second
    assert first.low is not None
    assert first.high is not None
    assert first.low < first.value < first.high


def test_constant_samples_have_an_interval_of_no_width() -> None:
    found = estimate.ratio([2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    assert (found.low, found.value, found.high) == (2.0, 2.0, 2.0)


def test_nothing_measured_is_not_a_number_and_says_so() -> None:
    assert math.isnan(estimate.median([]).value)
    assert finding(ratio([], [1.0])) == "not measured"


def test_a_marked_figure_makes_no_claim() -> None:
    assert finding(Estimate(0.5, 0.4, 0.6, 5, mark="client.cpu")) == "invalid"
    assert finding(Estimate(math.nan, mark="compare.payload")) == "refused"


def test_repeats_needed_grow_with_the_square_of_the_noise_and_suffice() -> None:
    quiet = estimate.repeats_needed(walls(1, 200), walls(2, 200))
    loud = estimate.repeats_needed(walls(1, 200) ** 3, walls(2, 200) ** 3)
    assert quiet is not None
    assert loud is not None
    assert 6 <= loud / quiet <= 12
    found = [
        finding(ratio(walls(2 * seed, quiet, slower=1.05), walls(2 * seed + 1, quiet))) for seed in range(40)
    ]
    assert found.count("slower") >= 26  # asked for 80 %


def test_repeats_needed_are_not_known_from_one_run() -> None:
    assert estimate.repeats_needed([1.0], [1.0]) is None
