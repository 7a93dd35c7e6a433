"""Which rate to try next: doubled or halved until one holds and one does not, then halved between them."""

from __future__ import annotations

import math

GROWTH = 2.0
# A server that holds nothing at a thousandth of the first rate holds nothing.
LEAST_SHARE_OF_FIRST = 1e-3


class Search:
    """Ask `next_rate`, try it, `note` what came of it, until there is none.

    `lower`: the highest rate that held; `upper`: the lowest that did not. A probe that tells neither is made
    once more; two of them in a row end the search, for what lies beyond cannot be known from here.
    """

    def __init__(self, first_rate: float, within: float, most_probes: int) -> None:
        self.first_rate = first_rate
        self.within = within
        self.most_probes = most_probes
        self.lower: float | None = None
        self.upper: float | None = None
        self.ended = ""  # why there is no next rate, in words; "" while there is one
        self._probes = 0
        self._again: float | None = None

    def next_rate(self) -> float | None:
        """None: the search is over."""
        if not self.ended and self._closed():
            self.ended = f"narrowed to {self.within:.0%}"
        if not self.ended and self._probes >= self.most_probes:
            self.ended = f"{self.most_probes} probes were made"
        if self.ended:
            return None
        if self._again is not None:
            return self._again
        if self.lower is not None and self.upper is not None:
            return math.sqrt(self.lower * self.upper)
        if self.lower is not None:
            return self.lower * GROWTH
        if self.upper is not None:
            return self._halved(self.upper)
        return self.first_rate

    def note(self, rate: float, holds: bool | None) -> None:
        """What came of it; None: the probe was not valid."""
        self._probes += 1
        if holds is None:
            if self._again == rate:
                self.ended = "two probes in a row were not valid"
            self._again = rate
            return
        self._again = None
        if holds:
            self.lower = rate
        else:
            self.upper = rate

    def _closed(self) -> bool:
        return (
            self.lower is not None and self.upper is not None and self.upper <= self.lower * (1 + self.within)
        )

    def _halved(self, rate: float) -> float | None:
        lower = rate / GROWTH
        if lower < self.first_rate * LEAST_SHARE_OF_FIRST:
            self.ended = f"nothing holds down to {rate:g} requests/s"
            return None
        return lower
