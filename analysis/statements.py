"""What the run shows, in sentences: each with its figure, its interval, and its limits."""

from __future__ import annotations

from itertools import combinations

from analysis.batching import inferred
from analysis.estimate import Estimate, finding
from analysis.measured import Measured
from analysis.rundata import Arm


def statements(measured: Measured) -> list[str]:
    """A sentence for each engine's batching, and for each pair of engines; none that the data do not bear."""
    run = measured.run
    found = [line for subject in run.subjects if (line := _gain(measured, subject))]
    for mode in [mode for mode in run.modes if mode != "serial"] or run.modes:
        for a, b in combinations(run.subjects, 2):
            one, two = run.arm(a, mode), run.arm(b, mode)
            if one and two:
                found.append(_pair(measured, one, two))
    return [line for line in found if line]


def _gain(measured: Measured, subject: str) -> str:
    run = measured.run
    batch, serial = run.arm(subject, "batch"), run.arm(subject, "serial")
    kind = inferred(batch) if batch else None
    words = (
        f" Its wave of {kind.count} completes like a server that is {_is(kind.kind, kind.width)}."
        if kind
        else ""
    )
    levels = [count for count in measured.levels if count > 1]
    if not batch or not serial or not levels:
        return f"{subject}:{words}" if words else ""
    widest = levels[-1]
    speedup = measured.ratio(serial, batch, widest)
    if not speedup.known:
        return f"{subject}: no speedup is stated ({speedup.mark or 'not measured'}).{words}"
    return f"{subject} serves {widest} requests {shown(speedup)} faster in batch mode than one by one.{words}"


def _is(kind: str, width: int) -> str:
    return {"batching": "batching", "serial": "serving one at a time"}.get(kind, f"serving {width} at once")


def shown(found: Estimate) -> str:
    """A ratio with its interval."""
    if found.low is None or found.high is None:
        return f"{found.value:.2f}x (one run)"
    return f"{found.value:.2f}x ({found.low:.2f}–{found.high:.2f})"


def _pair(measured: Measured, one: Arm, two: Arm) -> str:
    """One sentence over all levels: where the first is faster, slower, or nothing is shown."""
    by_finding: dict[str, list[str]] = {}
    for count in measured.levels:
        ratio = measured.ratio(one, two, count)
        said = finding(ratio)
        if said != "not measured":
            detail = ratio.mark if said in ("refused", "invalid") else shown(ratio)
            by_finding.setdefault(said, []).append(f"{detail} at n = {count}")
    parts = [_phrase(said, details, two.subject) for said, details in by_finding.items()]
    return (
        f"{one.subject} against {two.subject} ({one.mode} mode, wall time): {'; '.join(parts)}."
        if parts
        else ""
    )


def _phrase(said: str, details: list[str], other: str) -> str:
    listed = ", ".join(details)
    if said in ("faster", "slower"):
        return f"{said} than {other}: {listed}"
    if said in ("refused", "invalid"):
        return f"{'no comparison' if said == 'refused' else 'not valid'}: {details[0]}"
    if said.startswith("one run"):
        return f"one run per level, so no claim: {listed}"
    return f"{said}: {listed}"
