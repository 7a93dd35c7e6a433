"""The acceptance as data, and its prompts."""

import argparse
from itertools import pairwise
from pathlib import Path

from locustfiles import payloads
from locustfiles.arguments import add_arguments
from locustfiles.settings import Settings
from locustfiles.waves import acceptance, users_needed


def settings(*arguments: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return Settings.of(parser.parse_args(list(arguments)), "http://127.0.0.1:8000/v1")


def test_the_warm_up_is_the_whole_ladder_and_does_not_count() -> None:
    waves = acceptance(settings("--warmups", "2", "--cases", "single"))

    assert [(wave.case, wave.count) for wave in waves if wave.repeat == 0] == [
        ("single", 1), ("ladder", 2), ("ladder", 4), ("ladder", 8)
    ] * 2  # fmt: skip
    assert [(wave.name, wave.repeat) for wave in waves[8:]] == [("single-r1", 1)]


def test_long_contexts_are_warmed_up_too() -> None:
    waves = acceptance(settings("--cases", "long_context", "--context-lengths", "64 128"))

    names = [wave.name for wave in waves if wave.case == "long_context"]
    assert names == [
        "long_context-64-w1.1",
        "long_context-128-w1.1",
        "long_context-64-r1",
        "long_context-128-r1",
    ]
    assert {wave.repeat for wave in waves if wave.name.endswith("w1.1")} == {0}


def test_blocks_never_share_a_wave() -> None:
    every = "single ladder interleave streams disconnect disconnect_variants leak isolation long_context"
    first = acceptance(settings("--cases", every, "--repeats", "2"))
    second = acceptance(settings("--cases", every, "--repeats", "2", "--first-repeat", "3"))

    names = [wave.name for wave in first + second]
    assert len(set(names)) == len(names)
    requests = [call.request for wave in first + second for call in wave.calls]
    assert len(set(requests)) == len(requests)
    assert {wave.repeat for wave in second} == {0, 3, 4}


def test_as_many_users_as_the_widest_wave_needs() -> None:
    needed = users_needed(acceptance(settings("--ladder", "2 16", "--cases", "ladder streams leak")))

    assert needed == {"ChatUser": 16, "StreamingChatUser": 2, "DisconnectingChatUser": 17}


def test_prompts_are_text_of_the_asked_length_that_differs_from_its_first_word() -> None:
    one, two = (payloads.prompt(7, topic, 128) for topic in ("single-r1-0", "single-r2-0"))

    assert len(one.split()) == len(two.split()) == 128
    assert one[:10].isdigit()
    assert one[:10] != two[:10]
    assert payloads.prompt(7, "single-r1-0", 128) == one
    assert payloads.prompt(8, "single-r1-0", 128) != one
    assert max(len(word) for word in one.split()[1:]) < 20


def test_the_nonce_changes_nothing_but_the_first_word() -> None:
    plain, other = payloads.prompt(1, "long_context-64", 64), payloads.prompt(1, "long_context-64", 64, "r2")

    differing = [a != b for a, b in zip(plain.split(), other.split(), strict=True)]
    assert differing == [True] + [False] * 63


def test_the_body_carries_the_plan_s_fields_and_stream_options_only_on_streams() -> None:
    asked = settings("--payload", '{"ignore_eos": true}', "--model", "m")

    hello = [{"role": "user", "content": "Hello"}]

    plain, stream = (payloads.chat(asked, hello, 5, stream) for stream in (False, True))

    assert plain.body == (
        b'{"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, '
        b'"temperature": 0, "top_p": 1, "stream": false, "ignore_eos": true}'
    )
    assert stream.body.endswith(b'"stream_options": {"include_usage": true}}')
    assert plain.sha256 != stream.sha256


def test_waves_do_not_depend_on_anything_but_the_arguments(tmp_path: Path) -> None:
    one, two = (acceptance(settings("--out", str(tmp_path / name))) for name in "ab")

    assert one == two
    assert all(a.repeat <= b.repeat for a, b in pairwise(one))
