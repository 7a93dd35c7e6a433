"""Long beside short: what the scheduler does for the short request, and what that costs the long one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import estimate
from analysis.estimate import UNKNOWN, Estimate
from analysis.measured import Measured, problems
from analysis.rundata import Arm
from analysis.tabulation.seed import ENGINE_TIME
from analysis.tabulation.table import Cell, Column, Table


@dataclass(frozen=True, slots=True)
class Interleave:
    """All recorded interleave waves of one arm, one row a repeat (index), engine seconds."""

    waves: pd.DataFrame
    """short_s, long_s, wall_s, ended_before_s (> 0: the short one ended first), long_tokens, short_tokens,
    alone_s (the short one with nothing beside it), stall_s (longest gap of the long one meanwhile)."""
    mark: str

    def median(self, column: str) -> Estimate:
        return (
            estimate.median(self.waves[column].astype("float64"), self.mark) if len(self.waves) else UNKNOWN
        )

    def slowdown(self) -> Estimate:
        """The short one's latency beside the long one / its latency alone."""
        known = self.waves.dropna(subset=["alone_s"])
        if known.empty:
            return UNKNOWN
        return estimate.ratio(known["short_s"], known["alone_s"], paired=True, mark=self.mark)


def interleaved(measured: Measured, arm: Arm) -> Interleave:
    waves = measured.of(arm, "interleave")
    rows = arm.recorded[arm.recorded["case"] == "interleave"]
    both = waves[waves["count"] == 2]
    alone = waves[waves["count"] == 1].groupby("repeat")["wall_s"].median()
    found = []
    for wave, repeat, wall_s in both[["wave", "repeat", "wall_s"]].itertuples(index=False):
        pair = rows[rows["wave"] == wave].set_index("request")
        if not {f"{wave}-0", f"{wave}-1"} <= set(pair.index):
            continue
        long, short = pair.loc[f"{wave}-0"], pair.loc[f"{wave}-1"]
        ends = [float(one["sent_ms"]) + float(one["latency_ms"]) for one in (long, short)]
        found.append(
            {
                "repeat": repeat,
                "short_s": float(short["latency_ms"]) / 1000,
                "long_s": float(long["latency_ms"]) / 1000,
                "wall_s": wall_s,
                "ended_before_s": (ends[0] - ends[1]) / 1000,
                "long_tokens": long["completion_tokens"],
                "short_tokens": short["completion_tokens"],
                "alone_s": alone.get(repeat, np.nan),
                "stall_s": _stall_s(
                    arm, f"{wave}-0", float(short["sent_ms"]) - float(long["sent_ms"]), short
                ),
            }
        )
    columns = ["repeat", "short_s", "long_s", "wall_s", "ended_before_s", "long_tokens", "short_tokens"]
    frame = pd.DataFrame(found, columns=[*columns, "alone_s", "stall_s"]).set_index("repeat")
    return Interleave(frame, problems(both))


def _stall_s(arm: Arm, long: str, short_sent_ms: float, short: pd.Series[float]) -> float:
    """Longest gap between the long one's tokens while the short one was in flight; NaN if there is none."""
    events = arm.events
    at = events.loc[(events["request"] == long) & events["kind"].isin(["text", "reasoning", "tool"]), "at_ms"]
    ends, gaps = at.to_numpy()[1:], np.diff(at.to_numpy())
    during = (ends > short_sent_ms) & (ends - gaps < short_sent_ms + float(short["latency_ms"]))
    return float(gaps[during].max()) / 1000 if during.any() else np.nan


def interleave(measured: Measured) -> Table:
    table = Table(
        "interleave",
        "Long/short interleave",
        "A long request, and a short one a moment later. Wall: from the long one's sending to the last end. "
        + ENGINE_TIME,
        [Column("mode", "Mode"), Column("short_latency_s", "Short latency (s)"), Column("wall_s", "Wall (s)"),
         Column("long_completion_tokens", "Long completion tokens", 0),
         Column("short_completion_tokens", "Short completion tokens", 0)],
    )  # fmt: skip
    for arm in measured.run.arms:
        found = interleaved(measured, arm)
        if found.waves.empty:
            continue
        tokens: list[Cell] = [_tokens(found.waves[column]) for column in ("long_tokens", "short_tokens")]
        table.rows.append([_mode(arm), found.median("short_s"), found.median("wall_s"), *tokens])
    return table


def fairness(measured: Measured) -> Table:
    table = Table(
        "interleave_fairness",
        "Fairness of the interleave",
        "Slowdown: the short request's latency beside the long one / alone (1.00: the long one costs it "
        "nothing). Ended before the long one: positive if the short one did, by the long one's own end. "
        "Worst stall: the longest gap in the long one's stream while the short one was in flight. "
        + ENGINE_TIME,
        [Column("mode", "Mode"), Column("alone_s", "Short alone (s)"), Column("slowdown", "Slowdown", 2, "x"),
         Column("long_latency_s", "Long latency (s)"),
         Column("ended_before_s", "Short ended before long by (s)"),
         Column("worst_stall_s", "Worst stall (s)")],
    )  # fmt: skip
    for arm in measured.run.arms:
        found = interleaved(measured, arm)
        if found.waves.empty:
            continue
        stall = found.waves["stall_s"].max()
        worst = "long had no token yet" if np.isnan(stall) else float(stall)
        cells: list[Cell] = [found.median("alone_s"), found.slowdown(), found.median("long_s")]
        table.rows.append([_mode(arm), *cells, float(found.waves["ended_before_s"].median()), worst])
    return table


def _mode(arm: Arm) -> str:
    return f"{arm.subject} {arm.mode}"


def _tokens(values: pd.Series[int]) -> str:
    """One figure where all repeats agree, the range where they do not."""
    known = values.dropna()
    if known.empty:
        return "not known"
    low, high = int(known.min()), int(known.max())
    return f"{low}" if low == high else f"{low}–{high}"
