"""A made run of two engines in both modes, of which the second takes 1.3 times as long."""

from pathlib import Path

import pytest

from tests.analysis.made_run import Engine, make_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return make_run(tmp_path, {"pocketllm": Engine(), "vllm": Engine(speed=1.3)}, repeats=3)
