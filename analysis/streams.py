"""What the events of streams tell: gaps between tokens, events that carry several, stalls."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.rundata import Arm

TEXT_KINDS = ("text", "reasoning", "tool")
TOKENS_PER_EVENT_WARNING = 1.25


def text_events(arm: Arm) -> pd.DataFrame:
    """Events that carry text, in order: request, at_ms, tokens, `gap_ms` to the one before."""
    events = arm.events
    text = events.loc[events["kind"].isin(TEXT_KINDS), ["request", "at_ms", "tokens"]].reset_index(drop=True)
    same = text["request"].eq(text["request"].shift())
    text["gap_ms"] = text["at_ms"].diff().where(same)
    return text


def stream_metrics(arm: Arm) -> pd.DataFrame:
    """One row a stream (index: request).

    text_events: events with text. gap_ms: median gap between them. stall_ms: the longest gap.
    lumped_share: share of gaps that are nil, because one read brought several events.
    tokens_per_event: tokens by usage / text events, NaN if not known.
    """
    if "stream_metrics" not in arm.__dict__:
        arm.__dict__["stream_metrics"] = _stream_metrics(arm)
    found: pd.DataFrame = arm.__dict__["stream_metrics"]
    return found


def _stream_metrics(arm: Arm) -> pd.DataFrame:
    text = text_events(arm)
    grouped = text.groupby("request", sort=False, observed=True)["gap_ms"]
    metrics = pd.DataFrame(
        {
            "text_events": grouped.size(),
            "gap_ms": grouped.median(),
            "stall_ms": grouped.max(),
            "lumped_share": (text["gap_ms"] <= 0).groupby(text["request"], sort=False).sum()
            / grouped.count().clip(lower=1),
        }
    )
    usage = arm.requests[arm.requests["token_source"] == "usage"].set_index("request")["completion_tokens"]
    tokens = usage[~usage.index.duplicated()].reindex(metrics.index).astype("Float64")
    known = tokens.to_numpy(dtype="float64", na_value=np.nan)
    metrics["tokens_per_event"] = known / metrics["text_events"].to_numpy()
    return metrics


def inter_token_ms(arm: Arm, requests: pd.Index[str] | None = None) -> pd.Series[float]:
    """Gaps between text events in engine ms, each divided by the tokens it carried where the server tells."""
    text = text_events(arm)
    if requests is not None:
        text = text[text["request"].isin(requests)]
    carried = text["tokens"].where(text["tokens"] > 0, 1.0).astype("float64")
    return (text["gap_ms"] / carried).dropna()
