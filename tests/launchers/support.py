"""What the tests of this folder share: processes found by a mark, and waiting until something is true."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import psutil


def processes_marked(mark: str) -> list[psutil.Process]:
    """All processes, of whatever parent, that carry the mark in their command line; zombies not counted."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if mark in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def becomes(true: Callable[[], object], seconds: float = 20.0) -> bool:
    """Whether it becomes true; the time is only a bound for a test that fails."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return bool(true())
