"""How much one load process can do: requests and events per second, on one core and with two processes.

The simulated engine runs a thousand times faster than its profile, so that it rarely makes anybody wait. "Per
core" divides by the CPU time of the load processes: where the server (or its core, shared with the second
process) is the limit, that figure still is the load generator's own.

    python benchmarks/throughput.py
"""

import argparse
import gc
import json
import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import gevent
from rich.console import Console
from rich.table import Table
from serving import paced_server, served_model

from locustfiles.transport import Connection, Target, sse


@dataclass(frozen=True)
class Work:
    """What one load process got done."""

    requests: int
    events: int
    cpu_s: float
    wall_s: float


def load(url: str, body: bytes, connections: int, seconds: float) -> Work:
    """Closed loop: each connection sends its next request when the last one is answered."""
    target = Target.parse(url)
    requests = events = 0
    gc.collect()
    gc.freeze()
    started_s, cpu_s = time.monotonic(), time.process_time()

    def user() -> None:
        nonlocal requests, events
        connection = Connection(target)
        while time.monotonic() < started_s + seconds:
            exchange = connection.prepare(
                "POST", "/v1/chat/completions", {"content-type": "application/json"}, body
            )
            exchange.send()
            reply = exchange.wait(60)
            if reply.end != "complete" or reply.status != 200:
                raise RuntimeError(f"{reply.end}, status {reply.status}: {reply.error}")
            requests += 1
            if reply.headers["content-type"].startswith("text/event-stream"):
                events += len(sse.decode(reply).events)

    gevent.joinall([gevent.spawn(user) for _ in range(connections)], raise_error=True)
    return Work(requests, events, time.process_time() - cpu_s, time.monotonic() - started_s)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--connections", type=int, default=32, help="per process")
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("--url", help="a running server, instead of the simulated engine")
    options = arguments.parse_args()

    with tempfile.TemporaryDirectory() as truth:
        if options.url:
            figures = measure(options.url, options.connections, options.seconds)
        else:
            with paced_server(Path(truth), "--width", "1024", "--time-scale", "1000") as url:
                figures = measure(url, options.connections, options.seconds)
    table = Table(title=f"{options.connections} connections per process, closed loop")
    table.add_column("what", no_wrap=True)
    for heading in ("processes", "requests/s", "requests/s per core", "events/s", "events/s per core"):
        table.add_column(heading, justify="right")
    for row in figures:
        table.add_row(*row)
    Console(width=110).print(table)


def measure(url: str, connections: int, seconds: float) -> list[tuple[str, ...]]:
    body = {"model": served_model(url), "messages": [{"role": "user", "content": "Count."}], "temperature": 0}
    kinds = {
        "responses of 1 token": json.dumps({**body, "max_tokens": 1, "stream": False}).encode(),
        "streams of 256 tokens": json.dumps(
            {**body, "max_tokens": 256, "stream": True, "ignore_eos": True}
        ).encode(),
    }
    rows = []
    for name, request in kinds.items():
        for processes in (1, 2):
            with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
                tasks = [pool.submit(load, url, request, connections, seconds) for _ in range(processes)]
                done = [task.result() for task in tasks]
            wall_s, cpu_s = max(work.wall_s for work in done), sum(work.cpu_s for work in done)
            requests, events = sum(work.requests for work in done), sum(work.events for work in done)
            rates = (requests / wall_s, requests / cpu_s, events / wall_s, events / cpu_s)
            rows.append((name, str(processes), *(f"{rate:,.0f}" if rate else "-" for rate in rates)))
    return rows


if __name__ == "__main__":
    main()
