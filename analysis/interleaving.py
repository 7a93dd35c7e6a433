"""The interleave waves of an arm: a long request, and a short one sent a moment later."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.rundata import Arm
from analysis.streams import TEXT_KINDS
from analysis.wavemetrics import arm_waves

COLUMNS = ["repeat", "wave", "short_s", "long_s", "wall_s", "ended_before_s", "long_tokens", "short_tokens",
           "alone_s", "stall_s", "problem"]  # fmt: skip


def interleaves(arm: Arm) -> pd.DataFrame:
    """One row a recorded repeat, engine seconds.

    ended_before_s: by how much the short one ended before the long one's own end (negative: after it).
    alone_s: latency of the short one with nothing beside it. stall_s: the longest gap in the long one's
    stream while the short one was in flight; NaN where it had no token yet or was not streamed.
    """
    waves = arm_waves(arm)
    waves = waves[(waves["case"] == "interleave") & (waves["repeat"] > 0)]
    alone = waves[waves["count"] == 1].groupby("repeat")["wall_s"].median()
    rows = arm.recorded[arm.recorded["case"] == "interleave"].drop_duplicates("request")
    requests = rows.set_index("request").to_dict("index")
    found = []
    for one in waves[waves["count"] == 2].itertuples():
        names = (f"{one.wave}-0", f"{one.wave}-1")
        if not set(names) <= set(requests):
            continue
        long, short = (requests[name] for name in names)
        ends = [request["sent_ms"] + request["latency_ms"] for request in (long, short)]
        found.append(
            {
                "repeat": one.repeat,
                "wave": one.wave,
                "short_s": short["latency_ms"] / 1000,
                "long_s": long["latency_ms"] / 1000,
                "wall_s": one.wall_s,
                "ended_before_s": (ends[0] - ends[1]) / 1000,
                "long_tokens": long["completion_tokens"],
                "short_tokens": short["completion_tokens"],
                "alone_s": alone.get(one.repeat, np.nan),
                "stall_s": _stall_s(arm, names[0], short["sent_ms"] - long["sent_ms"], short["latency_ms"]),
                "problem": one.problem,
            }
        )
    return pd.DataFrame(found, columns=COLUMNS)


def _stall_s(arm: Arm, long: str, short_sent_ms: float, short_latency_ms: float) -> float:
    events = arm.events
    at = events.loc[(events["request"] == long) & events["kind"].isin(TEXT_KINDS), "at_ms"].to_numpy()
    gaps, ends = np.diff(at), at[1:]
    during = (ends > short_sent_ms) & (ends - gaps < short_sent_ms + short_latency_ms)
    return float(gaps[during].max()) / 1000 if during.any() else np.nan
