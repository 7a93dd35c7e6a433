"""The acceptance as data: every wave and every request of it, the same list in every process.

Nothing here depends on the clock or on what the server does, so master and workers need to tell each other
only "wave 12".
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from locustfiles.settings import Settings

LONG_WORDS = 1600
AFTERWARDS_WORDS = 32
STREAM_WORDS = 64
LEAVER_WORDS = 512
# Behind the others of its wave, by more than it takes to send them.
JUST_BEHIND_S = 0.005
# A leaver that waits for no event leaves within this share of a lone request's latency: before its first
# token if it has a long prompt or stands in the queue, in the middle of its answer otherwise.
LEAVE_SHARE = 0.3

CHAT, STREAMING, DISCONNECTING = "ChatUser", "StreamingChatUser", "DisconnectingChatUser"


@dataclass(frozen=True, slots=True)
class Leave:
    """When and how a client goes: after so many events, else after a share of a lone request's latency."""

    after_events: int | None = None
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `topic` names its prompt: equal topics are equal prompts.

    `history` holds the earlier messages of its chat (role, topic, words), `blocks` the pieces that its own
    message begins with (topic, words). `fixed_budget`: fewer tokens than asked for are a fault.
    """

    request: str
    user: str
    words: int
    max_tokens: int
    topic: str
    offset_s: float = 0.0
    leave: Leave | None = None
    stream: bool = False
    prompt_tokens: int | None = None
    history: tuple[tuple[str, str, int], ...] = ()
    blocks: tuple[tuple[str, int], ...] = ()
    fixed_budget: bool = True


@dataclass(frozen=True, slots=True)
class Wave:
    """Requests that start together, each `offset_s` after the first. `leaving` names how clients leave."""

    name: str
    case: str
    count: int
    repeat: int
    calls: tuple[Call, ...]
    leaving: str = ""


def acceptance(settings: Settings) -> list[Wave]:
    """All waves in order: the warm-up (repeat 0), then every case, `repeats` times.

    The warm-up goes over the ladder, and over long contexts if there are any: engines compile for a shape
    when they first meet it.
    """
    waves: list[Wave] = []
    for warmup in range(1, settings.warmups + 1):
        label = f"w{settings.first_repeat}.{warmup}"
        waves += [
            _together(settings, "ladder" if n > 1 else "single", n, 0, label) for n in _levels(settings)
        ]
        if "long_context" in settings.cases:
            waves += _contexts(settings, 0, label)
    for repeat in range(settings.first_repeat, settings.first_repeat + settings.repeats):
        for case in settings.cases:
            waves += CASES[case](settings, repeat)
    return waves


def users_needed(waves: list[Wave]) -> Counter[str]:
    """How many users of each class the widest wave needs."""
    needed: Counter[str] = Counter()
    for wave in waves:
        needed |= Counter(call.user for call in wave.calls)
    return needed


def _levels(settings: Settings) -> list[int]:
    return [1, *(n for n in settings.ladder if n > 1)]


def _together(settings: Settings, case: str, count: int, repeat: int, label: str, name: str = "") -> Wave:
    name = name or (f"{case}-{count}-{label}" if count > 1 else f"{case}-{label}")
    calls = [_chat(f"{name}-{i}", settings.short_words, settings.max_tokens) for i in range(count)]
    return Wave(name, case, count, repeat, tuple(calls))


def _chat(request: str, words: int, max_tokens: int, offset_s: float = 0.0, topic: str = "") -> Call:
    return Call(request, CHAT, words, max_tokens, topic or request, offset_s)


def _stream(request: str, words: int, max_tokens: int, offset_s: float = 0.0, topic: str = "") -> Call:
    return Call(request, STREAMING, words, max_tokens, topic or request, offset_s, stream=True)


def _single(settings: Settings, repeat: int) -> Iterator[Wave]:
    yield _together(settings, "single", 1, repeat, f"r{repeat}")


def _ladder(settings: Settings, repeat: int) -> Iterator[Wave]:
    for count in settings.ladder:
        yield _together(settings, "ladder", count, repeat, f"r{repeat}")


def _interleave(settings: Settings, repeat: int) -> Iterator[Wave]:
    alone = f"interleave-alone-r{repeat}"
    short = _chat(f"{alone}-0", AFTERWARDS_WORDS, settings.max_tokens)
    yield Wave(alone, "interleave", 1, repeat, (short,))
    name = f"interleave-r{repeat}"
    long = _stream(f"{name}-0", LONG_WORDS, settings.max_tokens)
    short = _chat(f"{name}-1", AFTERWARDS_WORDS, settings.max_tokens, settings.interleave_delay_s)
    yield Wave(name, "interleave", 2, repeat, (long, short))


def _streams(settings: Settings, repeat: int) -> Iterator[Wave]:
    name, count = f"streams-{settings.stream_count}-r{repeat}", settings.stream_count
    calls = [_stream(f"{name}-{i}", STREAM_WORDS, settings.max_tokens) for i in range(count)]
    yield Wave(name, "streams", count, repeat, tuple(calls))


def _disconnect(settings: Settings, repeat: int) -> Iterator[Wave]:
    leave = Leave(after_events=2)
    yield from _leaving(settings, repeat, "events", LEAVER_WORDS, leave, stream=True, bystanders=0)


def _disconnect_variants(settings: Settings, repeat: int) -> Iterator[Wave]:
    soon = Leave()
    yield from _leaving(settings, repeat, "prefill", LONG_WORDS, soon, stream=True, bystanders=1)
    yield from _leaving(settings, repeat, "body", LEAVER_WORDS, soon, stream=False, bystanders=1)
    reset = Leave(after_events=2, reset=True)
    yield from _leaving(settings, repeat, "reset", LEAVER_WORDS, reset, stream=True, bystanders=1)
    yield from _leaving(
        settings, repeat, "queued", LEAVER_WORDS, soon, stream=True, bystanders=settings.width
    )


def _leaving(
    settings: Settings, repeat: int, variant: str, words: int, leave: Leave, stream: bool, bystanders: int
) -> Iterator[Wave]:
    """One client that leaves, others that stay beside it, and the request that has to work afterwards."""
    suffix = "" if variant == "events" else f"_{variant}"
    name = f"disconnect{suffix}-r{repeat}"
    first = variant != "queued"
    leaver = Call(
        f"{name}-0", DISCONNECTING, words, settings.max_tokens, f"{name}-0",
        0.0 if first else JUST_BEHIND_S, leave, stream,
    )  # fmt: skip
    offset_s = JUST_BEHIND_S if first else 0.0
    staying = [
        _stream(f"{name}-{i}", STREAM_WORDS, settings.max_tokens, offset_s) for i in range(1, bystanders + 1)
    ]
    yield Wave(name, "disconnect", 1 + bystanders, repeat, (leaver, *staying), variant)
    name = f"recover{suffix}-r{repeat}"
    recovery = _chat(f"{name}-0", AFTERWARDS_WORDS, settings.max_tokens)
    yield Wave(name, "recover", 1, repeat, (recovery,))


def _leak(settings: Settings, repeat: int) -> Iterator[Wave]:
    width = settings.width
    yield _together(settings, "leak", width, repeat, "", f"leak_before-r{repeat}")
    name, leavers = f"leak_leavers-r{repeat}", 2 * width + 1
    calls = [
        Call(f"{name}-{i}", DISCONNECTING, STREAM_WORDS, settings.max_tokens, f"{name}-{i}",
             leave=Leave(after_events=2), stream=True)
        for i in range(leavers)
    ]  # fmt: skip
    yield Wave(name, "leak", leavers, repeat, tuple(calls), "leak")
    # Right behind them, and then once more: where the server does not tell, the difference shows held slots.
    yield _together(settings, "leak", width, repeat, "", f"leak_probe-r{repeat}")
    yield _together(settings, "leak", width, repeat, "", f"leak_after-r{repeat}")


def _isolation(settings: Settings, repeat: int) -> Iterator[Wave]:
    """The same prompts alone, together, and together as streams: what one alone says is the reference."""
    count = max(_levels(settings))
    topics = [f"isolation-r{repeat}-{i}" for i in range(count)]
    words, tokens = settings.short_words, settings.max_tokens
    for i, topic in enumerate(topics):
        name = f"isolation_alone{i}-r{repeat}"
        yield Wave(name, "isolation", 1, repeat, (_chat(f"{name}-0", words, tokens, topic=topic),))
    name = f"isolation-{count}-r{repeat}"
    together = [_chat(f"{name}-{i}", words, tokens, topic=topic) for i, topic in enumerate(topics)]
    yield Wave(name, "isolation", count, repeat, tuple(together))
    name = f"isolation_streams-{count}-r{repeat}"
    together = [_stream(f"{name}-{i}", words, tokens, topic=topic) for i, topic in enumerate(topics)]
    yield Wave(name, "isolation", count, repeat, tuple(together))
    # A long prompt, and the same once more: a cache that nobody reports shows in the time to first token.
    for name in (f"isolation_new-r{repeat}", f"isolation_again-r{repeat}"):
        call = _stream(f"{name}-0", LONG_WORDS, tokens, topic=f"isolation-r{repeat}-long")
        yield Wave(name, "isolation", 1, repeat, (call,))


def _long_context(settings: Settings, repeat: int) -> Iterator[Wave]:
    return _contexts(settings, repeat, f"r{repeat}")


def _contexts(settings: Settings, repeat: int, label: str) -> Iterator[Wave]:
    for length in settings.context_lengths:
        name = f"long_context-{length}-{label}"
        call = Call(
            f"{name}-0", STREAMING, length, settings.context_max_tokens, f"{name}-0",
            stream=True, prompt_tokens=length,
        )  # fmt: skip
        yield Wave(name, "long_context", 1, repeat, (call,))


CASES = {
    "single": _single,
    "ladder": _ladder,
    "interleave": _interleave,
    "streams": _streams,
    "disconnect": _disconnect,
    "disconnect_variants": _disconnect_variants,
    "leak": _leak,
    "isolation": _isolation,
    "long_context": _long_context,
}
