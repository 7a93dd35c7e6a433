"""The highest rate that keeps to limits: its search, what a user sees, and that the answer is right."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from launchers.capacity_search import Search
from launchers.simulator import profile
from tests.launchers.support import becomes, processes_marked

HEADTOHEAD = [sys.executable, "-m", "launchers"]
PROFILE = "vllm-2080ti-tp4"
TOKENS, PROMPT_WORDS = 32, 128
PLAN = f"""
name = "proof"
[workload.traffic]
load = "poisson"
hold_s = 50
settle_s = 10
mix = {{ chat = 1 }}
prompt_words = "{PROMPT_WORDS}"
output_tokens = "{TOKENS}"
[workload.slo]
latency_ms = 5500
[[arm]]
name = "vllm"
engine = "simulated"
mode = "batch"
settings = {{ profile = "{PROFILE}", time_scale = 20.0 }}
"""


def known_limit(prompt_tokens: float) -> float:
    """Requests a second that the simulated engine can serve at all, from what its iterations cost.

    Under more load than it can serve all W slots are always taken. A request of T tokens is in T iterations:
    one ends its prefill and gives the first token, T - 1 decode. So of the W running on average W (T - 1) / T
    decode, which sets the decode part of an iteration's cost, and every request that is admitted adds the
    prefill of its P tokens, at c seconds each, to one iteration that all W wait for:

        service time at width W = T * step(W (T - 1) / T) + W * P * c
        limit                   = W / service time
    """
    costs = profile.load(PROFILE, "batch", [])
    width = costs.width
    widths, steps = zip(*sorted(costs.step_s.items()), strict=True)
    step_s = float(np.interp(width * (TOKENS - 1) / TOKENS, widths, steps))
    return width / (TOKENS * step_s + width * prompt_tokens * costs.prefill_token_s)


def headtohead(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HEADTOHEAD, *map(str, words)], capture_output=True, text=True, timeout=300)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def test_the_capacity_of_a_simulated_engine_is_what_its_iterations_allow(plan: Path, tmp_path: Path) -> None:
    """Its limits leave two service times to wait: enough to come near what it can do, not to pass it."""
    out = tmp_path / "the-capacity"
    done = headtohead("capacity", plan, "--rate", "2.7", "--within", "10%", "--out", out, "--json")

    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["arms"]
    rows = [out / probe["folder"] / "requests.csv" for probe in found["probes"]]
    prompt_tokens = np.median(np.genfromtxt(rows[0], delimiter=",", names=True, dtype=None)["prompt_tokens"])
    limit = known_limit(float(prompt_tokens))
    assert found["holds"] == pytest.approx(limit, rel=0.10), done.stderr
    assert found["holds"] < found["fails"] <= found["holds"] * 1.1
    assert found["ended"] == "narrowed to 10%"
    for probe in found["probes"]:
        assert probe["holds"] == (probe["rate"] <= found["holds"])
        # Beyond its limit the server answers what it can, and no more.
        assert probe["found"]["completed_s"] == pytest.approx(min(probe["rate"], limit), rel=0.15)
    assert json.loads((out / "capacity.json").read_text())["arms"] == [found]
    assert not processes_marked(str(out))


def test_ctrl_c_keeps_the_rows_and_says_what_is_known_so_far(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "the-capacity"
    argv = [*HEADTOHEAD, "capacity", str(plan), "--rate", "1", "--hold", "20", "--out", str(out)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert becomes(lambda: list(out.glob("vllm/probe-02-at-2/requests.csv")))
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)

    assert process.returncode == 130, stderr
    assert "vllm: 1 requests/s with 95 % in time (latency ≤ 5500 ms), or more: interrupted" in stdout
    assert stderr.endswith(f"everything is stopped; the rows are kept in {out}\n")
    state = json.loads((out / "capacity.json").read_text())
    assert (state["status"], state["arms"][0]["status"]) == ("interrupted", "unfinished")
    assert json.loads((out / "vllm/probe-02-at-2/record.json").read_text())["status"] == "unfinished"
    assert not processes_marked(str(out))


def test_traffic_in_a_plan_is_run_level_by_level_and_shows_goodput(plan: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN.replace("hold_s = 50", "levels = [2, 8]\nhold_s = 40"))
    out = tmp_path / "the-run"
    done = headtohead("run", plan, "--out", out, "--json")

    summary = json.loads(done.stdout)
    client = {v["check"] for v in summary["verdicts"]["vllm"] if v["status"] == "fail"}
    assert client <= {"client.cpu", "client.lag"}, done.stderr
    light, heavy = summary["traffic"]
    assert (light["load"], heavy["load"]) == ("poisson 2/s", "poisson 8/s")
    assert light["in_time"] > 90 > 50 > heavy["in_time"]
    assert heavy["goodput_s"] < light["goodput_s"] == pytest.approx(light["requests_s"], rel=0.1)
    assert "Goodput" in (out / "report.md").read_text()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--share", "120%"), "--share 120%: must be a share, such as 95% or 0.95"),
        (("--mix", "stream"), "--mix stream: must look like 'stream=3 chat=1'"),
        (("--hold", "3", "--settle", "4"), "settle_s = 4 leaves nothing to record of 3 s"),
        (
            ("--prompt-words", "many"),
            "is 'many'; write '128', '64-512' or 'lognormal:200:0.6' (median, sigma)",
        ),
    ],
)
def test_bad_input_is_one_line(plan: Path, words: tuple[str, ...], complaint: str) -> None:
    done = headtohead("capacity", plan, *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("headtohead: ")
    assert done.stderr.endswith(f"{complaint}\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "no limit to hold; give --ttft-ms or --latency-ms, or [workload.slo] in a plan"),
        (("--tpot-ms", "50"), "TPOT holds however long requests queue; add --ttft-ms or --latency-ms"),
        (("--ttft-ms", "50", "--mix", "chat=1"), "only streams show a first token; add stream=1 to --mix, "
         "or --latency-ms"),
    ],
)  # fmt: skip
def test_limits_have_to_bound_the_wait(tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('name = "cases"\n[[arm]]\nengine = "simulated"\nmode = "batch"\n')
    done = headtohead("capacity", path, *words)

    assert (done.returncode, done.stderr) == (2, f"headtohead: {path}: {complaint}\n")


def searched(search: Search, holds: Callable[[float], bool | None]) -> list[float]:
    """The rates that were tried."""
    tried = []
    while (rate := search.next_rate()) is not None:
        tried.append(rate)
        search.note(rate, holds(rate))
    return tried


@pytest.mark.parametrize("limit", [0.03, 0.9, 1.0, 7.3, 100.0])
def test_the_search_ends_as_near_as_was_asked(limit: float) -> None:
    search = Search(1.0, 0.05, 30)
    searched(search, lambda rate: rate <= limit)

    assert search.lower is not None
    assert search.upper is not None
    assert search.lower <= limit < search.upper <= search.lower * 1.05
    assert search.ended == "narrowed to 5%"


def test_the_search_never_makes_more_probes_than_allowed() -> None:
    search = Search(1.0, 0.05, 5)

    assert searched(search, lambda rate: rate <= 10) == [1, 2, 4, 8, 16]
    assert (search.lower, search.upper, search.ended) == (8, 16, "5 probes were made")


def test_a_server_that_holds_nothing_is_given_up() -> None:
    search = Search(1.0, 0.05, 99)
    tried = searched(search, lambda _: False)

    assert search.lower is None
    assert tried == [2.0**-n for n in range(10)]
    assert search.ended == f"nothing holds down to {tried[-1]:g} requests/s"


def test_a_probe_that_was_not_valid_is_made_once_more() -> None:
    answers = iter([True, None, True, True, None, None])
    search = Search(1.0, 0.05, 99)

    assert searched(search, lambda _: next(answers)) == [1, 2, 2, 4, 8, 8]
    assert (search.lower, search.upper) == (4, None)
    assert search.ended == "two probes in a row were not valid"
