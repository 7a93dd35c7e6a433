"""Streams, their first event and first token, and what happens after a client has left."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import estimate
from analysis.clientwatch import lumped
from analysis.estimate import UNKNOWN, Estimate
from analysis.measured import Measured, problems
from analysis.rundata import Arm
from analysis.streams import TOKENS_PER_EVENT_WARNING, inter_token_ms, stream_metrics
from analysis.tabulation.table import Cell, Column, Table

LEAVER = "DisconnectingChatUser"  # others are beside it in the waves of the variants


def streaming(measured: Measured) -> Table:
    table = Table(
        "streaming",
        "Streaming and disconnect recovery",
        "Simultaneous streams that passed every check (chunk objects, role, one finish_reason, [DONE], "
        "identity); clients that left (in the plain case after two events); the request after each. Counts "
        "over all repeats.",
        [Column("server", "Server"), Column("streams", "Streams valid"), Column("at_once", "At once", 0),
         Column("left", "Clients that left"), Column("recovered", "Requests after it that passed"),
         Column("recovery_tokens", "Their completion tokens"), Column("result", "Result")],
    )  # fmt: skip
    for arm in measured.run.arms:
        rows = arm.recorded
        streams, gone, after = (rows[rows["case"] == case] for case in ("streams", "disconnect", "recover"))
        gone = gone[gone["user"] == LEAVER]
        if streams.empty and gone.empty:
            continue
        failed = streams["outcome"].ne("ok").any() or after["outcome"].ne("ok").any()
        tokens = sorted({str(count) for count in after["completion_tokens"].dropna()})
        table.rows.append(
            [arm.title, _of(streams, "ok"),
             int(streams["count"].max()) if len(streams) else None,
             _of(gone, "disconnected"), _of(after, "ok"),
             ", ".join(tokens) or "–", "fail" if failed else "pass"]
        )  # fmt: skip
    return table


def _of(rows: pd.DataFrame, outcome: str) -> str:
    return f"{int((rows['outcome'] == outcome).sum())} of {len(rows)}" if len(rows) else "–"


def stream_times(measured: Measured) -> Table:
    """First event and first token apart, gaps between tokens, and whether events are tokens."""
    table = Table(
        "stream_times",
        "Time to first token and between tokens",
        "Milliseconds of the engine's clock. First event: the first SSE data event, often only the role. "
        "First token: the first event with text (TTFT). TPOT: (last token - first token) / (tokens - 1). "
        "ITL: gaps between text events. Above 1.25 tokens per event (⚠) these are not gaps between tokens.",
        [Column("mode", "Mode"), Column("case", "Case"), Column("streams", "Streams at once", 0),
         Column("first_event_ms", "First event (ms)", 1), Column("ttft_ms", "First token (ms)", 1),
         Column("tpot_ms", "TPOT (ms)", 2), Column("itl_p50_ms", "ITL p50 (ms)", 2),
         Column("itl_p99_ms", "ITL p99 (ms)", 2), Column("tokens_per_event", "Tokens per event"),
         Column("tokens_from", "Tokens from"), Column("clock", "Clock")],
    )  # fmt: skip
    for arm in measured.run.arms:
        rows = arm.recorded[arm.recorded["case"] != "traffic"]
        streamed = rows[(rows["stream"] == 1) & rows["ttft_ms"].notna()]
        for (case, at_once), rows in streamed.groupby(["case", "count"], sort=False):
            count = int(str(at_once))
            if case == "disconnect" and count == 1:
                continue
            waves = measured.of(arm, str(case), count)
            first = rows.groupby("repeat")["first_event_ms"].median()
            gaps = inter_token_ms(arm, rows.index)
            lumps = lumped(arm).loc[rows.index]
            mark = f"client.lag: {lumps.sum()} of {len(rows)} streams read in lumps" if lumps.any() else ""
            table.rows.append(
                [arm.title, str(case), count, estimate.median(first, problems(waves)),
                 _over_repeats(waves, "ttft_ms"), _over_repeats(waves, "tpot_ms"),
                 *_percentiles(gaps, mark),
                 _per_event(arm, rows), _joined(rows["token_source"]), _joined(rows["clock"])]
            )  # fmt: skip
    return table


def _percentiles(gaps: NDArray[np.float32], mark: str) -> list[Cell]:
    """The median and the 99th percentile."""
    if not len(gaps):
        return [None, None]
    found = [float(value) for value in np.quantile(gaps, (0.5, 0.99))]
    return [Estimate(value, mark=mark) for value in found] if mark else [*found]


def _over_repeats(waves: pd.DataFrame, column: str) -> Estimate:
    return estimate.median(waves[column], problems(waves)) if waves[column].notna().any() else UNKNOWN


def _per_event(arm: Arm, rows: pd.DataFrame) -> str:
    known = stream_metrics(arm).loc[rows.index, "tokens_per_event"].dropna()
    if known.empty:
        return "not known"
    middle = float(known.median())
    return f"{middle:.2f}" + (" ⚠" if middle > TOKENS_PER_EVENT_WARNING else "")


def _joined(values: pd.Series[str]) -> str:
    kinds = sorted(set(values.unique()) - {""})
    return "+".join("events (estimated)" if kind == "events" else kind for kind in kinds) or "–"


def reclaim(measured: Measured) -> Table:
    """Seconds until a slot is free again after its client left."""
    table = Table(
        "reclaim",
        "Time to reclaim a slot after a disconnect",
        "Seconds of the engine's clock from the client's leaving until the server no longer counts the "
        "request as running (or, where it does not tell, until a probe request is served as before).",
        [Column("mode", "Mode"), Column("variant", "Client left"),
         Column("reclaim_s", "Reclaimed after, median (s)"), Column("worst_s", "Worst (s)"),
         Column("never", "Not within the wait", 0), Column("how", "Measured by")],
    )  # fmt: skip
    for arm in measured.run.arms:
        found = pd.DataFrame(
            arm.conduct.get("reclaims") or [], columns=["repeat", "variant", "reclaim_s", "how"]
        )
        for variant, rows in found.groupby("variant", sort=False):
            seconds = rows["reclaim_s"].astype("float64") * arm.time_scale
            middles: list[Cell] = [float(seconds.median()), float(seconds.max()), int(seconds.isna().sum())]
            table.rows.append([arm.title, str(variant), *middles, _joined(rows["how"].astype(str))])
    return table
