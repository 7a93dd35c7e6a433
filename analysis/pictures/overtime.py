"""The run over time: what the server had running and waiting, and the tokens that came out."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measured import Measured
from analysis.pictures.curves import hue
from analysis.pictures.svg import Board, Picture, Scale, figure
from analysis.rundata import Arm

WIDTH, PANEL, HEAD, LEFT, RIGHT = 720.0, 96.0, 28.0, 64.0, 52.0
RUNNING = ("vllm:num_requests_running", "llamacpp:requests_processing", "sglang:num_running_reqs",
           "pocket_requests_running")  # fmt: skip
WAITING = ("vllm:num_requests_waiting", "llamacpp:requests_deferred", "sglang:num_queue_reqs",
           "pocket_requests_waiting")  # fmt: skip
BINS = 120


def over_time(measured: Measured) -> Picture | None:
    """One panel an arm: output tokens per second (bars), requests running and waiting. Real seconds."""
    arms = [arm for arm in measured.run.arms if arm.requests["sent_ns"].notna().any()]
    if not arms:
        return None
    height = (PANEL + HEAD + 26) * len(arms) + 8
    board = Board(WIDTH, height)
    for place, arm in enumerate(arms):
        _panel(board, arm, place * (PANEL + HEAD + 26) + HEAD, hue(measured, arm.subject))
    title = "Throughput, running and waiting requests over time"
    note = (
        "One panel an arm, from its first request; REAL seconds. Bars (left scale): output tokens per real "
        "second, a request's tokens spread evenly from its first one to its end. Line (right scale): what "
        "the server reports running, or we had in flight where it does not tell; dotted: waiting."
    )
    return Picture("over_time", title, note, board.svg(title))


def _panel(board: Board, arm: Arm, top: float, shade: str) -> None:
    start = int(arm.requests["sent_ns"].min())
    edges, rate = token_rate(arm, start)
    x = Scale(0, float(edges[-1]), LEFT, WIDTH - RIGHT)
    y = Scale(0, max(float(rate.max()), 1.0), top + PANEL, top)
    board.text(LEFT, top - 10, arm.title, fill=shade, font_weight="600")
    board.line(LEFT, y.start, x.end, y.start, "soft", stroke_width=1)
    board.text(LEFT - 8, top + 8, f"{y.high:,.0f}", "end")
    board.text(LEFT - 8, top + 21, "tok/s", "end", font_size=10)
    for left, value in zip(edges[:-1], rate, strict=True):
        if value:
            board.rect(
                x(left), y(value), (x.end - x.start) / BINS, y.start - y(value), shade, fill_opacity=0.4
            )
    for at in x.ticks(8):
        board.text(x(at), y.start + 15, figure(at), "middle", font_size=10)
    _lines(board, arm, start, x, top)


def token_rate(arm: Arm, start: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edges (real seconds from `start`) and output tokens per real second between them.

    A request's tokens are spread evenly from its first token to its end; a reply that is not streamed counts
    as begun when the fastest of its wave could have been, had it been sent then.
    """
    rows = arm.requests.dropna(subset=["sent_ns", "latency_ms"])
    sent = (rows["sent_ns"] - start).astype("float64").to_numpy() / 1e9
    ended = sent + rows["latency_ms"].to_numpy() / 1000 / arm.time_scale
    least_ms = rows.groupby("wave")["latency_ms"].transform("min")
    waited_ms = rows["ttft_ms"].fillna(rows["latency_ms"] - least_ms)
    begun = sent + waited_ms.to_numpy() / 1000 / arm.time_scale
    tokens = rows["completion_tokens"].fillna(0).to_numpy(dtype="float64")
    edges = np.linspace(0, max(float(ended.max(initial=0)), 1e-3), BINS + 1)
    took = np.maximum(ended - begun, 1e-6)
    by_then = np.array([(tokens * np.clip((edge - begun) / took, 0, 1)).sum() for edge in edges])
    return edges, np.diff(by_then) / (edges[1] - edges[0])


def _lines(board: Board, arm: Arm, start: int, x: Scale, top: float) -> None:
    running = _samples(arm, RUNNING, start)
    if running is None and len(arm.client):
        by_moment = arm.client.groupby(arm.client["at_ns"] // 250_000_000)["running"].sum()
        running = by_moment.index.to_numpy() * 0.25 - start / 1e9, by_moment.to_numpy()
    if running is None:
        return
    waiting = _samples(arm, WAITING, start)
    most = max(
        float(series[1].max()) for series in (running, waiting) if series is not None and len(series[1])
    )
    y = Scale(0, max(most, 1.0), top + PANEL, top)
    board.text(x.end + 8, top + 8, figure(y.high))
    board.text(x.end + 8, top + 21, "requests", font_size=10)
    for series, dash in ((waiting, "2 3"), (running, "")):
        if series is not None:
            points = [(x(at), y(value)) for at, value in zip(*series, strict=True) if 0 <= at <= x.high]
            board.path(points, "ink", stroke_width=1.3, stroke_dasharray=dash)


def _samples(
    arm: Arm, names: tuple[str, ...], start: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """(seconds from the start, value) of a server's own metric; None where it has none of the names."""
    told: pd.DataFrame = arm.telemetry[arm.telemetry["name"].isin(names)]
    if told.empty:
        return None
    by_time = told.groupby("at_ns")["value"].sum()
    return (by_time.index.to_numpy() - start) / 1e9, by_time.to_numpy()
