"""docs/verdicts.md names every code that the program can give, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAMILIES = (
    "http|usage|finish|budget|stream|isolation|equivalence|serial|batch|interleave|disconnect|engine|client|"
    "compare|gate"
)
CODE = re.compile(rf"(?:{FAMILIES})\.(?!csv$|log$|md$)[a-z]+")


def test_the_page_has_the_codes_of_the_program_and_no_other() -> None:
    given = {
        node.value
        for folder in ("analysis", "locustfiles", "launchers")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value)
    }
    page = (ROOT / "docs" / "verdicts.md").read_text()
    explained = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert sorted(explained) == sorted(given)
