"""The plan: which arms, which workload. Read from TOML, checked before anything is started."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from launchers.errors import PlanError
from locustfiles.arguments import Case, Load, Mode

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def length(text: str) -> str:
    number = r"\d+(\.\d+)?"
    if not re.fullmatch(f"{number}|{number}-{number}|lognormal:{number}:{number}", text):
        raise ValueError(f"is {text!r}; write '128', '64-512' or 'lognormal:200:0.6' (median, sigma)")
    return text


Length = Annotated[str, AfterValidator(length)]


class Slo(Strict):
    """What an answer has to keep to, in milliseconds of the engine's clock; see analysis.goodput."""

    ttft_ms: Seconds | None = None
    tpot_ms: Seconds | None = None
    latency_ms: Seconds | None = None

    @model_validator(mode="after")
    def limits_something(self) -> Slo:
        if not any((self.ttft_ms, self.tpot_ms, self.latency_ms)):
            raise ValueError("limits nothing; give ttft_ms, tpot_ms or latency_ms")
        return self


class Traffic(Strict):
    """Sustained load: users (closed) or requests a second (poisson, constant), one level after the other."""

    load: Load = "closed"
    levels: Annotated[list[Seconds], Field(min_length=1)] = [4.0]
    hold_s: Seconds = 30.0
    ramp_s: Annotated[float, Field(ge=0)] = 0.0
    settle_s: Annotated[float, Field(ge=0)] = 5.0  # of each level, not recorded
    mix: dict[Literal["stream", "chat", "leave"], Annotated[float, Field(ge=0)]] = {"stream": 1.0}
    prompt_words: Length = "128"
    output_tokens: Length = "32"
    turns: Count = 1
    system_words: Annotated[int, Field(ge=0)] = 0
    trace: str | None = None
    trace_speed: Seconds = 1.0
    words_per_token: Seconds = 0.75

    @model_validator(mode="after")
    def possible(self) -> Traffic:
        if (self.load == "trace") != (self.trace is not None):
            raise ValueError("load = 'trace' and trace = 'FILE' go together; give both or neither")
        if self.trace is not None and not Path(self.trace).is_file():
            raise ValueError(f"trace: no file {self.trace!r}; paths count from where headtohead is started")
        if self.settle_s >= self.hold_s and self.trace is None:
            raise ValueError(f"settle_s = {self.settle_s:g} leaves nothing to record of {self.hold_s:g} s")
        if not any(self.mix.values()):
            raise ValueError("mix: gives nobody any weight; write mix = { stream = 4, chat = 1 }")
        return self


class Workload(Strict):
    """What every arm is asked to do: `cases`, or `traffic` instead.

    Times in seconds of the engine's own clock (see `time_scale`).
    """

    model: str | None = None  # the name in every request; None: the one that the arms serve
    cases: list[Case] = ["single", "ladder", "interleave", "streams", "disconnect"]
    traffic: Traffic | None = None
    slo: Slo | None = None
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

    @field_validator("ladder")
    @classmethod
    def not_empty(cls, value: list[Any]) -> list[Any]:
        if not value:
            raise ValueError("must not be empty")
        return value

    @model_validator(mode="before")
    @classmethod
    def traffic_instead_of_cases(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("traffic") is not None:
            return {"cases": [], **data}
        return data

    @model_validator(mode="after")
    def either_cases_or_traffic(self) -> Workload:
        if self.traffic is not None and self.cases:
            raise ValueError("holds cases and traffic; leave one of them to a plan of its own")
        if self.traffic is None and not self.cases:
            raise ValueError("cases: must not be empty")
        if self.traffic is None and self.slo is not None:
            raise ValueError("slo: is for sustained load; add [workload.traffic]")
        return self


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
        if self.workload.traffic is not None and self.workload.repeats > self.blocks:
            raise ValueError(
                f"traffic is measured once a block; for {self.workload.repeats} repeats set "
                f"blocks = {self.workload.repeats}"
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
