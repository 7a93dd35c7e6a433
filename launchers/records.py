"""The JSON files of a run, written whole or not at all, and what they say about this machine."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

GIB = 1024**3


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Atomically, so that a reader or a kill in between finds the old file or the new one."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def version() -> str:
    return importlib.metadata.version("headtohead")


def commit() -> str | None:
    """The git commit of the current folder, None where there is none."""
    try:
        asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() or None if asked.returncode == 0 else None


def host() -> dict[str, Any]:
    """What a comparison has to know of the machine; nothing that names it."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def payload_digest(requests_csv: Path) -> str | None:
    """One digest over the bodies of all recorded requests, in the order of their names; None without rows.

    Arms that sent the same bytes get the same digest, whatever order the requests ended in.
    """
    try:
        with requests_csv.open(newline="", encoding="utf-8") as file:
            digests = sorted(
                (row["request"], row["payload_sha256"] or "")
                for row in csv.DictReader(file)
                if row.get("payload_sha256") and row["repeat"] not in ("", "0")
            )
    except (OSError, KeyError):
        return None
    if not digests:
        return None
    return hashlib.sha256("\n".join(f"{name} {digest}" for name, digest in digests).encode()).hexdigest()


def compress(path: Path) -> None:
    """Replace a file by its gzip; nothing happens where there is no such file."""
    if not path.exists():
        return
    packed = path.with_name(path.name + ".gz")
    with path.open("rb") as plain, gzip.open(packed, "wb", compresslevel=5) as target:
        shutil.copyfileobj(plain, target)
    path.unlink()
