"""The simulated engine as the server of a benchmark, on a core of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path

import requests

READY_S = 30


@contextmanager
def on_cores(cores: Set[int]) -> Iterator[None]:
    """Processes started inside run on these cores only, if the machine has more than one."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores & before or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def client_core() -> set[int]:
    return {min(os.sched_getaffinity(0))}


def server_cores() -> set[int]:
    return os.sched_getaffinity(0) - client_core()


@contextmanager
def paced_server(truth: Path, *options: str) -> Iterator[str]:
    """The base URL of a simulated engine with the profile `paced`; its truth files go to `truth`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "launchers.simulator", "--profile", "paced", "--mode", "batch"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--truth", str(truth), *options]
    with on_cores(server_cores()):
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the engine does not outlive us
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(server, url)
        yield url
    finally:
        server.terminate()
        server.wait()


def wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit(f"the simulated engine ended with {server.returncode} before it was ready")
        try:
            if requests.get(f"{url}/health", timeout=1).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.05)
    raise SystemExit(f"the simulated engine was not ready within {READY_S} s")


def served_model(url: str) -> str:
    return str(requests.get(f"{url}/v1/models", timeout=10).json()["data"][0]["id"])
