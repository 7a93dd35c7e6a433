"""One request at exact prompt lengths: prefill and decode speeds of every engine, and their ratios."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from analysis import estimate
from analysis.estimate import UNKNOWN, Estimate
from analysis.measured import Measured, alternate, confidence_between
from analysis.rundata import Arm
from analysis.tabulation.seed import key
from analysis.tabulation.table import Cell, Column, Table

LENGTH_TOLERANCE = 0.001  # of what was asked for; a token more or less changes no speed that is shown


def speeds(arm: Arm) -> pd.DataFrame:
    """One row a recorded long-context request: asked, repeat, prompt_tokens, decode_tokens, prefill_s,
    prefill_tok_s, decode_tok_s, wall_s, problem. Engine seconds; `asked` is the length that was asked for."""
    rows = arm.recorded[arm.recorded["case"] == "long_context"]
    tokens = rows["prompt_tokens"].astype("float64")
    # A server that counts, only not in streams: the prompt was fitted by its count.
    if arm.requests["prompt_tokens"].notna().any():
        tokens = tokens.fillna(rows["prompt_words"].astype("float64"))
    decoded = rows["completion_tokens"].astype("float64") - 1
    span_s = (rows["last_token_ms"] - rows["ttft_ms"]) / 1000
    prefill_s = rows["ttft_ms"] / 1000
    return pd.DataFrame(
        {
            "asked": rows["prompt_words"].astype("Int64"),
            "repeat": rows["repeat"],
            "prompt_tokens": tokens,
            "decode_tokens": decoded,
            "prefill_s": prefill_s,
            "prefill_tok_s": tokens / prefill_s,
            "decode_tok_s": decoded / span_s.replace(0, np.nan),
            "wall_s": rows["latency_ms"] / 1000,
            "problem": rows["failure"].where(rows["outcome"] != "ok", ""),
        }
    )


def long_context(measured: Measured, mode: str) -> Table:
    arms = [arm for arm in measured.run.arms if arm.mode == mode and len(speeds(arm))]
    by_arm = {arm.name: speeds(arm) for arm in arms}
    columns = [Column("prompt_tokens", "Prompt tokens", 0), Column("decode_tokens", "Decode tokens", 0)]
    pairs = list(combinations(arms, 2))
    for kind, title in (("prefill", "prefill"), ("decode", "decode"), ("wall", "wall")):
        for arm in arms:
            name = key(arm.subject)
            if kind != "wall":
                columns.append(Column(f"{name}_{kind}_tok_s", f"{arm.subject} {title} (tok/s)", 2))
            if kind != "decode":
                columns.append(Column(f"{name}_{kind}_s", f"{arm.subject} {title} (s)"))
        for a, b in pairs:
            joined = "" if len(pairs) == 1 else f"{key(a.subject)}_{key(b.subject)}_"
            columns.append(
                Column(f"{joined}{kind}_ratio", f"{title} ratio {a.subject} / {b.subject}", 2, "x")
            )
    table = Table(
        "long_context" if mode == "batch" else f"long_context_{mode}",
        f"Single request, long context ({mode} mode)",
        "One request at a time. Prefill tok/s: prompt tokens / time to first token (s). Decode tok/s: tokens "
        "after the first / time since the first. Ratios are of speeds, also for wall: above 1, the first is "
        "faster. A prompt more than 0.1 % off its length is marked; one whose stream carries no usage has "
        "the length that it was fitted to. Seconds of the engine's clock.",
        columns,
    )
    for asked in sorted({int(one) for frame in by_arm.values() for one in frame["asked"].dropna()}):
        at = {name: frame[frame["asked"] == asked] for name, frame in by_arm.items()}
        table.rows.append(_row(measured, asked, at, arms, pairs))
    return table


def _row(
    measured: Measured, asked: int, at: dict[str, pd.DataFrame], arms: list[Arm], pairs: list[tuple[Arm, Arm]]
) -> list[Cell]:
    decoded = pd.concat(list(at.values()))["decode_tokens"].dropna()
    cells: list[Cell] = [asked, int(decoded.median()) if len(decoded) else None]
    for kind in ("prefill", "decode", "wall"):
        for arm in arms:
            frame = at[arm.name]
            if kind != "wall":
                cells.append(_cell(frame, f"{kind}_tok_s", asked))
            if kind != "decode":
                cells.append(_cell(frame, f"{kind}_s", asked))
        for a, b in pairs:
            column = "wall_s" if kind == "wall" else f"{kind}_tok_s"
            top, bottom = (b, a) if kind == "wall" else (a, b)
            cells.append(_ratio(measured, top, bottom, at, column))
    return cells


def _cell(frame: pd.DataFrame, column: str, asked: int) -> Estimate:
    if frame.empty:
        return UNKNOWN
    failed = sorted(set(frame["problem"]) - {""})
    lengths = sorted({int(count) for count in frame["prompt_tokens"].dropna()})
    marks = [", ".join(failed)] if failed else []
    if any(abs(count / asked - 1) > LENGTH_TOLERANCE for count in lengths):
        marks.append(f"prompt of {', '.join(map(str, lengths))} tokens, not {asked}")
    return estimate.median(frame[column], "; ".join(marks))


def _ratio(measured: Measured, top: Arm, bottom: Arm, at: dict[str, pd.DataFrame], column: str) -> Estimate:
    above, below = at[top.name].set_index("repeat"), at[bottom.name].set_index("repeat")
    if above.empty or below.empty:
        return UNKNOWN
    totals = [
        [int(frame[kind].sum()) for kind in ("prompt_tokens", "decode_tokens")] for frame in (above, below)
    ]
    common = above.index.intersection(below.index)
    paired = alternate(top, bottom) and len(common) > 1
    values = (
        (above.loc[common, column], below.loc[common, column]) if paired else (above[column], below[column])
    )
    found = estimate.ratio(values[0], values[1], paired, confidence=confidence_between(top, bottom))
    differs = ""
    if len(above) == len(below) and totals[0] != totals[1]:
        differs = f"compare.work: {totals[0]} against {totals[1]} prompt and decode tokens"
    return measured.guarded(found, measured.refused(top, bottom, "long_context"), differs)
