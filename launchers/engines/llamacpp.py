"""llama.cpp's own HTTP server: a `llama-server` on PATH, else the one inside the xllamacpp wheel."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Literal, cast
from urllib.request import urlopen

from launchers import tiny_checkpoint
from launchers.engines import base

RUNNER = Path(__file__).with_name("llamacpp_runner.py")
# An idle connection keeps a thread of its HTTP server for five seconds. With its own number, a few more than
# slots, requests on new connections wait for that time without reaching the scheduler.
HTTP_THREADS = 64
VERSION = re.compile(r"version: (\S+)")


class LlamaCppSettings(base.EngineSettings):
    """`gguf`: a model file; none: the tiny checkpoint of that `size`. `server`: which of the two to start.

    `max_context` is for each slot. `prompt_cache` on would serve repeated prompts from memory.
    """

    gguf: Path | None = None
    size: tiny_checkpoint.SizeName = "5m"
    server: Literal["auto", "llama-server", "xllamacpp"] = "auto"
    threads: base.Positive = 1
    prompt_cache: bool = False


class LlamaCpp(base.Engine):
    name = "llamacpp"
    modes = ("batch", "serial", "static")
    Settings = LlamaCppSettings

    @property
    def own(self) -> LlamaCppSettings:
        return cast(LlamaCppSettings, self.settings)

    def capabilities(self) -> base.Capabilities:
        return base.Capabilities(
            honours={
                "ignore_eos": "yes",
                "min_tokens": "ignored",
                "stream_options": "yes",
                "continuous_usage_stats": "ignored",
                "cache_prompt": "yes",
            },
            running="llamacpp:requests_processing",
            waiting="llamacpp:requests_deferred",
            cached="usage.prompt_tokens_details.cached_tokens",
            cancels_on_disconnect="yes",
            metrics_path="/metrics",
            slots_path="/slots",
        )

    @classmethod
    def found(cls, settings: base.EngineSettings | None = None) -> base.Found:
        wanted = cast(LlamaCppSettings, settings).server if settings else "auto"
        binary = shutil.which("llama-server") if wanted != "xllamacpp" else None
        if binary:
            return base.Found(True, _binary_version(binary), binary)
        hint = "put llama-server on PATH, or pip install 'headtohead[llamacpp]'"
        if wanted == "llama-server" or importlib.util.find_spec("xllamacpp") is None:
            return base.Found(False, install_hint=hint)
        return base.Found(True, f"xllamacpp {version('xllamacpp')}", "the xllamacpp wheel")

    def processes(self, mode: str, port: int, workdir: Path) -> list[base.ProcessSpec]:
        own = self.own
        gguf = own.gguf or tiny_checkpoint.checkpoint(own.size) / "tiny.gguf"
        slots = self.width(mode)
        context = slots * own.max_context
        binary = shutil.which("llama-server") if own.server != "xllamacpp" else None
        if binary:
            argv = [binary, "-m", str(gguf), "--host", "127.0.0.1", "--port", str(port), "-np", str(slots)]
            argv += ["-c", str(context), "-t", str(own.threads), "--alias", self.served_model, "--metrics"]
            argv += ["--slots", "--no-ui", "-fit", "off", "--threads-http", str(HTTP_THREADS)]
            argv += [] if own.prompt_cache else ["--cache-ram", "0"]
            argv += ["--no-cont-batching"] if mode == "static" else []
        else:
            asked = {
                "model": str(gguf),
                "port": port,
                "alias": self.served_model,
                "slots": slots,
                "context": context,
                "threads": own.threads,
                "http_threads": HTTP_THREADS,
                "continuous": mode != "static",
                "prompt_cache": own.prompt_cache,
            }
            argv = [sys.executable, str(RUNNER), json.dumps(asked)]
        return [base.ProcessSpec("engine", argv + own.extra_args, own.extra_env)]

    def effective(self, logs: dict[str, Path], base_url: str) -> dict[str, object]:
        with urlopen(f"{base_url}/slots", timeout=10) as answer:
            slots = json.load(answer)
        return {"batch_width": len(slots), "context_per_slot": slots[0]["n_ctx"] if slots else None}


def _binary_version(binary: str) -> str | None:
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=30, check=False)
    found = VERSION.search(said.stderr + said.stdout)
    return f"llama.cpp {found[1]}" if found else None
