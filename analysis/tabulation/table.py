"""One table of the report: cells with intervals and marks, and its three shapes (frame, text, footnotes)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pandas as pd

from analysis.estimate import Estimate

Cell = Estimate | str | int | float | None


@dataclass(frozen=True, slots=True)
class Column:
    """`key` names it in CSV (with its unit), `title` in a document; `digits` after the point."""

    key: str
    title: str
    digits: int = 3
    suffix: str = ""


@dataclass(slots=True)
class Table:
    """`note` says what it shows and in which units; `engine_time` whether the engine's clock decides it."""

    name: str
    title: str
    note: str
    columns: list[Column]
    rows: list[list[Cell]] = field(default_factory=list)
    engine_time: bool = True

    def frame(self) -> pd.DataFrame:
        """Numbers for further work: an estimate gives key, key_low, key_high, key_repeats and key_mark."""
        columns: dict[str, list[object]] = {}
        for place, column in enumerate(self.columns):
            cells = [row[place] for row in self.rows]
            if any(isinstance(cell, Estimate) for cell in cells):
                known = [cell if isinstance(cell, Estimate) else Estimate(math.nan) for cell in cells]
                columns[column.key] = [cell.value for cell in known]
                columns[f"{column.key}_low"] = [cell.low for cell in known]
                columns[f"{column.key}_high"] = [cell.high for cell in known]
                columns[f"{column.key}_repeats"] = [cell.repeats for cell in known]
                columns[f"{column.key}_mark"] = [cell.mark for cell in known]
            else:
                columns[column.key] = list(cells)
        return pd.DataFrame(columns)

    def numeric(self) -> list[bool]:
        """For each column whether it holds figures, which belong to the right."""
        return [
            not any(isinstance(row[place], str) for row in self.rows) for place in range(len(self.columns))
        ]

    def text(self) -> tuple[list[list[str]], list[str]]:
        """The cells as text, and the footnotes that their marks refer to."""
        notes: list[str] = []
        one_run = self._one_run_everywhere()
        shown = [
            [_shown(cell, column, notes, one_run) for cell, column in zip(row, self.columns, strict=True)]
            for row in self.rows
        ]
        footnotes = [f"[{letter(number)}] {note}" for number, note in enumerate(notes)]
        if one_run:
            footnotes.insert(0, "One run per cell: no interval can be given.")
        elif any("†" in text for row in shown for text in row):
            footnotes.insert(0, "† one run: no interval can be given.")
        if confidences := self._confidences():
            footnotes.insert(0, f"Median over repeats ({confidences}).")
        return shown, footnotes

    def _confidences(self) -> str:
        """Which intervals the cells have, in words; "" if none has one."""
        levels = {
            cell.confidence for row in self.rows for cell in row if isinstance(cell, Estimate) and cell.low
        }
        shown = [f"{level:.0%}".replace("%", " %") for level in sorted(levels)]
        if len(shown) < 2:
            return f"{shown[0]} interval" if shown else ""
        return f"{shown[0]} interval; {shown[1]} for ratios of engines, as a report makes many comparisons"

    def _one_run_everywhere(self) -> bool:
        known = [cell for row in self.rows for cell in row if isinstance(cell, Estimate) and cell.known]
        return bool(known) and all(cell.repeats == 1 for cell in known)


def letter(number: int) -> str:
    """a, b, ... z, aa, ab, ..."""
    tail = chr(ord("a") + number % 26)
    return tail if number < 26 else letter(number // 26 - 1) + tail


def number(value: float, digits: int) -> str:
    """A figure with thousands separators, "–" where it is not known."""
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"


def _shown(cell: Cell, column: Column, notes: list[str], one_run: bool) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}{column.suffix}"
    if isinstance(cell, float):
        return "–" if math.isnan(cell) else number(cell, column.digits) + column.suffix
    mark = ""
    if cell.mark:
        if cell.mark not in notes:
            notes.append(cell.mark)
        mark = f" [{letter(notes.index(cell.mark))}]"
    if not cell.known:
        return f"refused{mark}" if cell.mark else "–"
    text = number(cell.value, column.digits) + column.suffix
    if cell.low is not None and cell.high is not None:
        text += f" ({number(cell.low, column.digits)}–{number(cell.high, column.digits)})"
    elif not one_run and cell.repeats == 1:
        text += "†"
    return f"{text} ✗{mark}" if cell.mark else text
