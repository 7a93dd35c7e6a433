"""A stand-in for a Python that has SGLang: `-m sglang.launch_server` with flags of release 0.5.23.

FLAGS is what that release's argument parser knows of what we may pass, by kind; its other flags are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from launchers.simulator import profile, wire
from launchers.simulator.server import Connection, Simulator

STALE_METRICS = b"""# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m"} 1.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="m"} 0.0
"""
FLAGS: dict[str, Any] = {
    "--model-path": str,
    "--served-model-name": str,
    "--host": str,
    "--port": int,
    "--tp-size": int,
    "--max-running-requests": int,
    "--context-length": int,
    "--chunked-prefill-size": int,
    "--mem-fraction-static": float,
    "--dtype": ["auto", "half", "float16", "bfloat16", "float", "float32"],
    "--load-format": str,
    "--disable-radix-cache": bool,
    "--trust-remote-code": bool,
    "--enable-metrics": bool,
    "--enable-cache-report": bool,
}


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(allow_abbrev=False)
    for flag, kind in FLAGS.items():
        if kind is bool:
            found.add_argument(flag, action="store_true")
        elif isinstance(kind, list):
            found.add_argument(flag, choices=kind)
        else:
            found.add_argument(flag, type=kind)
    return found


async def serve(asked: argparse.Namespace) -> None:
    class Answering(Connection):
        def _small_answer(self, method: str, path: str) -> bytes:
            if (method, path) == ("GET", "/metrics"):  # as it was at the last of every 40 decode steps
                return wire.response(200, STALE_METRICS, "text/plain; version=0.0.4; charset=utf-8")
            if (method, path) == ("GET", "/v1/loads"):
                scheduler = simulator.engine.scheduler
                running, waiting = len(scheduler.running), len(scheduler.waiting)
                load = {"dp_rank": 0, "num_running_reqs": running, "num_waiting_reqs": waiting}
                return wire.response(200, {"version": "0.5.23", "loads": [load]})
            if (method, path) != ("GET", "/server_info"):
                return super()._small_answer(method, path)
            # The width is what the memory allows: half of what is asked for, on this imagined GPU.
            state = {"effective_max_running_requests_per_dp": (asked.max_running_requests + 1) // 2}
            return wire.response(200, {**vars(asked), "version": "0.5.23", "internal_states": [state]})

    changes = [f"width={asked.max_running_requests}", f"max_context={asked.context_length}"]
    simulator = Simulator(profile.load("tiny", "batch", changes), asked.served_model_name)
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Answering(simulator), asked.host, asked.port)
    await simulator.engine.run()


def main() -> None:
    if sys.argv[1] == "-c":
        print("sglang 0.5.23")  # the answer to what is installed
        return
    assert sys.argv[1:3] == ["-m", "sglang.launch_server"], sys.argv
    asyncio.run(serve(parser().parse_args(sys.argv[3:])))


if __name__ == "__main__":
    main()
