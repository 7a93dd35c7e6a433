"""A folder with a plan and, once run, its run, on a simulated engine of a few milliseconds a token."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.launchers import tiny_server
from tests.launchers.support import processes_marked

ARM = """
[[arm]]
name = "{name}"
engine = "simulated"
mode = "{mode}"
[arm.settings]
profile = "tiny"
{settings}
"""
QUICK = """
name = "quick"
[workload]
cases = ["single", "ladder", "streams"]
ladder = [2]
max_tokens = 8
"""
# A wave that takes minutes, to break something in the middle of it.
ENDLESS = """
name = "endless"
[workload]
cases = ["streams"]
warmups = 0
stream_count = 4
max_tokens = 4000
"""


def arm(name: str, mode: str = "batch", settings: str = "") -> str:
    return ARM.format(name=name, mode=mode, settings=settings)


class Bench:
    """`headtohead` as a user starts it; every process of it is found by the folder's name."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "the-run"
        self.plan = folder / "plan.toml"

    def start(
        self, plan: str, *options: str, program: Sequence[str] = ("-m", "launchers")
    ) -> subprocess.Popen[str]:
        self.plan.write_text(plan)
        argv = [sys.executable, *program, "run", str(self.plan), "--out", str(self.out), *options]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, plan: str, *options: str) -> tuple[int, str, str]:
        with self.start(plan, *options) as process:
            stdout, stderr = process.communicate(timeout=120)
        return process.returncode, stdout, stderr

    def run_json(self) -> dict[str, Any]:
        return read_json(self.out / "run.json")

    def record(self, name: str) -> dict[str, Any]:
        return read_json(self.out / name / "record.json")

    def rows(self, name: str) -> list[dict[str, str]]:
        path = self.out / name / "requests.csv"
        if not path.exists():
            return []
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    def processes(self) -> list[psutil.Process]:
        return processes_marked(str(self.out.parent))

    def engine(self) -> psutil.Process:
        """The simulator itself, not its guard."""
        return next(p for p in self.processes() if p.cmdline()[1:3] == ["-m", "launchers.simulator"])

    def streaming(self, name: str) -> bool:
        """Whether the endless wave is under way: the server counts four running requests."""
        path = self.out / name / "telemetry.csv"
        return path.exists() and bool(re.search(r"num_requests_running,.*,4\.0\b", path.read_text()))

    def passed(self, name: str) -> bool:
        """Whether the engine passed. A test machine may be too busy to measure on: not its fault."""
        record = self.record(name)
        failed = [v["check"] for v in record["verdicts"] if v["status"] == "fail"]
        return record["failure"] is None and all(check.startswith("client.") for check in failed)


def read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def command(name: str, options: str, more: str = "") -> str:
    words = f"{sys.executable} {tiny_server.__file__} {{port}} {options}"
    head = f'[[arm]]\nname = "{name}"\nengine = "command"\nmode = "batch"\n{more}\n'
    return f'{head}[arm.settings]\ncommand = "{words}"\n'
