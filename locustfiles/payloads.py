"""Requests as bytes: natural text that no cache has seen, the same for every arm of a plan."""

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from locustfiles.settings import Settings
from locustfiles.waves import Call


def _phrases(text: str) -> list[str]:
    return [" ".join(phrase.split()) for phrase in text.split("/")]


_SUBJECTS = _phrases(
    """
    the harbour master / a young engineer / the night train / our neighbour / the old library /
    a careful reader / the mountain road / every second visitor / the town council / a retired pilot /
    the river below the mill / the head gardener / a small bakery / the evening ferry / my former teacher /
    the travelling orchestra / an honest merchant / the village school / the lighthouse keeper /
    a patient doctor
    """
)
_VERBS = _phrases(
    """
    describes / remembers / repairs / measures / follows / explains / leaves behind / looks after /
    crosses / builds / paints / counts / carries / questions / discovers / protects / translates /
    waits for / returns to / writes about
    """
)
_OBJECTS = _phrases(
    """
    a wooden bridge / the first snow of the year / an unfinished map / three letters from the coast /
    the quiet market square / a broken clock / the longest winter / a garden full of herbs /
    the missing key / an ordinary afternoon / the sound of distant bells / a box of photographs /
    the price of good bread / a difficult promise / the shape of the clouds / an empty railway station /
    the colour of the sea / a recipe for soup / the names of the stars / a story without an end
    """
)
_CLOSINGS = _phrases(
    """
    before the rain begins / while the children sleep / as the city wakes up / without saying a word /
    because nobody else would / under a pale moon / after many years abroad / with great patience /
    in the middle of the week / until the lamps go out / for reasons of its own / when the wind turns
    """
)


def prompt(seed: int, topic: str, words: int, nonce: str = "") -> str:
    """`words` words of plain sentences that depend on the seed and the topic only.

    The first word is ten digits that no other topic has, so that no two prompts share a prefix and no cache
    can serve one; `nonce` gives the same sentences other digits. Digits, because most tokenizers then count
    the same whatever they are.
    """
    digest = hashlib.sha256(f"{seed}/{nonce or topic}".encode()).hexdigest()
    text = [f"{int(digest, 16) % 10**10:010d}"]
    for word in _sentences(random.Random(f"{seed}/{topic}")):
        if len(text) >= words:
            break
        text.append(word)
    return " ".join(text)


def _sentences(choice: random.Random) -> Iterator[str]:
    while True:
        parts = [choice.choice(kind) for kind in (_SUBJECTS, _VERBS, _OBJECTS, _CLOSINGS)]
        sentence = " ".join(parts)
        yield from f"{sentence[0].upper()}{sentence[1:]}.".split()


@dataclass(frozen=True, slots=True)
class Payload:
    """The bytes of one request body and their digest."""

    body: bytes
    sha256: str


def messages(seed: int, call: Call, content: str = "") -> list[dict[str, str]]:
    """The chat of a call, the user's message last; `content` replaces that."""
    content = content or " ".join(
        [*(prompt(seed, topic, words) for topic, words in call.blocks), prompt(seed, call.topic, call.words)]
    )
    history = [{"role": role, "content": prompt(seed, topic, words)} for role, topic, words in call.history]
    return [*history, {"role": "user", "content": content}]


def chat(settings: Settings, messages: list[dict[str, str]], max_tokens: int, stream: bool) -> Payload:
    """A chat completion, greedy, in the field order that every arm gets."""
    fields: dict[str, Any] = {
        "model": settings.model,
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": 0,
        "top_p": 1,
        "stream": stream,
        **settings.payload,
    }
    if stream and settings.stream_options:
        fields["stream_options"] = settings.stream_options
    body = json.dumps(fields, ensure_ascii=False).encode()
    return Payload(body, hashlib.sha256(body).hexdigest())
