"""Estimates of a run, by arm and level, from its waves: what every table, plot and verdict is made of."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from analysis import estimate
from analysis.comparability import refusal, work_differs
from analysis.estimate import UNKNOWN, Estimate
from analysis.rundata import Arm, Run
from analysis.schema import MEASURED_CASES
from analysis.wavemetrics import arm_waves, waves


class Measured:
    """Estimates of one run. With `force`, what would be refused is compared, and `forced` says why."""

    def __init__(self, run: Run, force: bool = False) -> None:
        self.run = run
        self.waves = waves(run)
        self.forced: list[str] = []
        self._force = force
        # Tables, plots, verdicts and sentences ask for the same figures: each is worked out once.
        self._refusals: dict[tuple[str, str, str], str] = {}
        self._chosen: dict[tuple[str, str, int | None], pd.DataFrame] = {}
        self._ratios: dict[tuple[str, str, int, str], Estimate] = {}

    @property
    def levels(self) -> list[int]:
        """Concurrency levels that any arm measured, ascending; `single` is level 1."""
        measured = self.waves[self.waves["case"].isin(MEASURED_CASES) & (self.waves["repeat"] > 0)]
        return sorted(int(count) for count in measured["count"].unique())

    def of(self, arm: Arm, case: str, count: int | None = None) -> pd.DataFrame:
        """The recorded waves of one case (and level) of an arm, by repeat."""
        key = (arm.name, case, count)
        if key not in self._chosen:
            mine = arm_waves(arm)
            wanted = (mine["case"] == case) & (mine["repeat"] > 0)
            if count is not None:
                wanted &= mine["count"] == count
            self._chosen[key] = mine[wanted].sort_values("repeat")
        return self._chosen[key]

    def level(self, arm: Arm | None, count: int, column: str) -> Estimate:
        """The median of a wave's `column` at one level of the ladder."""
        if arm is None:
            return UNKNOWN
        chosen = self.of(arm, _case(count), count)
        return estimate.median(chosen[column].astype("float64"), problems(chosen))

    def ratio(self, top: Arm | None, bottom: Arm | None, count: int, column: str = "wall_s") -> Estimate:
        """top / bottom of a wave's `column` at one level; refused where the two did not do the same work."""
        if top is None or bottom is None:
            return UNKNOWN
        key = (top.name, bottom.name, count, column)
        if key not in self._ratios:
            self._ratios[key] = self._ratio(top, bottom, count, column)
        return self._ratios[key]

    def _ratio(self, top: Arm, bottom: Arm, count: int, column: str) -> Estimate:
        above, below = (self.of(arm, _case(count), count) for arm in (top, bottom))
        if above.empty or below.empty:
            return UNKNOWN
        paired = alternate(top, bottom)
        both = above.set_index("repeat")[column], below.set_index("repeat")[column]
        if paired:
            joined = pd.concat(both, axis=1, join="inner")
            values = joined.iloc[:, 0], joined.iloc[:, 1]
        else:
            values = both
        mark = "; ".join(filter(None, [problems(above), problems(below)]))
        found = estimate.ratio(
            values[0].astype("float64"),
            values[1].astype("float64"),
            paired,
            mark,
            confidence_between(top, bottom),
        )
        differs = work_differs(top, bottom, _case(count), count)
        return self.guarded(found, self.refused(top, bottom, _case(count)), differs)

    def growth(self, arm: Arm, count: int, column: str) -> Estimate:
        """A wave's `column` at one level of the ladder / of one request alone, on the same arm."""
        wide, alone = (self.of(arm, _case(level), level)[column].astype("float64") for level in (count, 1))
        return estimate.ratio(wide, alone)

    def repeats_needed(self, top: Arm, bottom: Arm, count: int) -> int | None:
        """Repeats that would show a 5 % difference in wall time at one level."""
        above, below = (self.of(arm, _case(count), count)["wall_s"] for arm in (top, bottom))
        return estimate.repeats_needed(above, below, paired=alternate(top, bottom))

    def refused(self, first: Arm, second: Arm, case: str) -> str:
        key = (first.name, second.name, case)
        if key not in self._refusals:
            self._refusals[key] = refusal(first, second, case)
        return self._refusals[key]

    def guarded(self, found: Estimate, *reasons_against: str) -> Estimate:
        """`found`, or a refusal if there is a reason against comparing; with force the reason is kept."""
        reasons = [reason for reason in reasons_against if reason]
        if not reasons:
            return found
        if self._force:
            self.forced += [reason for reason in reasons if reason not in self.forced]
            return found
        return replace(found, value=math.nan, low=None, high=None, mark="; ".join(reasons))


def _case(count: int) -> str:
    return "single" if count == 1 else "ladder"


def confidence_between(first: Arm, second: Arm) -> float:
    """Stricter between engines, where the report says "faster" or "slower" several times."""
    return estimate.CONFIDENCE if first.subject == second.subject else estimate.COMPARISON_CONFIDENCE


def problems(chosen: pd.DataFrame) -> str:
    """What is wrong with some of the waves, in words; "" if nothing is."""
    bad = chosen[chosen["problem"] != ""]
    if bad.empty:
        return ""
    kinds = ", ".join(sorted(set(bad["problem"])))
    return f"{kinds} in {len(bad)} of {len(chosen)} repeats"


def alternate(first: Arm, second: Arm) -> bool:
    """Whether the arms took turns (A B A B), so that repeats can be paired: their spans overlap in time."""
    spans = []
    for arm in (first, second):
        sent = arm.recorded["sent_ns"].dropna()
        if sent.empty:
            return False
        spans.append((sent.min(), sent.max()))
    return bool(max(spans[0][0], spans[1][0]) < min(spans[0][1], spans[1][1]))
