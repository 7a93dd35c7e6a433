"""What can be said while the run goes on: speeds of the last seconds, verdicts, and how the arms compare.

For the web page only. The figures that count are made from the rows afterwards.
"""

import statistics
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from locustfiles.rows import RequestRow

WINDOW_S = 10.0
HISTORY = 1800
FIGURES = ("running", "requests_s", "output_tok_s", "ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "failed")


@dataclass(slots=True)
class Wall:
    """A wave from its first sending to its last end."""

    first_ns: int
    last_ns: int = 0
    tokens: int = 0


@dataclass(slots=True)
class ArmSoFar:
    """One arm's waves by (case, count) and name."""

    arm: str
    mode: str
    waves: dict[tuple[str, int], dict[str, Wall]] = field(default_factory=dict)


class Live:
    """Fed with every row that is written; read by the web page."""

    def __init__(self) -> None:
        self.arms: dict[str, ArmSoFar] = {}
        self.verdicts: Counter[str] = Counter()
        self.history: deque[dict[str, float | None]] = deque(maxlen=HISTORY)
        self._recent: deque[tuple[float, RequestRow]] = deque()
        self._failed = 0

    def begin(self) -> None:
        """A new run: its own verdicts; the arms stay for comparison."""
        self.verdicts.clear()
        self.history.clear()
        self._recent.clear()
        self._failed = 0

    def keep(self, row: RequestRow, folder: str) -> None:
        """One request has ended; `folder` tells runs of the same name apart."""
        self.verdicts[row.failure or row.outcome] += 1
        self._failed += row.outcome == "failed"
        self._recent.append((time.monotonic(), row))
        if row.repeat == 0 or row.outcome != "ok" or row.sent_ns is None or row.latency_ms is None:
            return
        arm = self.arms.setdefault(folder, ArmSoFar(row.arm, row.mode))
        walls = arm.waves.setdefault((row.case, row.count), {})
        wall = walls.setdefault(row.wave, Wall(row.sent_ns))
        wall.first_ns = min(wall.first_ns, row.sent_ns)
        wall.last_ns = max(wall.last_ns, row.sent_ns + round(row.latency_ms * 1e6))
        wall.tokens += row.completion_tokens or 0

    def sample(self, running: int) -> None:
        """Put the last seconds into the history; to be called once a second."""
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - WINDOW_S:
            self._recent.popleft()
        rows = [row for _, row in self._recent if row.outcome in ("ok", "disconnected")]
        ttft = sorted(row.ttft_ms for row in rows if row.ttft_ms is not None)
        tokens = sum(row.completion_tokens or 0 for row in rows)
        self.history.append(
            {
                "at": time.time(),
                "running": running,
                "requests_s": len(rows) / WINDOW_S,
                "output_tok_s": tokens / WINDOW_S,
                "ttft_p50_ms": statistics.median(ttft) if ttft else None,
                "ttft_p95_ms": ttft[min(int(len(ttft) * 0.95), len(ttft) - 1)] if ttft else None,
                "tpot_p50_ms": _median(_tpot_ms(row) for row in rows),
                "failed": self._failed,
            }
        )

    def table(self) -> list[dict[str, Any]]:
        """The arms run so far, a line for each case and number of requests that started together."""
        lines = []
        for arm in self.arms.values():
            for (case, count), walls in arm.waves.items():
                whole = [wall for wall in walls.values() if wall.last_ns > wall.first_ns]
                if whole:
                    wall_s = statistics.median((wall.last_ns - wall.first_ns) / 1e9 for wall in whole)
                    speed = statistics.median(
                        wall.tokens / ((wall.last_ns - wall.first_ns) / 1e9) for wall in whole
                    )
                    lines.append(
                        {"arm": arm.arm, "mode": arm.mode, "case": case, "n": count, "waves": len(whole),
                         "wall": round(wall_s, 3), "speed": round(speed, 2)}
                    )  # fmt: skip
        return sorted(lines, key=lambda line: (line["case"], line["n"], line["arm"]))


def _tpot_ms(row: RequestRow) -> float | None:
    tokens = row.completion_tokens or 0
    if row.ttft_ms is None or row.last_token_ms is None or tokens < 2:
        return None
    return (row.last_token_ms - row.ttft_ms) / (tokens - 1)


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
