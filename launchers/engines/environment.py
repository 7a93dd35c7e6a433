"""What is installed in another Python's environment, asked without importing the engine."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache
from typing import NamedTuple


class Distribution(NamedTuple):
    name: str
    version: str


ASK = """
import importlib.metadata, importlib.util, sys
for name in sys.argv[1:]:
    try:
        print(name, importlib.metadata.version(name)); break
    except importlib.metadata.PackageNotFoundError:
        pass
else:
    if importlib.util.find_spec(sys.argv[1]):
        print(sys.argv[1], "unknown")
"""


@lru_cache
def installed(python: str, names: tuple[str, ...], path: str = "") -> Distribution | None:
    """The first of these distributions that the interpreter has; the first may also be a bare package.

    `path`: its PYTHONPATH, if it is to have one of its own.
    """
    env = {**os.environ, "PYTHONPATH": path} if path else None
    try:
        said = subprocess.run(
            [python, "-c", ASK, *names], capture_output=True, text=True, timeout=60, check=True, env=env
        )
    except (OSError, subprocess.SubprocessError):
        return None
    name, _, version = said.stdout.strip().partition(" ")
    return Distribution(name, version) if version else None
