"""The notebooks run from top to bottom on the files of a run."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import analysis
from tests.analysis.made_run import Engine, make_run

NOTEBOOKS = Path(analysis.__file__).parent / "notebooks"


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_run(
        tmp_path_factory.mktemp("run"), {"alpha": Engine(), "beta": Engine(speed=1.2)}, repeats=2
    )
    analysis.report(folder)
    return folder


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_something(
    path: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_RUN", str(run_dir))
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without outputs"
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/svg+xml" in output.get("data", {}) for output in shown)
    assert any("text/html" in output.get("data", {}) for output in shown)
