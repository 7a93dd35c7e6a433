"""Locust as a process: its arguments from the plan, its exit code, its progress from the arm's folder."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from launchers.errors import LoadError
from launchers.plan import Traffic, Workload
from launchers.process import Supervised

GRACE_SECONDS = 12.0  # to write the rows of requests in flight
BAD_ARGUMENTS, HANG = 2, 3  # exit codes of the acceptance locustfile; 0 and 1 are results


def locustfile(name: str) -> Path:
    spec = importlib.util.find_spec("locustfiles")
    if spec is None or not spec.submodule_search_locations:
        raise LoadError("the package locustfiles is not installed; install headtohead with its folders")
    return Path(spec.submodule_search_locations[0]) / f"{name}.py"


def arguments(
    workload: Workload,
    *,
    arm_dir: Path,
    run: str,
    arm: str,
    engine: str,
    mode: str,
    host: str,
    width: int,
    seed: int,
    first_repeat: int,
    repeats: int,
    time_scale: float,
    sends_done: bool,
    csv_prefix: str,
    workers: int,
) -> list[str]:
    """The command line that a person could also type."""
    args: dict[str, Any] = {
        "host": host,
        "csv": arm_dir / csv_prefix,
        "html": arm_dir / f"{csv_prefix}.html",
        "exit-code-on-error": 1,
        "out": arm_dir,
        "run": run,
        "arm": arm,
        "engine": engine,
        "mode": mode,
        "model": workload.model,
        "width": width,
        "repeats": repeats,
        "first-repeat": first_repeat,
        "seed": seed,
        "time-scale": time_scale,
        "deadline": workload.deadline_s,
        "payload": json.dumps(workload.payload) if workload.payload else "",
        "stream-options": json.dumps(workload.stream_options) if workload.stream_options else "",
        **(traffic_arguments(workload.traffic) if workload.traffic else acceptance_arguments(workload)),
    }
    argv = [
        sys.executable,
        "-m",
        "locust",
        "-f",
        str(locustfile("traffic" if workload.traffic else "acceptance")),
        "--headless",
        "--only-summary",
    ]
    for key, value in args.items():
        argv += [f"--{key}", str(value)]
    if not sends_done:
        argv.append("--without-done")
    if workers > 1:
        argv += ["--processes", str(workers)]
    return argv


def acceptance_arguments(workload: Workload) -> dict[str, Any]:
    return {
        "warmups": workload.warmups,
        "ladder": " ".join(map(str, workload.ladder)),
        "stream-count": workload.stream_count,
        "max-tokens": workload.max_tokens,
        "short-words": workload.short_words,
        "cases": " ".join(workload.cases),
        "interleave-delay": workload.interleave_delay_s,
        "context-lengths": " ".join(map(str, workload.context_lengths)),
        "context-max-tokens": workload.context_max_tokens,
    }


def traffic_arguments(traffic: Traffic) -> dict[str, Any]:
    return {
        "load": traffic.load,
        "levels": " ".join(f"{level:g}" for level in traffic.levels),
        "hold": traffic.hold_s,
        "ramp": traffic.ramp_s,
        "settle": traffic.settle_s,
        "mix": " ".join(f"{kind}={weight:g}" for kind, weight in traffic.mix.items()),
        "prompt-words": traffic.prompt_words,
        "output-tokens": traffic.output_tokens,
        "turns": traffic.turns,
        "system-words": traffic.system_words,
        "trace": traffic.trace or "",
        "trace-speed": traffic.trace_speed,
        "words-per-token": traffic.words_per_token,
    }


def start(argv: list[str], arm_dir: Path) -> Supervised:
    # Locust also takes its options from LOCUST_ variables; the plan alone decides here.
    env = {key: value for key, value in os.environ.items() if not key.startswith("LOCUST_")}
    return Supervised("locust", argv, arm_dir / "logs" / "locust.log", env=env, grace_s=GRACE_SECONDS)


def join_conducts(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """One account of all blocks: Locust writes a fresh one in each. The worst status stands."""
    joined: dict[str, Any] = {}
    for block in blocks:
        for key, value in block.items():
            if isinstance(value, int):
                joined[key] = joined.get(key, 0) + value
            elif isinstance(value, list):
                joined[key] = joined.get(key, []) + value
            elif key != "status" or joined.get("status") in (None, "complete"):
                joined[key] = value
    return joined


def progress(told: dict[str, Any]) -> tuple[str, float]:
    """How far Locust is by its own account, in words and as a share; users who ask again plan nothing."""
    finished, planned = int(told.get("finished", 0)), int(told.get("planned", 0))
    words = f"{finished} of {planned} requests" if planned else f"{finished} requests"
    return words, min(float(told.get("share", finished / planned if planned else 0.0)), 1.0)


def conduct(arm_dir: Path) -> dict[str, Any]:
    """What Locust says of its waves so far; empty before the first."""
    with contextlib.suppress(OSError, ValueError):
        told = json.loads((arm_dir / "conduct.json").read_text(encoding="utf-8"))
        if isinstance(told, dict):
            return told
    return {}
