"""What the comparison says of two engines that are the same, and of one that is 5 % slower.

    python benchmarks/identical.py [BLOCKS] [REPEATS]

Three simulated engines take turns in one plan: `one` and `same` cost the same, `slower` 1.05 times as much.
Each block (20 of 10 repeats) has engines of its own and is judged by itself, as a reader's run would be.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from analysis import load, tables
from analysis.rundata import Run

BLOCKS, REPEATS = (int(word) for word in (sys.argv[1:] or ["20", "10"]))
SLOWER, COST_S = 1.05, 0.005
PLAN = """
name = "identical"
blocks = {blocks}
[workload]
cases = ["single", "ladder"]
ladder = [4]
repeats = {repeats}
warmups = 1
"""
ARM = """
[[arm]]
name = "{name}-batch"
engine = "simulated"
mode = "batch"
settings = {{ profile = "{profile}" }}
"""
PROFILE = """
width = 8
max_context = 131072
prefill_token_s = {prefill_s:.8f}
[step_s]
1 = {step_s:.8f}
8 = {wide_s:.8f}
"""


def write_plan(folder: Path) -> Path:
    text = PLAN.format(blocks=BLOCKS, repeats=BLOCKS * REPEATS)
    for name, share in (("one", 1.0), ("same", 1.0), ("slower", SLOWER)):
        costs = {"prefill_s": 0.00001 * share, "step_s": COST_S * share, "wide_s": 1.2 * COST_S * share}
        (folder / f"{name}.toml").write_text(PROFILE.format(**costs))
        text += ARM.format(name=name, profile=folder / f"{name}.toml")
    (folder / "plan.toml").write_text(text)
    return folder / "plan.toml"


def findings(run: Run, block: int) -> list[tuple[str, int, str]]:
    """(other engine, requests at once, what is said of `one` against it) of one block's repeats."""
    first = (block - 1) * REPEATS + 1
    arms = [
        replace(arm, requests=arm.requests[arm.requests["repeat"].between(first, first + REPEATS - 1)])
        for arm in run.arms
    ]
    table = tables(replace(run, arms=arms))["head_to_head"]
    return [
        (other, int(row["concurrency"]), str(row[f"one_{other}_finding"]))
        for other in ("same", "slower")
        for _, row in table.iterrows()
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        plan, out = write_plan(Path(scratch)), Path(scratch) / "run"
        command = [sys.executable, "-m", "launchers", "run", str(plan), "--out", str(out), "--quiet"]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        run = load(out)
        counts = Counter(one for block in range(1, BLOCKS + 1) for one in findings(run, block))
        noise = {
            arm.subject: arm.recorded[arm.recorded["case"] == "single"]["latency_ms"] for arm in run.arms
        }
    print(f"{BLOCKS} blocks of {REPEATS} repeats; `one` against the other, by wall time, at 99 % confidence")
    for name, latency_ms in noise.items():
        print(f"  {name}: a lone request {latency_ms.median():.1f} ms, sd {latency_ms.std():.2f} ms")
    for (other, count, said), times in sorted(counts.items()):
        print(f"  {other:7} n = {count}: {said} in {times} of {BLOCKS}")


if __name__ == "__main__":
    main()
