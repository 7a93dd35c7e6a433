"""The files of one arm, written as the run goes on: whatever happens next, what was measured is on disk."""

import csv
import json
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from locustfiles.reading import Reading, StreamEvent
from locustfiles.settings import Settings
from locustfiles.waves import Call, Wave

Cell = str | int | float | None


@dataclass(slots=True)
class RequestRow:
    """One request, as requests.csv shows it, column by column. Empty is: not known.

    `_ns` are nanoseconds since the epoch, `_ms` milliseconds since `sent_ns`.
    """

    run: str = ""
    arm: str = ""
    engine: str = ""
    mode: str = ""
    case: str = ""
    repeat: int = 0
    count: int = 1
    wave: str = ""
    request: str = ""
    user: str = ""
    stream: int = 0
    prompt_words: int = 0
    max_tokens: int = 0
    payload_sha256: str = ""
    scheduled_ns: int | None = None
    sent_ns: int | None = None
    connect_ms: float | None = None
    first_event_ms: float | None = None
    ttft_ms: float | None = None
    last_token_ms: float | None = None
    latency_ms: float | None = None
    events: int | None = None
    text_events: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    token_source: str = ""
    finish_reason: str = ""
    http_status: int | None = None
    outcome: str = "unfinished"
    failure: str = ""
    detail: str = ""
    clock: str = ""
    role_chunk: int | None = None
    response_id: str = ""
    text_sha256: str = ""
    worker: str = ""


COLUMNS = [column.name for column in fields(RequestRow)]
EVENT_COLUMNS = ["request", "event", "at_ms", "kind", "tokens", "chars"]


def cells(row: RequestRow) -> list[Cell]:
    """The row's values in the order of `COLUMNS`."""
    return [getattr(row, name) for name in COLUMNS]


def planned_row(settings: Settings, wave: Wave, call: Call, worker: str) -> RequestRow:
    """The row of a request that has not been sent."""
    return RequestRow(
        run=settings.run,
        arm=settings.arm,
        engine=settings.engine,
        mode=settings.mode,
        case=wave.case,
        repeat=wave.repeat,
        count=wave.count,
        wave=wave.name,
        request=call.request,
        user=call.user,
        stream=int(call.stream),
        prompt_words=call.words,
        max_tokens=call.max_tokens,
        worker=worker,
    )


def fill_in(row: RequestRow, reading: Reading) -> None:
    """Put what came back into the row; outcome and failure are the caller's."""
    reply, usage = reading.reply, reading.usage
    row.sent_ns = reply.sent_ns
    row.connect_ms = reply.connect_ms
    row.latency_ms = (reply.end_ns - reply.sent_ns) / 1e6
    row.http_status = reply.status
    row.clock = reply.clock
    row.finish_reason = reading.finish_reasons[0] if reading.finish_reasons else ""
    row.response_id = reading.ids[0] if reading.ids else ""
    row.text_sha256 = sha256(reading.text.encode()).hexdigest() if reading.text else ""
    if reading.streamed:
        data, texts = reading.data_events, reading.text_events
        row.events, row.text_events = len(data), len(texts)
        row.role_chunk = int(reading.lone_role)
        row.first_event_ms = data[0].at_ms if data else None
        row.ttft_ms = texts[0].at_ms if texts else None
        row.last_token_ms = texts[-1].at_ms if texts else None
        row.completion_tokens, row.token_source = len(texts), "events"
    if row.finish_reason == "length" and reply.end == "complete":  # only a full budget ends so
        row.completion_tokens, row.token_source = row.max_tokens, "budget"
    if usage is not None and usage.completion is not None:
        row.completion_tokens, row.token_source = usage.completion, "usage"
    if usage is not None:
        row.prompt_tokens, row.cached_tokens = usage.prompt, usage.cached


@dataclass(slots=True)
class Record:
    """What one finished request leaves behind: its row, the events of its stream, its text."""

    row: RequestRow
    events: list[StreamEvent]
    text: str

    def take(self, reading: Reading) -> None:
        """What the reading says, in all three."""
        fill_in(self.row, reading)
        self.events, self.text = reading.events, reading.text

    def packed(self) -> list[Any]:
        """As plain lists, to travel from a worker to the master."""
        return [cells(self.row), [list(event) for event in self.events], self.text]

    @classmethod
    def unpacked(cls, packed: list[Any]) -> "Record":
        values, events, text = packed
        return cls(RequestRow(*values), [StreamEvent(*event) for event in events], text)


class ArmFiles:
    """requests.csv, events.csv, texts.jsonl and conduct.json of one arm; appends to what is there."""

    def __init__(self, folder: Path) -> None:
        """OSError when the folder cannot be made or written."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._requests = _appending(folder / "requests.csv", COLUMNS)
        self._events = _appending(folder / "events.csv", EVENT_COLUMNS)
        self._texts = (folder / "texts.jsonl").open("a", encoding="utf-8")

    def write(self, record: Record) -> None:
        """Append and flush one request."""
        row = record.row
        requests = csv.writer(self._requests, lineterminator="\n")
        requests.writerow([_cell(value) for value in cells(row)])
        events = csv.writer(self._events, lineterminator="\n")
        for index, event in enumerate(record.events):
            tokens = "" if event.tokens is None else event.tokens
            events.writerow([row.request, index, _cell(event.at_ms), event.kind, tokens, event.chars])
        if record.text:
            self._texts.write(json.dumps({"request": row.request, "text": record.text}) + "\n")
        for file in (self._requests, self._events, self._texts):
            file.flush()

    def conduct(self, state: dict[str, Any]) -> None:
        """Replace conduct.json in one step."""
        self._replace("conduct.json", state)

    def clock(self, offsets_ms: dict[str, float]) -> None:
        """Replace clock.json: each worker's clock minus the master's."""
        self._replace("clock.json", {"offsets_ms": offsets_ms})

    def _replace(self, name: str, value: dict[str, Any]) -> None:
        fresh = self.folder / f"{name}.tmp"
        fresh.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self.folder / name)

    def close(self) -> None:
        for file in (self._requests, self._events, self._texts):
            file.close()


def _appending(path: Path, columns: list[str]) -> IO[str]:
    file = path.open("a", newline="", encoding="utf-8")
    if file.tell() == 0:
        csv.writer(file, lineterminator="\n").writerow(columns)
        file.flush()
    return file


def _cell(value: Cell) -> str | int:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else value
