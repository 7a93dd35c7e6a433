"""What traffic asks for, as data: levels of load over time, the mix of requests, when each is due.

Times are seconds, and rates requests a second, of the engine's own clock. All of it depends on the
arguments and the seed only, so that workers can each take their share of one schedule, and every arm gets
the same one.
"""

import argparse
import math
import random
from argparse import ArgumentTypeError
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice, pairwise
from pathlib import Path

from locustfiles.distributions import Distribution, distribution
from locustfiles.settings import Settings, SettingsError
from locustfiles.traces import TracedRequest, read_trace
from locustfiles.waves import CHAT, DISCONNECTING, STREAMING, Call, Leave, Wave

KINDS = {"chat": CHAT, "stream": STREAMING, "leave": DISCONNECTING}
# Conversations under way at the same time, in an open loop.
CONVERSATIONS = 16
# Users that an open loop keeps ready: one a request, up to what a process may have in connections. With more
# in flight a request has to wait for a user, which its row shows: it counts from when it was due.
MOST_USERS = 900
LEAST_USERS = 2


@dataclass(frozen=True, slots=True)
class Level:
    """A load: ramped up to from `start_s`, held from `held_s`, recorded from `steady_s` to `end_s`."""

    value: float
    name: str
    start_s: float
    held_s: float
    steady_s: float
    end_s: float


@dataclass(frozen=True)
class Demand:
    """The arguments of the group "headtohead traffic", checked."""

    load: str
    levels: tuple[Level, ...]
    mix: tuple[tuple[str, float], ...]
    prompt_words: Distribution
    output_tokens: Distribution
    turns: int
    system_words: int
    trace: tuple[TracedRequest, ...]
    words_per_token: float
    repeat: int
    seed: int
    fixed_budget: bool

    @classmethod
    def of(cls, options: argparse.Namespace, settings: Settings) -> "Demand":
        """The demand that Locust's parsed options ask for; SettingsError in one line if it cannot be."""
        try:
            mix, values = parse_mix(options.mix), numbers(options.levels)
            trace: tuple[TracedRequest, ...] = ()
            if options.load == "trace":
                if not options.trace:
                    raise SettingsError("--load trace needs --trace FILE")
                trace = read_trace(Path(options.trace), options.trace_speed)
            elif options.trace:
                raise SettingsError("--trace needs --load trace")
            hold_s, ramp_s, warmup_s = (float(getattr(options, name)) for name in ("hold", "ramp", "settle"))
            if warmup_s >= hold_s and not trace:
                raise SettingsError(f"--settle {warmup_s:g} leaves nothing to record of --hold {hold_s:g}")
            levels = (
                [
                    Level(
                        1.0,
                        f"traffic-trace-r{settings.first_repeat}",
                        0.0,
                        0.0,
                        warmup_s,
                        trace[-1].at_s + 1e-9,
                    )
                ]
                if trace
                else plan_levels(options.load, values, ramp_s, hold_s, warmup_s, settings.first_repeat)
            )
            return cls(
                load=options.load,
                levels=tuple(levels),
                mix=mix,
                prompt_words=distribution(options.prompt_words),
                output_tokens=distribution(options.output_tokens),
                turns=options.turns,
                system_words=options.system_words,
                trace=trace,
                words_per_token=options.words_per_token,
                repeat=settings.first_repeat,
                seed=settings.seed,
                fixed_budget=bool(settings.payload.get("ignore_eos")),
            )
        except (ArgumentTypeError, OSError) as error:
            raise SettingsError(str(error)) from None

    @property
    def open_loop(self) -> bool:
        """Whether requests are due at given times, however long the answers take."""
        return self.load != "closed"

    @property
    def duration_s(self) -> float:
        """From the first ramp to the end of the last level."""
        return self.levels[-1].end_s

    def level_at(self, at_s: float) -> Level:
        """The level of this moment; the last one goes on for ever."""
        index = bisect_right([level.start_s for level in self.levels], at_s) - 1
        return self.levels[max(index, 0)]

    def wave_at(self, at_s: float) -> Wave:
        """What a request that is due now belongs to; before the load is steady, that is a warm-up."""
        level = self.level_at(at_s)
        steady = at_s >= level.steady_s
        name = level.name if steady else f"{level.name}-settling"
        return Wave(name, "traffic", max(round(level.value), 1), self.repeat if steady else 0, ())

    @cached_property
    def users(self) -> Counter[str]:
        """An open loop's stock of users of each class."""
        drawn = Counter(call.user for _, call in islice(self.arrivals(), MOST_USERS))
        return Counter({user: max(drawn[user], LEAST_USERS) for user, _ in self.mix})

    def users_at(self, at_s: float) -> int:
        """A closed loop's number of users at this moment."""
        level = self.level_at(at_s)
        before = max(
            (other for other in self.levels if other.start_s < level.start_s), key=_start, default=None
        )
        from_users = before.value if before is not None else 0.0
        if at_s >= level.held_s:
            return round(level.value)
        share = (at_s - level.start_s) / (level.held_s - level.start_s)
        return max(round(from_users + share * (level.value - from_users)), 1)

    def arrivals(self) -> Iterator[tuple[float, Call]]:
        """Each request of an open loop with the second at which it is due."""
        if self.trace:
            for number, traced in enumerate(self.trace):
                yield traced.at_s, self._traced_call(number, traced)
            return
        for number, at_s in enumerate(self._due_times()):
            chat = number // (CONVERSATIONS * self.turns) * CONVERSATIONS + number % CONVERSATIONS
            turn = number // CONVERSATIONS % self.turns
            yield at_s, self.call(f"traffic-{self.repeat}-{number}", f"chat-{self.repeat}-{chat}", turn)

    def call(self, request: str, chat: str, turn: int, user: str = "") -> Call:
        """The request of one turn of a chat; the user class is drawn from the mix unless it is given."""
        draw = random.Random(f"{self.seed}/{request}")
        drawn = draw.choices([kind for kind, _ in self.mix], [weight for _, weight in self.mix])[0]
        user = user or drawn
        words, tokens = (round(of.draw(draw)) for of in (self.prompt_words, self.output_tokens))
        history = [("system", "system prompt", self.system_words)] if self.system_words else []
        for earlier in range(turn):
            history += [
                ("user", f"{chat}-{earlier}", words),
                ("assistant", f"{chat}-{earlier}-answer", tokens),
            ]
        return Call(
            request, user, words, tokens, f"{chat}-{turn}",
            leave=Leave(after_events=draw.randint(1, max(tokens // 2, 1))) if user == DISCONNECTING else None,
            stream=user != CHAT, history=tuple(history), fixed_budget=self.fixed_budget,
        )  # fmt: skip

    def _traced_call(self, number: int, traced: TracedRequest) -> Call:
        request = f"traffic-{self.repeat}-{number}"
        call = self.call(request, request, 0)
        words = max(round(traced.prompt_tokens * self.words_per_token), 1)
        blocks = tuple(
            (f"block-{block}", round(traced.block_tokens * self.words_per_token)) for block in traced.blocks
        )
        own = max(words - sum(size for _, size in blocks), 1)
        return Call(
            request, call.user, own, max(traced.output_tokens, 1), request,
            leave=call.leave, stream=call.stream, blocks=blocks, fixed_budget=self.fixed_budget,
        )  # fmt: skip

    def _due_times(self) -> Iterator[float]:
        """When so many arrivals are expected to have come: 1, 2, 3 (constant), or where chance puts them.

        Of all Poisson processes, one with exactly as many arrivals as are expected while a level settles, and
        while it is recorded: a rate is the one that was asked for, not what chance made of it.
        """
        arrivals: Iterable[float] = count(1.0)
        if self.load == "poisson":
            draw = random.Random(f"{self.seed}/arrivals-{self.repeat}")
            arrivals = (
                arrival
                for low, high in pairwise(self._expected())
                for arrival in sorted(draw.uniform(low, high) for _ in range(round(high) - round(low)))
            )
        for number in arrivals:
            at_s = self._time_of(number)
            if at_s is None:
                return
            yield at_s

    def _expected(self) -> Iterator[float]:
        """Arrivals that are expected until the run, and each level's settled time, begin and end."""
        expected = rate_before = 0.0
        yield expected
        for level in self.levels:
            expected += (level.held_s - level.start_s) * (rate_before + level.value) / 2
            expected += (level.steady_s - level.held_s) * level.value
            yield expected
            expected += (level.end_s - level.steady_s) * level.value
            yield expected
            rate_before = level.value

    def _time_of(self, arrivals: float) -> float | None:
        """When so many arrivals are expected to have come: the integral of the rate, turned round."""
        rate_before = 0.0
        for level in self.levels:
            ramp_s, held_s = level.held_s - level.start_s, level.end_s - level.held_s
            in_ramp = ramp_s * (rate_before + level.value) / 2
            if arrivals < in_ramp:
                slope = (level.value - rate_before) / ramp_s
                if slope == 0:
                    return level.start_s + arrivals / rate_before
                root = math.sqrt(rate_before**2 + 2 * slope * arrivals)
                return level.start_s + (root - rate_before) / slope
            arrivals -= in_ramp
            if arrivals < held_s * level.value:
                return level.held_s + arrivals / level.value
            arrivals -= held_s * level.value
            rate_before = level.value
        return None


def plan_levels(
    load: str, values: tuple[float, ...], ramp_s: float, hold_s: float, warmup_s: float, repeat: int
) -> list[Level]:
    """One level after the other; a value that comes again gets a name of its own."""
    levels: list[Level] = []
    start_s = 0.0
    for number, value in enumerate(values):
        again = values[:number].count(value)
        name = f"traffic-{load}-{value:g}{f'_{again + 1}' if again else ''}-r{repeat}"
        held_s = start_s + ramp_s
        levels.append(Level(value, name, start_s, held_s, held_s + warmup_s, held_s + hold_s))
        start_s = held_s + hold_s
    return levels


def _start(level: Level) -> float:
    return level.start_s


def numbers(text: str) -> tuple[float, ...]:
    """The numbers above zero in `text`, separated by spaces or commas."""
    try:
        values = tuple(float(word) for word in text.replace(",", " ").split())
    except ValueError:
        values = ()
    if not values or not all(0 < value < math.inf for value in values):
        raise ArgumentTypeError(f"{text!r} is not a list of numbers above zero, such as '2 4 8'")
    return values


def parse_mix(text: str) -> tuple[tuple[str, float], ...]:
    """User classes and weights out of "chat=1 stream=4 leave=0.5"."""
    mix: dict[str, float] = {}
    for part in text.replace(",", " ").split():
        kind, _, weight = part.partition("=")
        try:
            mix[KINDS[kind]] = float(weight)
        except (KeyError, ValueError):
            mix = {}
            break
    if not mix or min(mix.values()) < 0 or not 0 < sum(mix.values()) < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a mix, such as 'chat=1 stream=4 leave=0.2'")
    return tuple((user, weight) for user, weight in mix.items() if weight)
