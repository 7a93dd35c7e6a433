"""Iteration-level continuous batching with chunked prefill, in the engine's own time and without a clock.

The server asks for an iteration, waits until its end, and hands out the tokens; the fit's test does the same
without waiting.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from launchers.simulator.profile import Profile

CACHED_BLOCKS = 100_000


@dataclass(eq=False, slots=True)
class Request:
    """`prompt`: one hashable a token. `generated` counts tokens so far, of at most `budget`."""

    id: str
    prompt: list[str]
    budget: int
    width_max: int = 0
    prefilled: int = 0
    cached: int = 0
    generated: int = 0
    ended: bool = False

    @property
    def in_prefill(self) -> bool:
        return self.prefilled < len(self.prompt)

    @property
    def context(self) -> int:
        return self.prefilled + self.generated


@dataclass(slots=True)
class Iteration:
    """One forward pass: what it costs and who gets a token at its end."""

    cost_s: float
    emits: list[Request]
    prefill_tokens: int
    width: int


@dataclass
class Counters:
    """What /metrics shows."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    iterations: int = 0
    finished: int = 0
    aborted: int = 0


@dataclass
class Scheduler:
    """W slots, a FIFO queue, a token budget for each iteration."""

    profile: Profile
    waiting: deque[Request] = field(default_factory=deque)
    running: list[Request] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    lost_slots: int = 0
    _blocks: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def submit(self, request: Request) -> None:
        self.waiting.append(request)

    def cancel(self, request: Request) -> None:
        """Forget a request whose client has left, wherever it is."""
        if request.ended:
            return
        request.ended = True
        for place in (self.running, self.waiting):
            if request in place:
                place.remove(request)
                self.counters.aborted += 1

    @property
    def idle(self) -> bool:
        return not self.running and not (self.waiting and self._free)

    @property
    def _free(self) -> int:
        return self.profile.width - self.lost_slots - len(self.running)

    def begin(self) -> Iteration:
        """Admit who fits and decide what the next iteration does. Not to be called when idle."""
        while self.waiting and self._free > 0:
            request = self.waiting.popleft()
            request.cached = request.prefilled = self._cached_prefix(request)
            self.counters.cached_tokens += request.cached
            self.running.append(request)
        decoding = [request for request in self.running if not request.in_prefill]
        left = max(self.profile.prefill_token_budget - len(decoding), 1)
        emits, cost_s, prefill_tokens = list(decoding), self._decode_s(decoding), 0
        for request in self.running:
            if request.in_prefill and left:
                chunk = min(left, len(request.prompt) - request.prefilled)
                cost_s += self._prefill_s(request, chunk)
                request.prefilled += chunk
                prefill_tokens += chunk
                left -= chunk
                if not request.in_prefill:
                    emits.append(request)
                    self.remember(request)
        if prefill_tokens:
            cost_s += self.profile.prefill_s
        for request in self.running:
            request.width_max = max(request.width_max, len(self.running))
        return Iteration(cost_s, emits, prefill_tokens, len(self.running))

    def end(self, iteration: Iteration) -> list[Request]:
        """The iteration is over: count its tokens. Returns those who got one (the cancelled ones did not)."""
        self.counters.iterations += 1
        self.counters.prompt_tokens += iteration.prefill_tokens
        got = [request for request in iteration.emits if not request.ended]
        for request in got:
            request.generated += 1
            if request.generated >= request.budget:
                request.ended = True
                self.running.remove(request)
                self.counters.finished += 1
        self.counters.generated_tokens += len(got)
        return got

    def _decode_s(self, decoding: list[Request]) -> float:
        if not decoding:
            return 0.0
        profile = self.profile
        context = sum(request.context for request in decoding)
        if profile.decode_points and len(decoding) == 1:
            return _between(profile.decode_points, context)
        return _between(sorted(profile.step_s.items()), len(decoding)) + profile.context_token_s * context

    def _prefill_s(self, request: Request, chunk: int) -> float:
        profile, before = self.profile, request.prefilled
        if profile.prefill_points:
            points = [(0, 0.0), *profile.prefill_points]
            return _between(points, before + chunk) - _between(points, before)
        pairs = chunk * before + chunk * chunk / 2
        return profile.prefill_token_s * chunk + profile.attention_s * pairs

    def _cached_prefix(self, request: Request) -> int:
        """How many leading tokens a prefix cache would spare; at least one is always computed."""
        if not self.profile.prefix_cache:
            return 0
        known = takewhile(self._blocks.__contains__, self._block_hashes(request))
        return min(sum(1 for _ in known) * self.profile.cache_block, len(request.prompt) - 1)

    def remember(self, request: Request) -> None:
        """Keep the prompt's blocks for later prompts that begin alike, if there is a prefix cache."""
        if not self.profile.prefix_cache:
            return
        for block in self._block_hashes(request):
            self._blocks[block] = None
        while len(self._blocks) > CACHED_BLOCKS:
            self._blocks.popitem(last=False)

    def _block_hashes(self, request: Request) -> Iterator[int]:
        """A hash for each whole block of the prompt, which stands for all before it too."""
        size, chained = self.profile.cache_block, 0
        for end in range(size, len(request.prompt) + 1, size):
            chained = hash((chained, *request.prompt[end - size : end]))
            yield chained


def _between(points: list[tuple[int, float]], at: float) -> float:
    """Linear between the points; the last two carry on beyond the end."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    if at > xs[-1] and len(points) > 1:
        return ys[-1] + (at - xs[-1]) * (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
    return float(np.interp(at, xs, ys))
