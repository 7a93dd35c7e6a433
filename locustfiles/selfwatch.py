"""Watches the load process itself: its CPU, the lateness of its event loop, its requests in flight.

What it writes (client.csv) is how a reader can tell a slow server from a slow load generator.
"""

import os
import time
from pathlib import Path

import gevent
import psutil

from locustfiles.transport import in_flight

SAMPLE_S = 0.25
TICK_S = 0.02
HEADER = "at_ns,pid,worker,cpu_percent,lag_ms,running\n"


class SelfWatch:
    """Appends one row every 0.25 s to `path`, from `start()` to `stop()`.

    `cpu_percent` is of one core; `lag_ms` is the largest lateness, within the interval, of a timer that is
    due every 20 ms; `running` counts the exchanges sent and not over.
    """

    def __init__(self, path: Path, worker: str = "") -> None:
        self._path = path
        self._worker = worker
        self._greenlet: gevent.Greenlet[[], None] | None = None

    def start(self) -> None:
        """OSError when the file cannot be written."""
        with self._path.open("a") as out:
            if out.tell() == 0:
                out.write(HEADER)
        self._greenlet = gevent.spawn(self._watch)

    def stop(self) -> None:
        if self._greenlet is not None:
            self._greenlet.kill()
            self._greenlet = None

    def _watch(self) -> None:
        process = psutil.Process()
        process.cpu_percent()  # the first call only sets the starting point
        with self._path.open("a", buffering=1) as out:
            while True:
                lag_ms = self._largest_lag_ms()
                cpu, at_ns = process.cpu_percent(), time.time_ns()
                out.write(f"{at_ns},{os.getpid()},{self._worker},{cpu:.1f},{lag_ms:.3f},{in_flight()}\n")

    def _largest_lag_ms(self) -> float:
        started = time.monotonic()
        worst_s = 0.0
        due = started
        while due < started + SAMPLE_S:
            due = max(due + TICK_S, time.monotonic())
            gevent.sleep(due - time.monotonic())
            worst_s = max(worst_s, time.monotonic() - due)
        return worst_s * 1000
