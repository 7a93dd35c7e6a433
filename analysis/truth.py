"""The measurement error, where the truth is known: what we measured minus what a simulated engine did."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.rundata import Arm
from analysis.streams import TEXT_KINDS


def errors(arm: Arm) -> pd.DataFrame:
    """One row a measured value: request, clock, stream, metric (ttft, latency, itl) and error_ms.

    Real milliseconds (not scaled): measured minus true. TTFT and latency both count from our sending, whose
    stamp needs nobody's help; the truth ends with the engine's write, so the way to us is in the error. itl
    compares each gap between text events with the gap between their writes. Only requests that passed.
    """
    rows = arm.requests[arm.requests["outcome"] == "ok"]
    both = rows.merge(arm.truth.drop_duplicates("request"), on="request", suffixes=("", "_true"))
    found = [
        _since_sending(both, "ttft", both["ttft_ms"] / arm.time_scale, "first_token_ns"),
        _since_sending(both, "latency", both["latency_ms"] / arm.time_scale, "end_ns"),
        _gaps(arm, both),
    ]
    return pd.concat(found, ignore_index=True).dropna(subset=["error_ms"])


def _since_sending(
    both: pd.DataFrame, metric: str, measured_ms: pd.Series[float], until: str
) -> pd.DataFrame:
    true_ms = (both[until] - both["sent_ns"]).astype("float64") / 1e6
    return pd.DataFrame(
        {
            "request": both["request"],
            "clock": both["clock"],
            "stream": both["stream"],
            "metric": metric,
            "error_ms": measured_ms - true_ms,
        }
    )


def _gaps(arm: Arm, both: pd.DataFrame) -> pd.DataFrame:
    events = arm.events[arm.events["kind"].isin(TEXT_KINDS)]
    joined = events.merge(arm.truth_events, on=["request", "event"]).merge(
        both[["request", "clock", "stream"]], on="request"
    )
    same = joined["request"].eq(joined["request"].shift())
    measured_ms = joined["at_ms"].diff() / arm.time_scale
    true_ms = joined["at_ns"].diff() / 1e6
    joined["error_ms"] = (measured_ms - true_ms).where(same, np.nan)
    return joined[["request", "clock", "stream", "error_ms"]].assign(metric="itl")
