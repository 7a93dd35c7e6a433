"""Verdicts: of one arm from its rows (`judge`), and of arms against each other (`judge_run`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from analysis import comparability
from analysis.checks import arm_verdicts
from analysis.estimate import Estimate
from analysis.measured import Measured
from analysis.reading import find, pack
from analysis.rundata import Arm, Run, load, load_arm
from analysis.schema import EVENT_TYPES, REQUEST_TYPES, Verdict, verdict
from analysis.wavemetrics import arm_waves

SERIAL_TOLERANCE = 0.10
PACK_ABOVE_BYTES = {False: 64 * 2**20, True: 8 * 2**20}
"""From which size on, plain and gzipped."""


def judge(arm_dir: Path | str) -> dict[str, Any]:
    """The acceptance of one arm: {"cases": summary by case and level, "verdicts": every check made}."""
    pack_if_large(Path(arm_dir))
    arm = load_arm(arm_dir)
    return {"cases": cases(arm), "verdicts": arm_verdicts(arm)}


def pack_if_large(folder: Path) -> None:
    """Parquet beside the CSV files of a large run, so that every later look at it is quick."""
    for name, types in (("requests.csv", REQUEST_TYPES), ("events.csv", EVENT_TYPES)):
        path = find(folder, name)
        if path and path.stat().st_size > PACK_ABOVE_BYTES[path.suffix == ".gz"]:
            pack(folder, name, types)


def cases(arm: Arm) -> dict[str, Any]:
    """For each case and level: repeats, requests, outcomes, medians of its waves (engine time)."""
    waves = arm_waves(arm)
    found: dict[str, Any] = {}
    for (case, count), group in waves[waves["repeat"] > 0].groupby(["case", "count"], sort=False):
        rows = arm.recorded[(arm.recorded["case"] == case) & (arm.recorded["count"] == count)]
        found[f"{case}-{count}"] = {
            "repeats": int(group["repeat"].nunique()),
            "requests": len(rows),
            "outcomes": {str(k): int(v) for k, v in rows["outcome"].value_counts().items()},
            **{
                column: _figure(group[column].median())
                for column in (
                    "wall_s",
                    "output_tok_s",
                    "mean_latency_s",
                    "ttft_ms",
                    "tpot_ms",
                    "start_spread_ms",
                )
            },
            "completion_tokens": int(group["completion_tokens"].sum()),
            "prompt_tokens": int(group["prompt_tokens"].sum()),
            "cached_tokens": int(group["cached_tokens"].sum()),
            "problems": sorted(set(group["problem"]) - {""}),
        }
    return found


def _figure(value: float) -> float | None:
    return None if pd.isna(value) else round(float(value), 6)


def judge_run(run_dir: Path | str) -> list[Verdict]:
    """Verdicts about arms against each other: compare.*, batch.multiplexes, serial.flat."""
    return run_verdicts(Measured(load(run_dir)))


def run_verdicts(measured: Measured) -> list[Verdict]:
    found = [v for pair in comparability.pairs(measured.run) for v in comparability.compare(*pair)]
    for subject in measured.run.subjects:
        found += _multiplexes(measured, subject)
        found += _flat(measured, subject)
    return found


def _multiplexes(measured: Measured, subject: str) -> list[Verdict]:
    """The widest level has to show a gain. A narrower one fails only where it is slower than serial beyond
    doubt: two requests at once gain little, and few repeats may not show it.
    """
    run = measured.run
    serial, batch = run.arm(subject, "serial"), run.arm(subject, "batch")
    levels = [count for count in measured.levels if count > 1]
    if not serial or not batch or not levels:
        return []
    limit = "lower bound of the speedup > 1"
    found = []
    for count in levels:
        speedup = measured.ratio(serial, batch, count)
        detail = f"{subject}, n = {count}, {speedup.repeats} repeats"
        if not speedup.known:
            found.append(verdict("batch.multiplexes", "skip", speedup.mark or "not measured", limit, detail))
            continue
        low, high = _bounds(speedup)
        beyond_doubt = count == levels[-1] or high < 1
        status = "skip" if speedup.mark else "pass" if low > 1 else "fail" if beyond_doubt else "warn"
        detail += f"; invalid: {speedup.mark}" if speedup.mark else ""
        shown = _shown(speedup, f"{speedup.value:.2f}x", f"{low:.2f}–{high:.2f}")
        found.append(verdict("batch.multiplexes", status, shown, limit, detail))
    return found


def _flat(measured: Measured, subject: str) -> list[Verdict]:
    """Fails where all of the change's interval is beyond the tolerance, warns where only its middle is."""
    serial = measured.run.arm(subject, "serial")
    levels = [count for count in measured.levels if count > 1]
    if not serial or not levels:
        return []
    alone, widest = (measured.level(serial, count, "output_tok_s") for count in (1, levels[-1]))
    limit = f"within {SERIAL_TOLERANCE:.0%} of one request alone"
    if not alone.known or not widest.known or alone.mark or widest.mark:
        return [verdict("serial.flat", "skip", alone.mark or widest.mark or "not measured", limit, subject)]
    change = measured.growth(serial, levels[-1], "output_tok_s")
    low, high = _bounds(change)
    off = abs(change.value - 1) > SERIAL_TOLERANCE
    beyond_doubt = low - 1 > SERIAL_TOLERANCE or high - 1 < -SERIAL_TOLERANCE
    status = "fail" if beyond_doubt else "warn" if off else "pass"
    detail = f"{subject}: {alone.value:.2f} tok/s alone, {widest.value:.2f} tok/s at n = {levels[-1]}"
    shown = _shown(change, f"{change.value - 1:+.1%}", f"{low - 1:+.1%} to {high - 1:+.1%}")
    return [verdict("serial.flat", status, shown, limit, detail)]


def _bounds(found: Estimate) -> tuple[float, float]:
    """The interval; with one repeat the value itself, twice."""
    if found.low is None or found.high is None:
        return found.value, found.value
    return found.low, found.high


def _shown(found: Estimate, value: str, interval: str) -> str:
    return value if found.low is None else f"{value} ({interval})"


def verdicts_of(run: Run, measured: Measured) -> dict[str, list[Verdict]]:
    """Verdicts by arm, then those of the run ("between arms"): judged anew from the rows."""
    found = {arm.name: arm_verdicts(arm) for arm in run.arms}
    between = run_verdicts(measured)
    return {**found, "between arms": between} if between else found
