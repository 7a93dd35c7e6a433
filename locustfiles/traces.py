"""Recorded traffic: when requests came and how long prompts and answers were.

Read are CSV with a header and JSON lines. Names known for the columns are those of the public Azure LLM
inference traces (TIMESTAMP, ContextTokens, GeneratedTokens) and Mooncake traces (timestamp in milliseconds,
input_length, output_length, hash_ids: prompt blocks of 512 tokens that requests share), besides plain
time (seconds), prompt_tokens, output_tokens.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from locustfiles.settings import SettingsError

TIMES = ("time", "timestamp", "TIMESTAMP", "at_s")
PROMPTS = ("prompt_tokens", "input_length", "ContextTokens", "input_tokens")
OUTPUTS = ("output_tokens", "output_length", "GeneratedTokens", "completion_tokens")
MOONCAKE_BLOCK_TOKENS = 512


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """`at_s` counts from the first request; `blocks` name the shared pieces that its prompt begins with."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    block_tokens: int = 0


def read_trace(path: Path, speed: float) -> tuple[TracedRequest, ...]:
    """The requests in order of time, times divided by `speed`; SettingsError names the line that is wrong."""
    found: list[tuple[float, TracedRequest]] = []
    for number, record in _records(path):
        try:
            at_s = _seconds(record)
            prompt, output = (int(float(_first(record, names))) for names in (PROMPTS, OUTPUTS))
            blocks = tuple(int(block) for block in record.get("hash_ids") or ())
        except (KeyError, ValueError, TypeError):
            raise SettingsError(
                f"{path}, line {number}: needs a time, prompt tokens and output tokens ({', '.join(TIMES)}; "
                f"{', '.join(PROMPTS)}; {', '.join(OUTPUTS)})"
            ) from None
        # The last block is the request's own, and only partly filled.
        shared = blocks[: min(max(len(blocks) - 1, 0), prompt // MOONCAKE_BLOCK_TOKENS)]
        found.append((at_s, TracedRequest(0.0, prompt, output, shared, MOONCAKE_BLOCK_TOKENS)))
    if not found:
        raise SettingsError(f"{path}: holds no requests")
    found.sort(key=lambda pair: pair[0])
    first_s = found[0][0]
    return tuple(
        TracedRequest(
            (at_s - first_s) / speed, one.prompt_tokens, one.output_tokens, one.blocks, one.block_tokens
        )
        for at_s, one in found
    )


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(newline="", encoding="utf-8") as file:
        if path.suffix in (".jsonl", ".ndjson"):
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        record = json.loads(line)
                    except ValueError:
                        record = None
                    yield number, record if isinstance(record, dict) else {}
        else:
            yield from enumerate(csv.DictReader(file), 2)


def _seconds(record: dict[str, Any]) -> float:
    value = _first(record, TIMES)
    if "input_length" in record:  # Mooncake counts milliseconds
        return float(value) / 1000
    try:
        return float(value)
    except ValueError:  # Azure writes seven decimals, one more than Python reads
        whole, _, decimals = str(value).partition(".")
        return datetime.fromisoformat(whole).timestamp() + float(f"0.{decimals.rstrip('Z') or 0}")


def _first(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in record:
            return record[name]
    raise KeyError(names[0])
