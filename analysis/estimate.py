"""Medians with intervals, ratios of medians, and what may be said about a difference.

Method (docs/statistics.md says why): the median over repeats with a bootstrap percentile interval; below
`SMALL` repeats, where resampling knows too little, widened to Student's interval of the logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

CONFIDENCE = 0.95
COMPARISON_CONFIDENCE = 0.99
"""For findings between engines: a report makes a dozen of them, and none should be false by chance."""
SMALL = 20
RESAMPLES = 2000
_SEED = 20240601
POWER = 0.8
MEDIAN_COST = math.pi / 2
"""Variance of a median of normal values over that of their mean: what its robustness costs in repeats."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval (None with one repeat) from `repeats` measurements.

    mark: why it is not valid or not comparable; empty if it is. An estimate with value NaN was refused.
    """

    value: float
    low: float | None = None
    high: float | None = None
    repeats: int = 0
    mark: str = ""
    confidence: float = CONFIDENCE

    @property
    def known(self) -> bool:
        return not math.isnan(self.value)


UNKNOWN = Estimate(math.nan)


def median(values: ArrayLike, mark: str = "", confidence: float = CONFIDENCE) -> Estimate:
    """Median of positive measurements, one a repeat, with its interval; NaN values are left out."""
    sample = _clean(values)
    if len(sample) == 0:
        return Estimate(math.nan, mark=mark)
    middle = float(np.median(sample))
    if len(sample) == 1:
        return Estimate(middle, repeats=1, mark=mark, confidence=confidence)
    low, high = _bootstrap(sample.tobytes(), b"", confidence)
    if len(sample) < SMALL:
        low, high = _widened((low, high), _t_mean(sample, confidence))
    return Estimate(middle, low, high, len(sample), mark, confidence)


def ratio(
    top: ArrayLike,
    bottom: ArrayLike,
    paired: bool = False,
    mark: str = "",
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Ratio of two medians with its interval.

    paired: value i of both was measured in the same block, so drift of the machine cancels; then it is the
    median of the ratios. Otherwise both samples are resampled on their own.
    """
    if paired:
        pairs = np.column_stack([np.asarray(top, dtype=float), np.asarray(bottom, dtype=float)])
        pairs = pairs[np.isfinite(pairs).all(axis=1)]
        return median(pairs[:, 0] / pairs[:, 1], mark, confidence)
    above, below = _clean(top), _clean(bottom)
    if len(above) == 0 or len(below) == 0:
        return Estimate(math.nan, mark=mark)
    value = float(np.median(above) / np.median(below))
    repeats = min(len(above), len(below))
    if repeats == 1:
        return Estimate(value, repeats=1, mark=mark, confidence=confidence)
    low, high = _bootstrap(above.tobytes(), below.tobytes(), confidence)
    if repeats < SMALL:
        low, high = _widened((low, high), _t_difference(above, below, confidence))
    return Estimate(value, low, high, repeats, mark, confidence)


def finding(estimate: Estimate) -> str:
    """What a ratio of times A / B says: "faster" (A is), "slower", or "no difference shown"."""
    if not estimate.known:
        return "refused" if estimate.mark else "not measured"
    if estimate.mark:
        return "invalid"
    if estimate.low is None or estimate.high is None:
        return "one run: no interval"
    if estimate.high < 1:
        return "faster"
    return "slower" if estimate.low > 1 else "no difference shown"


def repeats_needed(
    top: ArrayLike, bottom: ArrayLike, difference: float = 0.05, paired: bool = False
) -> int | None:
    """Repeats of each side that would show a ratio `difference` away from 1 with 80 % power; None: unknown.

    Normal theory on logarithms, n = k (z_0.995 + z_0.8)^2 s^2 / ln(1 + d)^2, with t in place of z, s^2 the
    variance of a difference and k = pi / 2 for medians (Lachin 1981 gives the formula for means).
    """
    above, below = np.log(_clean(top)), np.log(_clean(bottom))
    if len(above) < 2 or len(below) < 2:
        return None
    if paired and len(above) == len(below):
        variance = float(np.var(above - below, ddof=1))
    else:
        variance = float(np.var(above, ddof=1) + np.var(below, ddof=1))
    effect = math.log1p(difference)
    for repeats in range(2, 10_000):
        freedom = (repeats - 1) * (1 if paired else 2)
        reach = stats.t.ppf(0.5 + COMPARISON_CONFIDENCE / 2, freedom) + stats.t.ppf(POWER, freedom)
        if repeats >= MEDIAN_COST * float(reach) ** 2 * variance / effect**2:
            return repeats
    return 10_000


def _clean(values: ArrayLike) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=float)
    finite: NDArray[np.float64] = sample[np.isfinite(sample)]
    return finite


@lru_cache(maxsize=4096)
def _bootstrap(top: bytes, bottom: bytes, confidence: float) -> tuple[float, float]:
    """Percentile interval of a median, or of a ratio of medians; by the samples' bytes, to be done once."""
    samples = [np.frombuffer(part) for part in (top, bottom) if part]

    def statistic(*parts: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
        middles = [np.median(part, axis=axis) for part in parts]
        return np.asarray(middles[0] if len(middles) == 1 else middles[0] / middles[1])

    found = stats.bootstrap(
        samples,
        statistic,
        n_resamples=RESAMPLES,
        confidence_level=confidence,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return float(found.low), float(found.high)


def _t_mean(sample: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    logs = np.log(sample[sample > 0])
    if len(logs) < 2:
        return -math.inf, math.inf
    reach = float(stats.t.ppf(0.5 + confidence / 2, len(logs) - 1)) * float(stats.sem(logs))
    middle = float(np.mean(logs))
    return math.exp(middle - reach), math.exp(middle + reach)


def _t_difference(
    above: NDArray[np.float64], below: NDArray[np.float64], confidence: float
) -> tuple[float, float]:
    if min(len(above), len(below)) < 2:
        return 0.0, math.inf
    if np.ptp(above) == 0 and np.ptp(below) == 0:
        middle = float(above[0] / below[0])
        return middle, middle
    found = stats.ttest_ind(np.log(above), np.log(below), equal_var=True).confidence_interval(confidence)
    return math.exp(found.low), math.exp(found.high)


def _widened(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return min(first[0], second[0]), max(first[1], second[1])
