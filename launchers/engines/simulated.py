"""Our own simulated engine, in a process of its own."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field, field_validator

from launchers.engines import base
from launchers.simulator import profile

PROFILES = Path(__file__).parent.parent / "simulator" / "profiles"
WIDTH_LINE = re.compile(r"batch width (\d+)")


class SimulatedSettings(base.EngineSettings):
    """`profile`: a name in launchers/simulator/profiles or a TOML file. `faults`: NAME or NAME:SHARE."""

    profile: str = "tiny"
    time_scale: Annotated[float, Field(gt=0)] = 1.0
    prefill_token_budget: base.Positive | None = None
    faults: list[str] = []
    dialects: list[str] = []
    set: dict[str, Any] = {}

    @field_validator("profile")
    @classmethod
    def known(cls, value: str) -> str:
        if Path(value).is_file() or (PROFILES / f"{value}.toml").is_file():
            return value
        names = ", ".join(sorted(path.stem for path in PROFILES.glob("*.toml")))
        raise ValueError(f"no profile {value!r}; give a TOML file or one of {names}")


class Simulated(base.Engine):
    name = "simulated"
    Settings = SimulatedSettings

    @property
    def own(self) -> SimulatedSettings:
        return cast(SimulatedSettings, self.settings)

    def capabilities(self) -> base.Capabilities:
        own = self.own
        changes = [f"{key}={json.dumps(value)}" for key, value in own.set.items()]
        cancels = profile.load(own.profile, "batch", changes).cancels_on_disconnect
        fields = ("ignore_eos", "min_tokens", "stream_options", "continuous_usage_stats")
        return base.Capabilities(
            honours=dict.fromkeys(fields, "yes"),
            running="vllm:num_requests_running",
            waiting="vllm:num_requests_waiting",
            cancels_on_disconnect="yes" if cancels else "no",
            cached="usage.prompt_tokens_details.cached_tokens",
            metrics_path="/metrics",
        )

    @classmethod
    def found(cls, settings: base.EngineSettings | None = None) -> base.Found:
        return base.Found(True, version("headtohead"), sys.executable)

    def processes(self, mode: str, port: int, workdir: Path) -> list[base.ProcessSpec]:
        own = self.own
        argv = [sys.executable, "-m", "launchers.simulator", "--profile", own.profile, "--mode", mode]
        argv += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", self.served_model]
        argv += [
            "--time-scale",
            str(own.time_scale),
            "--truth",
            str(workdir),
            "--width",
            str(self.width(mode)),
        ]
        if own.prefill_token_budget:
            argv += ["--set", f"prefill_token_budget={own.prefill_token_budget}"]
        for key, value in own.set.items():
            argv += ["--set", f"{key}={json.dumps(value)}"]
        for fault in own.faults:
            argv += ["--fault", fault]
        for dialect in own.dialects:
            argv += ["--dialect", dialect]
        return [base.ProcessSpec("engine", argv + own.extra_args, own.extra_env)]

    def effective(self, logs: dict[str, Path], base_url: str) -> dict[str, object]:
        found = WIDTH_LINE.search(logs["engine"].read_text(errors="replace"))
        return {"batch_width": int(found[1])} if found else {}
