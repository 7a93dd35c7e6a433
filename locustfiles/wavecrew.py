"""How a wave of requests starts at one instant.

The conductor says which calls to prepare; idle users build the bytes and open connections; when all stand
ready, the conductor says when, and one tight loop sends them.
"""

import time
from itertools import groupby
from typing import Any

import gevent
from gevent.event import AsyncResult
from locust.exception import StopUser

from locustfiles.crew import FIRE, IDLE, PREPARE, READY, Crew, Job, Sender
from locustfiles.rows import Record, planned_row
from locustfiles.settings import Settings
from locustfiles.transport import fire, sleep_until, undisturbed
from locustfiles.waves import Wave

# From when on a wave may not be late for want of a processor.
BE_THERE_NS = 30_000_000


class WaveCrew(Crew):
    """Users who wait for their part in a wave."""

    def __init__(
        self, sender: Sender, settings: Settings, worker: str, batches: bool, waves: list[Wave]
    ) -> None:
        self._waves = waves
        self._idle: dict[str, list[AsyncResult[Job]]] = {}
        self._unplaced: list[Job] = []
        self._idle_changed = False
        super().__init__(sender, settings, worker, batches)

    def next_job(self, user_class: str, user: int) -> Job:
        """Block until the conductor has a call for a user of this class."""
        if self.closed:
            raise StopUser
        for unplaced in self._unplaced:
            if unplaced.call.user == user_class:
                self._unplaced.remove(unplaced)
                return unplaced
        seat: AsyncResult[Job] = AsyncResult()
        seats = self._idle.setdefault(user_class, [])
        seats.append(seat)
        self._idle_changed = True
        if not self.batches:
            self.send()
        try:
            job: Job = seat.get()
            return job
        finally:
            if seat in seats:
                seats.remove(seat)

    def obey(self, order: str, data: Any) -> None:
        """Prepare and fire, besides what every crew does."""
        if order == PREPARE:
            self.prepare(data)
        elif order == FIRE:
            gevent.spawn(self.fire, data)
        else:
            super().obey(order, data)

    def prepare(self, order: dict[str, Any]) -> None:
        """Give these calls of a wave to idle users."""
        wave = self._waves[order["wave"]]
        for index in order["calls"]:
            call = wave.calls[index]
            row = planned_row(self.settings, wave, call, self.worker)
            job = Job(call, row, order["contents"].get(call.request, ""), order["leave_s"])
            self.jobs.append(job)
            seats = self._idle.get(call.user)
            if seats:
                seats.pop(0).set(job)
            else:  # counted as idle, but only on the way back here
                self._unplaced.append(job)

    def prepared(self, job: Job) -> None:
        """One more is ready; the last one says so for all."""
        job.prepared = True
        if all(other.prepared for other in self.jobs):
            self.tell(READY, {"wave": job.row.wave})

    def fire(self, order: dict[str, Any]) -> None:
        """Send what is prepared at `at_ns` of this process's clock (0: now), later calls at their offsets."""
        at_ns = order["at_ns"] or time.time_ns()
        jobs = sorted(self.jobs, key=lambda job: job.call.offset_s)
        for offset_s, group in groupby(jobs, key=lambda job: job.call.offset_s):
            together = list(group)
            due_ns = at_ns + round(offset_s * 1e9)
            for job in together:
                job.row.scheduled_ns = due_ns
            gevent.sleep(max(due_ns - BE_THERE_NS - time.time_ns(), 0) / 1e9)
            exchanges = [job.exchange for job in together if job.exchange is not None]
            with undisturbed():
                sleep_until(due_ns)
                if self.closed:
                    return
                fire(exchanges)
            self.started += len(together)
            for job in together:
                job.fired.set()

    def done(self, job: Job, record: Record) -> None:
        """The last of a wave, and whoever has left: the conductor is waiting for them."""
        super().done(job, record)
        if not self.jobs or record.row.outcome == "disconnected":
            self.send()

    def release(self) -> None:
        for seats in self._idle.values():
            for seat in seats[:]:
                seat.set_exception(StopUser())

    def send(self) -> None:
        """Rows, and how many users are idle."""
        super().send()
        if self._idle_changed:
            self._idle_changed = False
            self.tell(IDLE, {name: len(seats) for name, seats in self._idle.items()})
