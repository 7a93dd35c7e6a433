"""The tables of a head-to-head acceptance in their usual order: single, ladder, ratios, throughput."""

from __future__ import annotations

from itertools import combinations

from analysis.estimate import finding
from analysis.measured import Measured
from analysis.rundata import Arm
from analysis.tabulation.table import Cell, Column, Table

ENGINE_TIME = "Seconds of the engine's clock."


def key(text: str) -> str:
    """A name made fit for a CSV column."""
    return "".join(char if char.isalnum() else "_" for char in text).strip("_").lower()


def server(arm: Arm) -> str:
    """An arm as a reader of a table should see it: engine, mode, and the width it really has."""
    width = arm.record.get("effective_width") or arm.requested_width
    return f"{arm.subject} {arm.mode}" + (f" (width {width})" if width else "")


def parallel_modes(measured: Measured) -> list[str]:
    return [mode for mode in measured.run.modes if mode != "serial"]


def single(measured: Measured) -> Table:
    table = Table(
        "single",
        "Single request",
        f"One request alone on the server. {ENGINE_TIME} Output tokens as the server's usage counts them.",
        [Column("server", "Server"), Column("wall_s", "Wall (s)"), Column("output_tok_s", "Output tok/s", 2),
         Column("result", "Result")],
    )  # fmt: skip
    for arm in measured.run.arms if 1 in measured.levels else []:
        waves = measured.of(arm, "single")
        failed = waves[waves["ok"] < waves["requests"]]
        result = "not measured" if waves.empty else "pass" if failed.empty else "fail"
        cells: list[Cell] = [measured.level(arm, 1, column) for column in ("wall_s", "output_tok_s")]
        table.rows.append([server(arm), *cells, result])
    return table


def concurrent(measured: Measured) -> Table:
    """Wall seconds of every arm and the speedup of each mode over serial of the same engine."""
    run = measured.run
    columns = [Column("concurrency", "Concurrent requests", 0)]
    for subject in run.subjects:
        columns += [
            Column(f"{key(subject)}_{mode}_wall_s", f"{subject} {mode}")
            for mode in run.modes
            if run.arm(subject, mode)
        ]
        columns += [
            Column(f"{key(subject)}_{key(_speedup(mode))}", f"{subject} {_speedup(mode)}", 2, "x")
            for mode in _sped_up(measured, subject)
        ]
    table = Table(
        "concurrent",
        "Concurrent non-streaming requests",
        "Wall seconds from the first request's sending to the last one's end (engine's clock), and speedup: "
        "serial wall / wall of the other mode of the same engine.",
        columns,
    )
    for count in measured.levels:
        if count == 1:
            continue
        cells: list[Cell] = [count]
        for subject in run.subjects:
            there = [run.arm(subject, mode) for mode in run.modes]
            cells += [measured.level(arm, count, "wall_s") for arm in there if arm]
            cells += [
                measured.ratio(run.arm(subject, "serial"), run.arm(subject, mode), count)
                for mode in _sped_up(measured, subject)
            ]
        table.rows.append(cells)
    return table


def _speedup(mode: str) -> str:
    return "speedup" if mode == "batch" else f"{mode} speedup"


def _sped_up(measured: Measured, subject: str) -> list[str]:
    if measured.run.arm(subject, "serial") is None:
        return []
    return [mode for mode in parallel_modes(measured) if measured.run.arm(subject, mode)]


def head_to_head(measured: Measured, mode: str) -> Table:
    """Wall of every engine in one mode, and the ratio of each pair."""
    arms = [arm for arm in (measured.run.arm(subject, mode) for subject in measured.run.subjects) if arm]
    columns = [Column("concurrency", "Concurrent requests", 0)]
    columns += [Column(f"{key(arm.subject)}_wall_s", f"{arm.subject} (s)") for arm in arms]
    for a, b in combinations(arms, 2):
        name = f"{key(a.subject)}_{key(b.subject)}"
        columns += [
            Column(f"{name}_ratio", f"{a.subject} / {b.subject}", 2, "x"),
            Column(f"{name}_finding", f"{a.subject} is"),
            Column(f"{name}_repeats_for_5_percent", "Repeats for 5 %", 0),
        ]
    table = Table(
        "head_to_head" if mode == "batch" else f"head_to_head_{mode}",
        f"Head-to-head, {mode} mode on every side",
        "Wall seconds at the same concurrency (engine's clock) and their ratio: below 1, the first is "
        "faster. “No difference shown” means that the 99 % interval contains 1. “Repeats for 5 %”: how many "
        "repeats would show a difference of 5 % at this noise (80 % power).",
        columns,
    )
    for count in measured.levels if len(arms) > 1 else []:
        cells: list[Cell] = [count, *(measured.level(arm, count, "wall_s") for arm in arms)]
        for a, b in combinations(arms, 2):
            ratio = measured.ratio(a, b, count)
            cells += [ratio, finding(ratio), measured.repeats_needed(a, b, count)]
        table.rows.append(cells)
    return table


def throughput(measured: Measured) -> Table:
    run = measured.run
    waiting = [arm for arm in run.arms if arm.mode != "serial"]
    columns = [Column("concurrency", "Concurrent requests", 0)]
    columns += [
        Column(f"{key(arm.subject)}_{arm.mode}_output_tok_s", f"{arm.subject} {arm.mode} tok/s", 2)
        for arm in run.arms
    ]
    columns += [
        Column(f"{key(arm.subject)}_{arm.mode}_mean_latency_s", f"{arm.subject} {arm.mode} latency (s)")
        for arm in waiting
    ]
    table = Table(
        "throughput",
        "Aggregate output throughput and mean latency",
        "Output tokens per second over all requests in flight (sum of completion tokens / wall), and mean "
        "latency per request in seconds; engine's clock.",
        columns,
    )
    for count in measured.levels:
        cells: list[Cell] = [count]
        cells += [measured.level(arm, count, "output_tok_s") for arm in run.arms]
        cells += [measured.level(arm, count, "mean_latency_s") for arm in waiting]
        table.rows.append(cells)
    return table
