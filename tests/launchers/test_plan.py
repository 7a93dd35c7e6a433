"""A wrong plan gives one line for each mistake: the file, the key, what is wrong, how to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchers import plan
from launchers.errors import PlanError

GOOD = """
name = "two"
seed = 7
[workload]
repeats = 5
[[arm]]
engine = "simulated"
mode = "batch"
[arm.settings]
profile = "anything"
[[arm]]
name = "control"
engine = "simulated"
mode = "serial"
"""


def read(tmp_path: Path, text: str) -> plan.Plan:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return plan.read(path)


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(PlanError) as told:
        read(tmp_path, text)
    return [line.removeprefix(f"{tmp_path}/plan.toml: ") for line in str(told.value).splitlines()]


def test_a_good_plan_with_its_defaults(tmp_path: Path) -> None:
    two = read(tmp_path, GOOD)

    assert [arm.name for arm in two.arms] == ["simulated-batch", "control"]
    assert two.workload.ladder == [2, 4, 8]
    assert two.workload.cases == ["single", "ladder", "interleave", "streams", "disconnect"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("seed = 7", "sed = 7"), "sed: unknown key; did you mean 'seed'?"),
        (("repeats = 5", "repeat = 5"), "workload.repeat: unknown key; did you mean 'repeats'?"),
        (("repeats = 5", "repeats = 0"), "workload.repeats: is 0; must be greater than or equal to 1"),
        (("repeats = 5", "ladder = []"), "workload.ladder: must not be empty"),
        (("repeats = 5", "ladder = [2, -1]"), "workload.ladder 2: is -1; must be greater than or equal to 1"),
        (
            ('mode = "serial"', 'mode = "fast"'),
            "arm 2 mode: is 'fast'; must be 'batch', 'serial' or 'static'",
        ),
        (
            ('name = "control"', 'name = "a/b"'),
            "arm 2 name: is 'a/b'; use letters, digits, '.', '_' and '-' only",
        ),
        (('name = "control"', "port = 99999"), "arm 2 port: is 99999; must be less than or equal to 65535"),
        (('name = "control"\nengine = "simulated"', 'name = "control"'), "arm 2 engine: missing; add it"),
        (
            ('name = "control"', 'name = "simulated-batch"'),
            "two arms are named 'simulated-batch'; give each its own name",
        ),
        (("seed = 7", "blocks = 6"), "blocks = 6 needs at least as many workload.repeats, not 5"),
        (("repeats = 5", 'cases = ["sngle"]'), "workload.cases 1: is 'sngle'; must be 'single', "),
    ],
)
def test_one_mistake_is_one_line(tmp_path: Path, change: tuple[str, str], line: str) -> None:
    told = mistakes(tmp_path, GOOD.replace(*change))

    assert len(told) == 1
    assert told[0].startswith(line)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    told = mistakes(tmp_path, GOOD.replace("seed = 7", "seed = -1").replace('"serial"', '"fast"'))

    assert [line.split(":")[0] for line in told] == ["seed", "arm 2 mode"]


def test_a_plan_that_is_no_toml(tmp_path: Path) -> None:
    told = mistakes(tmp_path, 'name = "x')

    assert len(told) == 1
    assert told[0].startswith("not TOML: ")


def test_a_plan_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(PlanError, match="not UTF-8 text"):
        plan.read(tmp_path / "plan.toml")


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="No such file or directory; give the path of a TOML file"):
        plan.read(tmp_path / "none.toml")


def test_repeats_are_shared_out_over_the_blocks(tmp_path: Path) -> None:
    blocks = read(tmp_path, GOOD.replace("seed = 7", "blocks = 2"))

    assert [blocks.repeats_of_block(block) for block in (1, 2)] == [(1, 3), (4, 2)]
