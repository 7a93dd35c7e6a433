"""A run that was cut short is reported with what there is."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import analysis
from tests.analysis.made_run import Engine, make_run


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_run_with_hardly_any_answer_is_reported(tmp_path: Path, kept: int) -> None:
    """All but `kept` requests of each arm were in flight when it stopped, and had brought nothing yet."""
    make_run(tmp_path, {"alpha": Engine(), "beta": Engine(speed=1.2)}, repeats=1)
    for path in tmp_path.glob("*/requests.csv"):
        rows = pd.read_csv(path, dtype=str)
        cut = rows.index[kept:]
        rows.loc[cut, "outcome"] = "unfinished"
        measured = ["first_event_ms", "ttft_ms", "last_token_ms", "latency_ms", "completion_tokens"]
        rows.loc[cut, measured] = None
        rows.to_csv(path, index=False)

    written = analysis.report(tmp_path)

    assert "in flight" in next(path for path in written if path.suffix == ".md").read_text()


def test_a_run_without_any_row_is_reported(tmp_path: Path) -> None:
    make_run(tmp_path, {"alpha": Engine()}, repeats=1)
    for path in tmp_path.glob("*/*.csv"):
        path.write_text(path.read_text().splitlines()[0] + "\n")

    assert any(path.suffix == ".html" for path in analysis.report(tmp_path))
