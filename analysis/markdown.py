"""Tables as Markdown that pastes into an issue or a page."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.rundata import Run
from analysis.schema import Verdict
from analysis.tabulation import Table

SYMBOLS = {"pass": "pass", "fail": "**FAIL**", "warn": "warn", "skip": "skip"}


def table_markdown(table: Table, notes: Iterable[str] = ()) -> str:
    """Heading, notes, what it shows, the table, its footnotes."""
    rows, footnotes = table.text()
    lines = [f"## {table.title}", ""]
    lines += [f"> {note}" for note in notes]
    lines += ["", table.note, ""] if notes else [table.note, ""]
    lines += grid([column.title for column in table.columns], rows)
    lines += ["", *(f"{note}  " for note in footnotes)]
    return "\n".join(lines).rstrip() + "\n"


def grid(titles: list[str], rows: Iterable[list[str]]) -> list[str]:
    """A pipe table; the first column to the left, figures to the right."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    rule = ["---"] + ["---:" if _figures(cells, place) else "---" for place in range(1, len(titles))]
    return [_line(titles), _line(rule), *(_line(row) for row in cells)]


def _figures(rows: list[list[str]], place: int) -> bool:
    return all(row[place][:1].isdigit() or row[place][:1] in "–-†" for row in rows)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def verdicts_markdown(title: str, verdicts: list[Verdict]) -> str:
    """One table: check, status, observed, limit, detail; the failed ones first."""
    order = {"fail": 0, "warn": 1, "pass": 2, "skip": 3}
    ranked = sorted(verdicts, key=lambda found: order.get(str(found["status"]), 4))
    rows = [
        [
            f"`{v['check']}`",
            SYMBOLS.get(str(v["status"]), str(v["status"])),
            *(str(v[k]) for k in ("observed", "limit", "detail")),
        ]
        for v in ranked
    ]
    return "\n".join(
        [f"### {title}", "", *grid(["Check", "Status", "Observed", "Limit", "Detail"], rows), ""]
    )


def report_markdown(
    run: Run, tables: list[Table], notes: list[str], verdicts: dict[str, list[Verdict]]
) -> str:
    """The whole report: verdicts first, then every table."""
    failed = {name: [v for v in found if v["status"] == "fail"] for name, found in verdicts.items()}
    lines = [f"# Head-to-head acceptance: {run.name}", ""]
    lines += [f"> {note}" for note in notes] + [""] * bool(notes)
    lines += ["## Verdicts", ""]
    rows = []
    for name, found in verdicts.items():
        counts = [sum(v["status"] == status for v in found) for status in ("pass", "fail", "warn", "skip")]
        codes = ", ".join(sorted({f"`{v['check']}`" for v in failed[name]}))
        rows.append([name, "fail" if failed[name] else "pass", *map(str, counts), codes or "–"])
    lines += grid(["Arm", "Status", "Passed", "Failed", "Warned", "Skipped", "Failed checks"], rows)
    lines += ["", *(table_markdown(table, notes) for table in tables)]
    lines += ["## Every check", "", *(verdicts_markdown(name, found) for name, found in verdicts.items())]
    return "\n".join(lines).rstrip() + "\n"
