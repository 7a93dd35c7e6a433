"""The Locust arguments of a run, in groups with help, and what their texts may be.

Checked while they are parsed, before any process is forked, so that bad input gives one line and exit code 2.
They stay strings and numbers, because Locust's web form and its messages to workers carry nothing else.
"""

import argparse
import json
from argparse import ArgumentTypeError
from typing import Any, Literal, get_args

Mode = Literal["batch", "serial", "static"]
MODES: tuple[Mode, ...] = get_args(Mode)
Case = Literal[
    "single",
    "ladder",
    "interleave",
    "streams",
    "disconnect",
    "disconnect_variants",
    "leak",
    "isolation",
    "long_context",
]
CASES: tuple[Case, ...] = get_args(Case)
Load = Literal["closed", "poisson", "constant", "trace"]
LOADS: tuple[Load, ...] = get_args(Load)


def whole_numbers(text: str) -> tuple[int, ...]:
    """The positive whole numbers in `text`, separated by spaces or commas."""
    try:
        numbers = tuple(int(word) for word in text.replace(",", " ").split())
    except ValueError:
        numbers = (0,)
    if any(number < 1 for number in numbers):
        raise ArgumentTypeError(f"{text!r} is not a list of positive whole numbers, such as '2 4 8'")
    return numbers


def case_names(text: str) -> tuple[str, ...]:
    """The cases named in `text`, in its order, each once."""
    names = tuple(dict.fromkeys(text.replace(",", " ").split()))
    unknown = [name for name in names if name not in CASES]
    if unknown or not names:
        raise ArgumentTypeError(f"{text!r} is not a list of cases; known are: {' '.join(CASES)}")
    return names


def json_object(text: str) -> dict[str, Any]:
    """The JSON object in `text`; empty text is an empty object."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ArgumentTypeError(f"{text!r} is not a JSON object, such as '{{\"ignore_eos\": true}}'")
    return value


def positive(text: str) -> float:
    """A number above zero."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a number above zero")
    return number


def not_negative(text: str) -> float:
    """A number from zero."""
    return 0.0 if text.strip() in ("0", "0.0") else positive(text)


def counting(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def counting_from_zero(text: str) -> int:
    """A whole number from 0."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a whole number from zero")
    return int(text)


def _checked(check: Any) -> Any:
    """Checks like `check` but keeps the text, which is what a web form and a worker can carry."""

    def keep(text: str) -> str:
        check(text)
        return text

    return keep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the group "headtohead" to Locust's own arguments."""
    if "--out" in parser._option_string_actions:  # both locustfiles of a run ask for the same group
        return
    add = _adder(parser, "headtohead", "Validation and measurement of one arm")
    add("--out", default="results/by-hand/arm", metavar="DIR", help="folder for the rows of this arm")
    add("--run", default="by-hand", metavar="NAME", help="name of the run, as the rows show it")
    add("--arm", default="arm", metavar="NAME", help="name of the arm, as the rows show it")
    add("--plan", default="", metavar="FILE", help="a plan whose engines the web page may start and stop")
    add("--engine", default="external", metavar="NAME", help="which engine answers, as the rows show it")
    add("--mode", default="batch", choices=MODES, help="how the engine was started")
    add("--model", default="default", metavar="NAME", help="model name to put into requests")
    add("--width", default=8, type=counting, metavar="W", help="requests the server takes at once")
    add("--cases", default="single ladder interleave streams disconnect", metavar="NAMES",
        type=_checked(case_names), help=f"what to run, in this order: {' '.join(CASES)}")  # fmt: skip
    add("--repeats", default=1, type=counting, metavar="R", help="times each wave is measured")
    add("--first-repeat", default=1, type=counting, metavar="K", help="number of the first repeat")
    add("--warmups", default=1, type=counting_from_zero, metavar="N", help="discarded passes over the ladder")
    add("--ladder", default="2 4 8", type=_checked(whole_numbers), metavar="COUNTS",
        help="how many requests start together, level by level")  # fmt: skip
    add("--stream-count", default=2, type=counting, metavar="N", help="streams that start together")
    add("--max-tokens", default=32, type=counting, metavar="N", help="fixed token budget of each request")
    add("--short-words", default=128, type=counting, metavar="N", help="words in a ladder prompt")
    add("--seed", default=1, type=counting_from_zero, metavar="N", help="same seed, same prompts")
    add("--interleave-delay", default=0.5, type=positive, metavar="S",
        help="seconds between the long request and the short one")  # fmt: skip
    add("--time-scale", default=1.0, type=positive, metavar="X",
        help="how many times too fast a simulated engine's clock runs; delays and rates are its")  # fmt: skip
    add("--deadline", default=60.0, type=positive, metavar="S",
        help="seconds without a byte after which a request hangs")  # fmt: skip
    add("--payload", default="", type=_checked(json_object), metavar="JSON",
        help='extra body fields of every request, as {"ignore_eos": true}')  # fmt: skip
    add("--stream-options", default='{"include_usage": true}', type=_checked(json_object), metavar="JSON",
        help="stream_options of streamed requests; empty for none")  # fmt: skip
    add("--without-done", action="store_true", default=False,
        help="this server is known to end streams without [DONE]: do not fail them for it")  # fmt: skip
    add("--no-preconnect", action="store_true", default=False,
        help="connect as part of each request instead of beforehand")  # fmt: skip
    add("--context-lengths", default="4096", type=_checked(whole_numbers), metavar="TOKENS",
        help="prompt lengths of the long_context case")  # fmt: skip
    add("--context-max-tokens", default=128, type=counting, metavar="N",
        help="token budget of a long_context request")  # fmt: skip

    _add_traffic_arguments(parser)


def _add_traffic_arguments(parser: argparse.ArgumentParser) -> None:
    add = _adder(parser, "headtohead traffic", "Sustained load (locustfiles/traffic.py)")
    add("--load", default="closed", choices=LOADS,
        help="closed: users ask again when answered; others: requests come when they are due")  # fmt: skip
    add("--levels", default="4", metavar="NUMBERS",
        help="one load after the other: users (closed) or requests a second (poisson, constant)")  # fmt: skip
    add("--hold", default=30.0, type=positive, metavar="S", help="seconds that each level is held")
    add(
        "--ramp",
        default=0.0,
        type=float,
        metavar="S",
        help="seconds to go up or down to each level; 0: steps",
    )
    add("--settle", default=5.0, type=not_negative, metavar="S",
        help="seconds at the beginning of each level that are not recorded (repeat 0)")  # fmt: skip
    add("--mix", default="stream=1", metavar="WEIGHTS", help="kinds of users, as 'chat=1 stream=4 leave=0.2'")
    add(
        "--prompt-words",
        default="128",
        metavar="LENGTH",
        help="128, 64-512 or lognormal:200:0.6 (median:sigma)",
    )
    add("--output-tokens", default="32", metavar="LENGTH", help="token budgets, written like --prompt-words")
    add("--turns", default=1, type=counting, metavar="N",
        help="turns of a chat; each repeats those before it, so that prompts share beginnings")  # fmt: skip
    add("--system-words", default=0, type=counting_from_zero, metavar="N",
        help="words of a system prompt that all chats share")  # fmt: skip
    add(
        "--trace",
        default="",
        metavar="FILE",
        help="CSV or JSON lines of (time, prompt tokens, output tokens)",
    )
    add("--trace-speed", default=1.0, type=positive, metavar="X", help="how many times faster than recorded")
    add(
        "--words-per-token",
        default=0.75,
        type=positive,
        metavar="X",
        help="to make a trace's prompts of words",
    )


def _adder(parser: argparse.ArgumentParser, title: str, about: str) -> Any:
    group = parser.add_argument_group(title, about)

    def add(*names: str, **how: Any) -> None:
        action: Any = group.add_argument(*names, **how)
        # What Locust's own add_argument sets, and its groups do not: the argument is in the web form.
        action.include_in_web_ui = True
        action.is_secret = action.is_required = action.is_multiple = False

    return add


if __name__ == "__main__":  # Locust prints its --help before it reads a locustfile
    described = argparse.ArgumentParser(prog="locust -f locustfiles/acceptance.py", add_help=False)
    add_arguments(described)
    described.print_help()
