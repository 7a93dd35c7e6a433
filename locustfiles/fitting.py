"""Prompts of an exact length in the server's own tokens."""

import json
import logging
import math
from typing import Any

from locustfiles import payloads
from locustfiles.settings import Settings
from locustfiles.transport import Connection

logger = logging.getLogger(__name__)

PROBE_WORDS = 64
TRIES = 12
# Closer than this, single filler words do what whole sentences cannot.
FILLER_REACH = 64
FILLER = " a"


class Fitter:
    """Finds prompts by asking the server to count: at /tokenize, else by the usage of one-token answers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection = Connection(settings.target)
        self._fits: dict[int, tuple[int, int]] = {}
        self._tokenizes = True

    def content(self, tokens: int, request: str) -> str:
        """A prompt that comes to `tokens` prompt tokens, chat template included, or as near as it gets.

        Prompts of one length differ in their nonce only. The counting is done with another nonce, so that a
        prefix cache does not know the prompt from it.
        """
        if tokens not in self._fits:
            self._fits[tokens] = self._fit(tokens)
        return self._text(tokens, *self._fits[tokens], nonce=request)

    def _text(self, tokens: int, words: int, fillers: int, nonce: str) -> str:
        topic = f"long_context-{tokens}"
        return payloads.prompt(self._settings.seed, topic, words, nonce) + FILLER * fillers

    def _fit(self, tokens: int) -> tuple[int, int]:
        few, many = (self._count(tokens, words, 0) for words in (PROBE_WORDS, 2 * PROBE_WORDS))
        if few is None or many is None or many <= few:
            logger.error("the server counts no tokens: prompts of %d words instead of tokens", tokens)
            return tokens, 0
        per_word = (many - few) / PROBE_WORDS
        words, fillers = max(round(PROBE_WORDS + (tokens - few) / per_word), 1), 0
        for _ in range(TRIES):
            counted = self._count(tokens, words, fillers)
            if counted is None or counted == tokens:
                break
            missing = tokens - counted
            if 0 < missing <= FILLER_REACH or 0 < -missing <= fillers:
                fillers += missing
            else:
                words, fillers = max(words + math.floor(missing / per_word), 1), 0
        return words, fillers

    def _count(self, tokens: int, words: int, fillers: int) -> int | None:
        messages = [{"role": "user", "content": self._text(tokens, words, fillers, nonce="counting")}]
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
