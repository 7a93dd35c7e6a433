"""A wave of prepared requests, sent at one instant however busy the machine is."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import gevent

from locustfiles.transport.exchange import Exchange

# The last part of a wait is spun away: a timer alone is up to a millisecond late.
SPIN_NS = 2_000_000
AT_ONCE_FOR_S = 0.1


def fire(exchanges: Sequence[Exchange]) -> float:
    """Send a prepared wave in one tight loop; returns the spread of `sent_ns` in ms.

    Connections that the server closed meanwhile are reopened before the first byte of the wave.
    """
    for exchange in exchanges:
        exchange.arm()
    for exchange in exchanges:
        exchange.send_armed()
    stamps = [exchange.sent_ns for exchange in exchanges]
    return (max(stamps) - min(stamps)) / 1e6 if stamps else 0.0


def sleep_until(due_ns: int) -> None:
    """Let other greenlets run until shortly before `due_ns` (of `time.time_ns()`), then spin, 2 ms at most.

    Counted by the monotonic clock from the call on: a system clock that is set back does not hold us.
    """
    due_ns += time.monotonic_ns() - time.time_ns()
    while (left_ns := due_ns - time.monotonic_ns()) > SPIN_NS:
        gevent.sleep((left_ns - SPIN_NS / 2) / 1e9)
    while time.monotonic_ns() < due_ns:
        pass


@contextmanager
def undisturbed() -> Iterator[None]:
    """Real-time priority for a moment, where the system allows it; after 0.1 s it is dropped in any case.

    The first request of a wave wakes the server, which on a busy machine would take our processor from us
    before the others are sent: 17 ms at worst with two busy processes on two processors, 0.1 ms with this.
    """
    if not _raise_priority():
        yield
        return
    alarm = gevent.get_hub().loop.timer(AT_ONCE_FOR_S)
    alarm.start(_drop_priority)
    try:
        yield
    finally:
        alarm.stop()
        alarm.close()
        _drop_priority()


def _raise_priority() -> bool:
    try:
        if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER:
            return False  # somebody has chosen already
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (OSError, AttributeError):  # an ordinary user, another system
        return False
    return True


def _drop_priority() -> None:
    # The flag stays: not everybody may take it away again, and it only keeps children from inheriting.
    os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
