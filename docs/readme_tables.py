"""Puts the tables of committed reports into README.md: `python docs/readme_tables.py [--check]`.

A line `<!-- FILE # HEADING -->` in the README is followed by the table under that heading of that report, up
to `<!-- end -->`. With --check nothing is written, and a README that is out of date is an error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"<!-- (?P<file>\S+) # (?P<heading>.+?) -->\n.*?<!-- end -->", re.DOTALL)


def table(report: Path, heading: str) -> str:
    """The first table below the heading. Raises SystemExit if there is none."""
    section = report.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    if not lines:
        raise SystemExit(f"{report}: no table under {heading!r}")
    return "\n".join(lines)


def refreshed(text: str) -> str:
    def block(found: re.Match[str]) -> str:
        file, heading = found["file"], found["heading"]
        return f"<!-- {file} # {heading} -->\n\n{table(ROOT / file, heading)}\n\n<!-- end -->"

    return BLOCK.sub(block, text)


def main() -> None:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    new = refreshed(text)
    if "--check" in sys.argv[1:]:
        if new != text:
            sys.exit("README.md is out of date: run python docs/readme_tables.py")
    else:
        readme.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
