"""Leads traffic: begins it everywhere at once, shares out the schedule, waits for the last answer."""

import logging
import time
from typing import Any

import gevent
from locust.env import Environment
from locust.runners import STATE_RUNNING, MasterRunner

from locustfiles import crew
from locustfiles.conductor import Conductor, Station
from locustfiles.demand import Demand
from locustfiles.rows import ArmFiles, Record
from locustfiles.settings import Settings

logger = logging.getLogger(__name__)

USERS_WITHIN_S = 60.0
LEAD_NS = 200_000_000
LOOK_EVERY_S = 0.2
SAY_EVERY_S = 1.0
# Requests that are due within this time of a worker's death are not given to another.
HAND_OVER_S = 0.5


class TrafficConductor(Conductor):
    """Begins, watches, ends. In a closed loop the shape changes the number of users meanwhile."""

    def __init__(self, environment: Environment, settings: Settings, files: ArmFiles, demand: Demand) -> None:
        super().__init__(environment, settings, files)
        self._demand = demand
        self._due_s = [due_s for due_s, _ in demand.arrivals()] if demand.open_loop else []
        self.counts["planned"] = len(self._due_s)
        self._begin_ns = 0
        self._hung = False
        self._said_at = 0.0
        self._lost: set[str] = set()

    def play(self) -> str:
        """The whole demand, and as long afterwards as answers are awaited."""
        if not self.wait_until(self._all_are_here, USERS_WITHIN_S):
            logger.error("no users to send traffic: stopping")
            return "stopped"
        self.measure_clocks()
        self._begin_ns = time.time_ns() + LEAD_NS
        self._share_out(0)
        while self.elapsed_s < self._demand.duration_s and not self._hung and self.living():
            gevent.sleep(LOOK_EVERY_S)
            self._look_after_workers()
            self._say_how_far_it_is()
        self.tell(crew.END, {})
        self.wait_until(self._all_told, 2 * self.settings.deadline_s)
        if not self._demand.open_loop:
            self.counts["planned"] = self.counts["sent"] + self.counts["lost"]
        return "hang" if self._hung else "complete" if self.living() else "stopped"

    @property
    def elapsed_s(self) -> float:
        """Seconds of the engine's clock since the beginning; before it, 0."""
        if not self._begin_ns:
            return 0.0
        return max(time.time_ns() - self._begin_ns, 0) / 1e9 * self.settings.time_scale

    def keep(self, record: Record) -> None:
        super().keep(record)
        self._hung |= record.row.failure == "engine.hang"

    def on_idle(self, id: str, data: dict[str, int]) -> None:
        """A crew is there; one that comes late has no share in the schedule, but may have users."""
        station = self.station(id)
        if self._begin_ns:
            self._begin(station, {})

    def state(self) -> dict[str, Any]:
        levels = [
            {"wave": level.name, "value": level.value, "steady_s": level.end_s - level.steady_s}
            for level in self._demand.levels
        ]
        share = round(min(self.elapsed_s / self._demand.duration_s, 1.0), 4)
        about = {"load": self._demand.load, "levels": levels, "share": share}
        return {**super().state(), "waves": [], "reclaims": [], **about}

    def _all_are_here(self) -> bool:
        workers = len(self._runner.clients) if isinstance(self._runner, MasterRunner) else 1
        spawned = self._runner.state == STATE_RUNNING or not self._demand.open_loop
        return spawned and 0 < workers <= len(self.stations)

    def _share_out(self, first: int) -> None:
        """From request `first` on, split those of each user class among the workers that have such users."""
        shares: dict[str, dict[str, tuple[int, int, int]]] = {station.id: {} for station in self.living()}
        for user, _ in self._demand.mix:
            able = [id for id in shares if self._users_of(id).get(user)] or list(shares)
            for share, id in enumerate(able):
                shares[id][user] = (first, share, len(able))
        for id, share_of_user in shares.items():
            self._begin(self.stations[id], share_of_user)

    def _users_of(self, id: str) -> dict[str, int]:
        if isinstance(self._runner, MasterRunner):
            return self._runner.clients[id].user_classes_count
        return self._runner.user_classes_count

    def _begin(self, station: Station, shares: dict[str, tuple[int, int, int]]) -> None:
        self.tell(crew.BEGIN, {"at_ns": self._begin_ns + station.offset_ns, "shares": shares}, station)

    def _look_after_workers(self) -> None:
        gone = [s for s in self.stations.values() if s.id not in self._lost and self.is_lost(s)]
        for station in gone:
            self._lost.add(station.id)
            lost = station.started - station.ended
            self.counts["lost"] += lost
            self.environment.process_exit_code = 1
            logger.error("worker %s died with %d requests in flight", station.name, lost)
        if gone and self._demand.open_loop:
            from_s = self.elapsed_s + HAND_OVER_S * self.settings.time_scale
            self._share_out(sum(due_s < from_s for due_s in self._due_s))
        if gone:
            self.files.conduct(self.state())

    def _say_how_far_it_is(self) -> None:
        if time.monotonic() - self._said_at > SAY_EVERY_S:
            self._said_at = time.monotonic()
            self.files.conduct(self.state())

    def _all_told(self) -> bool:
        self._look_after_workers()
        return all(station.halted for station in self.living())
