"""How much the analysis can take: a million rows and 50 million events, read and tabulated.

    python benchmarks/scale.py [--rows 1000000] [--events-per-row 50] [--folder DIR] [--csv]

Makes such a run (not counted), then reads it and builds every table in a process of its own, and prints
the seconds and the largest memory of that process. Exit 1 if it took over 30 s or 4 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from analysis import load, tables
from analysis.reading import pack
from analysis.schema import EVENT_TYPES, REQUEST_TYPES

SECONDS_LIMIT, GIB_LIMIT = 30.0, 4.0
PIECE = 50_000
"""Requests that are made and written at a time."""


def main() -> int:
    options = arguments()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        run_dir = Path(options.folder or scratch) / "large"
        arm_dir = run_dir / "traffic"
        began = time.monotonic()
        make(arm_dir, options.rows, options.events_per_row)
        sizes = {path.name: path.stat().st_size / 2**20 for path in sorted(arm_dir.glob("*.csv"))}
        print(f"made in {time.monotonic() - began:.0f} s: {sizes_line(sizes)}", flush=True)
        if not options.csv:
            began = time.monotonic()
            pack(arm_dir, "requests.csv", REQUEST_TYPES)
            pack(arm_dir, "events.csv", EVENT_TYPES)
            sizes = {path.name: path.stat().st_size / 2**20 for path in sorted(arm_dir.glob("*.parquet"))}
            print(f"packed in {time.monotonic() - began:.0f} s: {sizes_line(sizes)}", flush=True)
        command = [sys.executable, __file__, "--measure", str(run_dir)]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(
        f"{options.rows:,} rows, {options.rows * options.events_per_row:,} events, {found['tables']} tables"
    )
    print(f"read and tabulated in {found['seconds']:.1f} s (limit {SECONDS_LIMIT:g} s)")
    print(f"largest memory {found['gib']:.2f} GiB (limit {GIB_LIMIT:g} GiB)")
    return int(found["seconds"] > SECONDS_LIMIT or found["gib"] > GIB_LIMIT)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="requests")
    parser.add_argument("--events-per-row", type=int, default=50, help="events of each stream")
    parser.add_argument("--folder", help="keep the run in this folder")
    parser.add_argument("--csv", action="store_true", help="read the CSV files themselves, not parquet")
    parser.add_argument("--measure", metavar="RUN", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(run_dir: Path) -> dict[str, float]:
    began = time.monotonic()
    built = tables(load(run_dir))
    seconds = time.monotonic() - began
    return {
        "seconds": seconds,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "tables": len(built),
    }


def sizes_line(sizes: dict[str, float]) -> str:
    return ", ".join(f"{name} {size:,.0f} MiB" for name, size in sizes.items())


def make(arm_dir: Path, rows: int, events: int) -> None:
    """One arm of open-loop traffic: streams of `events` events, 20 ms apart with noise."""
    arm_dir.mkdir(parents=True)
    (arm_dir / "record.json").write_text(json.dumps({"arm": "traffic", "engine": "made", "mode": "batch"}))
    random = np.random.default_rng(1)
    requests_file, events_file = arm_dir / "requests.csv", arm_dir / "events.csv"
    with requests_file.open("wb") as requests_out, events_file.open("wb") as events_out:
        for first in range(0, rows, PIECE):
            numbers = np.arange(first, min(first + PIECE, rows))
            gaps = random.gamma(4.0, 5.0, (len(numbers), events))
            at_ms = np.cumsum(gaps, axis=1).round(3)
            header = pacsv.WriteOptions(include_header=first == 0)
            pacsv.write_csv(request_rows(numbers, at_ms), requests_out, header)
            pacsv.write_csv(event_rows(numbers, at_ms), events_out, header)


def request_rows(numbers: np.ndarray, at_ms: np.ndarray) -> pa.Table:
    size = len(numbers)
    sent = 1_700_000_000_000_000_000 + numbers * 1_000_000
    names = pa.array([f"traffic-{number}" for number in numbers])
    digests = pa.array([f"{number:064x}" for number in numbers])
    values: dict[str, object] = {
        "run": "large", "arm": "traffic", "engine": "made", "mode": "batch", "case": "traffic", "repeat": 1,
        "count": 0, "wave": "traffic", "request": names, "user": "StreamingChatUser", "stream": 1,
        "prompt_words": 128, "max_tokens": at_ms.shape[1], "payload_sha256": digests, "scheduled_ns": sent,
        "sent_ns": sent, "first_event_ms": at_ms[:, 0], "ttft_ms": at_ms[:, 1], "last_token_ms": at_ms[:, -1],
        "latency_ms": at_ms[:, -1] + 0.1, "events": at_ms.shape[1], "text_events": at_ms.shape[1] - 1,
        "prompt_tokens": 140, "completion_tokens": at_ms.shape[1] - 1, "cached_tokens": 0,
        "token_source": "usage", "finish_reason": "length", "http_status": 200, "outcome": "ok",
        "clock": "kernel", "response_id": names, "text_sha256": digests,
    }  # fmt: skip
    columns = {column: values.get(column, "") for column in REQUEST_TYPES}
    return pa.table(
        {
            column: pa.array([value] * size) if isinstance(value, str | int) else value
            for column, value in columns.items()
        }
    )


def event_rows(numbers: np.ndarray, at_ms: np.ndarray) -> pa.Table:
    size, events = at_ms.shape
    kinds = np.array(["role"] + ["text"] * (events - 1))
    names = np.array([f"traffic-{number}" for number in numbers])
    return pa.table(
        {
            "request": np.repeat(names, events),
            "event": np.tile(np.arange(events, dtype=np.int32), size),
            "at_ms": at_ms.ravel(),
            "kind": np.tile(kinds, size),
            "tokens": pa.nulls(size * events, pa.string()),
            "chars": np.full(size * events, 4, dtype=np.int8),
        }
    )


if __name__ == "__main__":
    sys.exit(main())
