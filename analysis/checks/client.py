"""Whether the load generator was itself the bottleneck: late, saturated, or short of what was planned."""

from __future__ import annotations

import pandas as pd

from analysis.clientwatch import (
    CPU_LIMIT_PERCENT,
    LAG_SHARE,
    exposure,
    lumped,
    processes_needed,
    touched,
)
from analysis.locust_files import counted
from analysis.rundata import Arm
from analysis.schema import Verdict, verdict

RATE_SHARE = 0.98


def verdicts(arm: Arm) -> list[Verdict]:
    return [_lag(arm), _cpu(arm), _rate(arm), _rows(arm)]


def _lag(arm: Arm) -> Verdict:
    limit = f"late by at most {LAG_SHARE:.0%} of a measured time, where our own clock took it"
    if arm.client.empty:
        return verdict("client.lag", "skip", "not sampled", limit)
    rows = arm.recorded
    worst = f"{exposure(arm).loc[rows.index, 'lag_ms'].max():.1f} ms at worst" if len(rows) else "no request"
    hit = touched(arm).loc[rows.index] == "client.lag"
    if hit.any():
        return verdict("client.lag", "fail", worst, limit, _advice(arm, rows[hit], "marked invalid"))
    lumps = lumped(arm).loc[rows.index]
    if lumps.any():
        detail = _advice(arm, rows[lumps], "read in lumps: their gaps between tokens are marked invalid")
        return verdict("client.lag", "warn", worst, limit, detail)
    return verdict(
        "client.lag", "pass", worst, limit, f"clock: {', '.join(sorted(set(rows['clock']) - {''}))}"
    )


def _cpu(arm: Arm) -> Verdict:
    limit = f"at most {CPU_LIMIT_PERCENT:g} % of a core while a request is in flight"
    if arm.client.empty:
        return verdict("client.cpu", "skip", "not sampled", limit)
    rows = arm.recorded
    worst = f"{exposure(arm).loc[rows.index, 'cpu_percent'].max():.0f} %" if len(rows) else "no request"
    hit = touched(arm).loc[rows.index] == "client.cpu"
    if hit.any():
        return verdict("client.cpu", "fail", worst, limit, _advice(arm, rows[hit], "marked invalid"))
    return verdict("client.cpu", "pass", worst, limit)


def _advice(arm: Arm, hit: pd.DataFrame, fate: str) -> str:
    names = sorted(set(hit["wave"]))
    shown = ", ".join(names[:3]) + " and more" * (len(names) > 3)
    processes = max(processes_needed(arm), 2)
    return (
        f"{len(hit)} requests of {shown} {fate}; use {processes} load processes (--processes) or fewer users"
    )


def _rate(arm: Arm) -> Verdict:
    """Everything planned was sent; an arrival rate was kept up with."""
    conduct, limit = arm.conduct, "everything that was planned"
    if not conduct:
        return verdict("client.rate", "skip", "no record of what was planned", limit)
    planned, sent, lost = (int(conduct.get(key) or 0) for key in ("planned", "sent", "lost"))
    observed = f"{sent} of {planned} sent" + (f", {lost} lost" if lost else "")
    if lost:
        return verdict("client.rate", "fail", observed, limit, "a load process was lost with its requests")
    if conduct.get("status") != "complete":
        return verdict(
            "client.rate", "skip", observed, limit, f"the run ended early: {conduct.get('status')}"
        )
    if sent < planned:
        return verdict("client.rate", "fail", observed, limit, "fewer requests were sent than planned")
    kept = _kept_share(arm.requests[arm.requests["case"] == "traffic"])
    if kept is not None and kept < RATE_SHARE:
        limit = f"at least {RATE_SHARE:.0%} of the planned rate"
        detail = "arrivals came later than scheduled; use more load processes (--processes)"
        return verdict("client.rate", "fail", f"{kept:.1%} of the planned rate", limit, detail)
    return verdict("client.rate", "pass", observed, limit)


def _kept_share(rows: pd.DataFrame) -> float | None:
    """Sent rate / scheduled rate of an open-loop phase, from the time both took; None if there is none."""
    known = rows.dropna(subset=["scheduled_ns", "sent_ns"])
    if len(known) < 10:
        return None
    scheduled, sent = (
        int(known[column].max() - known["scheduled_ns"].min()) for column in ("scheduled_ns", "sent_ns")
    )
    return scheduled / sent if sent > 0 else None


def _rows(arm: Arm) -> Verdict:
    """Our rows against Locust's own statistics: every request that ended is in both."""
    limit = "the counts of Locust's own statistics"
    locust = counted(arm.path)
    if locust is None:
        return verdict("client.rows", "skip", "no statistics of Locust", limit)
    ended = arm.requests[arm.requests["outcome"].isin(["ok", "failed", "disconnected"])]
    ours = (len(ended), int((ended["outcome"] == "failed").sum()))
    observed = f"{ours[0]} rows, {ours[1]} failed"
    detail = f"Locust counted {locust[0]} requests, {locust[1]} failed"
    interrupted = arm.conduct.get("status") != "complete"
    status = "pass" if ours == locust else "warn" if interrupted else "fail"
    return verdict("client.rows", status, observed, limit, detail)
