"""Command-line options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path | None, typer.Option(help="Folder of the run; by default results/NAME-TIME.")]
Repeats = Annotated[int | None, typer.Option(min=1, help="Measure each wave so many times.")]
Deadline = Annotated[float | None, typer.Option(min=0.001, help="Seconds without a byte that are a hang.")]
AsJson = Annotated[bool, typer.Option("--json", help="A machine-readable summary on stdout, nothing else.")]
Junit = Annotated[Path | None, typer.Option(help="Also write the verdicts as JUnit XML.")]
Workers = Annotated[int, typer.Option(min=1, help="Locust processes that share the load.")]
Force = Annotated[
    bool, typer.Option(help="Compare although the arms are not comparable; the tables say why.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")]
StartDeadline = Annotated[float, typer.Option(min=0.001, help="Seconds to wait for its first answer.")]
