"""Sustained load: rates, latencies from the scheduled time on, goodput, and gaps between tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis import goodput
from analysis.clientwatch import touched
from analysis.goodput import Slo, sustained, waits
from analysis.measured import Measured
from analysis.rundata import Arm
from analysis.streams import inter_token_ms
from analysis.tabulation.table import Cell, Column, Table

SHARES = (0.5, 0.9, 0.99)


def rates(measured: Measured) -> Table:
    slos = {str(slo) for arm in measured.run.arms if (slo := Slo.of(arm))}
    some_left = any((rows["outcome"] == "disconnected").any() for _, _, rows in phases(measured))
    table = Table(
        "traffic",
        "Traffic",
        "Requests that arrived over time, warm-up left out; seconds of the engine's clock. Latency counts "
        "from the time at which a request was due, so that a wait on our side is not hidden. In flight: when "
        "the run was stopped; they have no latency, and their share bounds what they could change. Rates: "
        "what was answered between the first and the last time at which a request was due."
        + (" Left: our users, on purpose, in the middle of an answer." if some_left else "")
        + _about(slos),
        [Column("mode", "Mode"), Column("load", "Load"),
         Column("requests", "Requests", 0), Column("ok", "ok", 0),
         *([Column("left", "Left", 0)] if some_left else []), Column("in_flight", "In flight"),
         Column("requests_s", "Requests per s", 2), Column("output_tok_s", "Output tok/s", 1),
         *(Column(f"latency_p{share * 100:g}_s", f"Latency p{share * 100:g} (s)") for share in SHARES),
         *([Column("in_time", "In time", 1, " %"), Column("goodput_s", "Goodput per s", 2)] if slos else []),
         Column("valid", "Valid")],
    )  # fmt: skip
    for arm, wave, rows in phases(measured):
        found = sustained(arm, wave, rows)
        flying = int((rows["outcome"] == "unfinished").sum())
        cells: list[Cell] = [arm.title, found.load, len(rows), found.ended]
        cells += [int((rows["outcome"] == "disconnected").sum())] if some_left else []
        cells += [f"{flying} ({flying / max(len(rows), 1):.1%})", found.completed_s, found.output_tok_s]
        ended_ms = waits(arm, rows).loc[rows["outcome"] == "ok", "latency_ms"]
        cells += [_quantile(ended_ms / 1000, share) for share in SHARES]
        if slos:
            cells += [None if found.share is None else 100 * found.share, found.good_s]
        table.rows.append([*cells, _valid(arm, rows)])
    return table


def _about(slos: set[str]) -> str:
    if not slos:
        return ""
    return (
        f" In time ({'; '.join(sorted(slos))}): the share of requests that ended well and within each limit, "
        "TTFT and latency counted from when they were due; who left, and what no limit applies to, does not "
        "count. Goodput: how many such came per second."
    )


def tokens(measured: Measured) -> Table:
    table = Table(
        "traffic_tokens",
        "Traffic: tokens",
        "Streams that arrived over time, warm-up left out; milliseconds of the engine's clock. TTFT counts "
        "from sending to the first event with text. TPOT: (last token - first token) / (tokens - 1). ITL: "
        "gaps between text events.",
        [Column("mode", "Mode"), Column("load", "Load"), Column("streams", "Streams", 0),
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
        cells: list[Cell] = [arm.title, goodput.load_of(arm, wave), len(streams)]
        cells += [_quantile(streams["ttft_ms"], share) for share in SHARES]
        cells += [_quantile(waits(arm, streams)["tpot_ms"], share) for share in SHARES]
        cells += [float(one) for one in np.quantile(gaps, SHARES)] if len(gaps) else [None] * len(SHARES)
        table.rows.append([*cells, _valid(arm, streams)])
    return table


def phases(measured: Measured) -> Iterator[tuple[Arm, str, pd.DataFrame]]:
    """The recorded requests of each phase of traffic, arm by arm."""
    for arm in measured.run.arms:
        for wave, rows in goodput.phases(arm):
            yield arm, wave, rows


def _valid(arm: Arm, rows: pd.DataFrame) -> str:
    """Whether the load generator was quick enough while these requests ran."""
    hit = touched(arm).loc[rows.index]
    codes = ", ".join(sorted(set(hit.unique()) - {""}))
    return f"✗ {codes}: {(hit != '').mean():.1%} of requests" if codes else "yes"


def _quantile(values: pd.Series[float], share: float) -> Cell:
    known = values.dropna()
    return float(known.quantile(share)) if len(known) else None
