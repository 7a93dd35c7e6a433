"""`transformers serve`: the library's own server, with continuous batching or one request after another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

from launchers import tiny_checkpoint
from launchers.engines import base
from launchers.engines.environment import installed

CPU_PYTHON = Path(".engines/transformers/bin/python")
BLOCK_TOKENS = 32


class TransformersSettings(base.EngineSettings):
    """`python`: the interpreter that has transformers[serving]; none: the one that
    `python -m launchers.engines.install transformers` built if it is there, else ours. `checkpoint` none: the
    tiny one. `prefill_token_budget`: tokens in one batch, prompts and answers together.

    The server has no flag for the number of requests at once; `width` sizes the memory for their contexts.
    """

    checkpoint: Path | None = None
    python: Path | None = None
    device: str = "cpu"
    dtype: str = "float32"
    threads: base.Positive = 1
    max_context: base.Positive = 2048
    prefill_token_budget: base.Positive | None = 256


class Transformers(base.Engine):
    name = "transformers"
    Settings = TransformersSettings

    @property
    def own(self) -> TransformersSettings:
        return cast(TransformersSettings, self.settings)

    @property
    def checkpoint(self) -> Path:
        """Below the working folder as a relative path: it is also the model's name in every request."""
        given = self.own.checkpoint or tiny_checkpoint.checkpoint()
        return given.relative_to(Path.cwd()) if given.is_relative_to(Path.cwd()) else given

    @property
    def served_model(self) -> str:
        return str(self.checkpoint)

    def capabilities(self) -> base.Capabilities:
        return base.Capabilities(
            honours={
                "ignore_eos": "rejected",
                "min_tokens": "rejected",
                "stream_options": "ignored",  # usage comes with the last chunk, asked for or not
                "continuous_usage_stats": "ignored",
                "cache_prompt": "rejected",
            },
            cancels_on_disconnect="yes",
            sends_done=False,
        )

    @classmethod
    def found(cls, settings: base.EngineSettings | None = None) -> base.Found:
        own = cast(TransformersSettings, settings or TransformersSettings())
        python = str(interpreter(own))
        here = installed(python, ("transformers",)) if installed(python, ("uvicorn",)) else None
        build = "`python -m launchers.engines.install transformers` builds one for the CPU"
        hint = f"{python} has no transformers[serving]; {build}, or set settings.python"
        return base.Found(here is not None, here.version if here else None, python, hint)

    def processes(self, mode: str, port: int, workdir: Path) -> list[base.ProcessSpec]:
        own = self.own
        argv = [str(interpreter(own)), "-m", "transformers.cli.transformers", "serve", str(self.checkpoint)]
        argv += ["--device", own.device, "--dtype", own.dtype, "--host", "127.0.0.1", "--port", str(port)]
        if mode == "batch":
            # Without a number of blocks it takes most of the machine's memory.
            blocks = -(-own.width * own.max_context // BLOCK_TOKENS)
            argv += ["--continuous-batching", "--cb-block-size", str(BLOCK_TOKENS)]
            argv += ["--cb-num-blocks", str(blocks)]
            if own.prefill_token_budget:
                argv += ["--cb-max-batch-tokens", str(own.prefill_token_budget)]
        env = {
            "HF_HUB_OFFLINE": "1",
            "HF_HUB_CACHE": str(workdir.absolute()),  # it wants a folder, and finds nothing in it
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "OMP_NUM_THREADS": str(own.threads),
        }
        return [base.ProcessSpec("engine", argv + own.extra_args, env | own.extra_env)]


def interpreter(own: TransformersSettings) -> Path:
    if own.python is not None:
        return own.python
    return CPU_PYTHON.absolute() if CPU_PYTHON.exists() else Path(sys.executable)
