"""Whether the engine started, lived and kept answering."""

from __future__ import annotations

from analysis.rundata import Arm
from analysis.schema import Verdict, verdict

CODES = ("engine.start", "engine.died", "engine.hang")
LIMITS = {"engine.start": "ready in time", "engine.died": "lives to the end", "engine.hang": "a byte in time"}


def verdicts(arm: Arm) -> list[Verdict]:
    return [_engine(arm, code) for code in CODES]


def _engine(arm: Arm, code: str) -> Verdict:
    told = arm.record.get("failure") == code
    hung = int((arm.requests["failure"] == "engine.hang").sum())
    if not told and not (code == "engine.hang" and hung):
        return verdict(code, "pass", "did not happen", LIMITS[code])
    observed = (
        f"{hung} requests without a byte for too long" if hung and code == "engine.hang" else "happened"
    )
    tail = [str(line) for line in arm.record.get("log_tail") or []]
    line = str(arm.record.get("failure_line") or "")
    return verdict(code, "fail", observed, LIMITS[code], " | ".join(filter(None, [line, *tail[-3:]])))
