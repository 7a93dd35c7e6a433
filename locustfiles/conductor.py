"""Whoever conducts a run: knows the processes that hold users, keeps what they send, says when it is over.

There is one conductor, in the only process or in the master.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gevent
from gevent.event import Event
from locust.env import Environment
from locust.runners import STATE_MISSING, MasterRunner

from locustfiles import crew
from locustfiles.live import Live
from locustfiles.rows import ArmFiles, Record, RequestRow
from locustfiles.settings import Settings
from locustfiles.transport import in_flight

logger = logging.getLogger(__name__)

PINGS = 20
PING_WITHIN_S = 1.0
LOOK_AFTER_STATIONS_S = 0.5
HALT_WITHIN_S = 2.0
# Locust's own: workers report statistics every 3 s, and its CSV files are written every second.
STATISTICS_WITHIN_S = 4.0
CSV_INTERVAL_S = 1.2
HANG_EXIT_CODE = 3


@dataclass(slots=True)
class Station:
    """A process with users. `offset_ns` is its clock minus ours, known to within `round_trip_ns`."""

    id: str
    name: str
    idle: dict[str, int] = field(default_factory=dict)
    offset_ns: int = 0
    round_trip_ns: int = 0
    pongs: int = 0
    started: int = 0
    ended: int = 0
    halted: bool = False


class Conductor:
    """What all runs have in common; `play` is the run itself and returns its status."""

    def __init__(self, environment: Environment, settings: Settings, files: ArmFiles) -> None:
        assert environment.runner is not None
        self.live: Live | None = None
        self.settings = settings
        self.status = "running"
        self.counts: Counter[str] = Counter()
        self.stations: dict[str, Station] = {}
        self.environment = environment
        self.files = files
        self._runner = environment.runner
        self._changed = Event()
        self._greenlet: gevent.Greenlet[[], None] | None = None

    def start(self) -> None:
        """Begin to play."""
        self._greenlet = gevent.spawn(self._run)

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do."""
        return self.status != "running"

    def play(self) -> str:
        """Lead the run; returns "complete", "hang" or "stopped"."""
        raise NotImplementedError

    def keep(self, record: Record) -> None:
        """One request has ended."""
        self.counts["unfinished" if record.row.outcome == "unfinished" else "finished"] += 1
        self.counts["sent"] += record.row.sent_ns is not None
        self.files.write(record)
        if self.live is not None:
            self.live.keep(record.row, str(self.files.folder))

    @property
    def running(self) -> int:
        """Requests in flight, as far as the crews have told."""
        return in_flight() + sum(s.started - s.ended for s in self.stations.values() if s.name)

    def state(self) -> dict[str, Any]:
        """What conduct.json says."""
        names = ("planned", "sent", "finished", "unfinished", "lost")
        return {name: self.counts[name] for name in names} | {"status": self.status}

    def hear(self, message: str, id: str, data: Any) -> None:
        """What a crew tells."""
        self.ears()[message](id, data)
        self._changed.set()

    def ears(self) -> dict[str, Callable[[str, Any], None]]:
        """Who listens to which message."""
        return {
            crew.IDLE: self.on_idle,
            crew.ROWS: self.on_rows,
            crew.PONG: self.on_pong,
            crew.HALTED: self.on_halted,
        }

    def station(self, id: str) -> Station:
        """The process that a message came from."""
        if id not in self.stations:
            name = ""
            if isinstance(self._runner, MasterRunner):
                name = f"w{self._runner.worker_indexes[id]}"
            self.stations[id] = Station(id, name)
        return self.stations[id]

    def on_idle(self, id: str, data: dict[str, int]) -> None:
        """A crew has so many idle users of each class."""
        self.station(id).idle = data

    def on_rows(self, id: str, data: dict[str, Any]) -> None:
        """Requests of a crew have ended."""
        station = self.station(id)
        station.started = data["started"]
        for packed in data["rows"]:
            record = Record.unpacked(packed)
            record.row.worker = station.name
            station.ended += record.row.sent_ns is not None
            self.keep(record)

    def on_pong(self, id: str, data: dict[str, Any]) -> None:
        """A crew has read its clock: the reading with the shortest way to and fro counts."""
        station, now_ns = self.station(id), time.time_ns()
        round_trip_ns = now_ns - data["ping_ns"]
        station.pongs += 1
        if not station.round_trip_ns or round_trip_ns < station.round_trip_ns:
            station.round_trip_ns = round_trip_ns
            station.offset_ns = data["clock_ns"] - (now_ns + data["ping_ns"]) // 2

    def on_halted(self, id: str, data: Any) -> None:
        """A crew has handed over all it had."""
        self.station(id).halted = True

    # The run.

    def _run(self) -> None:
        status = "stopped"
        try:
            status = self.play()
        finally:
            if status == "hang":
                self.environment.process_exit_code = HANG_EXIT_CODE
            self._settle()
            self.finish(status)

    def finish(self, status: str) -> None:
        """Say how it ended, unless that is said already."""
        if not self.over:
            self.status = status
            self.files.conduct(self.state())

    def halt(self) -> None:
        """The run is stopped from outside: collect what is in flight, here and in the workers."""
        if self.over:
            return
        if self._greenlet is not None:
            self._greenlet.kill(block=False)
        if isinstance(self._runner, MasterRunner):
            self.tell(crew.HALT, {})
            stations = self.stations.values()
            self.wait_until(lambda: all(s.halted or self.is_lost(s) for s in stations), HALT_WITHIN_S)

    def close(self) -> None:
        """All users have stopped."""
        self.finish("stopped")
        self.files.close()

    def tell(self, message: str, data: Any, station: Station | None = None) -> None:
        """Send to one crew, or to all."""
        self._runner.send_message(message, data, station.id if station else None)

    def wait_until(self, condition: Callable[[], bool], within_s: float = float("inf")) -> bool:
        """Wait for news from the crews until the condition holds; whether it did in time."""
        give_up = time.monotonic() + within_s
        while not condition():
            left_s = give_up - time.monotonic()
            if left_s <= 0:
                return False
            self._changed.clear()
            self._changed.wait(min(left_s, LOOK_AFTER_STATIONS_S))
        return True

    def measure_clocks(self) -> None:
        """How far each worker's clock is from ours; an offset within its own uncertainty is none."""
        for ping in range(1, PINGS + 1):
            self.tell(crew.PING, {"ping_ns": time.time_ns()})
            self.wait_until(partial(self._have_answered, ping), PING_WITHIN_S)
        offsets_ms = {s.name: s.offset_ns / 1e6 for s in self.stations.values() if s.name}
        if offsets_ms:
            self.files.clock(offsets_ms)
        for station in self.stations.values():
            if abs(station.offset_ns) <= station.round_trip_ns:
                station.offset_ns = 0

    def _have_answered(self, pings: int) -> bool:
        return all(station.pongs >= pings for station in self.living())

    def living(self) -> list[Station]:
        """The processes that have not died or left."""
        return [station for station in self.stations.values() if not self.is_lost(station)]

    def is_lost(self, station: Station) -> bool:
        """Whether the worker has died or left."""
        if not isinstance(self._runner, MasterRunner):
            return False
        node = self._runner.clients.get(station.id)
        return node is None or node.state == STATE_MISSING

    def lose(self, rows: Iterable[RequestRow]) -> None:
        """Requests whose outcome nobody will ever tell: unfinished, and counted apart."""
        for row in rows:
            row.detail = "its worker died"
            self.counts["lost"] += 1
            self.environment.process_exit_code = 1
            self.keep(Record(row, [], ""))

    def _settle(self) -> None:
        """Wait until Locust's own statistics hold what we know, and have been written."""
        stats = self._runner.stats
        with gevent.Timeout(STATISTICS_WITHIN_S, False):
            while stats.num_requests < self.counts["finished"]:
                gevent.sleep(0.05)
        if self.environment.parsed_options and self.environment.parsed_options.csv_prefix:
            gevent.sleep(CSV_INTERVAL_S)
