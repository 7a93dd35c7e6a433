"""What the scheduler promises, in its own time."""

import pytest

from launchers.simulator.profile import Profile
from launchers.simulator.scheduler import Request, Scheduler
from tests.simulator.virtual import play, together

STEP = Profile(width=4, step_s={1: 0.01, 4: 0.02}, prefill_token_s=0.001)


def test_as_many_run_at_once_as_there_are_slots() -> None:
    scheduler = Scheduler(STEP)
    for number in range(6):
        scheduler.submit(Request(str(number), ["a"] * 3, 5))
    scheduler.end(scheduler.begin())
    assert len(scheduler.running) == 4
    assert [request.id for request in scheduler.waiting] == ["4", "5"]


def test_a_serial_engine_finishes_in_a_staircase() -> None:
    serial = STEP.model_copy(update={"width": 1})
    alone = together(serial, 1, 10, 8)[0]
    ends = sorted(end for _, end in play(serial, [(0.0, 10, 8)] * 3))
    assert ends == pytest.approx([alone, 2 * alone, 3 * alone], rel=1e-6)


def test_a_long_prompt_is_prefilled_in_chunks_between_which_others_get_tokens() -> None:
    chunked = STEP.model_copy(update={"prefill_token_budget": 100})
    whole = STEP.model_copy(update={"prefill_token_budget": 10_000})
    arrivals = [(0.0, 5, 200), (0.05, 2000, 4)]
    stall = {}
    for name, costs in (("chunked", chunked), ("whole", whole)):
        scheduler = Scheduler(costs)
        first, second = (
            Request(str(i), ["x"] * tokens, budget) for i, (_, tokens, budget) in enumerate(arrivals)
        )
        scheduler.submit(first)
        scheduler.end(scheduler.begin())
        scheduler.submit(second)
        stall[name] = scheduler.begin().cost_s
    assert stall["whole"] > 10 * stall["chunked"]


def test_a_cancelled_request_frees_its_slot_at_once_and_gets_no_token() -> None:
    scheduler = Scheduler(STEP.model_copy(update={"width": 1}))
    first, second = (Request(name, ["a"], 50) for name in ("first", "second"))
    scheduler.submit(first)
    scheduler.submit(second)
    iteration = scheduler.begin()
    scheduler.cancel(first)
    assert scheduler.end(iteration) == []
    assert scheduler.begin().emits == [second]


def test_a_known_prefix_costs_nothing_when_the_cache_is_on() -> None:
    cached = STEP.model_copy(update={"prefix_cache": True, "cache_block": 16})
    scheduler = Scheduler(cached)
    prompt = [str(i) for i in range(100)]
    costs = []
    for name in ("first", "again"):
        request = Request(name, prompt, 1)
        scheduler.submit(request)
        iteration = scheduler.begin()
        costs.append(iteration.cost_s)
        scheduler.end(iteration)
    assert request.cached == 96
    assert costs[1] == pytest.approx(0.004)
