"""Keeps keys and tokens out of what is written down."""

from __future__ import annotations

import re
from typing import Any

SECRET = re.compile(r"(?i)(api[-_]?key|[-_]token|password|secret)$")
HIDDEN = "***"


def without_secrets(value: Any) -> Any:
    """The same settings or command line, with the values of key-like names and options hidden."""
    if isinstance(value, dict):
        return {
            name: HIDDEN if SECRET.search(str(name)) and isinstance(inner, str) else without_secrets(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_word(word, value[index - 1] if index else None) for index, word in enumerate(value)]
    return value


def _word(word: Any, before: Any) -> Any:
    if not isinstance(word, str):
        return without_secrets(word)
    if isinstance(before, str) and before.startswith("-") and SECRET.search(before):
        return HIDDEN
    option, equals, _ = word.partition("=")
    return f"{option}={HIDDEN}" if equals and SECRET.search(option) else word
