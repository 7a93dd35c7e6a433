"""The recipe for CI does what its page says, and the workflow calls things that exist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from junitparser import JUnitXml

ROOT = Path(__file__).parent.parent
PLAN = """
name = "ci"
[workload]
cases = ["single", "ladder"]
ladder = [2]
repeats = 2
max_tokens = 8
[[arm]]
engine = "simulated"
mode = "batch"
settings = {{ faults = {faults} }}
"""


def check(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", str(ROOT / "docs" / "ci" / "check.sh"), *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("faults", "exit_code"), [("[]", 0), ('["usage-total"]', 1)], ids=["sound", "faulty"]
)
def test_the_recipe_keeps_everything_and_says_how_it_ended(
    tmp_path: Path, faults: str, exit_code: int
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.format(faults=faults))

    done = check(tmp_path, "plan.toml", "now")

    assert done.returncode == exit_code, done.stdout + done.stderr
    assert (tmp_path / "now" / "report.html").exists()
    failed = JUnitXml.fromfile(str(tmp_path / "now.junit.xml")).failures
    assert bool(failed) == bool(exit_code)


def test_the_recipe_holds_a_run_against_a_baseline(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.format(faults="[]"))
    assert check(tmp_path, "plan.toml", "before").returncode == 0

    done = check(tmp_path, "plan.toml", "now", "before")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "|" in (tmp_path / "now.gate.md").read_text()
    assert (tmp_path / "now.gate.junit.xml").exists()


def test_a_wrong_plan_ends_the_recipe_with_2(tmp_path: Path) -> None:
    assert check(tmp_path, "nowhere.toml", "now").returncode == 2


def test_the_workflow_names_files_and_targets_that_exist() -> None:
    workflow = (ROOT / "docs" / "ci" / "github-actions.yml").read_text()

    for path in ("docs/ci/check.sh", "plans/llamacpp-cpu.toml"):
        assert path in workflow
        assert (ROOT / path).exists()
    assert "make setup" in workflow
    assert "\nsetup:" in (ROOT / "Makefile").read_text()
