"""Whether the load generator itself may have bent a number: requests it was too busy to time well."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.rundata import Arm
from analysis.streams import stream_metrics

CPU_LIMIT_PERCENT = 90.0
LAG_SHARE = 0.05
LUMPED_SHARE = 0.05
USEFUL_CPU_PERCENT = 60.0
"""Beyond this share of a core the generator's own queueing starts to show in the numbers."""


def exposure(arm: Arm) -> pd.DataFrame:
    """For each request of the arm (its index): the worst `cpu_percent`, `lag_ms` (real) while it ran."""
    rows = arm.requests
    exposed = pd.DataFrame({"cpu_percent": 0.0, "lag_ms": 0.0}, index=rows.index)
    samples = arm.client.sort_values("at_ns")
    if samples.empty or rows.empty:
        return exposed
    start = rows["sent_ns"].to_numpy(dtype="int64", na_value=0)
    ran_ms = rows["latency_ms"].fillna(0.0).to_numpy() / arm.time_scale
    end = start + (ran_ms * 1e6).astype("int64")
    workers = set(samples["worker"].unique())
    for worker, of_worker in rows.groupby("worker", sort=False).groups.items():
        mine = samples[samples["worker"] == worker] if worker in workers else samples
        places = rows.index.get_indexer(pd.Index(of_worker))
        at = mine["at_ns"].to_numpy()
        first = np.minimum(np.searchsorted(at, start[places]), len(at) - 1)
        last = np.minimum(np.searchsorted(at, end[places]), len(at) - 1)
        for number, column in enumerate(exposed.columns):
            exposed.iloc[places, number] = _range_max(mine[column].to_numpy(dtype="float64"), first, last)
    return exposed


def _range_max(
    values: NDArray[np.float64], first: NDArray[np.intp], last: NDArray[np.intp]
) -> NDArray[np.float64]:
    """max(values[first..last]) for many ranges at once, by a table of maxima over powers of two."""
    levels = [values]
    while (1 << len(levels)) <= len(values):
        half = 1 << (len(levels) - 1)
        levels.append(np.maximum(levels[-1][:-half], levels[-1][half:]))
    level = np.floor(np.log2(last - first + 1)).astype(int)
    worst = np.empty(len(first))
    for number in np.unique(level):
        here = level == number
        table = levels[number]
        worst[here] = np.maximum(table[first[here]], table[last[here] - (1 << number) + 1])
    return worst


def touched(arm: Arm) -> pd.Series[str]:
    """For each request the verdict code that makes its times invalid, or "" where none does.

    Stamps taken by the kernel do not move when the process is late, so lag counts against rows of the user
    clock only: where it exceeds 5 % of the time to first token (streams) or of the latency.
    """
    exposed = exposure(arm)
    rows = arm.requests
    shortest_ms = rows["ttft_ms"].fillna(rows["latency_ms"]).to_numpy() / arm.time_scale
    late = exposed["lag_ms"].to_numpy() > LAG_SHARE * shortest_ms
    by_lag = late & (rows["clock"] != "kernel").to_numpy()
    by_cpu = (exposed["cpu_percent"] > CPU_LIMIT_PERCENT).to_numpy()
    codes = np.select([by_cpu, by_lag], ["client.cpu", "client.lag"], default="")
    return pd.Series(codes, index=rows.index, dtype="str")


def lumped(arm: Arm) -> pd.Series[bool]:
    """For each request whether its gaps between tokens are invalid because we read several in one lump.

    That is, more than 5 % of its text events share a read while our lag exceeded their usual gap. First and
    last token are hardly touched by that, the gaps are.
    """
    metrics = stream_metrics(arm)
    share = metrics["lumped_share"].fillna(0.0).to_numpy()
    gap_ms = metrics["gap_ms"].fillna(np.inf).to_numpy() / arm.time_scale
    lag_ms = exposure(arm)["lag_ms"].to_numpy()
    return pd.Series((share > LUMPED_SHARE) & (lag_ms > gap_ms), index=arm.requests.index)


def processes_needed(arm: Arm) -> int:
    """How many load processes would keep each below 60 % of a core, judged by the busiest moment."""
    if arm.client.empty:
        return 1
    by_moment = arm.client.groupby(arm.client["at_ns"] // 250_000_000)["cpu_percent"].sum()
    return max(1, int(np.ceil(by_moment.max() / USEFUL_CPU_PERCENT)))
