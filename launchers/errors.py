"""What can go wrong before or around the load, each with the one line a user needs."""

from __future__ import annotations


class HeadToHeadError(Exception):
    """Something the user can mend. The message is one line: what, where, and how to mend it."""


class PlanError(HeadToHeadError):
    """The plan or the arguments are wrong. One line for each mistake."""


class EngineMissing(HeadToHeadError):
    """The engine's program is not installed here; the message says what to install."""


class EngineError(HeadToHeadError):
    """One arm's engine failed. The arm fails under `code`; the plan goes on with the next arm.

    `log_tail` holds the last lines of the log that explains it, oldest first.
    """

    code = "engine.start"

    def __init__(self, message: str, log_tail: list[str] | None = None) -> None:
        super().__init__(message)
        self.log_tail = log_tail or []


class EngineStartError(EngineError):
    """It never got ready: it exited, missed the deadline, or another process answers on its port."""


class PortTaken(EngineStartError):
    """The port that the engine was to listen on is held by another process."""


class EngineDied(EngineError):
    """It was ready, and one of its processes exited while it was under load."""

    code = "engine.died"


class EngineHang(EngineError):
    """It is alive, but sent no byte for longer than the deadline."""

    code = "engine.hang"


class LoadError(HeadToHeadError):
    """Locust itself could not do its work: the arm ends in status `error`, with this line."""
