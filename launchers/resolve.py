"""A plan made ready to run: engines found, settings checked, one payload for all arms."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from launchers.engines import ENGINES
from launchers.engines.base import Engine
from launchers.errors import EngineMissing, PlanError
from launchers.plan import Arm, Plan, Workload, mistakes
from launchers.redaction import without_secrets


@dataclass(frozen=True)
class ResolvedArm:
    """An arm with its engine. `width`: how many requests at once the engine is asked to take."""

    plan: Arm
    engine: Engine
    version: str | None
    workload: Workload  # the plan's, with this arm's model name

    @property
    def width(self) -> int:
        return self.engine.width(self.plan.mode)

    @property
    def time_scale(self) -> float:
        return float(getattr(self.engine.settings, "time_scale", 1.0))


@dataclass(frozen=True)
class Resolved:
    """`notes`: what the plan left open and how it was decided, for the record."""

    plan: Plan
    arms: list[ResolvedArm]
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        plan = self.plan.model_dump(mode="json", by_alias=True)
        plan["workload"] = self.arms[0].workload.model_dump(mode="json")
        for arm, resolved in zip(plan["arm"], self.arms, strict=True):
            arm["settings"] = without_secrets(resolved.engine.settings.model_dump(mode="json"))
            arm["model"] = resolved.workload.model
        return {**plan, "notes": self.notes}


def resolve(plan: Plan, where: str) -> Resolved:
    """Raises PlanError (one line a mistake) or EngineMissing (one line an engine)."""
    engines = build_engines(plan, where)
    versions = find(plan, engines)
    notes: list[str] = []
    workload = plan.workload.model_copy(
        update={
            "payload": payload(plan, engines, where, notes),
            "stream_options": stream_options(plan, engines, where, notes),
        }
    )
    arms = []
    for arm, engine, version in zip(plan.arms, engines, versions, strict=True):
        model = plan.workload.model or engine.served_model
        arms.append(ResolvedArm(arm, engine, version, workload.model_copy(update={"model": model})))
    if len({arm.workload.model for arm in arms}) > 1:
        names = ", ".join(f"{arm.plan.name}: {arm.workload.model}" for arm in arms)
        notes.append(f"the arms serve under different model names, so their payloads differ: {names}")
    return Resolved(plan, arms, notes)


def build_engines(plan: Plan, where: str) -> list[Engine]:
    lines: list[str] = []
    engines: list[Engine] = []
    for number, arm in enumerate(plan.arms, 1):
        kind = ENGINES.get(arm.engine)
        if kind is None:
            close = difflib.get_close_matches(arm.engine, ENGINES, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(ENGINES))}"
            lines.append(f"{where}: arm {number} engine: is {arm.engine!r}; {hint}")
            continue
        if arm.mode not in kind.modes:
            lines.append(
                f"{where}: arm {number} mode: is {arm.mode!r}; {arm.engine} knows {', '.join(kind.modes)}"
            )
        try:
            engines.append(kind(kind.Settings.model_validate(arm.settings)))
        except ValidationError as error:
            lines += mistakes(error, kind.Settings, where, f"arm {number} settings.")
    if lines:
        raise PlanError("\n".join(lines))
    return engines


def find(plan: Plan, engines: list[Engine]) -> list[str | None]:
    """The version of each arm's engine."""
    found = [engine.found(engine.settings) for engine in engines]
    missing = {
        f"engine {arm.engine!r} (arm {arm.name}) is not here: {one.install_hint}"
        for arm, one in zip(plan.arms, found, strict=True)
        if not one.ok
    }
    if missing:
        raise EngineMissing("\n".join(sorted(missing)))
    return [one.version for one in found]


def payload(plan: Plan, engines: list[Engine], where: str, notes: list[str]) -> dict[str, Any]:
    """The plan's own extra body fields, else `ignore_eos` where no arm rejects it."""
    asked = plan.workload.payload
    if asked is not None:
        for name in asked:
            if rejecting := arms_that(plan, engines, name, "rejected"):
                raise PlanError(f"{where}: workload.payload.{name}: {rejecting} rejects it; leave it out")
        return asked
    if rejecting := arms_that(plan, engines, "ignore_eos", "rejected"):
        notes.append(f"ignore_eos is not sent, because {rejecting} rejects it")
        return {}
    if ignoring := arms_that(plan, engines, "ignore_eos", "ignored"):
        notes.append(f"ignore_eos is sent; {ignoring} ignores it")
    return {"ignore_eos": True}


def stream_options(plan: Plan, engines: list[Engine], where: str, notes: list[str]) -> dict[str, Any]:
    """The plan's own, else usage (and running usage) where every arm honours it."""
    rejecting = arms_that(plan, engines, "stream_options", "rejected")
    asked = plan.workload.stream_options
    if asked is not None:
        if asked and rejecting:
            raise PlanError(f"{where}: workload.stream_options: {rejecting} rejects it; set it to {{}}")
        return asked
    if rejecting:
        notes.append(f"stream_options is not sent, because {rejecting} rejects it; streams count events")
        return {}
    if ignoring := arms_that(plan, engines, "stream_options", "ignored"):
        notes.append(f"stream_options is not sent, because {ignoring} ignores it")
        return {}
    options: dict[str, Any] = {"include_usage": True}
    if all(honoured(engine, "continuous_usage_stats") == "yes" for engine in engines):
        options["continuous_usage_stats"] = True
    return options


def arms_that(plan: Plan, engines: list[Engine], name: str, answer: str) -> str:
    """The names of the arms whose engine gives this answer to a field; empty for none."""
    return ", ".join(
        arm.name for arm, engine in zip(plan.arms, engines, strict=True) if honoured(engine, name) == answer
    )


def honoured(engine: Engine, name: str) -> str | None:
    return engine.capabilities().honours.get(name)
