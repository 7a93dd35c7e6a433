"""The matrix fault x detected x false alarms: every fault of the simulated engine, each in an arm of its own.

    python benchmarks/faults.py [--only NAME ...] [--real vllm ...] [--markdown docs/faults-matrix.md]

A fault has to be found under its own code, and every other code that appears has to have a reason in `WHY`.
Dialects, clean engines and real ones (`--real`, after `make engines`) may raise no alarm. Exit 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

from fault_trials import OWN, Result, run, trials

from launchers.simulator.catalogue import DIALECTS, FAULTS

# Codes that a fault earns besides its own, and what is seen there.
WHY: dict[str, dict[str, str]] = {
    "exits": {"http.connection": "the answers that it cut"},
    "text-mixed": {"equivalence.stream": "a text that was mixed differs from the one that was not"},
    "serial-batches": {
        "batch.width": "more at once than the one that was asked for",
        "batch.multiplexes": "next to it, the batch arm gains nothing",
        "interleave.overlap": "without a control",
    },
    "batch-serialises": {
        "batch.width": "one at once, not eight",
        "interleave.overlap": "the short request waits for the long one",
    },
    "slot-leaked": {"batch.width": "the second repeat's ladder meets fewer slots"},
    "bystander-aborted": {"http.connection": "what the bystander saw"},
    "bystander-aborted-by-queued": {"http.connection": "what the bystander saw"},
    "disconnect-breaks-next": {
        "http.status": "what the next request saw",
        "disconnect.leak": "the next request is one of the full-width wave",
    },
}
# What a sound engine is by design, told as a warning: a finding, and no alarm.
SMALL_CPU = {
    "batch.multiplexes": "two at once gain little on a CPU",
    "equivalence.stream": "the numerics of a batch change a word",
    "interleave.overlap": "the short request ends last: its prompt is read behind the long one's",
}
FINDINGS = {
    "llamacpp": SMALL_CPU,
    "vllm": SMALL_CPU,
    "pocketllm-2080ti-tp4": {
        "disconnect.reclaims": "it runs an abandoned request to its end",
        "interleave.overlap": "the short request ends last, as in the published runs",
    },
    "vllm-2080ti-tp4": {"interleave.overlap": "the short request ends last, as in the published runs"},
}
# Real engines that are rightly blamed.
BLAMED = {
    "llamacpp": {
        "disconnect.reclaims": "llama.cpp reads an abandoned prompt to its end",
        "stream.role": "llama.cpp sends no role chunk if the reply begins with half a UTF-8 letter",
    },
}

INTRODUCTION = """# Every fault, and what it is called

Each cell was a run of its own: `headtohead run` on a plan with a simulated engine that has one fault, in
batch mode or in serial mode, with all cases and two repeats. `python benchmarks/faults.py` makes this page;
it fails if a fault is not found under its code, if another code appears without a reason, or if an engine
without a fault is blamed. What a code means: [verdicts.md](verdicts.md). To try one by hand:
`python -m launchers.simulator --fault NAME[:share of requests]`, or `faults = ["NAME"]` in an arm's settings
or in a profile.
"""


def page(results: list[Result]) -> tuple[str, list[str]]:
    """The page, and one line for everything that is not as it has to be."""
    wrong = [line for result in results for line in problems(result)]
    busy = Counter(code for result in results for code in result.found if code in OWN)
    told = ", ".join(f"`{code}` in {count}" for code, count in sorted(busy.items())) or "none"
    parts = [
        INTRODUCTION,
        *table("Faults", results, "fault"),
        *table("Dialects: other ways of saying the same, none of which is blamed", results, "dialect"),
        *table("Engines without a fault, batch and serial", results, "clean"),
        *table("Real engines on a CPU, batch and serial", results, "real"),
        f"{len(results)} runs; {len(wrong)} not as they have to be. In some the machine was busy, which says "
        f"nothing about the server: {told}.",
        *[f"- {line}" for line in wrong],
    ]
    return "\n".join(parts) + "\n", wrong


def problems(result: Result) -> list[str]:
    trial = result.trial
    title = f"{trial.kind} {trial.name} {trial.mode}"
    missed = trial.expected and trial.expected not in result.found
    found = [f"{title}: not found under {trial.expected}"] if missed else []
    explained = WHY.get(trial.name, {}) | BLAMED.get(trial.name, {})
    findings = FINDINGS.get(trial.name, {})
    return found + [
        f"{title}: {code} ({status}) has no reason"
        for code, status in result.others.items()
        if code not in explained and not (code in findings and status == "warn")
    ]


def reasons(name: str) -> dict[str, str]:
    return WHY.get(name, {}) | BLAMED.get(name, {}) | FINDINGS.get(name, {})


def table(title: str, results: list[Result], kind: str) -> list[str]:
    """One row a name, its modes side by side."""
    names = list(dict.fromkeys(result.trial.name for result in results if result.trial.kind == kind))
    if not names:
        return []
    what = FAULTS if kind == "fault" else DIALECTS
    rows = [f"## {title}", ""]
    if kind == "fault":
        rows += ["| fault | what it does | has to be found as | batch | serial | besides, and why |"]
        rows += ["|---|---|---|---|---|---|"]
    else:
        rows += ["| | what it does | alarms | findings |", "|---|---|---|---|"]
    for name in names:
        mine = [result for result in results if result.trial.name == name and result.trial.kind == kind]
        does = what[name].__doc__ if name in what else "all cases"
        known, others = reasons(name), {code: s for result in mine for code, s in result.others.items()}
        besides = "; ".join(f"`{code}`: {known.get(code, 'no reason')}" for code in sorted(others))
        if kind == "fault":
            by_mode = {result.trial.mode: result.detected for result in mine}
            modes = " | ".join(by_mode.get(mode, "–") for mode in ("batch", "serial"))
            rows.append(f"| {name} | {does} | `{mine[0].trial.expected}` | {modes} | {besides} |")
        else:
            alarms = ", ".join(f"`{code}`" for code in sorted(others) if code not in known) or "none"
            findings = "; ".join(f"`{code}`: {known[code]}" for code in sorted(others) if code in known)
            rows.append(f"| {name} | {does} | {alarms} | {findings} |")
    return [*rows, ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="names of faults, dialects or profiles")
    parser.add_argument("--real", nargs="*", default=[], help="engines with a plan NAME-cpu.toml")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    options = parser.parse_args()
    wanted, results = trials(options.only, options.real), []
    simulated = [trial for trial in wanted if trial.kind != "real"]
    alone = [trial for trial in wanted if trial.kind == "real"]  # each needs the whole machine
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in chain(pool.map(run, simulated), map(run, alone)):
            results.append(result)
            trial = result.trial
            also = ", ".join(f"{code} {status}" for code, status in result.others.items())
            seen = f"{trial.expected} {result.detected}" if trial.expected else "-"
            print(f"{trial.kind} {trial.name} {trial.mode}: {seen}; {also or 'nothing else'}", flush=True)
    text, wrong = page(results)
    print("\n".join(wrong) or "every fault found under its code, no other without a reason, no false alarm")
    if options.markdown:
        options.markdown.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
