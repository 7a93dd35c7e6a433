"""How verdicts add up: the status of an arm, and the order in which a reader wants to see them."""

from __future__ import annotations

from typing import Any

from analysis.schema import Verdict

ORDER = {"fail": 0, "warn": 1, "pass": 2, "skip": 3}


def ranked(verdicts: list[Verdict]) -> list[Verdict]:
    """Failed first, then warnings, passes, and what was not tried."""
    return sorted(verdicts, key=lambda found: ORDER.get(str(found["status"]), 4))


def status_of(verdicts: list[Verdict], record: dict[str, Any] | None = None) -> str:
    """ "fail" if one fails; else what the arm's record says if it did not come to a good end; else "pass"."""
    if any(found["status"] == "fail" for found in verdicts):
        return "fail"
    recorded = str((record or {}).get("status") or "pass")
    return recorded if recorded in ("error", "unfinished", "running") else "pass"
