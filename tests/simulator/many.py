"""Many simulated engines in one process, each on a port of its own, so that seventy cost what one does.

    python -m tests.simulator.many '{"name": {"faults": ["reset"]}, ...}'

Prints {"name": port, ...} on one line and serves until stdin is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from launchers.simulator import catalogue, profile
from launchers.simulator.catalogue import DIALECTS, FAULTS
from launchers.simulator.server import Simulator


def engine(
    mode: str = "batch", changes: list[str] | None = None, fault: str = "", dialect: str = ""
) -> Simulator:
    twists = catalogue.twists([fault] if fault else [], FAULTS)
    twists += catalogue.twists([dialect] if dialect else [], DIALECTS)
    costs = profile.load("tiny", mode, changes or [])
    return Simulator(catalogue.twisted(costs, twists), "m", twists=twists)


async def serve(wanted: dict[str, dict[str, Any]]) -> None:
    ports, running = {}, []
    for name, options in wanted.items():
        simulator = engine(**options)
        server = await simulator.listen("127.0.0.1", 0)
        ports[name] = server.sockets[0].getsockname()[1]
        running.append(asyncio.create_task(simulator.engine.run()))
    print(json.dumps(ports), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in running:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
