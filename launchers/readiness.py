"""Wait until an engine answers, watching for everything that says it never will."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from launchers import ports
from launchers.asking import Trouble, ask
from launchers.errors import EngineStartError
from launchers.interruption import Interruption
from launchers.process import Supervised

POLL_SECONDS = 0.1


def wait_until_ready(
    name: str,
    base_url: str,
    ready_path: str,
    ready_check: Callable[[bytes], bool],
    processes: list[Supervised],
    deadline_s: float,
    interruption: Interruption,
) -> None:
    """Returns when the engine has answered 200 from a process of ours. Raises EngineStartError.

    With no `processes` (an external server) only the answer counts.
    """
    start = time.monotonic()
    said = "no answer"
    while True:
        raise_if_exited(name, processes, "while loading")
        try:
            status, body = ask(base_url, ready_path)
            said = f"HTTP {status}"
            if status == 200 and ready_check(body):
                raise_if_not_ours(name, base_url, processes)
                return
        except Trouble as error:
            said = str(error) or type(error).__name__
        if time.monotonic() - start > deadline_s:
            tail = processes[0].tail() if processes else []
            message = f"{name}: not ready after {deadline_s:g} s at {base_url}{ready_path} (last: {said})"
            raise EngineStartError(message, tail)
        interruption.sleep(POLL_SECONDS)


def raise_if_exited(name: str, processes: list[Supervised], when: str) -> None:
    """Raise EngineStartError with the log tail when a process of the engine has ended."""
    for process in processes:
        if not process.running:
            raise EngineStartError(exit_line(name, process, when), process.tail())


def exit_line(name: str, process: Supervised, when: str) -> str:
    code = process.exit_code
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with code {code}"
    who = name if process.name == "engine" else f"{name}: {process.name}"
    return f"{who} {how} {when}; its log: {process.log}"


def raise_if_not_ours(name: str, base_url: str, processes: list[Supervised]) -> None:
    """A stale server, or one that took the port between check and bind, may answer 200 instead."""
    if not processes:
        return
    port = urlsplit(base_url).port or 80
    ours = {member.pid for process in processes for member in process.tree()}
    mine, others = ports.strangers(port, ours)
    if others:
        raise EngineStartError(
            f"{name}: port {port} is answered by {', '.join(others)}, not by the engine; "
            "stop it or give another port",
            processes[0].tail(),
        )
    if not mine:
        raise_if_exited(name, processes, "while loading")
        raise EngineStartError(
            f"{name}: no process of the engine listens on port {port}", processes[0].tail()
        )
