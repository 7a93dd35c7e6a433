"""The report on a terminal: tables, then a line for each arm and every check that did not pass."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from analysis.measured import Measured
from analysis.notes import above, unfinished
from analysis.schema import Verdict
from analysis.statuses import ranked, status_of
from analysis.tabulation import Table

STYLES = {"pass": "green", "fail": "bold red", "warn": "yellow", "skip": "dim"}


def print_tables(console: Console, measured: Measured, tables: list[Table]) -> None:
    for note in unfinished(measured.run):
        console.print(f"[yellow]{escape(note)}[/yellow]")
    for table in tables:
        rows, footnotes = table.text()
        caption = "\n".join([table.note, *footnotes])
        lines = "".join(f"\n[yellow]{escape(note)}[/yellow]" for note in above(measured, table))
        shown = RichTable(
            title=f"[bold]{escape(table.title)}[/bold]{lines}", caption=escape(caption), title_justify="left",
            caption_justify="left", caption_style="dim", title_style="",
        )  # fmt: skip
        for column, right in zip(table.columns, table.numeric(), strict=True):
            shown.add_column(escape(column.title), justify="right" if right else "left", overflow="fold")
        for row in rows:
            shown.add_row(*map(escape, row))
        console.print(shown)
        console.print()


def print_verdicts(
    console: Console, verdicts: dict[str, list[Verdict]], records: dict[str, dict[str, Any]]
) -> None:
    """What did not pass, check by check; what passed, as a count for each arm."""
    shown = RichTable(title="[bold]Verdicts[/bold]", title_justify="left", title_style="")
    for title in ("Arm", "Check", "Status", "Observed", "Limit", "Detail"):
        shown.add_column(title, overflow="fold")
    for name, found in verdicts.items():
        loud = [v for v in ranked(found) if v["status"] in ("fail", "warn")]
        status = status_of(found, records.get(name))
        style = STYLES.get(status, STYLES["fail"])
        shown.add_row(escape(name), _counts(found), f"[{style}]{status}[/{style}]", "", "", "")
        for v in loud:
            mark = STYLES[str(v["status"])]
            details = (escape(str(v[key])) for key in ("observed", "limit", "detail"))
            shown.add_row("", escape(str(v["check"])), f"[{mark}]{v['status']}[/{mark}]", *details)
    console.print(shown)


def _counts(found: list[Verdict]) -> str:
    counts = {status: sum(v["status"] == status for v in found) for status in ("pass", "skip")}
    return f"{counts['pass']} passed" + (f", {counts['skip']} not tried" if counts["skip"] else "")
