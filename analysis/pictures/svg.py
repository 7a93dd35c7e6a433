"""A small drawing board for SVG: scales with round ticks, axes, lines, bands. Colours are CSS variables.

Drawn by hand, not by a plotting library, so that one picture serves the light and the dark page, prints
well, and stays small and sharp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

FALLBACKS = {"ink": "#1c2128", "soft": "#59636e", "line": "#d5dae0", "s1": "#0b62c4", "s2": "#d4540b",
             "s3": "#26803b", "s4": "#8a3ab9", "s5": "#a07400", "s6": "#0b7f92", "wait": "#c9ced6",
             "bad": "#c62828"}  # fmt: skip
SERIES = ("s1", "s2", "s3", "s4", "s5", "s6")
DASHES = {"batch": "", "serial": "6 4", "static": "2 3"}


def colour(name: str) -> str:
    """A CSS variable with its light value as fallback, for a picture that stands alone."""
    return f"var(--{name}, {FALLBACKS[name]})"


@dataclass(frozen=True)
class Picture:
    """A finished plot. In a notebook it shows itself."""

    name: str
    title: str
    note: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass(frozen=True)
class Scale:
    """Maps values of [low, high] to pixels of [start, end]."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (
            (math.log(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self, wanted: int = 5) -> list[float]:
        """Round values within the scale."""
        if self.log:
            return _log_ticks(self.low, self.high)
        step = round_step((self.high - self.low) / wanted)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def round_step(size: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `size`."""
    power = 10 ** math.floor(math.log10(size)) if size > 0 else 1.0
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= size * (1 - 1e-9))


def _log_ticks(low: float, high: float) -> list[float]:
    """Round values: evenly stepped on a short scale, by the decade on a long one."""
    if high / low < 3:
        step = round_step((high - low) / 6)
        return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for factors in ((1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        values = [factor * 10.0**power for power in powers for factor in factors]
        found = [value for value in values if low <= value <= high]
        if len(found) >= 4:
            break
    return found


def figure(value: float) -> str:
    """A tick's label: no more digits than needed."""
    return f"{value:,.10g}"


@dataclass
class Board:
    """Collects elements; `svg()` closes the drawing."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = "line", **more: object) -> None:
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self.parts.append(f'<line {ends} stroke="{colour(stroke)}"{_attributes(more)}/>')

    def rect(self, x: float, y: float, width: float, height: float, fill: str, **more: object) -> None:
        box = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect {box} fill="{colour(fill)}"{_attributes(more)}/>')

    def circle(self, x: float, y: float, radius: float, fill: str, **more: object) -> None:
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour(fill)}"{_attributes(more)}/>'
        )

    def path(self, points: Iterable[tuple[float, float]], stroke: str, **more: object) -> None:
        """A line through the points."""
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        more = {"stroke_width": 2, "stroke_linejoin": "round"} | more
        self.parts.append(
            f'<polyline points="{steps}" fill="none" stroke="{colour(stroke)}"{_attributes(more)}/>'
        )

    def area(self, points: Iterable[tuple[float, float]], fill: str, **more: object) -> None:
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polygon points="{steps}" fill="{colour(fill)}"{_attributes(more)}/>')

    def text(
        self, x: float, y: float, content: str, anchor: str = "start", fill: str = "soft", **more: object
    ) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour(fill)}"'
        self.parts.append(f"<text {place}{_attributes(more)}>{escape(content)}</text>")

    def ticks(self, x: Iterable[float], top: float, bottom: float, stroke: str) -> None:
        """Many short vertical strokes as one path: the tokens of a lane."""
        steps = "".join(f"M{at:.1f} {top:.1f}V{bottom:.1f}" for at in x)
        if steps:
            self.parts.append(f'<path d="{steps}" stroke="{colour(stroke)}" stroke-width="1.2" fill="none"/>')

    def svg(self, title: str) -> str:
        """The whole drawing; `title` is what a screen reader says."""
        box = f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="img" aria-label="{escape(title)}"'
        font = 'font-family="system-ui, sans-serif" font-size="12"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} {font}><title>{escape(title)}</title>'
        return f"{head}{''.join(self.parts)}</svg>"


def _attributes(more: dict[str, object]) -> str:
    return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items() if value != "")


def axes(
    board: Board, x: Scale, y: Scale, x_title: str, y_title: str,
    x_ticks: Sequence[float] | None = None, label: Callable[[float], str] = figure,
) -> None:  # fmt: skip
    """Grid lines, tick labels and titles for a plot."""
    for at in y.ticks():
        board.line(x.start, y(at), x.end, y(at), "line", stroke_width=1)
        board.text(x.start - 8, y(at) + 4, label(at), "end")
    for at in x.ticks(6) if x_ticks is None else x_ticks:
        board.line(x(at), y.start, x(at), y.start + 5, "soft", stroke_width=1)
        board.text(x(at), y.start + 19, figure(at), "middle")
    board.line(x.start, y.start, x.end, y.start, "soft", stroke_width=1)
    board.text((x.start + x.end) / 2, y.start + 38, x_title, "middle")
    board.text(x.start - 44, y.end - 12, y_title, "start")


def end_labels(board: Board, x: float, wanted: list[tuple[float, str, str]], gap: float = 15) -> None:
    """Names at the right end of lines, (y, text, colour) each, pushed apart where they would overlap."""
    last = -math.inf
    for y, content, fill in sorted(wanted):
        last = max(y, last + gap)
        board.text(x, last + 4, content, fill=fill, font_weight="600")
