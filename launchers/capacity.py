"""The highest rate of arrivals that an arm answers within its limits: probes, one Locust run each."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.goodput import Slo, Sustained, phases, sustained
from analysis.rundata import load_arm
from launchers import lifecycle, records
from launchers.arm import ArmRun
from launchers.asking import Trouble, ask
from launchers.capacity_search import Search
from launchers.display import Display
from launchers.errors import EngineError, EngineHang, LoadError, PlanError
from launchers.interruption import Interrupted, Interruption
from launchers.lifecycle import RunningEngine
from launchers.resolve import Resolved, ResolvedArm
from launchers.telemetry import server_rows

MOST_REQUESTS = 50_000  # of one probe
DRAINED_POLL_SECONDS = 0.2
ANSWER_SECONDS = 5.0  # for one token from a server that has nothing else to do


@dataclass(frozen=True)
class Asked:
    """`share` of the requests has to keep to the limits; `within`: how close the answer has to be."""

    share: float
    first_rate: float
    within: float
    most_probes: int


@dataclass(frozen=True)
class Probe:
    """One rate tried. `holds` is None where the load generator could not tell; `why` says what decided."""

    rate: float
    folder: str
    holds: bool | None
    why: str
    found: Sustained | None


@dataclass
class ArmCapacity:
    """`holds`: the highest rate that held, None if none did; `fails`: the lowest that did not."""

    arm: str
    engine: str
    mode: str
    status: str = "running"
    holds: float | None = None
    fails: float | None = None
    ended: str = ""
    probes: list[Probe] = field(default_factory=list)


class CapacityRun:
    """Searches each arm of the plan in turn, into `folder`, which must not hold a run yet (PlanError)."""

    def __init__(
        self,
        resolved: Resolved,
        asked: Asked,
        folder: Path,
        *,
        workers: int,
        display: Display,
        interruption: Interruption,
    ) -> None:
        self.resolved, self.asked, self.folder = resolved, asked, folder
        self.workers, self.display, self.interruption = workers, display, interruption
        if any((folder / name).exists() for name in ("capacity.json", "run.json")):
            raise PlanError(f"{folder} already holds a run; give another folder with --out")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PlanError(
                f"{folder}: cannot be made: {error.strerror}; give another folder with --out"
            ) from error
        self.arms = [ArmCapacity(arm.plan.name, arm.plan.engine, arm.plan.mode) for arm in resolved.arms]
        self.status, self.started, self.ended = "running", records.now(), ""

    def execute(self) -> str:
        """pass: every arm has a rate that holds. Raises Interrupted with everything stopped and kept."""
        self.write()
        try:
            with self.display:
                self.display.stages(self.asked.most_probes * len(self.arms))
                for number, (arm, found) in enumerate(zip(self.resolved.arms, self.arms, strict=True), 1):
                    self.search(arm, found)
                    self.display.skip_to(number * self.asked.most_probes)
        except BaseException as error:
            self.status = "interrupted" if isinstance(error, Interrupted) else "error"
            self.ended = records.now()
            with contextlib.suppress(OSError):
                self.write()
            raise
        self.status = "pass" if all(found.status == "pass" for found in self.arms) else "fail"
        self.ended = records.now()
        self.write()
        return self.status

    def search(self, arm: ResolvedArm, found: ArmCapacity) -> None:
        """Start the arm's engine and probe it; how that ended is in `found`, except for Interrupted."""
        asked = self.asked
        search = Search(asked.first_rate, asked.within, asked.most_probes)
        self.display.stage(found.arm, "starting")
        try:
            with lifecycle.running(
                found.arm,
                arm.engine,
                arm.plan.mode,
                port=arm.plan.port,
                folder=self.folder / found.arm,
                deadline_s=arm.plan.start_deadline_s,
                interruption=self.interruption,
            ) as up:
                while (rate := search.next_rate()) is not None:
                    if (requests := rate * self.hold_s) > MOST_REQUESTS:
                        search.ended = f"{rate:g} requests/s would be {requests:,.0f} requests a probe"
                        break
                    self.wait_until_drained(up, arm)
                    probe = self.probe(up, arm, rate, len(found.probes) + 1)
                    found.probes.append(probe)
                    search.note(rate, probe.holds)
                    found.holds, found.fails = search.lower, search.upper
                    self.write()
                    self.display.stage_done()
                    if died := up.exited():
                        raise died
            found.ended = search.ended
            found.status = "fail" if found.holds is None else "pass"
        except (EngineError, LoadError) as error:
            found.ended, found.status = str(error), "fail" if isinstance(error, EngineError) else "error"
        except Interrupted:
            found.ended, found.status = "interrupted", "unfinished"
            raise
        self.write()

    @property
    def slo(self) -> Slo:
        limits = self.resolved.plan.workload.slo
        assert limits is not None
        return Slo(**limits.model_dump())

    @property
    def hold_s(self) -> float:
        traffic = self.resolved.plan.workload.traffic
        assert traffic is not None
        return traffic.hold_s

    def probe(self, up: RunningEngine, arm: ResolvedArm, rate: float, number: int) -> Probe:
        """Fresh prompts and arrivals each time: a cache must not answer what an earlier probe asked."""
        traffic = self.resolved.plan.workload.traffic
        assert traffic is not None
        at_rate = {"traffic": traffic.model_copy(update={"levels": [rate]})}
        plan = self.resolved.plan.model_copy(update={"seed": self.resolved.plan.seed + number})
        run = ArmRun(
            replace(
                arm,
                plan=arm.plan.model_copy(update={"name": f"probe-{number:02}-at-{rate:.4g}"}),
                workload=arm.workload.model_copy(update=at_rate),
            ),
            replace(self.resolved, plan=plan),
            self.folder / up.name,
            workers=self.workers,
            display=self.display,
            interruption=self.interruption,
        )
        with run.recording():
            run.note_start(up)
            run.load(up, block=1)
        run.settle()
        return self.judged(run, rate)

    def judged(self, run: ArmRun, rate: float) -> Probe:
        """Whether the rate held, as far as the load generator lets us know."""
        arm = load_arm(run.folder)
        found = next((sustained(arm, wave, rows) for wave, rows in phases(arm)), None)
        holds, why = self.verdict(run, found)
        words = {True: "holds", False: "does not hold", None: "not valid"}[holds]
        words += f", {found.share:.1%} of {found.due} in time" if found and found.share is not None else ""
        self.display.say(f"{run.run_name}: {rate:.4g} requests/s: {words}" + (f" ({why})" if why else ""))
        return Probe(rate, f"{run.run_name}/{run.name}", holds, why, found)

    def verdict(self, run: ArmRun, found: Sustained | None) -> tuple[bool | None, str]:
        share = self.asked.share
        if run.record["failure"]:
            return False, run.reason()
        if run.status == "error":
            return None, run.reason()
        client = [
            str(one["check"])
            for one in run.record["verdicts"]
            if one["status"] == "fail" and one["check"].startswith("client.")
        ]
        if "client.rows" in client:
            return None, "client.rows"
        if found is None or not found.due or found.least is None or found.most is None:
            return None, "no request was due in the recorded time; hold longer"
        why = ", ".join(f"{name} {count}" for name, count in (found.missed or {}).items())
        why = f"missed: {why}" if why else ""
        if found.least >= share:
            return True, why
        if found.most < share:
            return False, why
        return (
            None,
            f"{', '.join(client) or 'client'}: between {found.least:.1%} and {found.most:.1%} in time",
        )

    def wait_until_drained(self, up: RunningEngine, arm: ResolvedArm) -> None:
        """Until the server says it has nothing to do, where it says so, and answers one token at once.

        Raises EngineDied, EngineHang after the deadline, Interrupted.
        """
        self.display.under_way(up.name, "waiting until its queue is empty", 0.0)
        deadline_s = arm.workload.deadline_s
        end = time.monotonic() + deadline_s
        while not (idle(up) and answers(up, arm)):
            if died := up.exited():
                raise died
            if time.monotonic() > end:
                raise EngineHang(
                    f"{up.name}: still busy {deadline_s:g} s after the last answer of a probe", up.tail()
                )
            self.interruption.sleep(DRAINED_POLL_SECONDS)

    def as_dict(self) -> dict[str, Any]:
        """What capacity.json and --json say. Rates: requests a second of the engine's clock."""
        return {
            "headtohead": records.version(),
            "status": self.status,
            "started": self.started,
            "ended": self.ended or None,
            "share": self.asked.share,
            "within": self.asked.within,
            "slo": asdict(self.slo),
            "plan": self.resolved.as_dict(),
            "host": records.host(),
            "commit": records.commit(),
            "workers": self.workers,
            "arms": [asdict(found) for found in self.arms],
        }

    def write(self) -> None:
        records.write_json(self.folder / "capacity.json", self.as_dict())


def idle(up: RunningEngine) -> bool:
    """Whether the server's own metrics show no request; True where it has none."""
    capabilities = up.engine.capabilities()
    names = {capabilities.running, capabilities.waiting} - {None}
    if not names or not capabilities.metrics_path:
        return True
    try:
        status, body = ask(up.base_url, capabilities.metrics_path)
        shown = [value for _, name, _, value in server_rows(body.decode("utf-8", "replace")) if name in names]
    except (*Trouble, ValueError):
        return False
    return status != 200 or not any(shown)


def answers(up: RunningEngine, arm: ResolvedArm) -> bool:
    body = {
        "model": arm.workload.model,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 1,
        **(arm.workload.payload or {}),
    }
    try:
        return ask(up.base_url, "/v1/chat/completions", body, timeout_s=ANSWER_SECONDS)[0] == 200
    except Trouble:
        return False
