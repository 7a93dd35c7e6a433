"""What the engine reads and says: tokens of a prompt, and an answer that depends on nothing else."""

from __future__ import annotations

import hashlib
import random
import re

from launchers.simulator.asking import Message

TOKEN = re.compile(r"\w+|[^\w\s]")
TEMPLATE_TOKENS = 8  # what a chat template adds around one message
WORDS = tuple(
    re.findall(
        r"\w+",
        "the a each every some which that this both either server queue batch slot token prompt wave stream "
        "client engine answer request kernel cache page budget width step and but or so while because until "
        "after before under over beside waits runs ends starts keeps serves holds drops sends reads counts "
        "shares takes gives slowly quickly often never always again together alone early late evenly fairly "
        "idle busy short long full empty first last next whole half same other plain real ",
    )
)


def tokens(messages: list[Message]) -> list[str]:
    """The prompt's tokens: words and punctuation marks, and a template's few for each message."""
    found: list[str] = []
    for message in messages:
        found += [f"<{message.role}>"] * TEMPLATE_TOKENS
        found += TOKEN.findall(message.text)
    return found


def answer(prompt: list[str], count: int) -> list[str]:
    """`count` tokens of text, drawn by a hash of the prompt; equal prompts get equal answers."""
    seed = hashlib.sha256("\x00".join(prompt).encode()).digest()
    draw = random.Random(seed)
    return [(" " if i else "") + draw.choice(WORDS) for i in range(count)]
