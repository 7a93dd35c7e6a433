"""The plan: which arms, which workload. Read from TOML, checked before anything is started."""

from __future__ import annotations

import difflib
import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from launchers.errors import PlanError

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
Mode = Literal["batch", "serial", "static"]
Case = Literal[
    "single",
    "ladder",
    "interleave",
    "streams",
    "disconnect",
    "disconnect_variants",
    "leak",
    "isolation",
    "long_context",
]
CASES: tuple[Case, ...] = get_args(Case)
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Workload(Strict):
    """What every arm is asked to do. Times in seconds of the engine's own clock (see `time_scale`)."""

    model: str | None = None  # the name in every request; None: the one that the arms serve
    cases: list[Case] = ["single", "ladder", "interleave", "streams", "disconnect"]
    ladder: list[Count] = [2, 4, 8]
    repeats: Count = 1  # recorded repeats of each wave, over all blocks together
    warmups: Annotated[int, Field(ge=0)] = 1
    max_tokens: Count = 32
    short_words: Count = 128
    stream_count: Count = 2
    interleave_delay_s: Seconds = 0.5
    deadline_s: Seconds = 60.0
    context_lengths: list[Count] = [4096]
    context_max_tokens: Count = 128
    payload: dict[str, Any] | None = None  # extra body fields; None: those that every arm takes
    stream_options: dict[str, Any] | None = None  # likewise

    @field_validator("cases", "ladder")
    @classmethod
    def not_empty(cls, value: list[Any]) -> list[Any]:
        if not value:
            raise ValueError("must not be empty")
        return value


class Arm(Strict):
    """One engine in one mode."""

    name: Name
    engine: str
    mode: Mode
    settings: dict[str, Any] = {}  # checked by the engine's own model
    port: Annotated[int, Field(ge=1, le=65535)] | None = None  # None: a free one
    start_deadline_s: Seconds = 600.0

    @model_validator(mode="before")
    @classmethod
    def named_after_engine_and_mode(cls, data: Any) -> Any:
        if isinstance(data, dict) and "engine" in data and "mode" in data:
            return {"name": f"{data['engine']}-{data['mode']}", **data}
        return data


class Plan(Strict):
    """A whole run. `blocks` above 1: the arms take turns (A B A B), each with its share of the repeats."""

    name: Name
    seed: Annotated[int, Field(ge=0)] = 1
    blocks: Count = 1
    workload: Workload = Workload()
    arms: Annotated[list[Arm], Field(min_length=1, alias="arm")]

    @model_validator(mode="after")
    def consistent(self) -> Plan:
        twice = [name for name, count in Counter(arm.name for arm in self.arms).items() if count > 1]
        if twice:
            raise ValueError(f"two arms are named {twice[0]!r}; give each its own name")
        if self.blocks > self.workload.repeats:
            raise ValueError(
                f"blocks = {self.blocks} needs at least as many workload.repeats, not {self.workload.repeats}"
            )
        return self

    def repeats_of_block(self, block: int) -> tuple[int, int]:
        """(first repeat, repeats) of block 1, 2, ...; the first blocks take what does not divide evenly."""
        share, rest = divmod(self.workload.repeats, self.blocks)
        first = 1 + sum(share + (earlier <= rest) for earlier in range(1, block))
        return first, share + (block <= rest)


def read(path: Path) -> Plan:
    """The plan in a TOML file. Raises PlanError with one line for each mistake."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(
            f"{path}: cannot read the plan: {error.strerror}; give the path of a TOML file"
        ) from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path}: not TOML: {error}") from error
    return parse(data, str(path))


def parse(data: dict[str, Any], where: str) -> Plan:
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        raise PlanError("\n".join(mistakes(error, Plan, where))) from error


def mistakes(error: ValidationError, model: type[BaseModel], where: str, prefix: str = "") -> list[str]:
    """One line for each mistake: where, which key, what is wrong, how to mend it."""
    lines = []
    for detail in error.errors():
        key = prefix + key_of(detail["loc"])
        lines.append(
            f"{where}: {key}: {explain(detail, model)}" if key else f"{where}: {explain(detail, model)}"
        )
    return lines


def key_of(location: tuple[int | str, ...]) -> str:
    """As a reader of the TOML would say it: `arm 2 settings.width`."""
    key = ""
    for part in location:
        if isinstance(part, int):
            key += f" {part + 1}"
        else:
            key += ("." if key and not key[-1].isdigit() else " " if key else "") + part
    return key


def explain(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        known = keys_at(model, detail["loc"][:-1])
        close = difflib.get_close_matches(str(detail["loc"][-1]), known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(sorted(known))}"
        return f"unknown key; {hint}"
    if kind == "missing":
        return "missing; add it"
    if kind == "literal_error":
        return f"is {given!r}; must be {context['expected']}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return f"is {given!r}; use letters, digits, '.', '_' and '-' only"
    text = detail["msg"].removeprefix("Input ").replace("should be", "must be")
    return f"is {given!r}; {text}" if isinstance(given, str | int | float | bool) else text


def keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys that the model knows at a place in the TOML."""
    for part in location:
        if isinstance(part, str):
            for name, field in model.model_fields.items():
                if part in (name, field.alias):
                    model = _model_in(field.annotation) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if found := _model_in(inner):
            return found
    return None
