"""The report as one self-contained HTML file: no network, light and dark, printable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from analysis.measured import Measured
from analysis.notes import above, forced, notes, simulated
from analysis.pictures import draw
from analysis.rundata import Arm
from analysis.schema import Verdict
from analysis.statements import statements
from analysis.statuses import ranked, status_of
from analysis.tabulation import Table

HERE = Path(__file__).parent


def page(measured: Measured, tables: list[Table], verdicts: dict[str, list[Verdict]]) -> str:
    """The HTML text."""
    run = measured.run
    world = Environment(
        loader=FileSystemLoader(HERE), autoescape=select_autoescape(["j2"]), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    records = {arm.name: arm.record for arm in run.arms}
    cards = [_card(name, found, records.get(name)) for name, found in verdicts.items()]
    return world.get_template("report.html.j2").render(
        run=run,
        status="pass" if all(card["status"] == "pass" for card in cards) else "fail",
        facts=_facts(run.info),
        notes=notes(measured),
        statements=statements(measured),
        cards=cards,
        verdicts={name: ranked(found) for name, found in verdicts.items()},
        tables=[_table(measured, table) for table in tables],
        pictures=draw(measured),
        above_plots=[*simulated(run), *forced(measured)],
        arms=[_provenance(arm) for arm in run.arms],
        css=(HERE / "report.css").read_text(encoding="utf-8"),
    )


def _card(name: str, found: list[Verdict], record: dict[str, Any] | None) -> dict[str, Any]:
    counts = {
        status: sum(v["status"] == status for v in found) for status in ("pass", "fail", "warn", "skip")
    }
    loud = [v for v in ranked(found) if v["status"] in ("fail", "warn")]
    return {"name": name, "status": status_of(found, record), "counts": counts, "loud": loud}


def _table(measured: Measured, table: Table) -> dict[str, Any]:
    rows, footnotes = table.text()
    return {
        "name": table.name,
        "title": table.title,
        "note": table.note,
        "above": above(measured, table),
        "titles": [column.title for column in table.columns],
        "numeric": table.numeric(),
        "rows": rows,
        "footnotes": footnotes,
    }


def _facts(info: dict[str, Any]) -> list[tuple[str, str]]:
    """What a reader has to know about where and when: only what was recorded."""
    host = info.get("host") or {}
    machine = ", ".join(
        str(part)
        for part in (host.get("cpu"), host.get("cores") and f"{host['cores']} cores", host.get("os"))
        if part
    )
    plan = info.get("plan") or {}
    facts = [
        ("Started", info.get("started")),
        ("Ended", info.get("ended")),
        ("headtohead", info.get("headtohead")),
        ("Commit", info.get("commit")),
        ("Machine", machine),
        ("Plan", plan.get("name") if isinstance(plan, dict) else None),
        ("Payload digest", info.get("payload_sha256")),
    ]
    return [(name, str(value)) for name, value in facts if value]


def _provenance(arm: Arm) -> dict[str, str]:
    """Settings and the command of an arm, as recorded."""
    record = arm.record
    provenance = record.get("provenance") or {}
    command = provenance.get("command") or []
    return {
        "name": arm.name,
        "command": " ".join(map(str, command)),
        "version": str(provenance.get("version") or "not known"),
        "settings": json.dumps(record.get("settings_effective") or {}, indent=1, default=str),
        "workload": json.dumps(record.get("workload") or {}, indent=1, default=str),
    }
