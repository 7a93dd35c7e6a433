"""Where plans are run, for all tests that run one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launchers.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    left = bench.processes()
    for process in left:
        process.kill()
    assert left == [], "a test has to leave no process behind"
