"""All figures of a run as one tidy table, a row each: for notebooks and CI, and to hold against others."""

from __future__ import annotations

from itertools import combinations

import pandas as pd

from analysis.estimate import Estimate
from analysis.interleaving import interleaves
from analysis.measured import Measured
from analysis.rundata import Run
from analysis.tabulation.interleave import median, slowdown

COLUMNS = ["table", "engine", "mode", "concurrency", "metric", "value", "low", "high", "repeats", "mark"]
LEVEL_METRICS = ("wall_s", "output_tok_s", "mean_latency_s")


def results(run: Run, force: bool = False) -> pd.DataFrame:
    """One row a figure: table, engine, mode, concurrency, metric, value, interval, repeats, mark.

    Engine seconds. A figure that was refused has no value and says why in `mark`.
    """
    return tidy(Measured(run, force))


def tidy(measured: Measured) -> pd.DataFrame:
    """`results` of estimates that are already at hand."""
    rows: list[tuple[object, ...]] = []

    def add(table: str, engine: str, mode: str, count: int, metric: str, found: Estimate) -> None:
        if found.known or found.mark:
            row = (
                table,
                engine,
                mode,
                count,
                metric,
                found.value,
                found.low,
                found.high,
                found.repeats,
                found.mark,
            )
            rows.append(row)

    run = measured.run
    for arm in run.arms:
        for count in measured.levels:
            for metric in LEVEL_METRICS:
                table = "throughput" if metric != "wall_s" else "single" if count == 1 else "ladder"
                add(table, arm.subject, arm.mode, count, metric, measured.level(arm, count, metric))
        beside = interleaves(arm)
        for metric in ("short_s", "wall_s", "long_s", "alone_s", "ended_before_s"):
            add("interleave", arm.subject, arm.mode, 2, metric, median(beside, metric))
        add("interleave", arm.subject, arm.mode, 2, "slowdown", slowdown(beside))
    for subject in run.subjects:
        for mode in (mode for mode in run.modes if mode != "serial"):
            for count in measured.levels:
                found = measured.ratio(run.arm(subject, "serial"), run.arm(subject, mode), count)
                add(
                    "ladder",
                    subject,
                    "speedup" if mode == "batch" else f"{mode} speedup",
                    count,
                    "ratio",
                    found,
                )
    for mode in run.modes:
        for a, b in combinations(run.subjects, 2):
            for count in measured.levels:
                found = measured.ratio(run.arm(a, mode), run.arm(b, mode), count)
                add("head_to_head", f"{a}/{b}", mode, count, "ratio", found)
    return pd.DataFrame(rows, columns=COLUMNS).astype({"low": "float64", "high": "float64"})
