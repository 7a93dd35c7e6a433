"""Goodput: what sustained load got answered, and how much of it within limits that users set (SLOs).

A phase is one level of load, warm-up left out. Everything a user waits for counts from when the request was
due: an open loop whose client or server was late must not look quicker for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.clientwatch import LAG_SHARE, touched
from analysis.rundata import Arm
from analysis.wavemetrics import tpot_ms

P95 = 0.95
TITLES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "latency_ms": "latency"}


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits in milliseconds of the engine's clock; None: no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    latency_ms: float | None = None

    @classmethod
    def of(cls, arm: Arm) -> Slo | None:
        """The limits that the arm's record holds under workload.slo; None if it holds none."""
        given = (arm.record.get("workload") or {}).get("slo")
        return cls(**{name: given.get(name) for name in cls.__slots__}) if given else None

    def __str__(self) -> str:
        limits = ((title, getattr(self, name)) for name, title in TITLES.items())
        return ", ".join(f"{title} ≤ {limit:g} ms" for title, limit in limits if limit is not None)


@dataclass(frozen=True, slots=True)
class Sustained:
    """One phase. Rates per second of the engine's clock, quantiles in its milliseconds, None if not known.

    due: requests that count, without those who leave on purpose and those to which no limit applies. With
    SLOs, good: of these, answered in time; missed: what the others missed, and how many did; least, most: the
    share of good ones if all that the load generator itself bent were not, or were.
    """

    wave: str
    load: str
    due: int
    sent: int
    ended: int
    sent_s: float | None
    completed_s: float | None
    output_tok_s: float | None
    good: int | None
    good_s: float | None
    missed: dict[str, int] | None
    least: float | None
    most: float | None
    ttft_p95_ms: float | None
    tpot_p95_ms: float | None
    latency_p95_ms: float | None

    @property
    def share(self) -> float | None:
        """Good ones of all that were due."""
        return self.good / self.due if self.good is not None and self.due else None


def phases(arm: Arm) -> Iterator[tuple[str, pd.DataFrame]]:
    """The recorded requests of each phase of traffic."""
    rows = arm.recorded[arm.recorded["case"] == "traffic"]
    for wave, phase in rows.groupby("wave", sort=False):
        yield str(wave), phase


def sustained(arm: Arm, wave: str, rows: pd.DataFrame) -> Sustained:
    """What came of the phase `wave` with these rows."""
    slo = Slo.of(arm)
    waited, counted = waits(arm, rows), counting(rows, slo)
    ok = rows[rows["outcome"] == "ok"]
    within, window_s = _ended_within(arm, rows)
    sent_s = _per(len(rows) - 1, window_s)
    good = meets(waited.loc[counted.index], counted, slo) if slo else None
    least, most = _bounds(arm, counted, good) if good is not None else (None, None)
    return Sustained(
        wave=wave,
        load=load_of(arm, wave),
        due=len(counted),
        sent=int(rows["sent_ns"].notna().sum()),
        ended=len(ok),
        sent_s=sent_s,
        completed_s=_per(len(within), window_s),
        output_tok_s=_per(float(within["completion_tokens"].sum()), window_s),
        good=int(good.sum()) if good is not None else None,
        good_s=sent_s * int(good.sum()) / len(rows) if good is not None and sent_s is not None else None,
        missed=_missed(waited, counted, slo) if slo else None,
        least=least,
        most=most,
        ttft_p95_ms=_p95(waited.loc[ok.index, "ttft_ms"]),
        tpot_p95_ms=_p95(waited.loc[ok.index, "tpot_ms"]),
        latency_p95_ms=_p95(waited.loc[ok.index, "latency_ms"]),
    )  # fmt: skip


def load_of(arm: Arm, wave: str) -> str:
    """The level in words, such as "poisson 2/s" or "8 users"; the wave's name where nothing tells."""
    load, levels = str(arm.conduct.get("load") or ""), arm.conduct.get("levels") or []
    for level in levels:
        if level["wave"] == wave:
            value = f"{level['value']:g}"
            words = {"closed": f"{value} users", "trace": "trace"}.get(load, f"{load} {value}/s")
            once = [each["value"] for each in levels].count(level["value"]) == 1
            return words if once else f"{words} ({wave.rpartition('-')[2]})"
    return wave


def waits(arm: Arm, rows: pd.DataFrame) -> pd.DataFrame:
    """ttft_ms and latency_ms from when each request was due, and tpot_ms; engine milliseconds."""
    late_ms = late_ms_of(arm, rows)
    return pd.DataFrame(
        {
            "ttft_ms": rows["ttft_ms"] + late_ms,
            "tpot_ms": tpot_ms(rows),
            "latency_ms": rows["latency_ms"] + late_ms,
        }
    )


def late_ms_of(arm: Arm, rows: pd.DataFrame) -> pd.Series[float]:
    """How long after it was due each request was sent, in engine ms; 0 where nothing says when it was due."""
    late_ns = (rows["sent_ns"] - rows["scheduled_ns"].fillna(rows["sent_ns"])).astype("float64")
    return late_ns.clip(lower=0) / 1e6 * arm.time_scale


def counting(rows: pd.DataFrame, slo: Slo | None) -> pd.DataFrame:
    """Without requests that we left on purpose, and those that no limit says anything about."""
    kept = rows[rows["outcome"] != "disconnected"]
    return kept[kept["stream"] == 1] if slo is not None and slo.latency_ms is None else kept


def meets(waited: pd.DataFrame, rows: pd.DataFrame, slo: Slo) -> pd.Series[bool]:
    """Which requests were answered within the limits.

    A limit on tokens says nothing about an answer that shows none: TTFT about one that was not streamed, TPOT
    also about one of a single token.
    """
    good = rows["outcome"] == "ok"
    for name in slo.__slots__:
        limit = getattr(slo, name)
        if limit is not None:
            good &= waited[name].isna() | (waited[name] <= limit)
    return good


def _missed(waited: pd.DataFrame, rows: pd.DataFrame, slo: Slo) -> dict[str, int]:
    """How many requests missed each limit, or failed under which code; most first."""
    ok = rows[rows["outcome"] == "ok"]
    bad = rows[rows["outcome"] != "ok"]
    counts = {
        title: int((waited.loc[ok.index, name] > limit).sum())
        for name, title in TITLES.items()
        if (limit := getattr(slo, name)) is not None
    }
    codes = bad["failure"].where(bad["failure"] != "", bad["outcome"])
    counts |= {str(code): int(count) for code, count in codes.value_counts().items()}
    return {name: count for name, count in sorted(counts.items(), key=lambda one: -one[1]) if count}


def _bounds(arm: Arm, rows: pd.DataFrame, good: pd.Series[bool]) -> tuple[float, float]:
    """The share of good requests at least and at most, whatever the load generator's own trouble changed.

    A saturated one may have asked for less than it should: what it touched might be bad, or good. One that
    sent late made a request look worse, never better.
    """
    hit = touched(arm).loc[rows.index] != ""
    unsent = rows["sent_ns"].isna()
    late = late_ms_of(arm, rows) > LAG_SHARE * rows["latency_ms"]
    if rows.empty:
        return 0.0, 1.0
    return float((good & ~hit).mean()), float((good | hit | unsent | late).mean())


def _ended_within(arm: Arm, rows: pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """(what ended ok between the first and the last time at which one of `rows` was due, that many engine s).

    Ends are counted whoever was asked when: in a steady state as many answers come of earlier requests as are
    still to come at the end. What drains afterwards is not part of the rate.
    """
    ended = arm.requests[(arm.requests["case"] == "traffic") & (arm.requests["outcome"] == "ok")]
    due_ns = rows["scheduled_ns"].fillna(rows["sent_ns"]).dropna()
    if len(due_ns) < 2:
        return ended.iloc[:0], 0.0
    first_ns, window_ns = int(due_ns.min()), int(due_ns.max() - due_ns.min())
    # From the first one due on: nanoseconds since the epoch exceed a float's precision.
    sent_ns = (ended["sent_ns"] - first_ns).astype("float64")
    end_ns = sent_ns + ended["latency_ms"] / arm.time_scale * 1e6
    return ended[(end_ns > 0) & (end_ns <= window_ns)], window_ns / 1e9 * arm.time_scale


def _per(count: float, seconds: float) -> float | None:
    return count / seconds if seconds > 0 else None


def _p95(values: pd.Series[float]) -> float | None:
    known = values.dropna()
    return float(known.quantile(P95)) if len(known) else None
