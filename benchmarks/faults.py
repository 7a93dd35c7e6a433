"""The matrix fault x detected x false alarms: every fault of the simulated engine, each in an arm of its own.

    python benchmarks/faults.py [--only NAME ...] [--markdown docs/faults-matrix.md] [--jobs 2]

Prints a row for each fault and mode with every verdict that did not pass, then the same for the dialects and
for the clean engines, where none may appear. Exit 1 if a fault is missed or a clean engine blamed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.simulator.catalogue import DIALECTS, EXPECTED, FAULTS

CASES = [
    "single",
    "ladder",
    "interleave",
    "streams",
    "disconnect",
    "disconnect_variants",
    "leak",
    "isolation",
]
# What no clean run may show. A short request that ends after a long one is a finding about scheduling, and
# a busy machine (client.*) says nothing about the server.
NO_ALARM = ("interleave.overlap", "client.lag", "client.cpu")
PAIRED = {"serial-batches": "serial", "batch-serialises": "batch"}  # the arm that has it, beside a clean one
SHARES = {"http-429": 0.3, "http-500": 0.3, "http-503": 0.3, "reset": 0.3, "refused": 0.3, "exits": 0.05}
CLEAN = ["tiny", "pocketllm-2080ti-tp4", "vllm-2080ti-tp4"]


@dataclass(frozen=True)
class Trial:
    """One run: what is put in where, and the code that has to come out (none: a clean engine)."""

    kind: str
    name: str
    mode: str
    expected: str | None

    def plan(self) -> str:
        arms = []
        for mode in ("batch", "serial") if self.paired else (self.mode,):
            afflicted = not self.paired or mode == self.mode
            settings: dict[str, Any] = {"profile": self.name if self.kind == "clean" else "tiny"}
            settings["time_scale"] = 1.0 if settings["profile"] == "tiny" else 5.0
            if afflicted and self.kind == "fault":
                settings["faults"] = [f"{self.name}:{SHARES.get(self.name, 1)}"]
            if afflicted and self.kind == "dialect":
                settings["dialects"] = [self.name]
            arms.append(f'[[arm]]\nengine = "simulated"\nmode = "{mode}"\nsettings = {toml(settings)}\n')
        workload = f"[workload]\ncases = {json.dumps(CASES)}\nrepeats = 2\ndeadline_s = 2.0\n"
        return f'name = "trial"\n{workload}\n' + "\n".join(arms)

    @property
    def paired(self) -> bool:
        return self.name in PAIRED or self.kind == "clean"


def toml(settings: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in settings.items()) + " }"


def trials(only: list[str]) -> list[Trial]:
    found = []
    for name, kind in FAULTS.items():
        modes = [PAIRED[name]] if name in PAIRED else ["batch", "serial"]
        if EXPECTED[kind] in ("batch.width", "disconnect.leak"):
            modes = ["batch"]  # one slot cannot be clamped, and has none to lose but its last
        found += [Trial("fault", name, mode, EXPECTED[kind]) for mode in modes]
    found += [Trial("dialect", name, mode, None) for name in DIALECTS for mode in ("batch", "serial")]
    found += [Trial("clean", name, "batch", None) for name in CLEAN]
    return [trial for trial in found if not only or trial.name in only]


def alarms(trial: Trial) -> dict[str, str]:
    """Every verdict of the run that did not pass: code -> worst status."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "trial.toml"
        plan.write_text(trial.plan())
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "launchers", "run", str(plan), "--out", str(out), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        found: dict[str, str] = {}
        for record in [out / "run.json", *out.glob("*/record.json")]:
            data = json.loads(record.read_text())
            for verdict in data.get("verdicts") or []:
                if verdict["status"] in ("fail", "warn") and found.get(verdict["check"]) != "fail":
                    found[verdict["check"]] = verdict["status"]
            if data.get("failure"):
                found[data["failure"]] = "fail"
        if not (out / "run.json").exists():
            found["crashed"] = done.stderr[-300:]
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="names of faults, dialects or profiles")
    parser.add_argument("--markdown", type=Path, help="write the matrix there too")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    options = parser.parse_args()
    wanted = trials(options.only)
    lines = ["| what | mode | expected | found | also found |", "|---|---|---|---|---|"]
    missed = blamed = 0
    print(lines[0], lines[1], sep="\n")
    with ThreadPoolExecutor(options.jobs) as pool:
        for trial, found in zip(wanted, pool.map(alarms, wanted), strict=True):
            others = {code: status for code, status in found.items() if code != trial.expected}
            if trial.expected is None:
                others = {code: status for code, status in others.items() if code not in NO_ALARM}
                blamed += bool(others)
            elif trial.expected not in found:
                missed += 1
            detected = found.get(trial.expected, "MISSED") if trial.expected else "-"
            also = ", ".join(f"{code} ({status})" for code, status in sorted(others.items())) or "-"
            what = f"{trial.kind} {trial.name} | {trial.mode} | {trial.expected or '-'}"
            line = f"| {what} | {detected} | {also} |"
            lines.append(line)
            print(line, flush=True)
    print(f"{len(wanted)} runs: {missed} faults missed, {blamed} clean engines blamed")
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")
    return 1 if missed or blamed else 0


if __name__ == "__main__":
    sys.exit(main())
