"""Where an arm's numbers come from: program, version, command line, devices, time to ready."""

from __future__ import annotations

from typing import Any

from launchers.lifecycle import RunningEngine
from launchers.redaction import without_secrets
from launchers.resolve import ResolvedArm
from launchers.telemetry import Devices


class Provenance:
    """Grows with each start of the engine; `described` is what the record keeps."""

    def __init__(self, arm: ResolvedArm) -> None:
        self.arm = arm
        self.devices = Devices([])
        self.starts: list[dict[str, Any]] = []

    def add_start(self, up: RunningEngine) -> None:
        self.devices = Devices(up.visible_devices)
        self.starts.append(
            {
                "command": without_secrets(up.command),
                "time_to_ready_s": round(up.time_to_ready_s, 3),
            }
        )

    def described(self) -> dict[str, Any]:
        first = self.starts[0] if self.starts else {"command": [], "time_to_ready_s": None}
        return {
            "version": self.arm.version,
            "command": first["command"][0] if len(first["command"]) == 1 else first["command"],
            "commit": getattr(self.arm.engine.settings, "commit", None),
            "time_to_ready_s": first["time_to_ready_s"],
            "devices": self.devices.described(),
            "starts": self.starts,
        }
