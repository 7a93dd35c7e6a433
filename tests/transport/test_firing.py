"""The moment in which a wave is sent: on time, before others on the machine, and never at their cost."""

import os
import resource
import subprocess
import sys
import threading
import time
from contextlib import suppress

import gevent
import pytest

from locustfiles.transport import fire, sleep_until, undisturbed
from locustfiles.transport.firing import AT_ONCE_FOR_S, SPIN_NS

linux = pytest.mark.skipif(sys.platform != "linux", reason="priorities are Linux's")
NOBODY = 65534


def policy() -> int:
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK


def may_be_real_time() -> bool:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


def may_allow() -> bool:
    """Whether the child below may raise its own limit: not every root may."""
    allow = "import resource; resource.setrlimit(resource.RLIMIT_RTPRIO, (1, 1))"
    return subprocess.run([sys.executable, "-c", allow], stderr=subprocess.DEVNULL).returncode == 0


@pytest.fixture
def privileged() -> None:
    if not may_be_real_time():
        pytest.skip("needs the right to real-time priority")


def test_firing_nothing_is_nothing() -> None:
    assert fire([]) == 0.0


def test_waiting_ends_when_it_is_due_and_lets_others_run_until_shortly_before() -> None:
    ran_ns = []
    due_ns = time.time_ns() + 50_000_000
    other = gevent.spawn_later(0.02, lambda: ran_ns.append(time.time_ns()))
    sleep_until(due_ns)
    assert time.time_ns() >= due_ns
    assert other.dead
    assert ran_ns[0] < due_ns - SPIN_NS


def test_what_is_due_already_is_not_waited_for() -> None:
    other = gevent.spawn(lambda: None)
    sleep_until(time.time_ns() - 1_000_000_000)
    assert not other.dead, "nobody else had a turn"


@linux
@pytest.mark.usefixtures("privileged")
def test_the_priority_is_for_the_block_only_however_it_ends() -> None:
    with undisturbed():
        assert policy() == os.SCHED_FIFO
    assert policy() == os.SCHED_OTHER
    with suppress(OSError), undisturbed():
        raise OSError("as from a socket")
    assert policy() == os.SCHED_OTHER
    greenlet = gevent.spawn(lambda: undisturbed().__enter__() or gevent.sleep(10))
    gevent.sleep(0)
    greenlet.kill()
    gevent.sleep(2 * AT_ONCE_FOR_S)
    assert policy() == os.SCHED_OTHER


@linux
@pytest.mark.usefixtures("privileged")
def test_a_block_that_has_to_wait_for_the_network_loses_its_priority() -> None:
    with undisturbed():
        gevent.sleep(3 * AT_ONCE_FOR_S)
        assert policy() == os.SCHED_OTHER


@linux
@pytest.mark.usefixtures("privileged")
def test_what_is_started_meanwhile_has_ordinary_priority() -> None:
    seen = []
    with undisturbed():
        thread = threading.Thread(target=lambda: seen.append(policy()))
        thread.start()
        thread.join()
        code = "import os; print(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK)"
        seen.append(int(subprocess.check_output([sys.executable, "-c", code])))
    assert seen == [os.SCHED_OTHER] * 2


@linux
@pytest.mark.usefixtures("privileged")
def test_a_policy_that_the_user_has_chosen_stays() -> None:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        with undisturbed():
            assert policy() == os.SCHED_BATCH
        assert policy() == os.SCHED_BATCH
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@linux
@pytest.mark.parametrize(("allowance", "inside"), [(0, os.SCHED_OTHER), (1, os.SCHED_FIFO)])
def test_an_ordinary_user_gets_what_the_system_allows_and_gives_it_back(allowance: int, inside: int) -> None:
    if os.getuid() != 0:
        pytest.skip("becomes an ordinary user, which only root can")
    if allowance > resource.getrlimit(resource.RLIMIT_RTPRIO)[1] and not may_allow():
        pytest.skip("this system does not let root allow it")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # no test framework in here: just the exit code
        status = 1
        with suppress(BaseException):
            resource.setrlimit(resource.RLIMIT_RTPRIO, (allowance, allowance))
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            for _ in range(2):
                with undisturbed():
                    within = policy()
                os.write(write, b"%d %d;" % (within, policy()))
            status = 0
        os._exit(status)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(read) as told:
        assert told.read() == f"{inside} {os.SCHED_OTHER};" * 2
