"""Tables as Markdown that pastes into an issue or a page."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.measured import Measured
from analysis.notes import above, notes
from analysis.schema import Verdict
from analysis.statuses import ranked, status_of
from analysis.tabulation import Table

COUNTED = [False, False, True, True, True, True, False]
SYMBOLS = {"pass": "pass", "fail": "**FAIL**", "warn": "warn", "skip": "skip"}


def table_markdown(table: Table, notes: list[str]) -> str:
    """Heading, notes, what it shows, the table, its footnotes."""
    rows, footnotes = table.text()
    lines = [f"## {table.title}", ""]
    lines += [f"> {note}" for note in notes]
    lines += ["", table.note, ""] if notes else [table.note, ""]
    lines += grid([column.title for column in table.columns], rows, table.numeric())
    lines += ["", *(f"{note}  " for note in footnotes)]
    return "\n".join(lines).rstrip() + "\n"


def grid(titles: list[str], rows: Iterable[list[str]], numeric: list[bool] | None = None) -> list[str]:
    """A pipe table; columns of figures to the right."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    rule = ["---:" if right else "---" for right in numeric or [False] * len(titles)]
    return [_line(titles), _line(rule), *(_line(row) for row in cells)]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def verdicts_markdown(title: str, verdicts: list[Verdict]) -> str:
    """One table: check, status, observed, limit, detail; the failed ones first."""
    rows = [
        [
            f"`{v['check']}`",
            SYMBOLS.get(str(v["status"]), str(v["status"])),
            *(str(v[k]) for k in ("observed", "limit", "detail")),
        ]
        for v in ranked(verdicts)
    ]
    return "\n".join(
        [f"### {title}", "", *grid(["Check", "Status", "Observed", "Limit", "Detail"], rows), ""]
    )


def report_markdown(
    measured: Measured, tables: list[Table], verdicts: dict[str, list[Verdict]], said: list[str]
) -> str:
    """The whole report: verdicts first, then every table."""
    run, before = measured.run, notes(measured)
    records = {arm.name: arm.record for arm in run.arms}
    lines = [f"# Head-to-head acceptance: {run.name}", ""]
    lines += [f"> {note}" for note in before] + [""] * bool(before)
    lines += ["## Verdicts", "", *(f"- {line}" for line in said), ""]
    rows = []
    for name, found in verdicts.items():
        counts = [sum(v["status"] == status for v in found) for status in ("pass", "fail", "warn", "skip")]
        codes = ", ".join(sorted({f"`{v['check']}`" for v in found if v["status"] == "fail"}))
        rows.append([name, status_of(found, records.get(name)), *map(str, counts), codes or "–"])
    lines += grid(
        ["Arm", "Status", "Passed", "Failed", "Warned", "Not tried", "Failed checks"], rows, COUNTED
    )
    lines += ["", *(table_markdown(table, above(measured, table)) for table in tables)]
    lines += ["## Every check", "", *(verdicts_markdown(name, found) for name, found in verdicts.items())]
    return "\n".join(lines).rstrip() + "\n"
