"""What the events of streams tell: gaps between tokens, events that carry several, stalls.

Works on arrays and piece by piece: a run may hold 50 million events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from analysis.reading import batches
from analysis.rundata import Arm
from analysis.schema import EVENT_TYPES

TEXT_KINDS = ("text", "reasoning", "tool")
TOKENS_PER_EVENT_WARNING = 1.25


@dataclass(frozen=True, eq=False)
class TextEvents:
    """The events with text of an arm, those of one stream behind one another.

    streams[i] is the row in `arm.requests` of the i-th stream (-1: it has none), starts[i] where its events
    begin. gaps_ms: engine time since the event before, NaN for a stream's first. carried: the tokens in an
    event, NaN where the server does not tell; None if it never does.
    """

    streams: NDArray[np.intp]
    starts: NDArray[np.intp]
    gaps_ms: NDArray[np.float32]
    carried: NDArray[np.float32] | None

    @property
    def counts(self) -> NDArray[np.intp]:
        """Events with text of each stream."""
        return np.diff(self.starts, append=len(self.gaps_ms))


def text_events(arm: Arm) -> TextEvents:
    """The arm's events with text; computed once."""
    if "text_events" not in arm.__dict__:
        arm.__dict__["text_events"] = _text_events(arm)
    found: TextEvents = arm.__dict__["text_events"]
    return found


def _text_events(arm: Arm) -> TextEvents:
    names: list[str] = []
    starts, gaps, carried = [np.empty(0, np.intp)], [np.empty(0, np.float32)], [np.empty(0, np.float32)]
    last_name, last_ms, size = "", np.nan, 0
    for batch in batches(arm.path, "events.csv", EVENT_TYPES, ["request", "at_ms", "kind", "tokens"]):
        codes, requests = _coded(batch.column("request"))
        kinds, kind_names = _coded(batch.column("kind"))
        text = np.flatnonzero(np.isin(kind_names.to_pylist(), TEXT_KINDS)[kinds])
        if not len(text):
            continue
        codes = codes[text]
        at_ms = batch.column("at_ms").to_numpy(zero_copy_only=False)[text] * arm.time_scale
        change = np.flatnonzero(np.diff(codes) != 0) + 1
        first_name = requests[int(codes[0])].as_py()
        begins = change if first_name == last_name else np.concatenate([[0], change])
        between = np.diff(at_ms, prepend=last_ms)
        between[begins] = np.nan
        names += requests.take(pa.array(codes[begins])).to_pylist()
        starts.append(begins + size)
        gaps.append(between.astype(np.float32))
        carried.append(batch.column("tokens").to_numpy(zero_copy_only=False)[text])
        last_name, last_ms = requests[int(codes[-1])].as_py(), at_ms[-1]
        size += len(codes)
    tokens = np.concatenate(carried)
    rows = arm.requests["request"].drop_duplicates()
    places = pd.Index(rows).get_indexer(pd.Index(names, dtype="str"))
    streams = np.where(places >= 0, rows.index.to_numpy()[places] if len(rows) else -1, -1)
    told = None if np.isnan(tokens).all() else tokens
    return TextEvents(streams, np.concatenate(starts), np.concatenate(gaps), told)


def _coded(column: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
    """A column of names as codes and the names that they stand for."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return coded.indices.to_numpy(), coded.dictionary


def stream_metrics(arm: Arm) -> pd.DataFrame:
    """One row a request, like `arm.requests`; NaN where it has no events with text; computed once.

    text_events: events with text. gap_ms: mean gap between them. stall_ms: the longest gap.
    lumped_share: share of gaps that are nil, because one read brought several events.
    tokens_per_event: tokens by usage / text events, NaN if not known.
    """
    if "stream_metrics" not in arm.__dict__:
        arm.__dict__["stream_metrics"] = _stream_metrics(arm)
    found: pd.DataFrame = arm.__dict__["stream_metrics"]
    return found


def _stream_metrics(arm: Arm) -> pd.DataFrame:
    text = text_events(arm)
    columns = ["text_events", "gap_ms", "stall_ms", "lumped_share", "tokens_per_event"]
    metrics = pd.DataFrame(np.nan, index=arm.requests.index, columns=columns)
    if not len(text.starts):
        return metrics
    counts = text.counts
    gaps = np.where(np.isnan(text.gaps_ms), np.float32(0), text.gaps_ms)
    nil = np.add.reduceat(text.gaps_ms <= 0, text.starts, dtype=np.int64)
    sums = np.add.reduceat(gaps, text.starts, dtype=np.float64)
    stalls = np.maximum.reduceat(gaps, text.starts)
    between = np.where(counts > 1, counts - 1, np.nan)
    found = {
        "text_events": counts,
        "gap_ms": sums / between,
        "stall_ms": stalls,
        "lumped_share": nil / between,
    }
    known = text.streams >= 0
    for column, values in found.items():
        metrics.loc[text.streams[known], column] = values[known].astype(float)
    usage = arm.requests["completion_tokens"].where(arm.requests["token_source"].isin(["usage", "budget"]))
    metrics["tokens_per_event"] = usage.astype("float64") / metrics["text_events"]
    return metrics


def inter_token_ms(arm: Arm, chosen: pd.Index[int]) -> NDArray[np.float32]:
    """Gaps between text events, in engine ms, of the requests with these indices in `arm.requests`.

    Each is divided by the tokens its event carried, where the server tells.
    """
    text = text_events(arm)
    wanted = np.zeros(len(arm.requests) + 1, dtype=bool)
    wanted[chosen.to_numpy()] = True
    here = np.repeat(wanted[text.streams], text.counts) & ~np.isnan(text.gaps_ms)
    gaps = text.gaps_ms[here]
    if text.carried is None:
        return gaps
    carried = text.carried[here]
    carried[~(carried > 0)] = 1
    return np.divide(gaps, carried, dtype=np.float32)
