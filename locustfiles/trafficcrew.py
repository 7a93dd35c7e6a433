"""Users under sustained load: each takes its next request at once, or when the schedule has one for it."""

import time
from collections import Counter, defaultdict
from typing import Any

import gevent
from gevent.event import Event
from gevent.queue import Queue
from locust.exception import StopUser

from locustfiles.crew import BEGIN, END, HALTED, IDLE, ROWS, Crew, Job, Sender
from locustfiles.demand import Demand
from locustfiles.rows import Record, planned_row
from locustfiles.settings import Settings
from locustfiles.waves import Call, Wave

# So long before it is due, a request is handed to a user who builds it.
AHEAD_S = 0.05
WATCH_S = 0.05


class TrafficCrew(Crew):
    """Closed loop: users are their own clock. Open loop: the schedule is, and this crew has a share of it."""

    def __init__(
        self, sender: Sender, settings: Settings, worker: str, batches: bool, demand: Demand
    ) -> None:
        self._demand = demand
        self._begun = Event()
        self._begin_ns = 0
        self._shares: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        self._due: dict[str, Queue[Job | None]] = defaultdict(Queue)
        self._asked: Counter[int] = Counter()
        self._schedule: gevent.Greenlet[[], None] | None = None
        self._doors_closed = self._released = False
        self._told = 0
        super().__init__(sender, settings, worker, batches)
        self.tell(IDLE, {})  # here we are

    def obey(self, order: str, data: Any) -> None:
        """When to begin, with which share from which request on; when to end."""
        if order == BEGIN:
            self._begin_ns = data["at_ns"]
            for user, (first, share, shares) in data["shares"].items():
                self._shares[user].append((first, share, shares))
            self._begun.set()
            if self._schedule is None and self._demand.open_loop:
                self._schedule = gevent.spawn(self._follow_the_schedule)
        elif order == END:
            gevent.spawn(self._finish)
        else:
            super().obey(order, data)

    def next_job(self, user_class: str, user: int) -> Job:
        """The schedule's next request for a user of this class, or the next one of this user's own."""
        if self._demand.open_loop:
            job: Job | None = self._due[user_class].get()
            if job is None:
                self._due[user_class].put(None)  # for the next user
                raise StopUser
            return job
        self._begun.wait()
        if self._doors_closed:
            raise StopUser
        number = self._asked[user]
        self._asked[user] += 1
        name = f"traffic-{self._demand.repeat}-{self.worker or 'w'}-u{user}"
        chat, turn = divmod(number, self._demand.turns)
        call = self._demand.call(f"{name}-{number}", f"{name}-chat-{chat}", turn, user_class)
        return self._job(call, self._demand.wave_at(self._seconds()), 0)

    def prepared(self, job: Job) -> None:
        """Send it: when it is due, or now."""
        due_ns = job.row.scheduled_ns or 0
        while (left_ns := due_ns - time.time_ns()) > 0:
            gevent.sleep(left_ns / 1e9)
        if not self.closed:
            job.row.scheduled_ns = due_ns or time.time_ns()
            if job.exchange is not None:
                job.exchange.send()
            self.started += 1
        job.fired.set()

    def send(self) -> None:
        """Rows, and how many requests have been sent: so many are missing if this process dies."""
        super().send()
        if self._told != self.started:
            self.tell(ROWS, {"rows": [], "started": self.started})
        self._told = self.started

    def release(self) -> None:
        """What is only scheduled is not sent any more."""
        if self._released:
            return
        self._released = self._doors_closed = True
        self._begun.set()
        if self._schedule is not None:
            self._schedule.kill(block=False)
        for waiting in self._due.values():
            while not waiting.empty():
                job = waiting.get()
                if job is not None:
                    job.row.detail = "no user was free to send it before the end"
                    self.done(job, Record(job.row, [], ""))
            waiting.put(None)

    def _finish(self) -> None:
        """What is due is still sent, what is sent still answered; then say so."""
        if self._schedule is not None:
            self._schedule.join()
        else:
            self._doors_closed = True
        while self.jobs and not self.closed:
            gevent.sleep(WATCH_S)
        self.send()
        self.tell(HALTED, {})

    def _follow_the_schedule(self) -> None:
        for number, (due_s, call) in enumerate(self._demand.arrivals()):
            if not self._is_ours(number, call.user):
                continue
            due_ns = self._begin_ns + round(due_s / self.settings.time_scale * 1e9)
            ahead_s = (due_ns - time.time_ns()) / 1e9 - AHEAD_S
            if ahead_s > 0:
                gevent.sleep(ahead_s)
            self._due[call.user].put(self._job(call, self._demand.wave_at(due_s), due_ns))

    def _is_ours(self, number: int, user: str) -> bool:
        """Shares change when a worker dies, from a request on that is still to come."""
        for first, share, shares in reversed(self._shares[user]):
            if number >= first:
                return number % shares == share
        return False

    def _job(self, call: Call, wave: Wave, due_ns: int) -> Job:
        row = planned_row(self.settings, wave, call, self.worker)
        row.scheduled_ns = due_ns or None
        job = Job(call, row)
        self.jobs.append(job)
        return job

    def _seconds(self) -> float:
        """Since the beginning, by the engine's clock."""
        return (time.time_ns() - self._begin_ns) / 1e9 * self.settings.time_scale
