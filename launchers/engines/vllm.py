"""vLLM's OpenAI server, on a GPU or on the CPU (`make engines` builds an environment for the latter)."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.request import urlopen

from pydantic import Field

from launchers import tiny_checkpoint
from launchers.engines import base
from launchers.engines.environment import Distribution, installed

CPU_PYTHON = Path(".engines/vllm/bin/python")
# vLLM prints what it really uses once, when its engine is configured.
CONFIG_LINE = re.compile(r"(max_num_seqs|max_num_batched_tokens|max_model_len|max_seq_len)['\"]?[=:]\s*(\d+)")
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


class VllmSettings(base.EngineSettings):
    """vLLM's own flags under its own names. `python`: the interpreter that has vLLM; none: the one of
    `make engines` if it is there, else ours. `checkpoint` none: the tiny one of that `size`, on the CPU.
    """

    checkpoint: Path | None = None
    size: tiny_checkpoint.SizeName = "5m"
    python: Path | None = None
    tensor_parallel_size: base.Positive = 1
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    load_format: str | None = None
    dtype: str | None = None
    enforce_eager: bool = False
    enable_prefix_caching: bool = False
    enable_chunked_prefill: bool | None = None
    trust_remote_code: bool = False
    additional_config: dict[str, Any] | None = None
    devices: str | None = None  # CUDA_VISIBLE_DEVICES, as "0,1,2,3"
    cpu_kv_cache_gib: base.Positive = 1
    entry: Literal["auto", "api_server", "serve"] = "auto"


class Vllm(base.Engine):
    name = "vllm"
    Settings = VllmSettings

    @property
    def own(self) -> VllmSettings:
        return cast(VllmSettings, self.settings)

    def capabilities(self) -> base.Capabilities:
        fields = ("ignore_eos", "min_tokens", "stream_options", "continuous_usage_stats")
        return base.Capabilities(
            honours={**dict.fromkeys(fields, "yes"), "cache_prompt": "ignored"},
            running="vllm:num_requests_running",
            waiting="vllm:num_requests_waiting",
            cached="usage.prompt_tokens_details.cached_tokens",
            cancels_on_disconnect="yes",
            metrics_path="/metrics",
        )

    @classmethod
    def found(cls, settings: base.EngineSettings | None = None) -> base.Found:
        own = cast(VllmSettings, settings or VllmSettings())
        python = interpreter(own)
        here = distribution(own)
        hint = f"{python} has no vLLM; `make engines` builds one for the CPU, or set settings.python"
        return base.Found(here is not None, here.version if here else None, str(python), hint)

    def processes(self, mode: str, port: int, workdir: Path) -> list[base.ProcessSpec]:
        own = self.own
        checkpoint = own.checkpoint or tiny_checkpoint.checkpoint(own.size)
        argv = [str(interpreter(own)), *self.entry(str(checkpoint)), "--served-model-name", self.served_model]
        argv += ["--host", "127.0.0.1", "--port", str(port), "--max-num-seqs", str(self.width(mode))]
        argv += ["--max-model-len", str(own.max_context)]
        if own.prefill_token_budget:
            argv += ["--max-num-batched-tokens", str(own.prefill_token_budget)]
        if own.tensor_parallel_size > 1:
            argv += ["--tensor-parallel-size", str(own.tensor_parallel_size)]
        if own.gpu_memory_utilization:
            argv += ["--gpu-memory-utilization", str(own.gpu_memory_utilization)]
        load_format, dtype = own.load_format, own.dtype
        if own.checkpoint is None:
            dtype = dtype or "float32"
        argv += ["--load-format", load_format] if load_format else []
        argv += ["--dtype", dtype] if dtype else []
        argv += ["--enforce-eager"] if own.enforce_eager else []
        argv += ["--trust-remote-code"] if own.trust_remote_code else []
        argv += [switch("enable-prefix-caching", own.enable_prefix_caching)]
        if own.enable_chunked_prefill is not None:
            argv += [switch("enable-chunked-prefill", own.enable_chunked_prefill)]
        if own.additional_config:
            argv += ["--additional-config", json.dumps(own.additional_config, separators=(",", ":"))]
        env = {**QUIET, "VLLM_CPU_KVCACHE_SPACE": str(own.cpu_kv_cache_gib)}
        if own.devices is not None:
            env["CUDA_VISIBLE_DEVICES"] = own.devices
        return [base.ProcessSpec("engine", argv + own.extra_args, env | own.extra_env)]

    def entry(self, checkpoint: str) -> list[str]:
        """How this vLLM is started. The CPU wheel has no working `vllm` command: its distribution has another
        name, and the command looks itself up under its own.
        """
        own, here = self.own, distribution(self.own)
        named_vllm = here is not None and here.name == "vllm"
        if own.entry == "serve" or (own.entry == "auto" and named_vllm):
            return ["-m", "vllm.entrypoints.cli.main", "serve", checkpoint]
        return ["-m", "vllm.entrypoints.openai.api_server", "--model", checkpoint]

    def effective(self, logs: dict[str, Path], base_url: str) -> dict[str, object]:
        found: dict[str, object] = {}
        text = logs["engine"].read_text(errors="replace")
        for key, value in CONFIG_LINE.findall(text):
            found["max_model_len" if key == "max_seq_len" else key] = int(value)
        if "max_num_seqs" in found:
            found["batch_width"] = found["max_num_seqs"]
        with urlopen(f"{base_url}/v1/models", timeout=10) as answer:
            found["max_model_len"] = json.load(answer)["data"][0].get("max_model_len")
        return found


def distribution(own: VllmSettings) -> Distribution | None:
    return installed(str(interpreter(own)), ("vllm", "vllm-cpu"), own.extra_env.get("PYTHONPATH", ""))


def interpreter(own: VllmSettings) -> Path:
    if own.python is not None:
        return own.python
    return CPU_PYTHON.absolute() if CPU_PYTHON.exists() else Path(sys.executable)


def switch(name: str, on: bool) -> str:
    return f"--{name}" if on else f"--no-{name}"
