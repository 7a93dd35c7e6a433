"""Profiles: what an engine's iterations cost and how it behaves, from TOML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

PROFILES = Path(__file__).parent / "profiles"
Seconds = Annotated[float, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Profile(BaseModel):
    """Costs in seconds of the engine's own time, sizes in tokens.

    An iteration costs `step_s` at its decode width (between the given widths: interpolated), plus
    `prefill_token_s` a prompt token, `attention_s` for every pair of a prefilled token and one before it,
    `context_token_s` a token of context that a decoding request looks back on, and `prefill_s` if it holds
    any prefill at all. `prefill_points`, [[tokens, seconds], ...], replaces the prefill's price by a measured
    curve of whole prompts; `decode_points` likewise a lone request's decode step over its context.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    width: Positive = 8
    max_context: Positive = 8192
    prefill_token_budget: Positive = 4096
    step_s: dict[int, Seconds] = {1: 0.005}
    prefill_s: Seconds = 0.0
    prefill_token_s: Seconds = 0.0
    attention_s: Seconds = 0.0
    context_token_s: Seconds = 0.0
    prefill_points: list[tuple[int, Seconds]] = []
    decode_points: list[tuple[int, Seconds]] = []
    prefix_cache: bool = False
    cache_block: Positive = 16
    stops_after: Positive | None = None  # an EOS after so many tokens, unless the request ignores it
    cancels_on_disconnect: bool = True
    role_before_prefill: bool = False
    tokens_per_event: Positive = 1
    listen_backlog: Positive = 2048
    metrics: bool = True
    faults: list[str] = []  # NAME or NAME:SHARE, besides those of the command line
    dialects: list[str] = []

    @field_validator("step_s", mode="before")
    @classmethod
    def by_width(cls, value: Any) -> Any:
        return {int(width): cost for width, cost in value.items()} if isinstance(value, dict) else value


def load(name: str, mode: str, changes: list[str]) -> Profile:
    """A profile by name or path, its `[mode]` section laid over it, then KEY=VALUE changes.

    Raises ValueError with one line that says what, where and how to mend it.
    """
    path = Path(name) if name.endswith(".toml") else PROFILES / f"{name}.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(sorted(each.stem for each in PROFILES.glob("*.toml")))
        raise ValueError(f"no profile {name!r}: give a TOML file or one of {known}") from None
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    sections = {key: data.pop(key, {}) for key in ("batch", "serial")}
    if mode not in sections:
        raise ValueError(f"mode {mode!r}: must be batch or serial")
    data |= sections[mode]
    if mode == "serial":
        data["width"] = 1
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise ValueError(f"--set {change}: must be KEY=VALUE")
        try:
            data[key] = json.loads(value)
        except ValueError:
            data[key] = value
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"profile {name!r}: {key}: {first['msg']}") from error
