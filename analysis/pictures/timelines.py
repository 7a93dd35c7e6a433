"""Timelines: a lane for each request of a wave, so that batching and queueing can be seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measured import Measured
from analysis.pictures.curves import hue
from analysis.pictures.svg import Board, Picture, Scale
from analysis.rundata import Arm
from analysis.streams import TEXT_KINDS
from analysis.wavemetrics import arm_waves

WIDTH = 720.0
LEFT, RIGHT = 64.0, 20.0
LANE, HEAD, GAP = 15.0, 26.0, 14.0


@dataclass(frozen=True)
class Lane:
    """One request, seconds from its wave's start: sent, first token (or None), end; and its tokens."""

    label: str
    sent_s: float
    first_s: float | None
    end_s: float
    tokens_s: NDArray[np.float64]
    outcome: str


def lanes(arm: Arm, wave: str) -> list[Lane]:
    """The requests of one wave, in order of their end."""
    rows = arm.requests[(arm.requests["wave"] == wave) & arm.requests["latency_ms"].notna()]
    start_ms = rows["sent_ms"].min()
    text = arm.events[arm.events["kind"].isin(TEXT_KINDS) & arm.events["request"].isin(rows["request"])]
    found = []
    for row in rows.to_dict("records"):
        since_s = (row["sent_ms"] - start_ms) / 1000
        tokens = text.loc[text["request"] == row["request"], "at_ms"].to_numpy() / 1000
        first = None if pd.isna(row["ttft_ms"]) else since_s + row["ttft_ms"] / 1000
        end_s = since_s + row["latency_ms"] / 1000
        label = str(row["request"]).rsplit("-", 1)[-1]
        found.append(Lane(label, since_s, first, end_s, since_s + tokens, str(row["outcome"])))
    return sorted(found, key=lambda lane: lane.end_s)


def wave_timeline(measured: Measured, streamed: bool) -> Picture | None:
    """The widest wave of every arm, one below the other on one time axis."""
    chosen = [(arm, wave) for arm in measured.run.arms if (wave := _widest(arm, streamed))]
    panels = [(arm, lanes(arm, wave)) for arm, wave in chosen]
    panels = [(arm, found) for arm, found in panels if found]
    if not panels:
        return None
    kind = "streams" if streamed else "requests"
    title = f"A wave of simultaneous {kind}, request by request"
    note = f"One lane a {kind[:-1]}, sorted by end; seconds of the engine's clock from the wave's start. "
    note += "Grey: what it waited beyond the fastest of the wave (queued, or read together with others). "
    note += "Pale: prefill. Strokes: tokens. " if streamed else "Pale: prefill and decode, not streamed. "
    note += "Batching: lanes run side by side. Serial: a staircase."
    return Picture(f"wave_{kind}", title, note, _draw(measured, panels, title, queue=True))


def _widest(arm: Arm, streamed: bool) -> str | None:
    """The wave to show: of the widest level, the middle repeat by wall time; fully streamed or not at all."""
    waves = arm_waves(arm)
    share = arm.requests.groupby("wave")["stream"].mean()
    right = waves["wave"].map(share).eq(1.0 if streamed else 0.0)
    waves = waves[right & (waves["repeat"] > 0) & (waves["count"] > 1) & waves["case"].isin(CASES[streamed])]
    if waves.empty:
        return None
    waves = waves[waves["count"] == waves["count"].max()].sort_values("wall_s")
    return str(waves["wave"].iloc[len(waves) // 2])


CASES = {True: ["streams", "isolation"], False: ["ladder"]}


def interleave_timeline(measured: Measured) -> Picture | None:
    panels = []
    for arm in measured.run.arms:
        waves = arm_waves(arm)
        waves = waves[(waves["case"] == "interleave") & (waves["count"] == 2) & (waves["repeat"] > 0)]
        if len(waves):
            found = lanes(arm, str(waves["wave"].iloc[len(waves) // 2]))
            panels.append((arm, sorted(found, key=lambda lane: lane.sent_s)))
    panels = [(arm, found) for arm, found in panels if found]  # a run cut short may have ended none
    if not panels:
        return None
    named = [
        (arm, [Lane(("long", "short")[place % 2], *_rest(lane)) for place, lane in enumerate(found)])
        for arm, found in panels
    ]
    title = "Long beside short"
    note = (
        "A long request, and a short one a moment later; seconds of the engine's clock. Pale: waiting for "
        "the first token, or for a reply that is not streamed. Strokes: tokens. A gap in the strokes is what "
        "the short one cost."
    )
    return Picture("interleave", title, note, _draw(measured, named, title, queue=False))


def _rest(lane: Lane) -> tuple[float, float | None, float, NDArray[np.float64], str]:
    return lane.sent_s, lane.first_s, lane.end_s, lane.tokens_s, lane.outcome


def _draw(measured: Measured, panels: list[tuple[Arm, list[Lane]]], title: str, queue: bool) -> str:
    height = sum(HEAD + LANE * len(found) + GAP for _, found in panels) + 34
    board = Board(WIDTH, height)
    last = max(lane.end_s for _, found in panels for lane in found)
    x = Scale(0, last * 1.01, LEFT, WIDTH - RIGHT)
    y = 0.0
    for at in x.ticks(8):
        board.line(x(at), HEAD - 6, x(at), height - 34, "line", stroke_width=1)
        board.text(x(at), height - 16, f"{at:g}", "middle")
    board.text(x.end, height - 2, "seconds", "end")
    for arm, found in panels:
        shade = hue(measured, arm.subject)
        board.text(LEFT, y + 17, arm.title, fill=shade, font_weight="600")
        board.text(x.end, y + 17, f"all ended after {max(lane.end_s for lane in found):.3f} s", "end")
        y += HEAD
        fastest = min((lane.first_s or lane.end_s) - lane.sent_s for lane in found)
        for lane in found:
            _lane(board, x, y, lane, shade, fastest if queue else None)
            y += LANE
        y += GAP
    return board.svg(title)


def _lane(board: Board, x: Scale, y: float, lane: Lane, shade: str, fastest_s: float | None) -> None:
    board.text(LEFT - 8, y + 11, lane.label, "end", font_size=10)
    begun = lane.first_s or lane.end_s
    served = lane.sent_s if fastest_s is None else max(lane.sent_s, begun - fastest_s)
    board.rect(x(lane.sent_s), y + 2, x(served) - x(lane.sent_s), LANE - 4, "wait", rx=2)
    board.rect(x(served), y + 2, x(begun) - x(served), LANE - 4, shade, fill_opacity=0.28, rx=2)
    if lane.first_s is not None:
        board.rect(x(begun), y + 5, x(lane.end_s) - x(begun), LANE - 10, shade, fill_opacity=0.45)
        board.ticks((x(at) for at in lane.tokens_s), y + 2, y + LANE - 2, shade)
    if lane.outcome not in ("ok", "disconnected"):
        board.text(x(lane.end_s) + 4, y + 11, lane.outcome, fill="bad", font_size=10)
