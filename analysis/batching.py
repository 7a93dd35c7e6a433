"""Does it batch? The width an engine really has, inferred from when the requests of a wave complete.

A server with w slots starts request k + w only when a slot is free. So completion k + w lies at least one
service time after completion k, and a service time is never shorter than that of a request alone. The
inferred width is the smallest w for which the completions agree with that. It is a lower bound: prompts
that are read one after the other also spread completions, but by less than a service time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.rundata import Arm
from analysis.wavemetrics import arm_waves

MEAN_SERVICE_SHARE = 0.85
LEAST_SERVICE_SHARE = 0.5
SAMPLED_METRICS = ("vllm:num_requests_running", "llamacpp:requests_processing", "pocket_requests_running",
                   "sglang:num_running_reqs")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Batching:
    """What a wave of `count` says: `width` requests were served at once; `kind` holds it against `asked`."""

    count: int
    width: int
    asked: int | None
    alone_s: float
    completions_s: tuple[float, ...]
    seen_running: int

    @property
    def kind(self) -> str:
        """ "batching" (as many at once as could be), "serial" (one), else "partial"."""
        if self.width <= 1:
            return "serial"
        return "batching" if self.width >= min(self.count, self.asked or self.count) else "partial"

    @property
    def evidence(self) -> str:
        """Completions in groups that lie within one service, against the time of a request alone."""
        ends = np.array(self.completions_s)
        breaks = np.flatnonzero(np.diff(ends) >= LEAST_SERVICE_SHARE * self.alone_s) + 1
        groups = np.split(ends, breaks)
        if len(groups) == len(ends):
            shown = f"one every {ends[-1] / len(ends):.3f} s"
        else:
            shown = ", ".join(f"{len(group)} by {group[-1]:.3f} s" for group in groups)
        seen = f"; the server reported {self.seen_running} running" if self.seen_running else ""
        return f"{shown}; one alone takes {self.alone_s:.3f} s{seen}"


def inferred(arm: Arm) -> Batching | None:
    """From the widest level of the ladder, all repeats together; None where it or `single` is missing."""
    waves = arm_waves(arm)
    sound = waves[(waves["repeat"] > 0) & (waves["ok"] == waves["requests"])]
    alone = sound[sound["case"] == "single"]["wall_s"]
    ladder = sound[sound["case"] == "ladder"]
    if alone.empty or ladder.empty:
        return None
    count = int(ladder["count"].max())
    profile = completions_s(arm, ladder[ladder["count"] == count]["wave"])
    if count < 2 or len(profile) != count:
        return None
    alone_s = float(alone.median())
    seen = seen_running(arm)
    width = max(width_of(profile, alone_s), min(seen, count))
    return Batching(count, width, arm.requested_width, alone_s, tuple(map(float, profile)), seen)


def completions_s(arm: Arm, names: pd.Series[str]) -> NDArray[np.float64]:
    """When the 1st, 2nd, ... request of a wave ended, seconds from its start: the median over the waves."""
    rows = arm.requests[arm.requests["wave"].isin(names)]
    ended = rows["sent_ms"] + rows["latency_ms"]
    started = rows.groupby("wave")["sent_ms"].transform("min")
    since = ((ended - started) / 1000).groupby(rows["wave"]).apply(lambda ends: np.sort(ends.to_numpy()))
    profiles = [ends for ends in since if len(ends) == len(since.iloc[0])]
    return np.asarray(np.median(np.vstack(profiles), axis=0)) if profiles else np.array([])


def width_of(completions: NDArray[np.float64], alone_s: float) -> int:
    """The smallest number of slots that these completion times (ascending) allow."""
    for width in range(1, len(completions)):
        apart = completions[width:] - completions[:-width]
        if apart.mean() >= MEAN_SERVICE_SHARE * alone_s and apart.min() >= LEAST_SERVICE_SHARE * alone_s:
            return width
    return len(completions)


def seen_running(arm: Arm) -> int:
    """The most requests that the server itself reported as running; 0 where it does not tell."""
    samples = arm.telemetry
    running = samples[(samples["source"] == "metrics") & samples["name"].isin(SAMPLED_METRICS)]["value"]
    return int(running.max()) if len(running) else 0
