"""What every engine tells the rest: how it is started, what it honours, what it really does."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

Answer = Literal["yes", "ignored", "rejected"]
Positive = Annotated[int, Field(ge=1)]


class EngineSettings(BaseModel):
    """Settings that every engine understands. `width`: how many requests at once in batch mode.

    `max_context` and `prefill_token_budget` are in tokens.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model: str | None = None
    width: Positive = 8
    max_context: Positive = 8192
    prefill_token_budget: Positive | None = 4096
    extra_args: list[str] = []
    extra_env: dict[str, str] = {}
    commit: str | None = None  # the engine's own git commit, for the record


class Capabilities(BaseModel):
    """What a client may send and expect.

    `honours`: optional request field -> yes, ignored (silently), rejected (an error).
    `cancels_on_disconnect`: late = some seconds after the client left.
    """

    model_config = ConfigDict(frozen=True)

    honours: dict[str, Answer] = {}
    running: str | None = None  # the metric that shows running requests
    waiting: str | None = None
    cached: str | None = None  # how prompt tokens served from a cache are shown
    cancels_on_disconnect: Literal["yes", "no", "late", "unknown"] = "unknown"
    sends_done: bool = True
    metrics_path: str | None = None
    slots_path: str | None = None


@dataclass(frozen=True)
class Found:
    """Whether the engine can be started here; if not, `install_hint` says what to do."""

    ok: bool
    version: str | None = None
    where: str | None = None
    install_hint: str = ""


@dataclass(frozen=True)
class ProcessSpec:
    """One process of an engine; `env` is added to ours."""

    name: str
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    log_name: str = "engine.log"


class Engine(ABC):
    """A server under test. Subclasses say how; starting, watching and stopping is `launchers.lifecycle`'s."""

    name: ClassVar[str]
    modes: ClassVar[tuple[str, ...]] = ("batch", "serial")
    Settings: ClassVar[type[EngineSettings]] = EngineSettings
    ready_path: str = "/health"
    external_url: str | None = None  # a server that somebody else started

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings

    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @classmethod
    @abstractmethod
    def found(cls, settings: EngineSettings | None = None) -> Found:
        """Whether it can be started with these settings (None: with the default ones)."""

    @abstractmethod
    def processes(self, mode: str, port: int, workdir: Path) -> list[ProcessSpec]:
        """The processes of one start, in the order in which they have to be started.

        `workdir` is the arm's folder: engines put sockets and rendezvous files there and remove them in
        `cleanup`.
        """

    @property
    def served_model(self) -> str:
        """The model name that requests have to carry."""
        return self.settings.model or "m"

    def ready_check(self, body: bytes) -> bool:
        """Whether a 200 from `ready_path` really means ready."""
        return True

    def effective(self, logs: dict[str, Path], base_url: str) -> dict[str, object]:
        """Settings as the running engine tells them (`batch_width` among them where it does)."""
        return {}

    def cleanup(self, workdir: Path) -> None:  # noqa: B027 - most engines leave nothing behind
        """Remove what the engine leaves behind."""

    def width(self, mode: str) -> int:
        return 1 if mode == "serial" else self.settings.width


def lists_models(body: bytes) -> bool:
    """For engines whose readiness is an answer of /v1/models."""
    try:
        return bool(json.loads(body)["data"])
    except (ValueError, KeyError, TypeError):
        return False
