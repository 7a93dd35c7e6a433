"""The users of one process: where their rows go, and how they stop.

A crew speaks to the conductor by runner messages. A local runner delivers those as plain calls, so one
process and many take the same path.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import gevent
from gevent.event import Event

from locustfiles.reading import Reading
from locustfiles.rows import Record, RequestRow
from locustfiles.settings import Settings
from locustfiles.transport import Exchange
from locustfiles.waves import Call

# From the conductor to the crews, and back.
PREPARE, FIRE, PING, HALT = "headtohead-prepare", "headtohead-fire", "headtohead-ping", "headtohead-halt"
BEGIN, END = "headtohead-begin", "headtohead-end"
IDLE, READY, ROWS = "headtohead-idle", "headtohead-ready", "headtohead-rows"
PONG, HALTED = "headtohead-pong", "headtohead-halted"
ORDERS = (PREPARE, FIRE, BEGIN, END, PING, HALT)
NEWS = (IDLE, READY, ROWS, PONG, HALTED)

BATCH_S = 0.1
HALT_WITHIN_S = 1.0


class Sender(Protocol):
    """Locust's runner, as far as it carries messages to the conductor."""

    def send_message(self, msg_type: str, data: Any = None) -> None: ...


@dataclass(slots=True, eq=False)
class Job:
    """One call in the hands of one user. `content` replaces the call's own prompt."""

    call: Call
    row: RequestRow
    content: str = ""
    leave_s: float = 0.0
    connect: Callable[[], Exchange] | None = None
    exchange: Exchange | None = None
    prepared: bool = False
    fired: Event = field(default_factory=Event)


class Crew:
    """Takes users' records to the conductor: at once, or with `batches` every 0.1 s (over a network)."""

    def __init__(self, sender: Sender, settings: Settings, worker: str, batches: bool) -> None:
        self.settings = settings
        self.worker = worker
        self.closed = False
        self.batches = batches
        self.started = 0
        self.jobs: list[Job] = []
        self._sender = sender
        self._packed: list[list[Any]] = []
        self._ids: set[str] = set()
        self._users = 0
        self._batcher = gevent.spawn(self._send_batches) if batches else None

    def enlist(self) -> int:
        """A number for a new user."""
        self._users += 1
        return self._users

    def next_job(self, user_class: str, user: int) -> Job:
        """Block until there is a call for this user; StopUser when there will be none."""
        raise NotImplementedError

    def prepared(self, job: Job) -> None:
        """A user has its request ready to be sent, and will wait for `job.fired`."""
        raise NotImplementedError

    def obey(self, order: str, data: Any) -> None:
        """Do what the conductor says."""
        if order == PING:
            self.tell(PONG, {**data, "clock_ns": time.time_ns()})
        elif order == HALT:
            gevent.spawn(self.halt)

    def tell(self, message: str, data: Any) -> None:
        """Send to the conductor."""
        self._sender.send_message(message, data)

    def done(self, job: Job, record: Record) -> None:
        """A user is through with its job, however it ended."""
        self.jobs.remove(job)
        self._packed.append(record.packed())
        if not self.batches:
            self.send()

    def repeats_an_id(self, reading: Reading) -> bool:
        """Whether another stream of this process had the same response id."""
        if not reading.streamed or not reading.ids:
            return False
        seen = reading.ids[0] in self._ids
        self._ids.add(reading.ids[0])
        return seen

    def release(self) -> None:
        """Let users go who wait for something to do."""
        raise NotImplementedError

    def halt(self) -> None:
        """End what is in flight now, let all users go, hand over all rows, and say so."""
        self.closed = True
        self.release()
        for job in self.jobs[:]:
            if job.exchange is not None and job.exchange.sent_ns:
                job.exchange.leave()
            job.fired.set()
        with gevent.Timeout(HALT_WITHIN_S, False):
            while self.jobs:
                gevent.sleep(0.005)
        self.send()
        self.tell(HALTED, {})

    def close(self) -> None:
        """The users have stopped: hand over what is left."""
        self.closed = True
        self.release()
        if self._batcher is not None:
            self._batcher.kill(block=False)
        self.send()

    def send(self) -> None:
        """Send the rows that are due."""
        rows, self._packed = self._packed, []
        if rows:
            self.tell(ROWS, {"rows": rows, "started": self.started})

    def _send_batches(self) -> None:
        while True:
            gevent.sleep(BATCH_S)
            self.send()
