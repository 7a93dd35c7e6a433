"""The report on a terminal: tables, then a line for each arm and every check that did not pass."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from analysis.schema import Verdict
from analysis.tabulation import Table

STYLES = {"pass": "green", "fail": "bold red", "warn": "yellow", "skip": "dim"}


def print_tables(console: Console, tables: list[Table], notes: list[str]) -> None:
    for table in tables:
        rows, footnotes = table.text()
        caption = "\n".join([table.note, *footnotes])
        above = "".join(f"\n[yellow]{escape(note)}[/yellow]" for note in notes)
        shown = RichTable(
            title=f"[bold]{escape(table.title)}[/bold]{above}", caption=escape(caption), title_justify="left",
            caption_justify="left", caption_style="dim", title_style="",
        )  # fmt: skip
        for place, column in enumerate(table.columns):
            shown.add_column(escape(column.title), justify="left" if place == 0 else "right")
        for row in rows:
            shown.add_row(*map(escape, row))
        console.print(shown)
        console.print()


def print_verdicts(console: Console, verdicts: dict[str, list[Verdict]]) -> None:
    """What did not pass, check by check; what passed, as a count for each arm."""
    shown = RichTable(title="[bold]Verdicts[/bold]", title_justify="left", title_style="")
    for title in ("Arm", "Check", "Status", "Observed", "Limit", "Detail"):
        shown.add_column(title)
    for name, found in verdicts.items():
        loud = [v for v in found if v["status"] in ("fail", "warn")]
        status = "fail" if any(v["status"] == "fail" for v in found) else "pass"
        style = STYLES[status]
        shown.add_row(escape(name), _counts(found), f"[{style}]{status}[/{style}]", "", "", "")
        for v in loud:
            mark = STYLES[str(v["status"])]
            details = (escape(str(v[key])) for key in ("observed", "limit", "detail"))
            shown.add_row("", escape(str(v["check"])), f"[{mark}]{v['status']}[/{mark}]", *details)
    console.print(shown)


def _counts(found: list[Verdict]) -> str:
    counts = {status: sum(v["status"] == status for v in found) for status in ("pass", "skip")}
    return f"{counts['pass']} passed" + (f", {counts['skip']} not tried" if counts["skip"] else "")
