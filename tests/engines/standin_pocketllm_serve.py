"""A stand-in for `pocketllm serve`: the flags of release 0.1.1; /ready says 503 until it is loaded."""

from __future__ import annotations

import argparse
import asyncio
import sys

from launchers.simulator import profile, wire
from launchers.simulator.server import Connection, Simulator


class Loading(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        print("still loading", file=sys.stderr, flush=True)
        self.transport.write(wire.error(503, "still loading"))
        self.transport.close()


async def serve(host: str, port: int, width: int, name: str) -> None:
    loop = asyncio.get_running_loop()
    loading = await loop.create_server(Loading, host, port)
    await asyncio.sleep(0.5)
    loading.close()
    simulator = Simulator(profile.load("tiny", "batch", [f"width={width}"]), name)
    await loop.create_server(lambda: Connection(simulator), host, port)
    await simulator.engine.run()


def main() -> None:
    parser = argparse.ArgumentParser()
    command = parser.add_subparsers(required=True).add_parser("serve")
    command.add_argument("--model", required=True)
    command.add_argument("--backend", choices=["auto", "torch", "cpp"], default="auto")
    command.add_argument("--tensor-parallel-size", type=int, default=1)
    command.add_argument("--max-model-len", type=int)
    command.add_argument("--max-batch-size", type=int, default=1)
    command.add_argument("--prefill-chunk-tokens", type=int, default=0)
    command.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    command.add_argument("--served-model-name", required=True)
    command.add_argument("--host", default="0.0.0.0")
    command.add_argument("--port", type=int, default=8000)
    asked = parser.parse_args()
    asyncio.run(serve(asked.host, asked.port, asked.max_batch_size, asked.served_model_name))


if __name__ == "__main__":
    main()
