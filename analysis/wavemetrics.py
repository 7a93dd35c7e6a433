"""From requests to waves: one row for each simultaneous group, with what was measured on it as a whole."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.clientwatch import touched
from analysis.rundata import Arm, Run

WAVE_COLUMNS = [
    "subject",
    "mode",
    "arm",
    "case",
    "count",
    "repeat",
    "wave",
    "wall_s",
    "output_tok_s",
    "mean_latency_s",
    "ttft_ms",
    "tpot_ms",
    "start_spread_ms",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "token_source",
    "requests",
    "ok",
    "problem",
    "started_ms",
]


NEEDED = [
    "wave",
    "case",
    "count",
    "repeat",
    "request",
    "sent_ns",
    "scheduled_ns",
    "sent_ms",
    "latency_ms",
    "ttft_ms",
    "last_token_ms",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "token_source",
    "outcome",
    "failure",
]


def waves(run: Run) -> pd.DataFrame:
    """One row a wave of every arm, warm-ups (repeat 0) included.

    wall_s: last end - first sending. output_tok_s: completion tokens / wall_s. ttft_ms and tpot_ms: medians
    over the wave's streams. Engine time, except start_spread_ms (real ms between first and last sending).
    problem: why the wave's numbers are not valid, empty if they are.
    """
    return pd.concat([arm_waves(arm) for arm in run.arms], ignore_index=True)


def arm_waves(arm: Arm) -> pd.DataFrame:
    """`waves` of one arm; computed once."""
    if "waves" not in arm.__dict__:
        arm.__dict__["waves"] = _arm_waves(arm)
    found: pd.DataFrame = arm.__dict__["waves"]
    return found


def _arm_waves(arm: Arm) -> pd.DataFrame:
    rows = arm.requests.loc[arm.requests["wave"] != "", NEEDED].copy()
    rows["end_ms"] = rows["sent_ms"] + rows["latency_ms"]
    rows["tpot_ms"] = tpot_ms(rows)
    rows["ok"] = rows["outcome"] == "ok"
    rows["touched"] = touched(arm).reindex(rows.index)
    grouped = rows.groupby("wave", sort=False)
    result = grouped.agg(
        case=("case", "first"),
        count=("count", "first"),
        repeat=("repeat", "first"),
        started_ms=("sent_ms", "min"),
        ended_ms=("end_ms", "max"),
        mean_latency_s=("latency_ms", "mean"),
        ttft_ms=("ttft_ms", "median"),
        tpot_ms=("tpot_ms", "median"),
        prompt_tokens=("prompt_tokens", "sum"),
        completion_tokens=("completion_tokens", "sum"),
        cached_tokens=("cached_tokens", "sum"),
        requests=("request", "size"),
        ok=("ok", "sum"),
    ).reset_index()
    result["mean_latency_s"] /= 1000
    result["wall_s"] = (result["ended_ms"] - result["started_ms"]) / 1000
    result["output_tok_s"] = result["completion_tokens"].astype("float64") / result["wall_s"].replace(
        0, np.nan
    )
    result["start_spread_ms"] = result["wave"].map(_start_spread_ms(rows))
    sources = rows[rows["token_source"] != ""].groupby("wave", sort=False)["token_source"]
    result["token_source"] = (
        result["wave"].map(sources.agg(lambda kinds: "+".join(sorted(set(kinds))))).fillna("")
    )
    result["problem"] = _problems(rows, result)
    result["subject"], result["mode"], result["arm"] = arm.subject, arm.mode, arm.name
    return result[WAVE_COLUMNS]


def _start_spread_ms(rows: pd.DataFrame) -> pd.Series[float]:
    """Real ms between first and last sending in each wave, apart from what was scheduled to be later."""
    late_ns = (rows["sent_ns"] - rows["scheduled_ns"].fillna(rows["sent_ns"].min())).astype("Float64")
    late = late_ns.groupby(rows["wave"], sort=False)
    return (late.max() - late.min()).astype("float64") / 1e6


def tpot_ms(rows: pd.DataFrame) -> pd.Series[float]:
    """Time per output token after the first: (last token - first token) / (completion tokens - 1)."""
    tokens = rows["completion_tokens"].astype("Float64").to_numpy(dtype="float64", na_value=np.nan)
    span = (rows["last_token_ms"] - rows["ttft_ms"]).to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(tokens > 1, span / (tokens - 1), np.nan)
    return pd.Series(value, index=rows.index)


def _problems(rows: pd.DataFrame, result: pd.DataFrame) -> pd.Series[str]:
    """Failures, unfinished requests and the load generator's own trouble, in words, for each wave."""
    expected = rows["outcome"].isin(["ok", "disconnected"]) & (rows["touched"] == "")
    words: dict[str, list[str]] = {str(wave): [] for wave in result["wave"]}
    bad = rows[~expected]
    for wave, group in bad.groupby("wave", sort=False):
        size = int(result.loc[result["wave"] == wave, "requests"].iloc[0])
        for outcome in ("failed", "unfinished"):
            hit = group[group["outcome"] == outcome]
            if len(hit):
                codes = ", ".join(sorted(set(hit["failure"]) - {""}))
                words[str(wave)].append(f"{len(hit)} of {size} {outcome}" + (f" ({codes})" if codes else ""))
        words[str(wave)] += sorted(set(group["touched"]) - {""})
    return result["wave"].map(lambda wave: "; ".join(words[str(wave)])).astype("str")
