"""What traffic asks for, as data: levels, schedules, mixes, lengths, chats, traces."""

import argparse
import statistics
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import pytest

from locustfiles import payloads
from locustfiles.arguments import add_arguments
from locustfiles.demand import Demand
from locustfiles.settings import Settings, SettingsError
from locustfiles.waves import Call


def demand(*arguments: str) -> Demand:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = parser.parse_args(list(arguments))
    return Demand.of(options, Settings.of(options, "http://127.0.0.1:8000"))


def test_constant_arrivals_keep_to_the_rate_of_each_level() -> None:
    due = [at_s for at_s, _ in demand("--load", "constant", "--levels", "2 10", "--hold", "10").arrivals()]

    assert len(due) == 20 + 100 - 1  # the last falls on the end
    assert {round(b - a, 6) for a, b in pairwise(due[:20])} == {0.5}
    assert {round(b - a, 6) for a, b in pairwise(due[20:])} == {0.1}


def test_a_ramp_goes_up_evenly() -> None:
    asked = ("--load", "constant", "--levels", "10", "--hold", "10", "--ramp", "10", "--settle", "0")
    due = [at_s for at_s, _ in demand(*asked).arrivals()]

    in_ramp = [at_s for at_s in due if at_s < 10]
    assert len(in_ramp) == pytest.approx(50, abs=1)
    assert sum(at_s < 5 for at_s in in_ramp) == pytest.approx(50 / 4, abs=1)


def test_poisson_arrivals_have_the_mean_and_the_spread_of_chance() -> None:
    due = [at_s for at_s, _ in demand("--load", "poisson", "--levels", "50", "--hold", "100").arrivals()]
    gaps = [b - a for a, b in pairwise(due)]

    assert len(due) == pytest.approx(5000, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1)


def test_chance_moves_arrivals_but_not_their_number() -> None:
    for seed in "123":
        asked = demand(
            "--load", "poisson", "--levels", "3 6", "--hold", "10", "--settle", "4", "--seed", seed
        )
        due = Counter(
            asked.wave_at(at_s).name.removeprefix("traffic-poisson-") for at_s, _ in asked.arrivals()
        )
        assert due == {"3-r1-settling": 12, "3-r1": 18, "6-r1-settling": 24, "6-r1": 36}


def test_an_open_loop_has_a_user_for_every_request_as_far_as_a_process_may_have_connections() -> None:
    few = demand("--load", "poisson", "--levels", "3", "--hold", "10", "--mix", "chat=1 stream=1")
    many = demand("--load", "poisson", "--levels", "1000", "--hold", "10", "--mix", "chat=1 stream=1")

    assert few.users == Counter(call.user for _, call in few.arrivals())
    assert many.users.total() == 900


def test_levels_that_are_asked_for_twice_have_names_of_their_own() -> None:
    names = [level.name for level in demand("--levels", "2 2 2.2 2").levels]

    assert len(set(names)) == 4


def test_what_comes_before_the_load_is_steady_is_not_recorded() -> None:
    asked = demand("--load", "poisson", "--levels", "4", "--hold", "10", "--settle", "3", "--ramp", "1")

    assert [asked.wave_at(at_s).repeat for at_s in (0.5, 2, 3.9, 4.1, 10)] == [0, 0, 0, 1, 1]
    assert asked.wave_at(10).name == "traffic-poisson-4-r1"


def test_users_of_a_closed_loop_follow_the_levels() -> None:
    asked = demand("--levels", "10 20", "--hold", "10", "--ramp", "10", "--settle", "0")

    assert [asked.users_at(at_s) for at_s in (0, 5, 10, 19, 25, 30, 99)] == [1, 5, 10, 10, 15, 20, 20]


def test_a_mix_is_drawn_by_its_weights_and_the_same_every_time() -> None:
    asked = demand(
        "--mix", "chat=1 stream=3 leave=1", "--output-tokens", "8-16", "--prompt-words", "lognormal:100:0.5"
    )
    calls = [asked.call(f"r{i}", f"c{i}", 0) for i in range(2000)]

    assert sum(call.user == "StreamingChatUser" for call in calls) == pytest.approx(1200, rel=0.1)
    assert {call.max_tokens for call in calls} == set(range(8, 17))
    assert statistics.median(call.words for call in calls) == pytest.approx(100, rel=0.1)
    assert all((call.leave is not None) == (call.user == "DisconnectingChatUser") for call in calls)
    assert calls == [asked.call(f"r{i}", f"c{i}", 0) for i in range(2000)]


def test_turns_of_a_chat_share_all_that_was_said_before() -> None:
    asked = demand("--turns", "3", "--system-words", "20", "--load", "constant", "--levels", "100")
    chats: dict[str, list[Call]] = {}
    for _, call in islice(asked.arrivals(), 96):
        chats.setdefault(call.topic.rpartition("-")[0], []).append(call)

    assert {len(calls) for calls in chats.values()} == {3}
    first, second, third = (payloads.messages(1, call) for call in next(iter(chats.values())))
    assert [message["role"] for message in third] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    others = [payloads.messages(1, calls[0])[0] for calls in chats.values()]
    assert all(other == first[0] for other in others)


def test_an_azure_trace(tmp_path: Path) -> None:
    trace = tmp_path / "azure.csv"
    trace.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n"
        "2023-11-16 18:15:48.6805900,400,10\n"
    )
    asked = demand("--load", "trace", "--trace", str(trace), "--trace-speed", "2", "--settle", "0")

    assert [(round(at_s, 3), call.words, call.max_tokens) for at_s, call in asked.arrivals()] == [
        (0.0, 280, 44), (1.0, 300, 10)
    ]  # fmt: skip


def test_a_mooncake_trace_shares_its_blocks(tmp_path: Path) -> None:
    trace = tmp_path / "mooncake.jsonl"
    trace.write_text(
        '{"timestamp": 1000, "input_length": 1200, "output_length": 12, "hash_ids": [1, 2, 3]}\n'
        '{"timestamp": 1500, "input_length": 1100, "output_length": 9, "hash_ids": [1, 2, 4]}\n'
    )
    (first_s, first), (second_s, second) = demand("--load", "trace", "--trace", str(trace)).arrivals()

    assert (first_s, second_s) == (0.0, 0.5)
    one, two = (payloads.messages(1, call)[0]["content"].split() for call in (first, second))
    assert (len(one), len(two)) == (900, 825)
    assert one[:768] == two[:768]
    assert one[768:] != two[768:]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--levels", "two"), "'two' is not a list of numbers above zero"),
        (("--mix", "chat=1 dance=2"), "'chat=1 dance=2' is not a mix"),
        (("--output-tokens", "64-32"), "'64-32' is not a length: write 128, 64-512 or lognormal:200:0.6"),
        (("--load", "trace"), "--load trace needs --trace FILE"),
        (("--trace", "x.csv"), "--trace needs --load trace"),
        (("--load", "trace", "--trace", "nowhere.csv"), "No such file or directory: 'nowhere.csv'"),
        (("--hold", "5", "--settle", "5"), "--settle 5 leaves nothing to record of --hold 5"),
    ],
)
def test_bad_demands(arguments: tuple[str, ...], line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        demand(*arguments)

    assert line in str(caught.value)


def test_a_bad_line_of_a_trace_is_named(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time,prompt_tokens,output_tokens\n0,5,5\n1,five,5\n")

    with pytest.raises(
        SettingsError, match=r"trace\.csv, line 3: needs a time, prompt tokens and output tokens"
    ):
        demand("--load", "trace", "--trace", str(trace))
