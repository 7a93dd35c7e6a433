"""One engine in the foreground, and the list of all engines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from launchers import lifecycle, plan
from launchers.engines import ENGINES
from launchers.errors import PlanError
from launchers.interruption import Interrupted, Interruption
from launchers.resolve import resolve


def serve(engine: str, mode: str, port: int | None, settings: list[str], folder: Path) -> None:
    """Until Ctrl-C, or the engine's own end (EngineDied). HeadToHeadError on bad input or no start."""
    asked = {"engine": engine, "mode": mode, "port": port, "settings": parse_settings(settings)}
    arm = resolve(plan.parse({"name": "serve", "arm": [asked]}, "serve"), "serve").arms[0]
    with Interruption() as interruption:
        try:
            with lifecycle.running(
                engine,
                arm.engine,
                mode,
                port=port,
                folder=folder,
                deadline_s=arm.plan.start_deadline_s,
                interruption=interruption,
            ) as up:
                print(up.base_url, flush=True)
                ready = f"{engine} is ready after {up.time_to_ready_s:.1f} s"
                print(f"{ready}; logs in {folder / 'logs'}; Ctrl-C stops it", file=sys.stderr)
                while not (died := up.exited()):
                    interruption.sleep(0.2)
                raise died
        except Interrupted:
            print(f"{engine} is stopped", file=sys.stderr)


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
