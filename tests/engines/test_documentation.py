"""docs/engines.md and the plans say what the code says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from launchers import plan
from launchers.engines import ENGINES
from launchers.engines.base import Capabilities
from launchers.resolve import build_engines

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "engines.md").read_text()
FIELDS = ("ignore_eos", "min_tokens", "stream_options", "continuous_usage_stats", "cache_prompt")
LEAVING = {"yes": "stops", "no": "goes on", "late": "stops late", "unknown": "not known"}
NEEDED: dict[str, dict[str, str]] = {
    "command": {"command": "server {port}"},
    "external": {"url": "http://127.0.0.1:1"},
    "pocketllm": {"checkpoint": "checkpoint", "sidecar": "sidecar.py"},
    "sglang": {"checkpoint": "checkpoint"},
}


def table(first_header: str, second_header: str) -> dict[str, list[str]]:
    """The rows of the page's table with these headers, by their first cell."""
    lines = PAGE.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first_header} | {second_header} "))
    rows: dict[str, list[str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
        rows[name.strip("` ")] = cells
    return rows


def capabilities(name: str) -> Capabilities:
    kind = ENGINES[name]
    return kind(kind.Settings.model_validate(NEEDED.get(name, {}))).capabilities()


def test_every_engine_is_on_the_page() -> None:
    assert set(table("engine", "what is started")) == set(ENGINES)


@pytest.mark.parametrize("name", sorted(set(ENGINES) - {"command", "external"}))
def test_what_it_honours_is_what_the_page_says(name: str) -> None:
    told, cells = capabilities(name), table("engine", "`ignore_eos`")[name]
    assert cells[:5] == [told.honours.get(field, "–") for field in FIELDS]
    assert (told.metrics_path or "–") in cells[5]
    assert (told.slots_path or "") in cells[5]
    assert (told.cached is None) == (cells[6] == "–")
    assert cells[7].startswith(LEAVING[told.cancels_on_disconnect])
    assert cells[8] == ("yes" if told.sends_done else "no")


@pytest.mark.parametrize("toml", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_the_arms_on_the_page_are_valid(toml: str) -> None:
    assert_valid({"name": "page", **tomllib.loads(toml)}, "docs/engines.md")


@pytest.mark.parametrize("path", sorted((ROOT / "plans").glob("*.toml")), ids=lambda path: path.stem)
def test_every_plan_is_valid(path: Path) -> None:
    assert_valid(tomllib.loads(path.read_text()), path.name)


def assert_valid(data: dict[str, Any], where: str) -> None:
    parsed = plan.parse(data, where)
    assert len(build_engines(parsed, where)) == len(parsed.arms)
