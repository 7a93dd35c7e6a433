"""How far the figures can be trusted: start spread, measurement error, batching evidence, counts, memory."""

from __future__ import annotations

import pandas as pd

from analysis.batching import inferred
from analysis.locust_files import counted
from analysis.measured import Measured
from analysis.rundata import Arm
from analysis.tabulation.table import Cell, Column, Table
from analysis.truth import errors

CLOCKS = {"kernel": "kernel (stamped on arrival)", "user": "user (read after recv)"}


def batching(measured: Measured) -> Table:
    table = Table(
        "batching",
        "Does it batch?",
        "Requests served at once, inferred from when the requests of the widest wave complete: a server "
        "with w slots needs a service time between completion k and k + w. A lower bound. Seconds of the "
        "engine's clock.",
        [Column("mode", "Mode"), Column("count", "Wave of", 0), Column("asked", "Width asked", 0),
         Column("said", "Engine's own word", 0), Column("inferred", "Inferred", 0), Column("kind", "It is"),
         Column("evidence", "Completions")],
    )  # fmt: skip
    for arm in measured.run.arms:
        if found := inferred(arm):
            said = arm.record.get("effective_width")
            cells: list[Cell] = [found.count, found.asked, None if said is None else int(said), found.width]
            table.rows.append([arm.title, *cells, found.kind, found.evidence])
    return table


def start_spread(measured: Measured) -> Table:
    table = Table(
        "start_spread",
        "Start spread",
        "Real milliseconds between the first and the last request's sending in a wave, over all repeats. "
        "Part of the wall time; it has to be small against it.",
        [Column("mode", "Mode"), Column("count", "Concurrent requests", 0), Column("waves", "Waves", 0),
         Column("median_ms", "Median (ms)"), Column("max_ms", "Largest (ms)")],
        engine_time=False,
    )  # fmt: skip
    ladder = measured.waves[(measured.waves["case"] == "ladder") & (measured.waves["repeat"] > 0)]
    for arm in measured.run.arms:
        for count, waves in ladder[ladder["arm"] == arm.name].groupby("count"):
            spread = waves["start_spread_ms"].dropna()
            if len(spread):
                middles: list[Cell] = [float(spread.median()), float(spread.max())]
                table.rows.append([arm.title, int(str(count)), len(spread), *middles])
    return table


def measurement_error(measured: Measured) -> Table:
    """Measured minus true, where a simulated engine wrote down what it did."""
    table = Table(
        "measurement_error",
        "Measurement error",
        "What was measured minus what the simulated engine did, by the time of its own writes. REAL "
        "milliseconds: divide a time above by its arm's time scale before comparing. TTFT and latency "
        "count from our sending; ITL compares gap by gap. p99 and largest are of absolute "
        "errors.",
        [Column("arm", "Arm"), Column("clock", "Clock"), Column("metric", "Metric"),
         Column("values", "Values", 0),
         Column("median_ms", "Median (ms)"), Column("p99_ms", "p99 (ms)"), Column("max_ms", "Largest (ms)")],
        engine_time=False,
    )  # fmt: skip
    for arm in measured.run.arms:
        if arm.truth.empty:
            continue
        found = errors(arm)
        for (clock, metric), group in found.groupby(["clock", "metric"], sort=False):
            error = group["error_ms"]
            size = error.abs()
            figures: list[Cell] = [float(error.median()), float(size.quantile(0.99)), float(size.max())]
            name = {"ttft": "TTFT", "latency": "latency", "itl": "ITL"}[str(metric)]
            table.rows.append([arm.title, CLOCKS.get(str(clock), str(clock)), name, len(error), *figures])
    return table


def memory(measured: Measured) -> Table:
    table = Table(
        "memory",
        "Peak memory and use",
        "Highest sample while under load. MiB; GPU use in percent, CPU in percent of one core (mean of "
        "samples).",
        [Column("mode", "Mode"), Column("device", "Device"), Column("peak_mib", "Peak memory (MiB)", 0),
         Column("mean_use_percent", "Mean use (%)", 1)],
        engine_time=False,
    )  # fmt: skip
    for arm in measured.run.arms:
        samples = arm.telemetry
        for device, group in samples[samples["source"] == "gpu"].groupby("labels"):
            peak = group.loc[group["name"] == "memory_used_mib", "value"].max()
            table.rows.append([arm.title, f"GPU {device}", float(peak), _mean(group, "utilisation_percent")])
        for source, title in (("engine", "engine's processes"), ("client", "load generator")):
            group = samples[samples["source"] == source]
            if len(group):
                peak = group.loc[group["name"] == "rss_mib", "value"].max()
                table.rows.append([arm.title, title, float(peak), _mean(group, "cpu_percent")])
    return table


def _mean(group: pd.DataFrame, name: str) -> float:
    return float(group.loc[group["name"] == name, "value"].mean())


def counts(measured: Measured) -> Table:
    """Our rows beside Locust's own count, and every request that did not end well."""
    table = Table(
        "counts",
        "Requests",
        "All requests, warm-ups included, by how they ended; and Locust's own count of those that ended. In "
        "flight: when the run stopped. Disconnected: we left on purpose.",
        [Column("arm", "Arm"), Column("rows", "Rows", 0), Column("ok", "ok", 0),
         Column("failed", "failed", 0),
         Column("disconnected", "disconnected", 0), Column("unfinished", "in flight", 0),
         Column("locust_requests", "Locust's count", 0), Column("locust_failures", "Locust's failures", 0),
         Column("agree", "Agree")],
        engine_time=False,
    )  # fmt: skip
    for arm in measured.run.arms:
        table.rows.append(_counts(arm))
    return table


def _counts(arm: Arm) -> list[Cell]:
    by_outcome = arm.requests["outcome"].value_counts()
    ok, failed, left, flying = (
        int(by_outcome.get(outcome, 0)) for outcome in ("ok", "failed", "disconnected", "unfinished")
    )
    cells: list[Cell] = [arm.title, len(arm.requests), ok, failed, left, flying]
    locust = counted(arm.path)
    if locust is None:
        return [*cells, None, None, "no files of Locust"]
    early = arm.conduct.get("status") != "complete"
    return [
        *cells,
        *locust,
        "yes" if locust == (ok + failed + left, failed) else "no: ended early" if early else "NO",
    ]
