"""Copies what is worth keeping of a run: `python docs/publish_run.py RUN docs/results/NAME`.

Kept: run.json, the records, rows, events, texts, samples, the engines' logs, and a report made anew from
the copy. Left out: Locust's page, tables as CSV. Paths of this machine and the kernel's build name are
masked.
"""

from __future__ import annotations

import gzip
import re
import shutil
import sys
from pathlib import Path

import analysis

PLAIN = ("record.json", "conduct.json", "clock.json", "locust_stats.csv", "locust_failures.csv")
PACKED = ("requests.csv", "telemetry.csv", "client.csv", "truth.csv", "truth_events.csv", "texts.jsonl",
          "logs/engine*.log")  # fmt: skip
LOG_BYTES = 200_000
KERNEL = re.compile(rb"(Linux \d+\.\d+)[\w.+-]*")


def publish(run: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    (target / "run.json").write_bytes(masked((run / "run.json").read_bytes(), run))
    for record in sorted(run.glob("*/record.json")):
        copy_arm(record.parent, target / record.parent.name)
    for made in analysis.report([target]):
        if Path(made).suffix != ".md":
            Path(made).unlink()
    shutil.rmtree(target / "tables")


def copy_arm(arm: Path, target: Path) -> None:
    target.mkdir()
    for name in PLAIN:
        if (arm / name).exists():
            (target / name).write_bytes(masked((arm / name).read_bytes(), arm.parent))
    for pattern in PACKED:
        for path in arm.glob(pattern):
            content = masked(path.read_bytes(), arm.parent)
            content = content[:LOG_BYTES] if path.suffix == ".log" else content
            (target / f"{path.name}.gz").write_bytes(gzip.compress(content, mtime=0))
    for path in arm.glob("events.csv.gz"):
        shutil.copy(path, target)


def masked(content: bytes, run: Path) -> bytes:
    """Without the folders of the run and of the work, the home folder, and the kernel's build name."""
    for folder, shown in ((run.resolve(), "results/run"), (Path.cwd(), "."), (Path.home(), "~")):
        content = content.replace(str(folder).encode(), shown.encode())
    return KERNEL.sub(rb"\1", content)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not (Path(sys.argv[1]) / "run.json").exists():
        sys.exit("usage: python docs/publish_run.py RUN TARGET, with RUN the folder of a run")
    publish(Path(sys.argv[1]), Path(sys.argv[2]))
