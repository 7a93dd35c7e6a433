"""The report of a run: as files, on the terminal, and as a summary for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from analysis import markdown, terminal, webpage
from analysis.figures import tidy
from analysis.judging import verdicts_of
from analysis.measured import Measured
from analysis.notes import notes
from analysis.pictures import Picture, draw
from analysis.rundata import Run, load_many
from analysis.statements import statements
from analysis.statuses import status_of
from analysis.tabulation import build, traffic


def tables(run: Run, force: bool = False) -> dict[str, pd.DataFrame]:
    """Every table by name, as numbers; an estimate has _low, _high, _repeats and _mark beside it."""
    return {table.name: table.frame() for table in build(Measured(run, force))}


def plots(run: Run, force: bool = False) -> dict[str, Picture]:
    """Every plot by name. A notebook shows one as it is; `.svg` is its text."""
    return {picture.name: picture for picture in draw(Measured(run, force))}


def report(
    run_dirs: Sequence[Path | str] | Path | str, out: Path | str | None = None, force: bool = False
) -> list[Path]:
    """Write tables/*.csv, report.md and report.html of one run, or of several side by side, into `out`.

    `out` is the first run's folder if not given. Returns the paths of the files.
    """
    folders = [run_dirs] if isinstance(run_dirs, str | Path) else list(run_dirs)
    run = load_many(folders)
    target = Path(out) if out else run.paths[0]
    measured = Measured(run, force)
    built = build(measured)
    verdicts = verdicts_of(run, measured)
    (target / "tables").mkdir(parents=True, exist_ok=True)
    frames = {table.name: table.frame() for table in built} | {"results": tidy(measured)}
    paths = []
    for name, frame in frames.items():
        paths.append(target / "tables" / f"{name}.csv")
        frame.to_csv(paths[-1], index=False)
    paths.append(target / "report.md")
    text = markdown.report_markdown(measured, built, verdicts, statements(measured))
    paths[-1].write_text(text, encoding="utf-8")
    paths.append(target / "report.html")
    paths[-1].write_text(webpage.page(measured, built, verdicts), encoding="utf-8")
    return paths


def print_report(run: Run, console: Console, force: bool = False) -> None:
    """Tables, then verdicts, on the terminal."""
    measured = Measured(run, force)
    built = build(measured)
    verdicts = verdicts_of(run, measured)
    terminal.print_tables(console, measured, built)
    terminal.print_verdicts(console, verdicts, {arm.name: arm.record for arm in run.arms})


def summary(run: Run, force: bool = False) -> dict[str, Any]:
    """What `--json` prints: status, verdicts, and every figure, as plain JSON values."""
    measured = Measured(run, force)
    verdicts = verdicts_of(run, measured)
    records = {arm.name: arm.record for arm in run.arms}
    statuses = {name: status_of(found, records.get(name)) for name, found in verdicts.items()}
    figures = json.loads(tidy(measured).to_json(orient="records"))
    return {
        "run": run.name,
        "status": "pass" if set(statuses.values()) == {"pass"} else "fail",
        "arms": {
            arm.name: {"engine": arm.engine, "mode": arm.mode, "status": statuses[arm.name]}
            for arm in run.arms
        },
        "notes": notes(measured),
        "statements": statements(measured),
        "verdicts": verdicts,
        "results": [{k: _plain(v) for k, v in figure.items()} for figure in figures],
        "traffic": json.loads(traffic.rates(measured).frame().to_json(orient="records")),
    }


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
