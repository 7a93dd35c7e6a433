"""One supervised process: started under a guard, watched, logged, and ended with all its descendants."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import psutil

from launchers import guard
from launchers.errors import HeadToHeadError

TAIL_BYTES = 64 * 1024


class Supervised:
    """A command in its own session, under a guard process that ends with us even after `kill -9`.

    `env` None: ours. `grace_s`: seconds between TERM and KILL. Raises HeadToHeadError when the command
    cannot be executed or its log cannot be opened.
    """

    def __init__(
        self,
        name: str,
        argv: list[str],
        log: Path,
        *,
        env: dict[str, str] | None = None,
        grace_s: float = 10.0,
    ) -> None:
        self.name = name
        self.argv = argv
        self.log = log
        self.grace_s = grace_s
        self.pid = 0
        self.exit_code: int | None = None  # negative: killed by that signal
        self.log_error: str | None = None
        self.left: list[int] = []  # processes that not even SIGKILL ended
        self._exec_error: str | None = None
        self._started = threading.Event()
        self._gone = threading.Event()
        self._guard = self._start_guard(env)
        self._reader = threading.Thread(target=self._listen, name=f"guard of {name}", daemon=True)
        self._reader.start()
        self._started.wait()
        if self._exec_error:
            self.stop()
            raise HeadToHeadError(f"{name}: cannot run {argv[0]}: {self._exec_error}")

    def _start_guard(self, env: dict[str, str] | None) -> subprocess.Popen[bytes]:
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab") as log:
                return subprocess.Popen(
                    [sys.executable, "-I", guard.__file__, str(self.grace_s), "--", *self.argv],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=env,
                    start_new_session=True,
                )
        except OSError as error:
            raise HeadToHeadError(f"{self.name}: cannot start: {error}") from error

    def _listen(self) -> None:
        assert self._guard.stdout
        for line in self._guard.stdout:
            news = json.loads(line)
            self.pid = news.get("pid", self.pid)
            self.exit_code = news.get("exit", self.exit_code)
            self.log_error = news.get("log_error", self.log_error)
            self.left = news.get("left", self.left)
            self._exec_error = news.get("exec_error", self._exec_error)
            self._started.set()
        self._guard.wait()
        if not self.pid and not self._exec_error:
            self._exec_error = f"its guard ended with {self._guard.returncode} (see {self.log})"
        if self.pid and self.exit_code is None:  # somebody killed the guard: its child died with it
            self.exit_code = -9
        self._started.set()
        self._gone.set()

    @property
    def running(self) -> bool:
        """Whether the command itself still runs; its descendants may outlive it for a moment."""
        return self.exit_code is None and not self._gone.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """True once the command and every descendant are gone."""
        return self._gone.wait(timeout_s)

    def ask_to_stop(self) -> None:
        """Begin the end (TERM, later KILL) without waiting for it."""
        with contextlib.suppress(OSError):
            assert self._guard.stdin
            self._guard.stdin.close()

    def stop(self) -> None:
        """TERM, and KILL after the grace, for the whole tree. Returns when it is gone."""
        descendants = self.tree()
        self.ask_to_stop()
        if not self._gone.wait(self.grace_s + guard.OTHERS_SECONDS + guard.LAST_SECONDS + 5):
            self._guard.kill()
        for process in descendants:  # only where somebody killed the guard is one of them still there
            with contextlib.suppress(psutil.Error):
                process.kill()

    def tree(self) -> list[psutil.Process]:
        """The command and its descendants, as far as they can be seen."""
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self._guard.pid).children(recursive=True)
        return []

    def tail(self, lines: int = 20) -> list[str]:
        return tail(self.log, lines)


def tail(log: Path, lines: int = 20) -> list[str]:
    """The last lines of a log, oldest first; empty lines are left out."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]


def stop_all(processes: list[Supervised]) -> None:
    """Stop several at once, so that their graces run side by side."""
    for process in processes:
        process.ask_to_stop()
    for process in processes:
        process.stop()
