"""Runs the scheduler in its own time: (arrival, prompt tokens, budget) in, times of tokens out."""

from launchers.simulator.profile import Profile
from launchers.simulator.scheduler import Request, Scheduler

Arrival = tuple[float, int, int]


def play(profile: Profile, arrivals: list[Arrival]) -> list[tuple[float, float]]:
    """(seconds to the first token, seconds to the last) of each request, counted from its arrival."""
    scheduler = Scheduler(profile)
    due = sorted(
        ((at, Request(str(i), [f"{i}"] * tokens, budget)) for i, (at, tokens, budget) in enumerate(arrivals)),
        key=lambda pair: pair[0],
    )
    arrived = {request.id: at for at, request in due}
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    now = 0.0
    while due or not scheduler.idle:
        if scheduler.idle:
            now = max(now, due[0][0])
        while due and due[0][0] <= now:
            scheduler.submit(due.pop(0)[1])
        iteration = scheduler.begin()
        now += iteration.cost_s
        for request in scheduler.end(iteration):
            first.setdefault(request.id, now)
            last[request.id] = now
    return [(first[id] - arrived[id], last[id] - arrived[id]) for id in sorted(arrived, key=int)]


def together(profile: Profile, count: int, tokens: int, budget: int) -> tuple[float, float]:
    """(wall, mean latency) in s of requests that arrive as a client sends them: one just before the rest."""
    ends = [last for _, last in play(profile, [(i * 1e-4, tokens, budget) for i in range(count)])]
    return max(end + i * 1e-4 for i, end in enumerate(ends)), sum(ends) / count
