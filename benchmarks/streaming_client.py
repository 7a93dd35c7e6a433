"""One load process of the benchmarks: N simultaneous streams, the arrival of each event, the CPU they took.

Clients: `kernel` and `user` are this project's transport with either clock; `plain` is what one writes first:
requests with sseclient-py in greenlets, each event stamped when it comes out of the iterator.
"""

import sys

if "plain" in sys.argv:  # what `import locust` does, before anything else is imported
    from gevent import monkey

    monkey.patch_all()

import argparse
import gc
import http.client
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gevent
import requests
import sseclient

from locustfiles.transport import Clock, Connection, Exchange, Target, fire, sse


@dataclass(frozen=True)
class Collected:
    """Times in ns since the epoch. `started_ns`: what the client takes for the start of its request.

    `left_ns`: when the first byte really went to the socket. `events`: the stamp and the data of each.
    """

    request: str
    started_ns: int
    left_ns: int
    events: list[tuple[int, str]]


def request_body(model: str, tokens: int) -> bytes:
    message = {"role": "user", "content": "Tell me how a clock keeps time."}
    body = {"model": model, "messages": [message], "max_tokens": tokens, "stream": True, "temperature": 0}
    return json.dumps({**body, "ignore_eos": True}).encode()


def headers(request: str) -> dict[str, str]:
    return {"x-request-id": request, "content-type": "application/json", "accept-encoding": "identity"}


def collect(url: str, clock: Clock, body: bytes, ids: list[str]) -> list[Collected]:
    target = Target.parse(url)
    exchanges: list[Exchange] = []
    for request in ids:
        connection = Connection(target, clock=clock)
        exchanges.append(connection.prepare("POST", "/v1/chat/completions", headers(request), body))
    fire(exchanges)
    waiting = [gevent.spawn(exchange.wait, 60) for exchange in exchanges]
    collected = []
    for request, greenlet in zip(ids, waiting, strict=True):
        reply = greenlet.get()
        if reply.end != "complete" or reply.status != 200:
            raise SystemExit(f"{request}: {reply.end}, status {reply.status}: {reply.error}")
        events = [(event.at_ns, event.data) for event in sse.decode(reply).events]
        collected.append(Collected(request, reply.sent_ns, reply.sent_ns, events))
    return collected


def collect_plainly(url: str, body: bytes, ids: list[str]) -> list[Collected]:
    left_ns: dict[str, int] = {}
    send = http.client.HTTPConnection.send

    def noting_send(self: http.client.HTTPConnection, data: Any) -> None:
        left_ns.setdefault(gevent.getcurrent().request, time.time_ns())
        send(self, data)

    http.client.HTTPConnection.send = noting_send  # type: ignore[method-assign] # the truth, not the client

    def stream(request: str) -> Collected:
        gevent.getcurrent().request = request
        started_ns = time.time_ns()
        with requests.Session() as session:
            response = session.post(
                f"{url}/v1/chat/completions", data=body, headers=headers(request), stream=True
            )
            response.raise_for_status()
            events = sseclient.SSEClient(iter(response)).events()
            stamped = [(time.time_ns(), event.data) for event in events]
        return Collected(request, started_ns, left_ns[request], stamped)

    waiting = [gevent.spawn(stream, request) for request in ids]
    return [greenlet.get() for greenlet in waiting]


def carries_text(data: str) -> bool:
    if data == "[DONE]":
        return False
    return any(choice["delta"].get("content") for choice in json.loads(data)["choices"])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("client", choices=["kernel", "user", "plain"])
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--model", required=True)
    arguments.add_argument("--streams", type=int, required=True)
    arguments.add_argument("--tokens", type=int, required=True)
    arguments.add_argument("--label", required=True, help="leads every x-request-id")
    arguments.add_argument("--out", type=Path, required=True, help="CSV of the arrivals")
    options = arguments.parse_args()

    body = request_body(options.model, options.tokens)
    ids = [f"{options.label}-{index}" for index in range(options.streams)]
    gc.collect()
    gc.freeze()
    started_s, cpu_s = time.monotonic(), time.process_time()
    if options.client == "plain":
        collected = collect_plainly(options.url, body, ids)
    else:
        collected = collect(options.url, options.client, body, ids)
    cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - started_s

    with options.out.open("w") as out:
        out.write("request,started_ns,left_ns,event,at_ns,text\n")
        for one in collected:
            for event, (at_ns, data) in enumerate(one.events):
                times = f"{one.started_ns},{one.left_ns},{event},{at_ns}"
                out.write(f"{one.request},{times},{carries_text(data)}\n")
    print(json.dumps({"cpu_s": cpu_s, "wall_s": wall_s}))


if __name__ == "__main__":
    main()
