"""What a run is asked to do: Locust's parsed options in, one checked `Settings` out."""

import argparse
import os
from argparse import ArgumentTypeError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from locustfiles.arguments import case_names, json_object, whole_numbers
from locustfiles.transport import Target

AT_LEAST_ONE = (
    "width", "repeats", "first_repeat", "stream_count", "max_tokens", "short_words", "context_max_tokens"
)  # fmt: skip
API_KEY_VARIABLE = "HEADTOHEAD_API_KEY"


class SettingsError(ValueError):
    """Asked for something that cannot be done; the text is one line for the person who asked."""


@dataclass(frozen=True)
class Settings:
    """One arm's workload, the same in every process of the run. Times are seconds."""

    target: Target
    out: Path
    run: str
    arm: str
    engine: str
    mode: str
    model: str
    width: int
    repeats: int
    first_repeat: int
    warmups: int
    ladder: tuple[int, ...]
    stream_count: int
    max_tokens: int
    short_words: int
    cases: tuple[str, ...]
    seed: int
    interleave_delay_s: float
    time_scale: float
    deadline_s: float
    payload: dict[str, Any]
    stream_options: dict[str, Any]
    sends_done: bool
    preconnect: bool
    context_lengths: tuple[int, ...]
    context_max_tokens: int

    @classmethod
    def of(cls, options: argparse.Namespace, host: str | None) -> "Settings":
        """The settings that Locust's parsed options ask for; SettingsError in one line if they cannot be."""
        if not host:
            raise SettingsError("no server to test: give its base URL with --host, as http://127.0.0.1:8000")
        for name in AT_LEAST_ONE:  # checked once more for what comes from the web form
            if getattr(options, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(options, name)}")
        if options.time_scale <= 0 or options.deadline <= 0 or options.interleave_delay <= 0:
            raise SettingsError("time scale, deadline and interleave delay must be above zero")
        try:
            target = Target.parse(host)
            return cls(
                # /v1 is part of every path we ask for, and /metrics lies beside it.
                target=replace(target, prefix=target.prefix.removesuffix("/v1")),
                out=Path(options.out),
                run=options.run,
                arm=options.arm,
                engine=options.engine,
                mode=options.mode,
                model=options.model,
                width=options.width,
                repeats=options.repeats,
                first_repeat=options.first_repeat,
                warmups=options.warmups,
                ladder=whole_numbers(options.ladder),
                stream_count=options.stream_count,
                max_tokens=options.max_tokens,
                short_words=options.short_words,
                cases=case_names(options.cases),
                seed=options.seed,
                interleave_delay_s=options.interleave_delay / options.time_scale,
                time_scale=options.time_scale,
                deadline_s=options.deadline,
                payload=json_object(options.payload),
                stream_options=json_object(options.stream_options),
                sends_done=not options.without_done,
                preconnect=not options.no_preconnect,
                context_lengths=whole_numbers(options.context_lengths),
                context_max_tokens=options.context_max_tokens,
            )
        except (ValueError, ArgumentTypeError) as error:
            raise SettingsError(str(error)) from None

    @property
    def headers(self) -> dict[str, str]:
        """Those of every request. The key comes from the environment: arguments end up in pages and logs."""
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if key := os.environ.get(API_KEY_VARIABLE):
            headers["authorization"] = f"Bearer {key}"
        return headers
