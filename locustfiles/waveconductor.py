"""Leads the acceptance: places each wave on idle users, fires it when all are ready, collects its rows."""

import logging
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from locust.env import Environment

from locustfiles import crew
from locustfiles.conductor import Conductor, Station
from locustfiles.fitting import Fitter
from locustfiles.reclaim import Slots
from locustfiles.rows import ArmFiles, Record, RequestRow, planned_row
from locustfiles.settings import Settings
from locustfiles.waves import LEAVE_SHARE, Wave, users_needed

logger = logging.getLogger(__name__)

USERS_WITHIN_S = 30.0
# From "fire at T" to T: several times the way to the farthest worker.
LEAD_ROUND_TRIPS = 4
LEAST_LEAD_NS = 20_000_000
SOLO_GUESS_S = 0.2
RECLAIM_SOLOS = 6
# An abandoned prompt of 1600 words that is read to its end keeps a slot for 3 s on a small CPU.
RECLAIM_LEAST_S = 10.0
REFUSED_WAVES = 3


@dataclass(slots=True)
class Playing:
    """The wave being played: who holds which call, and which have ended."""

    wave: Wave
    index: int
    holders: dict[str, Station] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    rows: dict[str, RequestRow] = field(default_factory=dict)
    fired_ns: int = 0

    @property
    def missing(self) -> list[str]:
        """Requests that have not ended."""
        return [request for request in self.holders if request not in self.rows]

    @property
    def in_flight(self) -> int:
        """Requests that must have been sent by now and have not ended."""
        since_s = (time.time_ns() - self.fired_ns) / 1e9
        return sum(call.request not in self.rows and call.offset_s < since_s for call in self.wave.calls)

    @property
    def start_spread_ms(self) -> float | None:
        """Between the first and the last first byte, each call's own offset taken out."""
        offsets = {call.request: round(call.offset_s * 1e9) for call in self.wave.calls}
        starts = [
            row.sent_ns - offsets[row.request] - self.holders[row.request].offset_ns
            for row in self.rows.values()
            if row.sent_ns is not None
        ]
        return (max(starts) - min(starts)) / 1e6 if starts else None


class WaveConductor(Conductor):
    """Plays a list of waves."""

    def __init__(
        self, environment: Environment, settings: Settings, files: ArmFiles, waves: list[Wave]
    ) -> None:
        super().__init__(environment, settings, files)
        self.waves = waves
        self.counts["planned"] = sum(len(wave.calls) for wave in waves)
        self._now: Playing | None = None
        self._played: list[dict[str, Any]] = []
        self._reclaims: list[dict[str, Any]] = []
        self._solos_s: list[float] = []
        self._slots = Slots(settings)
        self._fitter = Fitter(settings)
        self._refused = 0

    def play(self) -> str:
        """All waves; ends early after a hang, or when the server or the users are gone."""
        self.wait_until(lambda: self._enough(users_needed(self.waves)), USERS_WITHIN_S)
        self.measure_clocks()
        for index, wave in enumerate(self.waves):
            playing = self._now = Playing(wave, index)
            if not self._place(playing):
                logger.error("not enough users for wave %s: stopping", wave.name)
                return "stopped"
            self._prepare(playing)
            self._fire(playing)
            if wave.leaving:
                self._watch_the_slot(playing)
            self._collect(playing)
            self._note(playing)
            if any(row.failure == "engine.hang" for row in playing.rows.values()):
                return "hang"
            if self._refused >= REFUSED_WAVES:
                logger.error("%s takes no connections any more: stopping", self.settings.target.authority)
                return "stopped"
        return "complete"

    def keep(self, record: Record) -> None:
        super().keep(record)
        if self._now is not None:
            self._now.rows[record.row.request] = record.row

    def state(self) -> dict[str, Any]:
        return {**super().state(), "waves": self._played, "reclaims": self._reclaims}

    def ears(self) -> dict[str, Callable[[str, Any], None]]:
        return {**super().ears(), crew.READY: self.on_ready}

    def on_ready(self, id: str, data: dict[str, Any]) -> None:
        """A crew has all its requests of the wave prepared."""
        if self._now is not None and data["wave"] == self._now.wave.name:
            self._now.ready.add(id)

    def _place(self, playing: Playing) -> bool:
        needed = users_needed([playing.wave])
        if not self.wait_until(lambda: self._enough(needed), USERS_WITHIN_S):
            return False
        free = {station.id: Counter(station.idle) for station in self.living()}
        for call in playing.wave.calls:
            id = max(free, key=lambda id: free[id][call.user])
            free[id][call.user] -= 1
            playing.holders[call.request] = self.stations[id]
        return True

    def _enough(self, needed: Counter[str]) -> bool:
        living = self.living()
        return all(sum(s.idle.get(user, 0) for s in living) >= count for user, count in needed.items())

    def _stations_of(self, playing: Playing) -> list[Station]:
        return list({station.id: station for station in playing.holders.values()}.values())

    def _prepare(self, playing: Playing) -> None:
        stations = self._stations_of(playing)
        contents = {
            call.request: self._fitter.content(call.prompt_tokens, call.request)
            for call in playing.wave.calls
            if call.prompt_tokens is not None
        }
        for station in stations:
            calls = [
                index
                for index, call in enumerate(playing.wave.calls)
                if playing.holders[call.request] is station
            ]
            station.idle = {}  # what is left over says the crew's next report
            leave_s = LEAVE_SHARE * self._solo_s
            order = {"wave": playing.index, "calls": calls, "contents": contents, "leave_s": leave_s}
            self.tell(crew.PREPARE, order, station)
        self.wait_until(lambda: all(s.id in playing.ready or self.is_lost(s) for s in stations))

    def _fire(self, playing: Playing) -> None:
        stations = [station for station in self._stations_of(playing) if station.name]
        if not stations:
            playing.fired_ns = time.time_ns()
            self.tell(crew.FIRE, {"at_ns": 0})
            return
        lead_ns = max(LEAD_ROUND_TRIPS * max(s.round_trip_ns for s in stations), LEAST_LEAD_NS)
        at_ns = playing.fired_ns = time.time_ns() + lead_ns
        for station in stations:
            self.tell(crew.FIRE, {"at_ns": at_ns + station.offset_ns}, station)

    def _collect(self, playing: Playing) -> None:
        def all_told() -> bool:
            return all(self.is_lost(playing.holders[request]) for request in playing.missing)

        self.wait_until(all_told)
        self._give_up(playing)

    def _give_up(self, playing: Playing) -> None:
        calls = {call.request: call for call in playing.wave.calls}
        self.lose(
            planned_row(self.settings, playing.wave, calls[request], playing.holders[request].name)
            for request in playing.missing
        )

    def close(self) -> None:
        """All users have stopped; what a worker took with it is lost."""
        if self._now is not None:
            self._give_up(self._now)
        super().close()

    def _watch_the_slot(self, playing: Playing) -> None:
        """Once all leavers have gone: how long does the server go on with them?"""
        wave = playing.wave
        leavers = [call.request for call in wave.calls if call.leave is not None]
        self.wait_until(
            lambda: all(name in playing.rows or self.is_lost(playing.holders[name]) for name in leavers)
        )
        left_ns = [
            row.sent_ns + round(row.latency_ms * 1e6)
            for name in leavers
            if (row := playing.rows.get(name))
            and row.outcome == "disconnected"
            and row.sent_ns
            and row.latency_ms
        ]
        within_s = max(RECLAIM_SOLOS * self._solo_s, RECLAIM_LEAST_S)
        if not left_ns or not self._slots.how:
            return
        reclaim_s = self._slots.seconds_until_free(max(left_ns), lambda: playing.in_flight, within_s)
        self._reclaims.append(
            {"repeat": wave.repeat, "variant": wave.leaving, "reclaim_s": reclaim_s, "how": self._slots.how}
        )

    @property
    def _solo_s(self) -> float:
        """Latency of a request that is alone."""
        return statistics.median(self._solos_s) if self._solos_s else SOLO_GUESS_S

    def _note(self, playing: Playing) -> None:
        wave, rows = playing.wave, list(playing.rows.values())
        if wave.case == "single":
            self._solos_s += [row.latency_ms / 1000 for row in rows if row.outcome == "ok" and row.latency_ms]
        refused = all(row.failure == "http.connection" and row.http_status is None for row in rows)
        self._refused = self._refused + 1 if refused else 0
        self._played.append(
            {
                "wave": wave.name,
                "case": wave.case,
                "count": wave.count,
                "repeat": wave.repeat,
                "start_spread_ms": playing.start_spread_ms,
            }
        )
        self.files.conduct(self.state())
