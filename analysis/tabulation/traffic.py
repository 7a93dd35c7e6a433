"""Sustained load: rates, latencies from the scheduled time on, and gaps between tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.clientwatch import touched
from analysis.measured import Measured
from analysis.rundata import Arm
from analysis.streams import inter_token_ms
from analysis.tabulation.table import Cell, Column, Table
from analysis.wavemetrics import tpot_ms

SHARES = (0.5, 0.9, 0.99)


def rates(measured: Measured) -> Table:
    table = Table(
        "traffic",
        "Traffic",
        "Requests that arrived over time, warm-up left out; seconds of the engine's clock. Latency counts "
        "from the time at which a request was due, so that a wait on our side is not hidden. Requests in "
        "flight at the end have no latency: their share bounds what they could change. Rates: what was "
        "completed, per second between the first sending and the last end.",
        [Column("mode", "Mode"), Column("wave", "Phase"), Column("requests", "Requests", 0),
         Column("ok", "ok", 0), Column("in_flight", "In flight at the end"),
         Column("requests_s", "Requests/s", 2), Column("output_tok_s", "Output tok/s", 1),
         *(Column(f"latency_p{share * 100:g}_s", f"Latency p{share * 100:g} (s)") for share in SHARES),
         Column("valid", "Valid")],
    )  # fmt: skip
    for arm, wave, rows in phases(measured):
        sent = rows[rows["sent_ns"].notna()]
        ok = sent[sent["outcome"] == "ok"]
        flying = int((rows["outcome"] == "unfinished").sum())
        span_s = float(((sent["sent_ms"] + sent["latency_ms"]).max() - sent["sent_ms"].min()) / 1000)
        cells: list[Cell] = [len(rows), len(ok), f"{flying} ({flying / max(len(rows), 1):.1%})"]
        cells += [len(ok) / span_s, float(ok["completion_tokens"].sum()) / span_s]
        cells += [_quantile(since_due_ms(arm, ok) / 1000, share) for share in SHARES]
        table.rows.append([arm.title, wave, *cells, _valid(arm, rows)])
    return table


def tokens(measured: Measured) -> Table:
    table = Table(
        "traffic_tokens",
        "Traffic: tokens",
        "Streams that arrived over time, warm-up left out; milliseconds of the engine's clock. TTFT counts "
        "from sending to the first event with text. TPOT: (last token - first token) / (tokens - 1). ITL: "
        "gaps between text events.",
        [Column("mode", "Mode"), Column("wave", "Phase"), Column("streams", "Streams", 0),
         *(Column(f"ttft_p{share * 100:g}_ms", f"TTFT p{share * 100:g} (ms)", 1) for share in SHARES),
         *(Column(f"tpot_p{share * 100:g}_ms", f"TPOT p{share * 100:g} (ms)", 2) for share in SHARES),
         *(Column(f"itl_p{share * 100:g}_ms", f"ITL p{share * 100:g} (ms)", 2) for share in SHARES),
         Column("valid", "Valid")],
    )  # fmt: skip
    for arm, wave, rows in phases(measured):
        streams = rows[(rows["stream"] == 1) & (rows["outcome"] == "ok")]
        if streams.empty:
            continue
        gaps = inter_token_ms(arm, streams.index)
        cells: list[Cell] = [len(streams)]
        cells += [_quantile(streams["ttft_ms"], share) for share in SHARES]
        cells += [_quantile(tpot_ms(streams), share) for share in SHARES]
        cells += [float(one) for one in np.quantile(gaps, SHARES)] if len(gaps) else [None] * len(SHARES)
        table.rows.append([arm.title, wave, *cells, _valid(arm, streams)])
    return table


def phases(measured: Measured) -> Iterator[tuple[Arm, str, pd.DataFrame]]:
    """The recorded requests of each phase of traffic, arm by arm."""
    for arm in measured.run.arms:
        rows = arm.recorded[arm.recorded["case"] == "traffic"]
        for wave, phase in rows.groupby("wave", sort=False):
            yield arm, str(wave), phase


def _valid(arm: Arm, rows: pd.DataFrame) -> str:
    """Whether the load generator was quick enough while these requests ran."""
    hit = touched(arm).loc[rows.index]
    codes = ", ".join(sorted(set(hit.unique()) - {""}))
    return f"✗ {codes}: {(hit != '').mean():.1%} of requests" if codes else "yes"


def since_due_ms(arm: Arm, rows: pd.DataFrame) -> pd.Series[float]:
    """Latency in engine ms from the time at which a request was due, or sent where nothing says when."""
    late_ns = (rows["sent_ns"] - rows["scheduled_ns"].fillna(rows["sent_ns"])).astype("float64")
    return rows["latency_ms"] + late_ns.clip(lower=0) / 1e6 * arm.time_scale


def _quantile(values: pd.Series[float], share: float) -> Cell:
    known = values.dropna()
    return float(known.quantile(share)) if len(known) else None
