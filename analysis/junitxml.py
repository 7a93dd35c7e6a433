"""Verdicts as JUnit XML, which CI systems read."""

from __future__ import annotations

from pathlib import Path

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from analysis.judging import verdicts_of
from analysis.measured import Measured
from analysis.rundata import Run
from analysis.schema import Verdict


def junit(run: Run, path: Path | str) -> Path:
    """One test suite an arm, one test case a check. A warning passes and tells itself in its output."""
    return write(run.name, verdicts_of(run, Measured(run)), Path(path))


def write(name: str, verdicts: dict[str, list[Verdict]], path: Path) -> Path:
    document = JUnitXml(name)
    for title, found in verdicts.items():
        suite = TestSuite(title)
        for v in found:
            case = TestCase(str(v["check"]), classname=f"{name}.{title}")
            line = f"observed {v['observed']}, limit {v['limit']}. {v['detail']}".strip()
            if v["status"] == "fail":
                case.result = [Failure(line, str(v["check"]))]
            elif v["status"] == "skip":
                case.result = [Skipped(line)]
            else:
                case.system_out = line if v["status"] == "pass" else f"warning: {line}"
            suite.add_testcase(case)
        document.add_testsuite(suite)
    path.parent.mkdir(parents=True, exist_ok=True)
    document.write(str(path), pretty=True)
    return path
