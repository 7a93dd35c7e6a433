"""Any command line that starts an OpenAI-compatible server."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import cast

from pydantic import field_validator

from launchers.engines import base


class CommandSettings(base.EngineSettings):
    """`command`: one line with the placeholders {port}, {model}, {width}; split as a shell splits words."""

    command: str
    ready_path: str = "/v1/models"

    @field_validator("command")
    @classmethod
    def usable(cls, value: str) -> str:
        if "{port}" not in value:
            raise ValueError("needs the placeholder {port}, so that a free port can be given")
        shlex.split(value)
        return value


class Command(base.Engine):
    name = "command"
    Settings = CommandSettings

    def __init__(self, settings: base.EngineSettings) -> None:
        super().__init__(settings)
        self.own = cast(CommandSettings, settings)
        self.ready_path = self.own.ready_path

    def capabilities(self) -> base.Capabilities:
        return base.Capabilities(honours={"stream_options": "yes"}, metrics_path="/metrics")

    @classmethod
    def found(cls, settings: base.EngineSettings | None = None) -> base.Found:
        if settings is None:
            return base.Found(True, None, "any command line")
        program = shlex.split(cast(CommandSettings, settings).command)[0]
        where = shutil.which(program)
        hint = f"{program!r} is not on PATH; install it or give its path"
        return base.Found(where is not None, None, where, hint)

    def processes(self, mode: str, port: int, workdir: Path) -> list[base.ProcessSpec]:
        values = {"port": str(port), "model": self.served_model, "width": str(self.width(mode))}
        argv = [_filled(word, values) for word in shlex.split(self.own.command)]
        return [base.ProcessSpec("engine", argv + self.own.extra_args, self.own.extra_env)]


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace("{" + name + "}", value)
    return word
