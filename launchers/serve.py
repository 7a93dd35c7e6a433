"""One engine or one arm of a plan in the foreground, and the list of all engines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from launchers import lifecycle, plan
from launchers.engines import ENGINES
from launchers.errors import PlanError
from launchers.interruption import Interrupted, Interruption
from launchers.resolve import ResolvedArm, resolve


def serve(engine: str, mode: str, port: int | None, settings: list[str], folder: Path, as_json: bool) -> None:
    """One engine by its name. HeadToHeadError on bad input."""
    asked = {
        "name": engine,
        "engine": engine,
        "mode": mode,
        "port": port,
        "settings": parse_settings(settings),
    }
    foreground(
        resolve(plan.parse({"name": "serve", "arm": [asked]}, "serve"), "serve").arms[0], folder, as_json
    )


def serve_arm(path: Path, name: str | None, folder: Path, as_json: bool) -> None:
    """One arm of a plan. HeadToHeadError on bad input."""
    arms = {arm.plan.name: arm for arm in resolve(plan.read(path), str(path)).arms}
    if name not in arms:
        raise PlanError(f"{path}: give one of its arms with --arm: {', '.join(arms)}")
    foreground(arms[name], folder, as_json)


def foreground(arm: ResolvedArm, folder: Path, as_json: bool) -> None:
    """Until Ctrl-C, or the engine's own end (EngineDied). HeadToHeadError where it does not start.

    Prints its URL on a line; with `as_json` a line of what Locust has to be told about it.
    """
    name = arm.plan.name
    with Interruption() as interruption:
        try:
            with lifecycle.running(
                name,
                arm.engine,
                arm.plan.mode,
                port=arm.plan.port,
                folder=folder,
                deadline_s=arm.plan.start_deadline_s,
                interruption=interruption,
            ) as up:
                print(json.dumps(labels(arm, up.base_url)) if as_json else up.base_url, flush=True)
                ready = f"{name} is ready after {up.time_to_ready_s:.1f} s"
                print(f"{ready}; logs in {folder / 'logs'}; Ctrl-C stops it", file=sys.stderr)
                while not (died := up.exited()):
                    interruption.sleep(0.2)
                raise died
        except Interrupted:
            print(f"{name} is stopped", file=sys.stderr)


def labels(arm: ResolvedArm, url: str) -> dict[str, Any]:
    """The options of our Locust files that depend on the arm."""
    workload = arm.workload
    return {
        "host": url,
        "arm": arm.plan.name,
        "engine": arm.engine.name,
        "mode": arm.plan.mode,
        "model": workload.model,
        "width": arm.width,
        "time_scale": arm.time_scale,
        "payload": json.dumps(workload.payload) if workload.payload else "",
        "stream_options": json.dumps(workload.stream_options) if workload.stream_options else "",
        "without_done": not arm.engine.capabilities().sends_done,
    }


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value that reads as JSON is taken as such, everything else as text."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise PlanError(f"--set {pair}: must be KEY=VALUE, as width=4")
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value
    return settings


def inventory() -> list[dict[str, Any]]:
    """One row an engine: whether it is here, its version, and where it is or what to do to have it."""
    rows = []
    for name, kind in ENGINES.items():
        found = kind.found()
        note = found.where if found.ok else found.install_hint
        rows.append(
            {
                "engine": name,
                "modes": list(kind.modes),
                "found": found.ok,
                "version": found.version,
                "note": note or "",
            }
        )
    return rows
