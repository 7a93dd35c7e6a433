"""The lines that stand above every table: what kind of time it is, what was forced, what is unfinished."""

from __future__ import annotations

from analysis.measured import Measured
from analysis.rundata import Run
from analysis.tabulation import Table


def notes(measured: Measured) -> list[str]:
    """What a reader has to know before any figure. `measured` after all tables were built from it."""
    return [*simulated(measured.run), *unfinished(measured.run), *forced(measured)]


def above(measured: Measured, table: Table) -> list[str]:
    """What has to be said again right above one table."""
    return [*(simulated(measured.run) if table.engine_time else []), *forced(measured)]


def simulated(run: Run) -> list[str]:
    scaled = {arm.name: arm.time_scale for arm in run.arms if arm.time_scale != 1}
    if not scaled:
        return []
    scales = ", ".join(sorted({f"{scale:g}" for scale in scaled.values()}))
    which = "every arm" if len(scaled) == len(run.arms) else ", ".join(scaled)
    return [f"Simulated time: {which} ran {scales} times faster than real; times are those of its own clock."]


def unfinished(run: Run) -> list[str]:
    lines = []
    for arm in run.arms:
        count = int((arm.requests["outcome"] == "unfinished").sum())
        if count:
            lines.append(
                f"{arm.name}: {count} requests were in flight when it stopped; they are counted and shown, "
                "and figures of their waves are marked."
            )
        if not len(arm.requests):
            lines.append(
                f"{arm.name}: no requests were recorded ({arm.record.get('failure') or 'see its logs'})."
            )
    return lines


def forced(measured: Measured) -> list[str]:
    return [f"Compared although {reason} (--force)." for reason in measured.forced]
