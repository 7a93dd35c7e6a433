"""Whether the engine serves as many at once as asked, and lets a short request past a long one."""

from __future__ import annotations

from analysis.batching import inferred
from analysis.interleaving import interleaves
from analysis.rundata import Arm
from analysis.schema import Verdict, verdict


def verdicts(arm: Arm) -> list[Verdict]:
    return [_width(arm), _overlap(arm)]


def _width(arm: Arm) -> Verdict:
    """The engine's own word first, then what the completions of the widest wave allow."""
    asked, told = arm.requested_width, arm.record.get("effective_width")
    found = inferred(arm)
    limit = f"at least {asked} at once" if asked else "the asked width"
    said = f"the engine says {told}" if told is not None else "the engine does not say"
    if asked is None or (told is None and found is None):
        return verdict("batch.width", "skip", "no width asked for, or no ladder", limit)
    if told is not None and int(told) < asked:
        return verdict("batch.width", "fail", f"{told}", limit, said)
    if found is None:
        return verdict("batch.width", "pass", f"{told}", limit, f"{said}; no ladder to infer it from")
    detail = f"{found.kind} at n = {found.count} ({said}): {found.evidence}"
    if arm.mode == "static":
        return verdict("batch.width", "pass", f"{told or found.width}", limit, f"static batches; {detail}")
    if found.width > asked:
        return verdict("batch.width", "warn", f"{found.width}", limit, f"more at once than asked; {detail}")
    status = "fail" if found.width < min(asked, found.count) else "pass"
    shown = f"{found.width}" if found.count >= asked or status == "fail" else f"at least {found.width}"
    return verdict("batch.width", status, shown, limit, detail)


def _overlap(arm: Arm) -> Verdict:
    limit = "the short request ends before the long one"
    waves = interleaves(arm)
    if waves.empty:
        return verdict("interleave.overlap", "skip", "no interleave", limit)
    met = waves[waves["ended_before_s"] > -waves["short_s"]]
    if met.empty:
        detail = "the long one had ended before the short one was sent: send it sooner (interleave_delay_s)"
        return verdict("interleave.overlap", "skip", "the two never met", limit, detail)
    before_s = float(met["ended_before_s"].median())
    observed = f"{abs(before_s):.3f} s {'before' if before_s > 0 else 'after'} it"
    if arm.mode == "serial":
        return verdict("interleave.overlap", "skip", observed, limit, "one at a time: cannot overlap")
    return verdict(
        "interleave.overlap", "pass" if before_s > 0 else "warn", observed, limit, f"{len(met)} repeats"
    )
