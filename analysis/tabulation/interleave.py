"""Long beside short: what the scheduler does for the short request, and what that costs the long one."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis import estimate
from analysis.estimate import UNKNOWN, Estimate
from analysis.interleaving import interleaves
from analysis.measured import Measured, problems
from analysis.tabulation.seed import ENGINE_TIME
from analysis.tabulation.table import Cell, Column, Table


def median(waves: pd.DataFrame, column: str) -> Estimate:
    """The median of one column of `interleaves`."""
    return estimate.median(waves[column].astype("float64"), problems(waves)) if len(waves) else UNKNOWN


def slowdown(waves: pd.DataFrame) -> Estimate:
    """The short one's latency beside the long one / its latency alone, paired by repeat."""
    known = waves.dropna(subset=["alone_s"])
    if known.empty:
        return UNKNOWN
    return estimate.ratio(known["short_s"], known["alone_s"], paired=True, mark=problems(known))


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
        waves = interleaves(arm)
        if waves.empty:
            continue
        tokens: list[Cell] = [_tokens(waves[column]) for column in ("long_tokens", "short_tokens")]
        table.rows.append([arm.title, median(waves, "short_s"), median(waves, "wall_s"), *tokens])
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
        waves = interleaves(arm)
        if waves.empty:
            continue
        stall_s = float(waves["stall_s"].max())
        worst = "long had no token yet" if np.isnan(stall_s) else stall_s
        cells: list[Cell] = [median(waves, "alone_s"), slowdown(waves), median(waves, "long_s")]
        table.rows.append([arm.title, *cells, float(waves["ended_before_s"].median()), worst])
    return table


def _tokens(values: pd.Series[int]) -> int | str:
    """One figure where all repeats agree, the range where they do not."""
    known = values.dropna()
    if known.empty:
        return "not known"
    low, high = int(known.min()), int(known.max())
    return low if low == high else f"{low}–{high}"
