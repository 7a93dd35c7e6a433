"""One run a trial: what is broken where, and which verdicts came out."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.simulator.catalogue import DIALECTS, EXPECTED, FAULTS
from locustfiles import arguments

CASES = [case for case in arguments.CASES if case != "long_context"]
# Codes that need the same engine in its other mode beside it.
BETWEEN_ARMS = ("compare.", "serial.flat", "batch.multiplexes")
ONE_MODE = {"serial-batches": "serial", "batch-serialises": "batch"}
SHARES = {"http-429": 0.3, "http-500": 0.3, "http-503": 0.3, "reset": 0.3, "refused": 0.3, "exits": 0.05}
CLEAN = ["tiny", "pocketllm-2080ti-tp4", "vllm-2080ti-tp4"]
PLANS = Path(__file__).parents[1] / "plans"
# How a busy machine disturbed the load generator says nothing about the server.
OWN = ("client.lag", "client.cpu")


@dataclass(frozen=True)
class Trial:
    """One run: what is put in where, and the code that has to come out (none: an engine without fault)."""

    kind: str
    name: str
    mode: str
    expected: str | None

    @property
    def paired(self) -> bool:
        return self.mode == "both" or (self.expected or "").startswith(BETWEEN_ARMS)

    def plan(self) -> str:
        cases = f"[workload]\ncases = {json.dumps(CASES)}\n"
        if self.kind == "real":
            return (PLANS / f"{self.name}-cpu.toml").read_text().replace("[workload]\n", cases)
        arms = []
        for mode in ("batch", "serial") if self.paired else (self.mode,):
            settings: dict[str, Any] = {"profile": self.name if self.kind == "clean" else "tiny"}
            settings["time_scale"] = 1.0 if settings["profile"] == "tiny" else 5.0
            if self.kind in ("fault", "dialect") and mode == self.mode:
                settings[f"{self.kind}s"] = [f"{self.name}:{SHARES.get(self.name, 1)}"]
            arms.append(f'[[arm]]\nengine = "simulated"\nmode = "{mode}"\nsettings = {toml(settings)}\n')
        workload = f"{cases}repeats = 2\n"
        if self.expected == "disconnect.reclaims":  # what nobody waits for has to last long enough to be seen
            workload += "max_tokens = 96\ndeadline_s = 10.0\n"
        else:
            workload += "deadline_s = 2.0\n"
        return f'name = "trial"\n{workload}\n' + "\n".join(arms)


@dataclass(frozen=True)
class Result:
    """The codes that did not pass in a trial, each with its worst status."""

    trial: Trial
    found: dict[str, str]

    @property
    def detected(self) -> str:
        """The status of the expected code."""
        return self.found.get(self.trial.expected or "", "MISSED")

    @property
    def others(self) -> dict[str, str]:
        """Without the expected one, and without what our own machine did."""
        return {c: s for c, s in sorted(self.found.items()) if c != self.trial.expected and c not in OWN}


def toml(settings: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in settings.items()) + " }"


def trials(only: list[str], real: list[str]) -> list[Trial]:
    found = []
    for name, kind in FAULTS.items():
        modes = [ONE_MODE[name]] if name in ONE_MODE else ["batch", "serial"]
        if EXPECTED[kind] in ("batch.width", "disconnect.leak"):
            modes = ["batch"]  # one slot cannot be clamped, and has none to lose but its last
        found += [Trial("fault", name, mode, EXPECTED[kind]) for mode in modes]
    found += [Trial("dialect", name, mode, None) for name in DIALECTS for mode in ("batch", "serial")]
    found += [Trial("clean", name, "both", None) for name in CLEAN]
    found = [trial for trial in found if not only or trial.name in only]
    return found + [Trial("real", name, "both", None) for name in real]


def run(trial: Trial) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "trial.toml"
        plan.write_text(trial.plan())
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "launchers", "run", str(plan), "--out", str(out), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        found: dict[str, str] = {}
        records = [out / "run.json", *out.glob("*/record.json")]
        for record in records:
            data: dict[str, Any] = (
                json.loads(record.read_text()) if record.exists() else {"failure": "crashed"}
            )
            for verdict in data.get("verdicts") or []:
                if verdict["status"] in ("fail", "warn") and found.get(verdict["check"]) != "fail":
                    found[verdict["check"]] = verdict["status"]
            if data.get("failure"):
                found[data["failure"]] = "fail"
        if "crashed" in found or (trial.kind == "real" and done.returncode > 1):
            found["crashed"] = done.stderr[-300:]
        return Result(trial, found)
