"""`python keyed_server.py PORT KEY`: the simulator behind a key, as hosted servers have it."""

from __future__ import annotations

import asyncio
import sys

from launchers.simulator import profile, wire
from launchers.simulator.server import Connection, Simulator


class Guarded(Connection):
    key: bytes

    def _answer(self) -> None:
        assert self._request is not None
        if (b"authorization", b"Bearer " + self.key) in self._request.headers:
            super()._answer()
            return
        self.write(wire.error(401, "no key, or not the right one"))
        self.finished()


async def serve(port: int) -> None:
    simulator = Simulator(profile.load("tiny", "batch", []), "m")
    await asyncio.get_running_loop().create_server(lambda: Guarded(simulator), "127.0.0.1", port)
    await simulator.engine.run()


if __name__ == "__main__":
    Guarded.key = sys.argv[2].encode()
    asyncio.run(serve(int(sys.argv[1])))
