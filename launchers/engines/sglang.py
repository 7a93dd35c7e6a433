"""SGLang's OpenAI server. It needs a CUDA GPU; its flags are those of release 0.5.23."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, cast
from urllib.request import urlopen

from pydantic import Field

from launchers.engines import base
from launchers.engines.environment import installed


class SglangSettings(base.EngineSettings):
    """SGLang's own flags under its own names. `python`: the interpreter that has SGLang; none: ours.

    `radix_cache` on would serve known prompts from memory.
    """

    checkpoint: Path
    python: Path | None = None
    tp_size: base.Positive = 1
    mem_fraction_static: Annotated[float, Field(gt=0, lt=1)] | None = None
    radix_cache: bool = False
    dtype: str | None = None
    load_format: str | None = None
    trust_remote_code: bool = False
    devices: str | None = None  # CUDA_VISIBLE_DEVICES, as "0,1,2,3"


class Sglang(base.Engine):
    name = "sglang"
    Settings = SglangSettings

    @property
    def own(self) -> SglangSettings:
        return cast(SglangSettings, self.settings)

    def capabilities(self) -> base.Capabilities:
        fields = ("ignore_eos", "min_tokens", "stream_options", "continuous_usage_stats")
        return base.Capabilities(
            honours={**dict.fromkeys(fields, "yes"), "cache_prompt": "ignored"},
            running="sglang:num_running_reqs",
            waiting="sglang:num_queue_reqs",
            cached="usage.prompt_tokens_details.cached_tokens",
            metrics_path="/metrics",
            cancels_on_disconnect="late",  # a stream's request 2 s later; others are looked at every 4 s
        )

    @classmethod
    def found(cls, settings: base.EngineSettings | None = None) -> base.Found:
        own = cast(SglangSettings, settings) if settings else None
        python = str(own.python if own and own.python else sys.executable)
        here = installed(python, ("sglang",))
        hint = (
            f"{python} has no sglang; on a machine with a CUDA GPU pip install sglang, or set settings.python"
        )
        return base.Found(here is not None, here.version if here else None, python, hint)

    def processes(self, mode: str, port: int, workdir: Path) -> list[base.ProcessSpec]:
        own = self.own
        argv = [str(own.python or sys.executable), "-m", "sglang.launch_server"]
        argv += ["--model-path", str(own.checkpoint), "--served-model-name", self.served_model]
        argv += ["--host", "127.0.0.1", "--port", str(port), "--tp-size", str(own.tp_size)]
        argv += ["--max-running-requests", str(self.width(mode)), "--context-length", str(own.max_context)]
        if own.prefill_token_budget:
            argv += ["--chunked-prefill-size", str(own.prefill_token_budget)]
        if own.mem_fraction_static:
            argv += ["--mem-fraction-static", str(own.mem_fraction_static)]
        argv += ["--dtype", own.dtype] if own.dtype else []
        argv += ["--load-format", own.load_format] if own.load_format else []
        argv += [] if own.radix_cache else ["--disable-radix-cache"]
        argv += ["--trust-remote-code"] if own.trust_remote_code else []
        argv += ["--enable-metrics", "--enable-cache-report"]
        env = {"HF_HUB_OFFLINE": "1"}
        if own.devices is not None:
            env["CUDA_VISIBLE_DEVICES"] = own.devices
        return [base.ProcessSpec("engine", argv + own.extra_args, env | own.extra_env)]

    def effective(self, logs: dict[str, Path], base_url: str) -> dict[str, object]:
        with urlopen(f"{base_url}/server_info", timeout=10) as answer:
            told = json.load(answer)
        names = ("max_running_requests", "chunked_prefill_size", "context_length", "disable_radix_cache")
        found = {name: told[name] for name in names if name in told}
        state = (told.get("internal_states") or [{}])[0]
        width = state.get("effective_max_running_requests_per_dp") or told.get("max_running_requests")
        return {"batch_width": width, **found}
