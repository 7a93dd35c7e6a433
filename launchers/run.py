"""A plan from its first arm to its report: every arm in turn, block by block, and run.json all along."""

from __future__ import annotations

import contextlib
from datetime import datetime
from pathlib import Path
from typing import Any

import analysis
from launchers import records
from launchers.arm import ArmRun
from launchers.display import Display
from launchers.errors import PlanError
from launchers.interruption import Interrupted, Interruption
from launchers.resolve import Resolved


class PlanRun:
    """Runs into `folder`, which must not hold a run yet (PlanError)."""

    def __init__(
        self,
        resolved: Resolved,
        folder: Path,
        *,
        plan_path: Path | None,
        workers: int,
        display: Display,
        interruption: Interruption,
    ) -> None:
        self.resolved = resolved
        self.folder = folder
        self.display = display
        self.interruption = interruption
        if (folder / "run.json").exists():
            raise PlanError(f"{folder} already holds a run; give another folder with --out")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PlanError(
                f"{folder}: cannot be made: {error.strerror}; give another folder with --out"
            ) from error
        self.arms = [
            ArmRun(arm, resolved, folder, workers=workers, display=display, interruption=interruption)
            for arm in resolved.arms
        ]
        self.run: dict[str, Any] = {
            "headtohead": records.version(),
            "status": "running",
            "started": records.now(),
            "ended": None,
            "plan": resolved.as_dict(),
            "plan_path": str(plan_path) if plan_path else None,
            "payload_sha256": None,
            "host": records.host(),
            "commit": records.commit(),
            "workers": workers,
            "arms": [arm.name for arm in self.arms],
            "verdicts": [],
        }
        self.update()

    def execute(self) -> str:
        """The run's status. Raises Interrupted with everything stopped, rows kept and the run marked."""
        try:
            with self.display:
                self.run_arms()
                self.display.stage(self.folder.name, "judging the whole run")
                verdicts = analysis.judge_run(self.folder)
        except BaseException as error:
            status = "interrupted" if isinstance(error, Interrupted) else "error"
            with contextlib.suppress(OSError):  # a full disk must not hide why it ended
                self.update(status=status, ended=records.now())
            raise
        self.update(status=self.status_of(verdicts), ended=records.now(), verdicts=verdicts)
        return str(self.run["status"])

    def run_arms(self) -> None:
        blocks = self.resolved.plan.blocks
        self.display.stages(blocks * len(self.arms))
        for block in range(1, blocks + 1):
            for arm in self.arms:
                if not arm.over:
                    arm.run_block(block)
                    if arm.over and block < blocks:
                        self.display.say(f"{arm.name}: {arm.reason()}; its later blocks are left out")
                if block == blocks:
                    arm.finish()
                self.display.stage_done()
        digests = {arm.record["payload_sha256"] for arm in self.arms}
        self.update(payload_sha256=digests.pop() if len(digests) == 1 else None)

    def status_of(self, verdicts: list[dict[str, Any]]) -> str:
        statuses = {arm.status for arm in self.arms}
        if "error" in statuses:
            return "error"
        failed = statuses != {"pass"} or any(verdict["status"] == "fail" for verdict in verdicts)
        return "fail" if failed else "pass"

    def update(self, **changes: Any) -> None:
        self.run.update(changes)
        records.write_json(self.folder / "run.json", self.run)


def default_folder(name: str) -> Path:
    return Path("results") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
