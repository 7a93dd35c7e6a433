"""What a run shows while it works: a bar with the time left on a terminal, a line per event elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LINE_WIDTH = 140
STYLES = {"pass": "green", "fail": "red", "error": "red", "unfinished": "yellow"}


class Display:
    """Speaks on stderr only, so that stdout stays free for results. `quiet` says nothing."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.live = self.console.is_terminal and not quiet
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.live,
        )
        self.task = self.progress.add_task("", total=None)
        self.stages_done = 0

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def stages(self, count: int) -> None:
        """How many times an engine will be started and loaded."""
        self.progress.update(self.task, total=count)

    def stage(self, name: str, doing: str) -> None:
        self.progress.update(self.task, description=f"{name}: {doing}")
        if not self.live:
            self.say(f"{name}: {doing}")

    def under_way(self, name: str, doing: str, share: float) -> None:
        """How much of this stage is done."""
        self.progress.update(self.task, description=f"{name}: {doing}", completed=self.stages_done + share)

    def skip_to(self, stages_done: int) -> None:
        """Some stages were not needed."""
        self.stages_done = stages_done
        self.progress.update(self.task, completed=stages_done)

    def stage_done(self) -> None:
        self.stages_done += 1
        self.progress.update(self.task, completed=self.stages_done)

    def outcome(self, name: str, status: str, line: str = "") -> None:
        style = STYLES.get(status, "")
        self.console.print(
            f"[{style}]{status}[/] {name}" + (f": {escape(line)}" if line else ""), soft_wrap=True
        )

    def say(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)


def results_console() -> Console:
    """Where results go: stdout."""
    console = Console()
    if not console.is_terminal:
        console.width = LINE_WIDTH  # a log or a file: wide enough for every table
    return console


def complain(line: str) -> None:
    print(f"headtohead: {line}", file=sys.stderr)
