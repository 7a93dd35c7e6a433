"""What the tests share: simulated engines as real processes, and a client that sees every byte."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
WITHIN_S = 20.0
LISTENING = re.compile(r"listening on http://\S+:(\d+)")


@dataclass
class Seen:
    """A response as it came. `body` is freed of chunked framing; `parts` are the reads it took."""

    status: int
    headers: dict[str, str]
    body: bytes
    raw: bytes
    parts: list[bytes]
    whole: bool

    @property
    def json(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.body)
        return data

    @property
    def data(self) -> list[str]:
        """What stands behind `data:`, event by event."""
        return [line[5:].removeprefix(" ") for line in self.body.decode().splitlines() if line[:5] == "data:"]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return [json.loads(data) for data in self.data if data.strip() != "[DONE]"]

    @property
    def text(self) -> str:
        """What a stream or a whole answer says."""
        if self.headers["content-type"].startswith("application/json"):
            return str(self.json["choices"][0]["message"]["content"])
        deltas = [choice["delta"] for chunk in self.chunks for choice in chunk["choices"]]
        return "".join(delta.get("content") or "" for delta in deltas)


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WITHIN_S)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> None:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "host: test", f"content-length: {len(data)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + data)

    def read(self, silence_s: float = WITHIN_S, until: Callable[[bytes], bool] | None = None) -> Seen:
        """One response, or what there is of it when the server closes or falls silent.

        `until`: stop early, once this is true of what came; the next call then reads the rest (status 0).
        """
        raw, parts, whole = b"", [], False
        self.socket.settimeout(silence_s)
        with suppress(TimeoutError, ConnectionError):
            while not whole and not (until and until(raw)):
                part = self.socket.recv(65536)
                if not part:
                    whole = b"content-length" not in raw and b"transfer-encoding" not in raw and bool(raw)
                    break
                parts.append(part)
                raw += part
                whole = _is_whole(raw)
        head, _, body = raw.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        if headers.get("transfer-encoding") == "chunked":
            body = _unchunked(body)
        status = int(lines[0].split()[1]) if raw.startswith(b"HTTP/") else 0
        return Seen(status, headers, body, raw, parts, whole)

    def get(self, path: str) -> Seen:
        self.send("GET", path)
        return self.read()

    def chat(
        self, content: str = "Say it.", *, id: str = "x", silence_s: float = WITHIN_S, **asked: Any
    ) -> Seen:
        self.send_chat(content, id=id, **asked)
        return self.read(silence_s)

    def send_chat(self, content: str = "Say it.", *, id: str = "x", **asked: Any) -> None:
        messages = [{"role": "user", "content": content}]
        body = {"messages": messages, "max_tokens": 8, **asked}
        self.send("POST", "/v1/chat/completions", body, x_request_id=id)


def _is_whole(raw: bytes) -> bool:
    head, end, body = raw.partition(b"\r\n\r\n")
    if not end:
        return False
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return length is not None and len(body) >= int(length[1])


def _unchunked(data: bytes) -> bytes:
    found = b""
    while data:
        size, _, rest = data.partition(b"\r\n")
        if not size:
            break
        found += rest[: int(size, 16)]
        data = rest[int(size, 16) + 2 :]
    return found


@dataclass
class Engine:
    """A simulated engine in its own process."""

    port: int
    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)

    def client(self) -> Client:
        return Client(self.port)

    def metric(self, name: str) -> float:
        return metric(self.port, name)


def metric(port: int, name: str) -> float:
    """The sum of a metric's samples on /metrics."""
    with Client(port) as client:
        page = client.get("/metrics").body.decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    values = [sample.value for sample in samples if sample.name == name]
    assert values, f"no {name} on /metrics"
    return sum(values)


@contextmanager
def serving(*options: str) -> Iterator[Engine]:
    """An engine that ends with the block."""
    command = [sys.executable, "-m", "launchers.simulator", "--port", "0", *options]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        log: list[str] = []
        for line in process.stderr:
            log.append(line)
            if found := LISTENING.search(line):
                break
        assert found, "".join(log)
        drain = threading.Thread(target=lambda: log.extend(process.stderr or []))
        drain.start()
        try:
            yield Engine(int(found[1]), process, log)
        finally:
            process.terminate()
            process.wait(WITHIN_S)
            drain.join()


def becomes(true: Callable[[], object]) -> bool:
    """Whether it becomes true; the time is only a bound for a test that fails."""
    end = time.monotonic() + WITHIN_S
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.01)
    return False


@contextmanager
def serving_many(wanted: dict[str, dict[str, Any]]) -> Iterator[dict[str, int]]:
    """The ports of engines of one process (see many.py) that ends with the block."""
    command = [sys.executable, "-m", "tests.simulator.many", json.dumps(wanted)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(WITHIN_S)
