"""The engine's own record of when it wrote what, joined to a client's rows by x-request-id later."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

TRUTH = "request,arrived_ns,first_write_ns,first_token_ns,last_token_ns,end_ns,tokens,width_max,outcome\n"
EVENTS = "request,event,at_ns\n"


@dataclass(slots=True)
class Written:
    """Write times of one response, CLOCK_REALTIME in ns; 0: never."""

    request: str
    arrived_ns: int
    event_ns: list[int] = field(default_factory=list)
    first_token_ns: int = 0
    last_token_ns: int = 0
    end_ns: int = 0
    tokens: int = 0
    width_max: int = 0
    outcome: str = "ok"


class Truth:
    """truth.csv and truth_events.csv in `folder`, each request flushed when it is over."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._requests = _open(folder / "truth.csv", TRUTH)
        self._events = _open(folder / "truth_events.csv", EVENTS)

    def write(self, one: Written) -> None:
        first_ns = one.event_ns[0] if one.event_ns else one.end_ns
        cells = (
            one.request, one.arrived_ns, first_ns or "", one.first_token_ns or "", one.last_token_ns or "",
            one.end_ns or "", one.tokens, one.width_max, one.outcome,
        )  # fmt: skip
        self._requests.write(",".join(map(str, cells)) + "\n")
        self._events.write("".join(f"{one.request},{i},{ns}\n" for i, ns in enumerate(one.event_ns)))
        self._requests.flush()
        self._events.flush()


def _open(path: Path, head: str) -> TextIO:
    file = path.open("a", encoding="utf-8")
    if file.tell() == 0:
        file.write(head)
        file.flush()
    return file
