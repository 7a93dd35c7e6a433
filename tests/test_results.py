"""What is committed of real runs: it can be reported again, and pages show what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import analysis

ROOT = Path(__file__).parent.parent
RUNS = sorted(path.parent for path in (ROOT / "docs" / "results").rglob("run.json"))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_committed_run_gives_its_committed_report(run: Path, tmp_path: Path) -> None:
    analysis.report([run], out=tmp_path)

    assert (tmp_path / "report.md").read_text() == (run / "report.md").read_text()


def test_the_readme_shows_the_tables_of_committed_reports() -> None:
    command = [sys.executable, ROOT / "docs" / "readme_tables.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
