"""PocketLLM: its native C++ server, one process a tensor-parallel rank, or the newer `pocketllm serve`."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import Field, model_validator

from launchers.engines import base

BINARIES = ("pocketllm_engine", "dsv4_cpp_engine")  # the second is what older builds are called
WIDTH_LINE = re.compile(
    r"\[server\] batch width (\d+) \(engine declares max_slots=(\d+), continuous_batching=(yes|no)\), "
    r"prefill budget (\d+)"
)
LONGEST_SOCKET_PATH = 107  # sockaddr_un; the command channel is NCCL_ID_PATH.cmdsock
# Flags that older builds lack; they are passed only where the binary knows them.
OPTIONAL_FLAGS = ("--max-batch-size", "--prefill-token-budget", "--request-timeout-seconds")


class PocketLlmSettings(base.EngineSettings):
    """The native server's flags under its own names. `devices`: one GPU a rank.

    A width above 1 makes the Qwen engine batch; the DeepSeek-V4 engine also needs `extra_env` with
    POCKETLLM_CPP_BATCHED_DECODE = "1". `prefix_cache` off passes a budget into which no entry fits, as the
    server has no switch that works.
    """

    checkpoint: Path
    binary: Path | None = None
    frontend: Literal["native", "serve"] = "native"
    devices: Annotated[list[int], Field(min_length=1)] = [0]
    python: str = "python3"
    sidecar: Path | None = None
    smoke_layers: Annotated[int, Field(ge=0)] = 0
    prefill_chunk_tokens: base.Positive | None = None
    request_timeout_s: base.Positive = 900
    prefix_cache: bool = True
    backend: str | None = None  # of `pocketllm serve`

    @model_validator(mode="after")
    def native_needs_sidecar(self) -> PocketLlmSettings:
        if self.frontend == "native" and self.sidecar is None:
            raise ValueError("sidecar is missing; give the path of the engine's tokenizer script")
        return self


class PocketLlm(base.Engine):
    name = "pocketllm"
    Settings = PocketLlmSettings

    def __init__(self, settings: base.EngineSettings) -> None:
        super().__init__(settings)
        self.own = cast(PocketLlmSettings, settings)
        self.ready_path = "/health" if self.own.frontend == "native" else "/ready"
        self._rendezvous: Path | None = None

    def capabilities(self) -> base.Capabilities:
        fields = ("ignore_eos", "min_tokens", "cache_prompt", "stream_options", "continuous_usage_stats")
        native = self.own.frontend == "native"
        return base.Capabilities(
            honours=dict.fromkeys(fields, "ignored"),
            running="pocket_requests_running" if native else None,  # the other one counts no slots
            waiting="pocket_requests_waiting" if native else None,
            cancels_on_disconnect="no" if native else "yes",
            metrics_path="/metrics",
        )

    @classmethod
    def found(cls, settings: base.EngineSettings | None = None) -> base.Found:
        own = cast(PocketLlmSettings, settings) if settings else None
        if own is not None and own.frontend == "serve":
            where = shutil.which("pocketllm")
            return base.Found(where is not None, _package(), where, "pip install pocketllm")
        binary = find_binary(own.binary if own else None)
        hint = "build pocketllm_engine from PocketLLM's cpp_engine and put it on PATH, or set settings.binary"
        if binary is None:
            return base.Found(False, install_hint=hint)
        flags = ", ".join(sorted(known_flags(binary))) or "none of the scheduler's flags"
        return base.Found(True, _package(), f"{binary} (knows {flags})", hint)

    def processes(self, mode: str, port: int, workdir: Path) -> list[base.ProcessSpec]:
        if self.own.frontend == "serve":
            return [self._serve(mode, port)]
        # Rank 0 would reuse an id file left by an earlier start, so each start gets a folder of its own.
        self._rendezvous = rendezvous_folder(workdir)
        ranks = len(self.own.devices)
        return [self._rank(rank, ranks, mode, port) for rank in range(ranks)]

    def _rank(self, rank: int, ranks: int, mode: str, port: int) -> base.ProcessSpec:
        own = self.own
        binary = find_binary(own.binary)
        assert binary is not None
        assert self._rendezvous is not None
        width = self.width(mode)
        budget = 0 if mode == "serial" or own.prefill_token_budget is None else own.prefill_token_budget
        argv = [binary, "--serve", "--ckpt", str(own.checkpoint), "--tp-world", str(ranks)]
        argv += ["--nccl-id-path", str(self._rendezvous / "nccl"), "--smoke-layers", str(own.smoke_layers)]
        argv += ["--max-context", str(own.max_context), "--python", own.python, "--sidecar", str(own.sidecar)]
        argv += ["--host", "127.0.0.1", "--port", str(port)]
        scheduler = {
            "--max-batch-size": width,
            "--prefill-token-budget": budget,
            "--request-timeout-seconds": own.request_timeout_s,
        }
        known = known_flags(binary)
        for flag, value in scheduler.items():
            argv += [flag, str(value)] if flag in known else []
        if own.prefill_chunk_tokens:
            argv += ["--prefill-chunk-tokens", str(own.prefill_chunk_tokens)]
        argv += [] if own.prefix_cache else ["--prefix-cache-bytes", "1"]
        argv += ["--tp-rank", str(rank), "--device", "0", *own.extra_args]
        env = {"CUDA_VISIBLE_DEVICES": str(own.devices[rank]), **own.extra_env}
        return base.ProcessSpec(f"rank{rank}", argv, env, f"engine-rank{rank}.log")

    def _serve(self, mode: str, port: int) -> base.ProcessSpec:
        own = self.own
        argv = [shutil.which("pocketllm") or "pocketllm", "serve", "--model", str(own.checkpoint)]
        argv += ["--backend", own.backend] if own.backend else []
        argv += ["--tensor-parallel-size", str(len(own.devices)), "--max-model-len", str(own.max_context)]
        argv += ["--max-batch-size", str(self.width(mode)), "--served-model-name", self.served_model]
        argv += [] if own.prefix_cache else ["--no-enable-prefix-caching"]
        if own.prefill_chunk_tokens:
            argv += ["--prefill-chunk-tokens", str(own.prefill_chunk_tokens)]
        argv += ["--host", "127.0.0.1", "--port", str(port), *own.extra_args]
        env = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, own.devices)), **own.extra_env}
        return base.ProcessSpec("engine", argv, env)

    def effective(self, logs: dict[str, Path], base_url: str) -> dict[str, object]:
        log = next(iter(logs.values())).read_text(errors="replace")
        found = WIDTH_LINE.search(log)
        if found is None:
            return {}
        return {
            "batch_width": int(found[1]),
            "max_slots": int(found[2]),
            "continuous_batching": found[3] == "yes",
            "prefill_token_budget": int(found[4]),
        }

    def cleanup(self, workdir: Path) -> None:
        """The id file and the command channel's socket, which the engine leaves behind."""
        if self._rendezvous is not None:
            shutil.rmtree(self._rendezvous, ignore_errors=True)
            self._rendezvous = None


def rendezvous_folder(workdir: Path) -> Path:
    """A fresh folder, in the arm's own if its path is short enough for a socket, else in the system's."""
    for parent in (workdir.absolute(), None):
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="rendezvous-", dir=parent))
        if len(str(folder / "nccl.cmdsock").encode()) <= LONGEST_SOCKET_PATH:
            return folder
        folder.rmdir()
    raise OSError("no folder for temporary files whose path is short enough for a socket; set TMPDIR to one")


def find_binary(asked: Path | None) -> str | None:
    if asked is not None:
        return shutil.which(str(asked))
    return next(filter(None, map(shutil.which, BINARIES)), None)


@lru_cache
def known_flags(binary: str) -> frozenset[str]:
    """Which optional flags this build knows: an unknown one is its first complaint."""
    known = set()
    for flag in OPTIONAL_FLAGS:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            said = subprocess.run(
                [binary, flag, "8"], capture_output=True, text=True, timeout=30, check=False
            )
            if "unknown or incomplete argument" not in said.stderr:
                known.add(flag)
    return frozenset(known)


def _package() -> str | None:
    try:
        return version("pocketllm")
    except PackageNotFoundError:
        return None  # the binary cannot be asked for its version
