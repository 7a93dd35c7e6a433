"""One arm: start its engine, load it with Locust, stop it, and keep the record."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import analysis
from launchers import lifecycle, locust_process, records
from launchers.display import Display
from launchers.errors import EngineDied, EngineError, EngineHang, LoadError
from launchers.interruption import Interrupted, Interruption
from launchers.lifecycle import RunningEngine
from launchers.process import Supervised
from launchers.provenance import Provenance
from launchers.redaction import without_secrets
from launchers.resolve import Resolved, ResolvedArm
from launchers.telemetry import Telemetry

WATCH_SECONDS = 0.2
LAST_ROWS_SECONDS = (
    2.0  # after an engine died: for Locust to write the rows of the requests that died with it
)
SILENCE_SECONDS = 60.0  # beyond the deadline: Locust samples itself four times a second while it is alive


class ArmRun:
    """Runs the arm's blocks into `run_dir`/<arm>. Engine failures end up in the record, not as exceptions."""

    def __init__(
        self,
        arm: ResolvedArm,
        resolved: Resolved,
        run_dir: Path,
        *,
        workers: int,
        display: Display,
        interruption: Interruption,
    ) -> None:
        self.arm = arm
        self.name = arm.plan.name
        self.plan = resolved.plan
        self.folder = run_dir / self.name
        self.run_name = run_dir.name
        self.workers = workers
        self.display = display
        self.interruption = interruption
        self.provenance = Provenance(arm)
        self.notes: list[str] = []
        self.conducts: list[dict[str, Any]] = []
        self.record: dict[str, Any] = {
            "arm": self.name,
            "engine": arm.plan.engine,
            "mode": arm.plan.mode,
            "status": "unfinished",
            "settings_asked": without_secrets(arm.plan.settings),
            "settings_effective": {},
            "requested_width": arm.width,
            "effective_width": None,
            "time_scale": arm.time_scale,
            "capabilities": arm.engine.capabilities().model_dump(mode="json"),
            "provenance": self.provenance.described(),
            "workload": {"seed": self.plan.seed, **arm.workload.model_dump(mode="json")},
            "harness": records.version(),
            "started": None,
            "ended": None,
            "locust_exit": None,
            "engine_exit": None,
            "failure": None,
            "failure_line": None,
            "log_tail": None,
            "payload_sha256": None,
            "notes": self.notes,
            "cases": {},
            "verdicts": [],
        }

    @property
    def status(self) -> str:
        return str(self.record["status"])

    @property
    def over(self) -> bool:
        """A failed engine is not started again in later blocks."""
        return self.status in ("fail", "error")

    def run_block(self, block: int) -> None:
        """Raises Interrupted, with everything stopped and the record saying `unfinished`."""
        with self.recording():
            self.display.stage(self.name, "starting" if block == 1 else f"starting (block {block})")
            with lifecycle.running(
                self.name,
                self.arm.engine,
                self.arm.plan.mode,
                port=self.arm.plan.port,
                folder=self.folder,
                deadline_s=self.arm.plan.start_deadline_s,
                interruption=self.interruption,
            ) as up:
                self.note_start(up)
                self.load(up, block)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """What goes wrong inside ends up in the record; Interrupted is raised all the same."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.update(status="running", started=self.record["started"] or records.now())
        try:
            yield
        except EngineError as error:
            self.update(status="fail", failure=error.code, failure_line=str(error), log_tail=error.log_tail)
        except LoadError as error:
            self.update(status="error", failure_line=str(error))
        except Interrupted:
            self.update(status="unfinished")
            raise
        finally:
            self.update(ended=records.now())

    def note_start(self, up: RunningEngine) -> None:
        self.provenance.add_start(up)
        self.update(
            settings_effective=without_secrets(up.effective),
            effective_width=up.effective.get("batch_width"),
            provenance=self.provenance.described(),
        )

    def load(self, up: RunningEngine, block: int) -> None:
        self.display.stage(self.name, "under load")
        locust = locust_process.start(self.locust_arguments(up, block), self.folder)
        telemetry = Telemetry(
            self.folder / "telemetry.csv",
            up.base_url,
            self.arm.engine.capabilities().metrics_path,
            up.processes,
            locust,
            self.provenance.devices,
        )
        telemetry.start()
        try:
            self.watch(locust, up)
        except EngineDied as died:
            self.record["engine_exit"] = next(p.exit_code for p in up.processes if not p.running)
            locust.wait(LAST_ROWS_SECONDS)
            raise died
        finally:
            locust.stop()
            telemetry.stop()
            self.conducts.append(locust_process.conduct(self.folder))
            self.update(locust_exit=locust.exit_code)
            self.note_losses(telemetry, [*up.processes, locust])
        self.check_exit(locust, up)

    def locust_arguments(self, up: RunningEngine, block: int) -> list[str]:
        first, repeats = self.plan.repeats_of_block(block)
        return locust_process.arguments(
            self.arm.workload,
            arm_dir=self.folder,
            run=self.run_name,
            arm=self.name,
            engine=self.arm.plan.engine,
            mode=self.arm.plan.mode,
            host=up.base_url,
            width=self.arm.width,
            seed=self.plan.seed,
            first_repeat=first,
            repeats=repeats,
            time_scale=self.arm.time_scale,
            sends_done=self.arm.engine.capabilities().sends_done,
            csv_prefix="locust" if block == 1 else f"locust-block{block}",
            workers=self.workers,
        )

    def watch(self, locust: Supervised, up: RunningEngine) -> None:
        """Until Locust ends. Raises EngineDied, LoadError when Locust shows no life, Interrupted."""
        patience = self.arm.workload.deadline_s + SILENCE_SECONDS
        began, shown = time.time(), 0.0
        while locust.running:
            self.interruption.sleep(WATCH_SECONDS)
            if died := up.exited():
                raise died
            if (changed := modified(self.folder / "conduct.json")) != shown:
                shown = changed
                self.display.under_way(
                    self.name, *locust_process.progress(locust_process.conduct(self.folder))
                )
            if time.time() - max(began, modified(self.folder / "client.csv")) > patience:
                raise LoadError(
                    f"{self.name}: Locust showed no sign of life for {patience:g} s; see {locust.log}"
                )

    def check_exit(self, locust: Supervised, up: RunningEngine) -> None:
        if died := up.exited():
            raise died
        if locust.exit_code == locust_process.HANG:
            raise EngineHang(
                f"{self.name}: no byte for {self.arm.workload.deadline_s:g} s; the engine was stopped",
                up.tail(),
            )
        if locust.exit_code not in (0, 1):
            last = (locust.tail(1) or ["it wrote nothing"])[-1]
            raise LoadError(
                f"{self.name}: Locust ended with code {locust.exit_code}: {last}; see {locust.log}"
            )

    def note_losses(self, telemetry: Telemetry, processes: list[Supervised]) -> None:
        """What could not be written, or not be ended, is said once."""
        lost = [
            f"{process.log.name}: lines lost, {process.log_error}"
            for process in processes
            if process.log_error
        ]
        left = [
            f"{process.name}: could not be ended: {process.left}" for process in processes if process.left
        ]
        for note in [*lost, *left, *telemetry.notes]:
            if note not in self.notes:
                self.notes.append(note)
                self.display.say(f"{self.name}: {note}")

    def finish(self) -> None:
        """After the last block: settle the record, and say how it ended."""
        self.settle()
        self.display.outcome(self.name, self.status, self.reason())

    def settle(self) -> None:
        """Join and pack the files, judge the rows, and decide on the status."""
        records.compress(self.folder / "events.csv")
        if len(self.conducts) > 1:
            records.write_json(self.folder / "conduct.json", locust_process.join_conducts(self.conducts))
        self.update(payload_sha256=records.payload_digest(self.folder / "requests.csv"))
        try:
            judged = analysis.judge(self.folder)
        except Exception as error:  # rows that no code foresaw must not take the other arms along
            self.update(status="error", failure_line=f"its rows could not be judged: {error!r}")
            judged = {"cases": {}, "verdicts": []}
        verdicts = list(judged["verdicts"])
        failure = self.record["failure"]
        if failure and not any(verdict["check"] == failure for verdict in verdicts):
            verdicts.insert(0, verdict_of(failure, str(self.record["failure_line"])))
        if self.status == "running":
            failed = any(verdict["status"] == "fail" for verdict in verdicts)
            if self.record["locust_exit"] == 1 and not failed:
                failed = True
                self.notes.append(
                    "Locust counted failed requests that no verdict names; see locust_failures.csv"
                )
            self.record["status"] = "fail" if failed else "pass"
        self.update(cases=judged["cases"], verdicts=verdicts)

    def reason(self) -> str:
        if line := self.record["failure_line"]:
            line = str(line).removeprefix(f"{self.name}: ").removeprefix(f"{self.name} ")
            return f"{self.record['failure']}: {line}" if self.record["failure"] else line
        failed = [verdict["check"] for verdict in self.record["verdicts"] if verdict["status"] == "fail"]
        return ", ".join(dict.fromkeys(failed))

    def update(self, **changes: Any) -> None:
        self.record.update(changes)
        records.write_json(self.folder / "record.json", self.record)


def modified(path: Path) -> float:
    """Seconds since the epoch; 0 where there is no file yet."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def verdict_of(check: str, detail: str) -> dict[str, Any]:
    return {"check": check, "status": "fail", "observed": None, "limit": None, "detail": detail}
