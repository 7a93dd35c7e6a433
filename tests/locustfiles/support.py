"""What these tests share: the scripted server and Locust as real processes, and the files of a run."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
WITHIN_S = 60


@contextmanager
def scripted_server(*arguments: str) -> Iterator[str]:
    """The base URL of a server that ends with the block."""
    command = [sys.executable, "-m", "tests.locustfiles.scripted_server", *arguments]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.stdin.close()
        process.wait(WITHIN_S)
        process.stdout.close()


def running(server: str) -> int:
    """How many requests the scripted server is working on."""
    with urllib.request.urlopen(f"{server}/metrics", timeout=WITHIN_S) as page:
        return int(page.readline().split()[1])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Run:
    """One Locust run, headless unless told otherwise, with its files below `folder`."""

    def __init__(
        self,
        folder: Path,
        host: str,
        *arguments: str,
        workers: int = 0,
        file: str = "acceptance",
        web_port: int = 0,
    ) -> None:
        self.arm = folder / "arm"
        self.log = folder / "locust.log"
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "locust", "-f", f"locustfiles/{file}.py"]
        command += ["--host", host, "--out", str(self.arm), "--csv", str(folder / "locust"), *arguments]
        command += ["--web-host", "127.0.0.1", "--web-port", str(web_port)] if web_port else ["--headless"]
        if workers:
            port = str(free_port())
            command += ["--processes", str(workers), "--master-bind-port", port, "--master-port", port]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(WITHIN_S)

    def until(self, true: Callable[[Run], object]) -> None:
        """Wait until something is true of the run."""
        give_up = time.monotonic() + WITHIN_S
        while not true(self):
            assert self.process.poll() is None, self.output
            assert time.monotonic() < give_up, self.output
            time.sleep(0.02)

    @property
    def output(self) -> str:
        return self.log.read_text()

    @property
    def rows(self) -> list[dict[str, str]]:
        return read_csv(self.arm / "requests.csv")

    @property
    def conduct(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.arm / "conduct.json").read_text())
        return value

    @property
    def locust_total(self) -> tuple[int, int]:
        """Requests and failures, as Locust's own statistics have them."""
        total = read_csv(self.arm.parent / "locust_stats.csv")[-1]
        return int(total["Request Count"]), int(total["Failure Count"])


def read_csv(path: Path) -> list[dict[str, str]]:
    """Whole lines only: the file may still be growing."""
    if not path.exists():
        return []
    text = path.read_text()
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def outcomes(rows: list[dict[str, str]]) -> set[tuple[str, str]]:
    return {(row["outcome"], row["failure"]) for row in rows}
