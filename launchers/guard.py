"""Runs one command and sees to it that nothing of it outlives whoever asked for it.

Run as `python guard.py GRACE -- COMMAND...` by `launchers.process`; not for use by hand:

- stdin is the lifeline. When it closes, because the parent closed it or was killed, everything is stopped.
- stdout tells the parent, one JSON object a line: `pid` once the command runs, `exec_error` if it cannot,
  `log_error` when its output cannot be written, `exit` (negative: killed by that signal), `left` (processes
  that even SIGKILL did not end within `LAST_SECONDS`), and nothing more.
- stderr is the log file. The command writes into a pipe and the guard copies it there, so that a full disk
  costs log lines and not the command under test.

The guard is a child subreaper: a descendant that loses its parent becomes the guard's own child, so "no child
left" means that the whole tree is gone, also what had left its process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
OTHERS_SECONDS = 2.0  # what the rest of the tree gets once the command itself has gone
LAST_SECONDS = 10.0  # how long SIGKILL is repeated before the guard gives up on a process stuck in the kernel
CHUNK = 65536


def prctl(option: int, value: int) -> None:
    """Best effort: elsewhere than on Linux the lifeline and the process group have to do."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def tell(**news: object) -> None:
    with contextlib.suppress(OSError):  # the parent may be gone: then nobody has to know
        os.write(1, (json.dumps(news) + "\n").encode())


class Guard:
    def __init__(self, argv: list[str], grace_s: float) -> None:
        self.argv = argv
        self.grace_s = grace_s
        self.child = 0
        self.child_running = False
        self.log_failed = False
        self.selector = selectors.DefaultSelector()
        self.output, self.childs_end = os.pipe()
        self.wake, wake_end = os.pipe()
        for fd in (self.wake, wake_end, self.output):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: None)  # wakes us, and stop_asked sees the number
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for fd in (0, self.wake, self.output):
            self.selector.register(fd, selectors.EVENT_READ)

    def run(self) -> int:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            self.start()
        except OSError as error:
            tell(exec_error=error.strerror or str(error))
            return 127
        while self.child_running and not self.turn(timeout=None):
            pass
        left = self.stop()
        self.copy_output()
        if left:
            tell(left=left)
        return 0

    def start(self) -> None:
        guard = os.getpid()

        def die_with_guard() -> None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(1)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)

        child = subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL,
            stdout=self.childs_end,
            stderr=self.childs_end,
            start_new_session=True,
            preexec_fn=die_with_guard,  # one thread here, so it is safe
        )
        os.close(self.childs_end)
        self.child, self.child_running = child.pid, True
        child.returncode = 0  # this guard reaps; Popen is not to wait for it as well
        tell(pid=child.pid)

    def turn(self, timeout: float | None) -> bool:
        """Wait for news, copy output, reap. True when a stop is asked for."""
        stop = False
        for key, _ in self.selector.select(timeout):
            if key.fd == self.output:
                self.copy_output()
            elif key.fd == self.wake:
                with contextlib.suppress(BlockingIOError):
                    stop |= signal.SIGTERM in os.read(self.wake, CHUNK)
            elif not os.read(0, CHUNK):
                self.selector.unregister(0)
                stop = True
        self.reap()
        return stop

    def copy_output(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.output, CHUNK):
                self.write_log(data)
            with contextlib.suppress(KeyError):  # end of file: every writer is gone
                self.selector.unregister(self.output)

    def write_log(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(2, data) :]
        except OSError as error:
            if not self.log_failed:
                tell(log_error=error.strerror or str(error))
            self.log_failed = True

    def reap(self) -> bool:
        """Collect the dead. True while a child is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.child:
                    self.child_running = False
                    self.copy_output()
                    tell(exit=os.waitstatus_to_exitcode(status))
        except ChildProcessError:
            return False

    def stop(self) -> list[int]:
        """TERM to the command, so that it can end its own children; then TERM and KILL to what is left."""
        if self.child_running:
            self.end([self.child])
            self.wait(self.grace_s, lambda: self.child_running)
        if self.reap():
            self.end(self.descendants())
            self.wait(OTHERS_SECONDS, self.reap)
        give_up = time.monotonic() + LAST_SECONDS
        while self.reap() and time.monotonic() < give_up:
            self.send(signal.SIGKILL, self.descendants())
            self.wait(0.2, self.reap)
        return self.descendants() if self.reap() else []

    def wait(self, seconds: float, busy: Callable[[], bool]) -> None:
        end = time.monotonic() + seconds
        while busy() and (left := end - time.monotonic()) > 0:
            self.turn(min(left, 0.1))

    def descendants(self) -> list[int]:
        with contextlib.suppress(psutil.Error):
            return [process.pid for process in psutil.Process().children(recursive=True)]
        return []

    def end(self, pids: list[int]) -> None:
        """SIGTERM, heard by processes that are suspended too."""
        self.send(signal.SIGTERM, pids)
        self.send(signal.SIGCONT, pids)

    def send(self, number: signal.Signals, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(Guard(sys.argv[3:], float(sys.argv[1])).run())
