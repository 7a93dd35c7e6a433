"""Prompts of an exact length in the server's own tokens."""

import json
import logging
import math
from typing import Any

from locustfiles import payloads
from locustfiles.settings import Settings
from locustfiles.transport import Connection

logger = logging.getLogger(__name__)

COUNTING = "counting"
PROBE_WORDS = 64
TRIES = 12
# Closer than this, single filler words do what whole sentences cannot.
FILLER_REACH = 64
FILLER = " a"
SPARE = 8  # fillers that can go again where a nonce takes more tokens than the one counted with


class Fitter:
    """Finds prompts by asking the server to count: at /tokenize, else by the usage of one-token answers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection = Connection(settings.target)
        self._fits: dict[int, tuple[int, int]] = {}
        self._leads: dict[str, int | None] = {}
        self._tokenizes = True

    def content(self, tokens: int, request: str) -> str:
        """A prompt that comes to `tokens` prompt tokens, chat template included, or as near as it gets.

        Prompts of one length differ in their nonce only. The counting is done with another nonce, so that a
        prefix cache does not know the prompt from it; what the two nonces differ by is made up for.
        """
        if tokens not in self._fits:
            self._fits[tokens] = self._fit(tokens)
        words, fillers = self._fits[tokens]
        lead, counted = self._lead(request), self._lead(COUNTING)
        if fillers and lead is not None and counted is not None:
            fillers = max(fillers - (lead - counted), 0)
        return self._text(tokens, words, fillers, nonce=request)

    def _lead(self, nonce: str) -> int | None:
        """Tokens of a short message with the nonce; not at its beginning, where a cache could learn it.

        Digits make tokens with a space before them, in many tokenizers, but with no new line.
        """
        if nonce not in self._leads:
            self._leads[nonce] = self._count(f"Count\n{payloads.prompt(self._settings.seed, '', 1, nonce)}")
        return self._leads[nonce]

    def _text(self, tokens: int, words: int, fillers: int, nonce: str = COUNTING) -> str:
        topic = f"long_context-{tokens}"
        return payloads.prompt(self._settings.seed, topic, words, nonce) + FILLER * fillers

    def _fit(self, tokens: int) -> tuple[int, int]:
        few, many = (self._count(self._text(tokens, words, 0)) for words in (PROBE_WORDS, 2 * PROBE_WORDS))
        if few is None or many is None or many <= few:
            logger.error("the server counts no tokens: prompts of %d words instead of tokens", tokens)
            return tokens, 0
        per_word = (many - few) / PROBE_WORDS
        words, fillers = max(round(PROBE_WORDS + (tokens - SPARE - few) / per_word), 1), 0
        for _ in range(TRIES):
            counted = self._count(self._text(tokens, words, fillers))
            if counted is None or (counted == tokens and fillers >= SPARE):
                break
            missing = tokens - counted
            if SPARE <= fillers + missing <= FILLER_REACH:
                fillers += missing
            else:
                words, fillers = max(words + math.floor((fillers + missing - SPARE) / per_word), 1), 0
        return words, fillers

    def _count(self, content: str) -> int | None:
        messages = [{"role": "user", "content": content}]
        if self._tokenizes:
            counted = self._ask("/tokenize", {"messages": messages}, ["count"])
            if counted is not None:
                return counted
            self._tokenizes = False
        body = json.loads(payloads.chat(self._settings, messages, 1, stream=False).body)
        return self._ask("/v1/chat/completions", body, ["usage", "prompt_tokens"])

    def _ask(self, path: str, body: dict[str, Any], keys: list[str]) -> int | None:
        data = json.dumps({"model": self._settings.model, **body}).encode()
        exchange = self._connection.prepare("POST", path, self._settings.headers, data)
        exchange.send()
        reply = exchange.wait(self._settings.deadline_s)
        if reply.end != "complete" or reply.status != 200:
            return None
        try:
            value = json.loads(reply.body)
            for key in keys:
                value = value[key]
        except (ValueError, KeyError, TypeError):
            return None
        return value if isinstance(value, int) else None
