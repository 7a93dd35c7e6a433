"""A run held against a baseline: does the interval exclude the change that is allowed?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis import estimate
from analysis.estimate import Estimate
from analysis.junitxml import write
from analysis.markdown import grid
from analysis.measured import Measured, problems
from analysis.reading import RunError
from analysis.rundata import Run
from analysis.schema import Verdict, verdict


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate's outcome: `passed`, one verdict a figure, and a Markdown comment for a pull request."""

    verdicts: list[Verdict]
    comment: str

    @property
    def passed(self) -> bool:
        return all(v["status"] != "fail" for v in self.verdicts)


def share(text: str | float) -> float:
    """ "5%" or "0.05" or 0.05 as 0.05; RunError if it is neither."""
    if isinstance(text, int | float):
        return float(text)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    if not found:
        raise RunError(f"{text!r} is not a share; give the allowed change as 5% or 0.05")
    return float(found[1]) / (100 if found[2] else 1)


def gate(
    run: Run, baseline: Run, max_regression: str | float = 0.05, junit: Path | str | None = None
) -> Gate:
    """Fails where wall time grew, with all of its 99 % interval, by more than `max_regression`.

    Compares arms of the same name, level by level, as run / baseline. A level with one repeat on either side
    has no interval and cannot fail; it is reported as a warning.
    """
    allowed = share(max_regression)
    verdicts: list[Verdict] = []
    new, old = Measured(run), Measured(baseline)
    for arm in run.arms:
        before = next((one for one in baseline.arms if one.name == arm.name), None)
        if before is None:
            verdicts.append(verdict("gate.wall", "skip", "no such arm in the baseline", "", arm.name))
            continue
        for count in new.levels:
            case = "single" if count == 1 else "ladder"
            now, then = new.of(arm, case, count), old.of(before, case, count)
            if len(now) and len(then):
                verdicts.append(_level(f"{arm.name}, n = {count}", now, then, allowed))
    if not any(v["status"] != "skip" for v in verdicts):
        raise RunError(
            f"{run.name} and {baseline.name} have no arm and level in common: nothing to hold against"
        )
    result = Gate(verdicts, _comment(run, baseline, verdicts, allowed))
    if junit:
        write(f"gate {run.name}", {"gate": verdicts}, Path(junit))
    return result


def _level(title: str, now: pd.DataFrame, then: pd.DataFrame, allowed: float) -> Verdict:
    mark = "; ".join(filter(None, [problems(now), problems(then)]))
    tokens = [
        list(frame.groupby("repeat")[["prompt_tokens", "completion_tokens"]].sum().max())
        for frame in (now, then)
    ]
    if tokens[0] != tokens[1] and not mark:
        mark = f"compare.work: {tokens[0]} against {tokens[1]} prompt and completion tokens"
    found = estimate.ratio(
        now["wall_s"].astype("float64"),
        then["wall_s"].astype("float64"),
        mark=mark,
        confidence=estimate.COMPARISON_CONFIDENCE,
    )
    limit = f"not above {1 + allowed:.3g}x with all of its interval"
    if mark:
        return verdict("gate.wall", "warn", _shown(found), limit, f"{title}; no judgement: {mark}")
    if found.low is None:
        return verdict("gate.wall", "warn", _shown(found), limit, f"{title}; one repeat has no interval")
    return verdict("gate.wall", "fail" if found.low > 1 + allowed else "pass", _shown(found), limit, title)


def _shown(found: Estimate) -> str:
    interval = "" if found.low is None else f" ({found.low:.3f}–{found.high:.3f})"
    return f"{found.value:.3f}x{interval}"


def _comment(run: Run, baseline: Run, verdicts: list[Verdict], allowed: float) -> str:
    failed = [v for v in verdicts if v["status"] == "fail"]
    head = f"{len(failed)} of {len(verdicts)} levels got slower" if failed else "no level got slower"
    rows = [[str(v["detail"]), str(v["observed"]), str(v["status"])] for v in verdicts]
    return "\n".join(
        [
            f"### headtohead gate: {'failed' if failed else 'passed'}",
            "",
            f"`{run.name}` against `{baseline.name}`: {head} by more than {allowed:.1%}.",
            "",
            *grid(["Arm and level", "Wall, now / before (99 % interval)", "Status"], rows),
            "",
        ]
    )
