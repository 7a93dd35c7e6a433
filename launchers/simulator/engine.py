"""Runs the scheduler against the clock: each iteration ends at its scheduled instant, late or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from launchers.simulator.profile import Profile
from launchers.simulator.scheduler import Request, Scheduler


class Engine:
    """`time_scale` engine seconds pass in one real second. `on_token` is called for each token when due."""

    def __init__(self, profile: Profile, time_scale: float, on_token: Callable[[Request], None]) -> None:
        self.scheduler = Scheduler(profile)
        self._time_scale = time_scale
        self._on_token = on_token
        self._work = asyncio.Event()

    def submit(self, request: Request) -> None:
        self.scheduler.submit(request)
        self._work.set()

    def cancel(self, request: Request) -> None:
        self.scheduler.cancel(request)

    async def run(self) -> None:
        """Until cancelled. An iteration begins where the last was due to end: lateness never adds up."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while True:
            if self.scheduler.idle:
                self._work.clear()
                await self._work.wait()
                if self.scheduler.idle:
                    continue
                now = max(now, loop.time())
            iteration = self.scheduler.begin()
            now += iteration.cost_s / self._time_scale
            await asyncio.sleep(now - loop.time())
            for request in self.scheduler.end(iteration):
                self._on_token(request)
