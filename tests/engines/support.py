"""What the tests of this folder share: starting an engine under supervision, and asking it something."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from launchers import lifecycle
from launchers.asking import ask
from launchers.engines.base import Engine
from launchers.interruption import Interruption
from launchers.lifecycle import RunningEngine


def running(
    engine: Engine, folder: Path, interruption: Interruption, mode: str = "batch", deadline_s: float = 60
) -> AbstractContextManager[RunningEngine]:
    return lifecycle.running(
        "arm", engine, mode, port=None, folder=folder, deadline_s=deadline_s, interruption=interruption
    )


def chat(up: RunningEngine, **fields: Any) -> dict[str, Any]:
    """The whole answer to a small request. Raises AssertionError with the body when it is not a 200."""
    body = {
        "model": up.engine.served_model,
        "messages": [{"role": "user", "content": "Say something about the sea."}],
        "max_tokens": 4,
        "temperature": 0,
        **fields,
    }
    status, answer = ask(up.base_url, "/v1/chat/completions", body, timeout_s=60)
    assert status == 200, answer
    said: dict[str, Any] = json.loads(answer)
    return said


def command(path: Path, script: Path, env: dict[str, str] | None = None) -> Path:
    """An executable that runs a Python script of ours, with these variables set."""
    sets = "".join(f"export {name}={value}\n" for name, value in (env or {}).items())
    path.write_text(f'#!/bin/sh\n{sets}exec {sys.executable} {script} "$@"\n')
    path.chmod(0o755)
    return path
