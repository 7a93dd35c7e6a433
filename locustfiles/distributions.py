"""Lengths that vary: a number, a range, or a log-normal distribution."""

import math
import random
import re
from argparse import ArgumentTypeError
from dataclasses import dataclass

NUMBER = r"(\d+(?:\.\d+)?)"


@dataclass(frozen=True, slots=True)
class Distribution:
    """`low` to `high`, each as likely; or with `sigma`, log-normal with median `low` and at most `high`."""

    low: float
    high: float
    sigma: float = 0.0

    def draw(self, source: random.Random) -> float:
        """One length, at least 1."""
        if self.sigma:
            return max(min(source.lognormvariate(math.log(self.low), self.sigma), self.high), 1.0)
        return source.uniform(self.low, self.high)


# Beyond four sigma a draw would be one in 30,000, and could be any length.
SIGMAS = 4


def distribution(text: str) -> Distribution:
    """Out of "128", "64-512" or "lognormal:200:0.6" (median and sigma)."""
    if found := re.fullmatch(NUMBER, text.strip()):
        low = high = float(found[1])
    elif found := re.fullmatch(f"{NUMBER}-{NUMBER}", text.strip()):
        low, high = float(found[1]), float(found[2])
    elif found := re.fullmatch(f"lognormal:{NUMBER}:{NUMBER}", text.strip()):
        low, sigma = float(found[1]), float(found[2])
        if low >= 1 and 0 < sigma <= 3:
            return Distribution(low, low * math.exp(SIGMAS * sigma), sigma)
        low = high = 0.0
    else:
        low = high = 0.0
    if not 1 <= low <= high:
        raise ArgumentTypeError(f"{text!r} is not a length: write 128, 64-512 or lognormal:200:0.6")
    return Distribution(low, high)
