"""Makes the files of a run without an engine: a miniature scheduler decides the times, a seed the noise."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.schema import REQUEST_TYPES

EPOCH_NS = 1_700_000_000_000_000_000
EVENT_COLUMNS = ["request", "event", "at_ms", "kind", "tokens", "chars"]


@dataclass
class Engine:
    """Iteration costs in seconds: each iteration gives every running request a token."""

    width: int = 8
    iteration_s: float = 0.02
    per_request_s: float = 0.002
    per_prompt_word_s: float = 0.0008
    speed: float = 1.0
    """Everything takes this many times as long."""


@dataclass
class Asked:
    """One request of a wave: when it is sent (seconds into the wave) and what it is."""

    words: int = 128
    at_s: float = 0.0
    stream: bool = False
    leaves_after: int | None = None


def serve(engine: Engine, asked: list[Asked], tokens: int) -> list[list[float]]:
    """Token times of each request, seconds into the wave, under continuous batching with FIFO admission."""
    now, waiting = 0.0, list(range(len(asked)))
    running: list[int] = []
    times: list[list[float]] = [[] for _ in asked]
    while waiting or running:
        cost = 0.0
        while waiting and len(running) < engine.width and asked[waiting[0]].at_s <= now:
            number = waiting.pop(0)
            running.append(number)
            cost += asked[number].words * engine.per_prompt_word_s
        if not running:
            now = asked[waiting[0]].at_s
            continue
        now += (cost + engine.iteration_s + engine.per_request_s * len(running)) * engine.speed
        for number in running:
            times[number].append(now)
        running = [
            number for number in running if len(times[number]) < (asked[number].leaves_after or tokens)
        ]
    return times


@dataclass
class MadeArm:
    """One arm under construction; `wave` adds rows, `write` puts the folder down."""

    name: str
    engine_name: str
    mode: str
    engine: Engine
    noise: float = 0.01
    seed: int = 0
    tokens: int = 32
    time_scale: float = 1.0
    record: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    events: list[list[Any]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    truth: list[dict[str, Any]] = field(default_factory=list)
    truth_events: list[list[Any]] = field(default_factory=list)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.name}/{self.seed}")

    def wave(self, name: str, case: str, count: int, repeat: int, asked: list[Asked]) -> None:
        factor = self.random.lognormvariate(0, self.noise)
        served = serve(self.engine, asked, self.tokens)
        for index, (one, times) in enumerate(zip(asked, served, strict=True)):
            since = [(at - one.at_s) * factor * 1000 / self.time_scale for at in times]
            self._row(f"{name}-{index}", name, case, count, repeat, one, since)
        self.now_s += max(times[-1] for times in served) * factor / self.time_scale + 0.05

    def _row(
        self, request: str, wave: str, case: str, count: int, repeat: int, one: Asked, since: list[float]
    ) -> None:
        sent_ns = EPOCH_NS + int((self.now_s + one.at_s / self.time_scale) * 1e9)
        left = one.leaves_after is not None
        row: dict[str, Any] = dict.fromkeys(REQUEST_TYPES, "")
        row |= {
            "run": "made", "arm": self.name, "engine": self.engine_name, "mode": self.mode, "case": case,
            "repeat": repeat, "count": count, "wave": wave, "request": request, "stream": int(one.stream),
            "user": "StreamingChatUser" if one.stream else "ChatUser", "prompt_words": one.words,
            "max_tokens": self.tokens, "payload_sha256": f"sha-{request}", "scheduled_ns": sent_ns,
            "sent_ns": sent_ns, "latency_ms": f"{since[-1]:.3f}", "prompt_tokens": one.words + 11,
            "completion_tokens": len(since), "cached_tokens": 0, "token_source": "usage",
            "finish_reason": "length", "http_status": 200,
            "outcome": "disconnected" if left else "ok", "clock": "kernel", "response_id": f"id-{request}",
            "text_sha256": f"text-{request}",
        }  # fmt: skip
        if one.stream:
            row |= {
                "first_event_ms": f"{since[0] * 0.5:.3f}", "ttft_ms": f"{since[0]:.3f}",
                "last_token_ms": f"{since[-1]:.3f}", "events": len(since) + 1, "text_events": len(since),
            }  # fmt: skip
            self.events.append([request, 0, f"{since[0] * 0.5:.3f}", "role", "", 0])
            self.events += [[request, n + 1, f"{at:.3f}", "text", "", 4] for n, at in enumerate(since)]
        self.texts[request] = f"reply to {request} word by word"
        self.rows.append(row)
        at_ns = [sent_ns + int(at * 1e6) for at in since]
        self.truth.append(
            {"request": request, "arrived_ns": sent_ns, "first_write_ns": at_ns[0],
             "first_token_ns": at_ns[0], "last_token_ns": at_ns[-1], "end_ns": at_ns[-1],
             "tokens": len(since), "width_max": self.engine.width, "outcome": "ok"}
        )  # fmt: skip

    def acceptance(self, ladder: tuple[int, ...] = (2, 4, 8), repeats: int = 3, first: int = 1) -> None:
        """Warm-up, single, ladder, interleave, streams, disconnect and recovery, `repeats` times."""
        for count in (1, *ladder):
            self.wave(
                f"warm{first}-{count}", "single" if count == 1 else "ladder", count, 0, [Asked()] * count
            )
        for repeat in range(first, first + repeats):
            tail = f"r{repeat}"
            self.wave(f"single-{tail}", "single", 1, repeat, [Asked()])
            for count in ladder:
                self.wave(f"ladder-{count}-{tail}", "ladder", count, repeat, [Asked()] * count)
            self.wave(f"interleave-alone-{tail}", "interleave", 1, repeat, [Asked(32)])
            both = [Asked(1600, stream=True), Asked(32, 0.5)]
            self.wave(f"interleave-{tail}", "interleave", 2, repeat, both)
            self.wave(f"streams-2-{tail}", "streams", 2, repeat, [Asked(64, stream=True)] * 2)
            self.wave(
                f"disconnect-{tail}", "disconnect", 1, repeat, [Asked(512, stream=True, leaves_after=2)]
            )
            self.wave(f"recover-{tail}", "recover", 1, repeat, [Asked(32)])

    def write(self, run_dir: Path) -> Path:
        folder = run_dir / self.name
        folder.mkdir(parents=True, exist_ok=True)
        record = {
            "arm": self.name, "engine": self.engine_name, "mode": self.mode, "status": "pass",
            "requested_width": self.engine.width, "effective_width": self.engine.width,
            "time_scale": self.time_scale, "harness": "0.1.0",
        } | self.record  # fmt: skip
        (folder / "record.json").write_text(json.dumps(record))
        with (folder / "requests.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(REQUEST_TYPES), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        _plain(folder / "events.csv", EVENT_COLUMNS, self.events)
        lines = (json.dumps({"request": request, "text": text}) for request, text in self.texts.items())
        (folder / "texts.jsonl").write_text("".join(f"{line}\n" for line in lines))
        sent = len(self.rows)
        conduct = {
            "planned": sent,
            "sent": sent,
            "finished": sent,
            "unfinished": 0,
            "lost": 0,
            "status": "complete",
        }
        (folder / "conduct.json").write_text(json.dumps(conduct | {"waves": [], "reclaims": []}))
        return folder


def _plain(path: Path, columns: list[str], rows: list[list[Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def make_run(
    folder: Path, engines: dict[str, Engine], repeats: int = 3, noise: float = 0.01, seed: int = 0, **arm: Any
) -> Path:
    """A run of every engine in batch mode and in serial mode (width 1), in `folder`."""
    names = []
    for name, engine in engines.items():
        for mode in ("batch", "serial"):
            costs = engine if mode == "batch" else Engine(**{**vars(engine), "width": 1})
            made = MadeArm(f"{name}-{mode}", name, mode, costs, noise, seed, now_s=1000.0 * len(names), **arm)
            made.acceptance(repeats=repeats)
            made.write(folder)
            names.append(made.name)
    (folder / "run.json").write_text(json.dumps({"headtohead": "0.1.0", "status": "pass", "arms": names}))
    return folder


def rewrite(path: Path, **changes: object) -> None:
    """Change cells of every row of a CSV file."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | changes for row in rows)
