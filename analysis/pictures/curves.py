"""Plots over concurrency and of latencies: wall, speedup, ratio, throughput, ECDF. Intervals are drawn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from analysis.estimate import Estimate
from analysis.measured import Measured
from analysis.pictures.svg import DASHES, SERIES, Board, Picture, Scale, axes, end_labels, figure
from analysis.rundata import Arm

WIDTH, HEIGHT = 720.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 170.0, 34.0, 52.0

Curve = tuple[str, str, str, list[tuple[int, Estimate]]]  # label, colour, dash, points


def hue(measured: Measured, subject: str) -> str:
    """One colour a subject, the same in every plot."""
    return SERIES[measured.run.subjects.index(subject) % len(SERIES)]


def _of_arms(measured: Measured, column: str) -> list[Curve]:
    return [
        (arm.title, hue(measured, arm.subject), DASHES.get(arm.mode, "2 3"),
         [(count, measured.level(arm, count, column)) for count in measured.levels])
        for arm in measured.run.arms
    ]  # fmt: skip


def wall(measured: Measured) -> Picture | None:
    return _over_concurrency(
        "wall", "Wall time over concurrency",
        "Seconds of the engine's clock until the last of n simultaneous requests ended; both axes "
        "logarithmic. Serial engines rise with n, batching ones stay low. Bars: 95 % intervals.",
        "Wall (s)", _of_arms(measured, "wall_s"), log=True,
    )  # fmt: skip


def throughput(measured: Measured) -> Picture | None:
    return _over_concurrency(
        "throughput", "Output throughput over concurrency",
        "Completion tokens per second over all requests in flight, by the engine's clock. Bars: 95 % "
        "intervals.",
        "Output tok/s", _of_arms(measured, "output_tok_s"),
    )  # fmt: skip


def speedup(measured: Measured) -> Picture | None:
    run, curves = measured.run, []
    for arm in run.arms:
        serial = run.arm(arm.subject, "serial")
        if arm.mode != "serial" and serial:
            points = [(count, measured.ratio(serial, arm, count)) for count in measured.levels]
            curves.append((arm.title, hue(measured, arm.subject), DASHES.get(arm.mode, "2 3"), points))

    def ideal(board: Board, x: Scale, y: Scale) -> None:
        most = min(x.high, y.high)
        board.path([(x(1), y(1)), (x(most), y(most))], "soft", stroke_width=1, stroke_dasharray="2 4")
        board.text(x(most) - 6, y(most) - 6, "n-fold", "end")

    return _over_concurrency(
        "speedup", "Speedup by batching over concurrency",
        "Serial wall / wall of the same engine, both axes logarithmic; dotted: n-fold, as if the others cost "
        "nothing. Bars: 95 % intervals.",
        "Speedup (x)", curves, log=True, under=ideal,
    )  # fmt: skip


def ratio(measured: Measured) -> Picture | None:
    """Engine against engine: the interval either contains 1 or it does not."""
    run = measured.run
    modes = [mode for mode in run.modes if mode != "serial"] or run.modes
    rows: list[tuple[str, int, str, Estimate]] = []
    for mode in modes:
        for number, (a, b) in enumerate(combinations(run.subjects, 2)):
            for count in measured.levels:
                found = measured.ratio(run.arm(a, mode), run.arm(b, mode), count)
                if found.known:
                    rows.append((f"{a} / {b}, {mode}", count, SERIES[number % len(SERIES)], found))
    if not rows:
        return None
    lows = [found.low or found.value for *_, found in rows]
    highs = [found.high or found.value for *_, found in rows]
    height = TOP + BOTTOM + 24 * len(rows)
    board = Board(WIDTH, height)
    x = Scale(min(*lows, 0.95, 1) * 0.97, max(*highs, 1.05, 1) * 1.03, 210, WIDTH - 110, log=True)
    bottom = height - BOTTOM
    for at in x.ticks():
        board.line(x(at), TOP - 8, x(at), bottom, "line", stroke_width=1)
        board.text(x(at), bottom + 18, figure(at), "middle")
    board.line(x(1), TOP - 14, x(1), bottom, "ink", stroke_width=1.5)
    board.text(x(1) - 8, TOP - 16, "◂ first is faster", "end")
    board.text(x(1) + 8, TOP - 16, "first is slower ▸")
    for place, (label, count, shade, found) in enumerate(rows):
        y = TOP + 24 * place + 12
        board.text(200, y + 4, f"{label}, n = {count}", "end", "ink")
        if found.low is not None and found.high is not None:
            board.line(x(found.low), y, x(found.high), y, shade, stroke_width=3, stroke_linecap="round")
        board.circle(x(found.value), y, 4.5, "bad" if found.mark else shade)
        board.text(WIDTH - 100, y + 4, f"{found.value:.2f}x" + (" ✗" if found.mark else ""), fill="ink")
    board.text((x.start + x.end) / 2, bottom + 38, "ratio of wall times", "middle")
    note = (
        "Ratio of wall times at the same concurrency, 99 % intervals. An interval that contains 1 shows no "
        "difference."
    )
    return Picture("ratio", "Head-to-head ratio", note, board.svg("Head-to-head ratio"))


def ecdf(measured: Measured) -> Picture | None:
    """Latency of every request at the widest level, as the share that had ended by then."""
    if not measured.levels:
        return None
    widest = measured.levels[-1]
    samples: list[tuple[Arm, np.ndarray]] = []
    for arm in measured.run.arms:
        rows = arm.recorded
        chosen = rows[
            (rows["count"] == widest) & rows["case"].isin(["single", "ladder"]) & (rows["outcome"] == "ok")
        ]
        if len(chosen):
            samples.append((arm, np.sort(chosen["latency_ms"].to_numpy()) / 1000))
    if not samples:
        return None
    board = Board(WIDTH, HEIGHT)
    x = Scale(0, max(sample[-1] for _, sample in samples) * 1.02, LEFT, WIDTH - RIGHT)
    y = Scale(0, 1, HEIGHT - BOTTOM, TOP)
    axes(board, x, y, "latency (s)", "share ended", label=lambda at: f"{at:.0%}")
    for place, (arm, sample) in enumerate(samples):
        shares = np.arange(1, len(sample) + 1) / len(sample)
        points = [(x(sample[0]), y(0))]
        for at, before, share in zip(sample, [0, *shares[:-1]], shares, strict=True):
            points += [(x(at), y(before)), (x(at), y(share))]
        points.append((x.end, y(1)))
        shade = hue(measured, arm.subject)
        board.path(points, shade, stroke_dasharray=DASHES.get(arm.mode, "2 3"))
        top = TOP + 10 + 18 * place
        board.line(
            x.end + 12, top, x.end + 32, top, shade, stroke_width=2, stroke_dasharray=DASHES.get(arm.mode, "")
        )
        board.text(x.end + 38, top + 4, arm.title, fill=shade, font_weight="600")
    note = (
        f"Share of the requests at n = {widest} (all repeats) that had ended after so many seconds of the "
        "engine's clock. Batching: all end together; serial: one after the other."
    )
    return Picture("ecdf", "Latency distribution at the widest level", note, board.svg("Latency ECDF"))


def _over_concurrency(
    name: str, title: str, note: str, y_title: str, curves: list[Curve], log: bool = False,
    under: Callable[[Board, Scale, Scale], None] | None = None,
) -> Picture | None:  # fmt: skip
    known = [
        (label, shade, dash, [(n, e) for n, e in points if e.known]) for label, shade, dash, points in curves
    ]
    known = [curve for curve in known if curve[3]]
    if not known:
        return None
    counts = sorted({count for *_, points in known for count, _ in points})
    values = [v for *_, points in known for _, e in points for v in (e.value, e.low, e.high) if v]
    board = Board(WIDTH, HEIGHT)
    x = Scale(counts[0], max(counts[-1], counts[0] + 1), LEFT, WIDTH - RIGHT, log=True)
    low, high = (min(values) * 0.85, max(values) * 1.1) if log else (0.0, max(values) * 1.08)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP, log=log)
    axes(board, x, y, "concurrent requests", y_title, counts)
    if under:
        under(board, x, y)
    for _, shade, dash, points in known:
        board.path([(x(n), y(e.value)) for n, e in points], shade, stroke_dasharray=dash)
        for n, e in points:
            if e.low and e.high:
                board.line(
                    x(n), y(max(e.low, y.low)), x(n), y(e.high), shade, stroke_width=5, stroke_opacity=0.35
                )
            board.circle(x(n), y(e.value), 3.5, "bad" if e.mark else shade)
    end_labels(
        board, x.end + 12, [(y(points[-1][1].value), label, shade) for label, shade, _, points in known]
    )
    return Picture(name, title, note + _marks(known), board.svg(title))


def _marks(curves: list[Curve]) -> str:
    marked = any(found.mark for *_, points in curves for _, found in points)
    return " Red: not valid, see the table's notes." if marked else ""
