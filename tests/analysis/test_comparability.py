"""Which figures may be divided by which: refused, forced, paired."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from analysis import compare, load, load_many, report, tables
from analysis.rundata import load_arm
from tests.analysis.made_run import Asked, Engine, MadeArm, make_run, rewrite


def test_unequal_payloads_are_refused_and_forced_with_the_reason_above_every_table(run_dir: Path) -> None:
    for mode in ("batch", "serial"):
        rewrite(run_dir / f"vllm-{mode}" / "requests.csv", payload_sha256="other bytes")
    ratio = tables(load(run_dir))["head_to_head"]
    assert ratio["pocketllm_vllm_ratio"].isna().all()
    assert set(ratio["pocketllm_vllm_finding"]) == {"refused"}
    assert ratio["pocketllm_vllm_ratio_mark"].str.contains("compare.payload").all()
    assert tables(load(run_dir))["concurrent"]["vllm_speedup"].notna().all()  # equal on both sides
    report(run_dir, force=True)
    page = (run_dir / "report.md").read_text()
    assert page.count("Compared although compare.payload") >= page.count("\n## ") - 2
    assert tables(load(run_dir), force=True)["head_to_head"]["pocketllm_vllm_ratio"].notna().all()


def test_what_another_case_sent_refuses_only_that_case(tmp_path: Path) -> None:
    """Prompts of exact lengths differ between tokenizers; a ladder sends both engines the same bytes."""
    for name in ("a", "b"):
        arm = MadeArm(f"{name}-batch", name, "batch", Engine())
        arm.acceptance(repeats=2)
        for repeat in (1, 2):
            arm.wave(f"long_context-64-r{repeat}", "long_context", 1, repeat, [Asked(64, stream=True)])
            arm.rows[-1]["payload_sha256"] = f"fitted to {name}"
        arm.write(tmp_path)
    run = load(tmp_path)
    failed = [v["observed"] for v in compare(*run.arms) if v["status"] == "fail"]
    found = tables(run)
    assert failed == ["2 of 46 payloads differ"]
    assert found["head_to_head"]["a_b_ratio"].notna().all()
    assert found["long_context"]["wall_ratio_mark"][0] == "compare.payload: 2 of 2 payloads differ"


def test_no_speedup_is_printed_where_the_work_differs(run_dir: Path) -> None:
    rewrite(run_dir / "pocketllm-serial" / "requests.csv", completion_tokens=31)
    found = tables(load(run_dir))["concurrent"]
    assert found["pocketllm_speedup"].isna().all()
    assert found["pocketllm_speedup_mark"].str.contains("compare.work: .* completion tokens").all()
    assert found["vllm_speedup"].notna().all()


@pytest.mark.parametrize(
    ("column", "value", "record", "code"),
    [
        ("cached_tokens", 64, {}, "compare.cache"),
        ("max_tokens", 64, {}, "compare.settings"),
        (None, None, {"harness": "0.0.9"}, "compare.harness"),
        (None, None, {"effective_width": 4}, "compare.settings"),
        (None, None, {"settings_effective": {"max_context": 4096}}, "compare.settings"),
    ],
)
def test_what_makes_two_arms_incomparable(
    run_dir: Path, column: str | None, value: int, record: dict[str, object], code: str
) -> None:
    other = json.loads((run_dir / "pocketllm-batch" / "record.json").read_text())
    other["settings_effective"] = {"max_context": 8192}
    (run_dir / "pocketllm-batch" / "record.json").write_text(json.dumps(other))
    path = run_dir / "vllm-batch" / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | record))
    if column:
        rewrite(run_dir / "vllm-batch" / "requests.csv", **{column: value})
    run = load(run_dir)
    first, second = run.arm("pocketllm", "batch"), run.arm("vllm", "batch")
    assert first is not None
    assert second is not None
    failed = {v["check"] for v in compare(first, second) if v["status"] == "fail"}
    assert failed == {code}
    assert all(math.isnan(value) for value in tables(run)["head_to_head"]["pocketllm_vllm_ratio"])


@pytest.mark.parametrize(("budget", "alike"), [(4096, True), (16, False)])
def test_a_serial_control_without_a_prefill_budget_is_compared_unless_a_prompt_exceeds_the_others(
    run_dir: Path, budget: int, alike: bool
) -> None:
    for name, value in (("pocketllm-serial", 0), ("vllm-serial", budget)):
        path = run_dir / name / "record.json"
        record = json.loads(path.read_text()) | {"settings_effective": {"prefill_token_budget": value}}
        path.write_text(json.dumps(record))
    run = load(run_dir)
    first, second = run.arm("pocketllm", "serial"), run.arm("vllm", "serial")
    assert first is not None
    assert second is not None
    failed = {v["check"] for v in compare(first, second) if v["status"] == "fail"}
    assert failed == (set() if alike else {"compare.settings"})


def test_runs_side_by_side_are_compared(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", {"alpha": Engine()}, repeats=3)
    two = make_run(tmp_path / "two", {"beta": Engine(speed=1.3)}, repeats=3)
    found = tables(load_many([one, two]))["head_to_head"]
    assert set(found["alpha_beta_finding"]) == {"faster"}


def test_a_silent_prompt_cache_shows_in_the_time_to_first_token(tmp_path: Path) -> None:
    arms = []
    for name, share in (("honest", 1.0), ("caching", 0.2)):
        arm = MadeArm(f"{name}-batch", name, "batch", Engine(), noise=0.0)
        for repeat in (1, 2, 3):
            arm.wave(f"long_context-512-r{repeat}", "long_context", 1, repeat, [Asked(512, stream=True)])
        for number, row in enumerate(arm.rows):
            row |= {"payload_sha256": "the same bytes", "cached_tokens": ""}
            row["ttft_ms"] = str(float(row["ttft_ms"]) * (share if number else 1.0))
        arm.write(tmp_path)
        arms.append(load_arm(tmp_path / arm.name))
    failed = {v["check"] for v in compare(*arms) if v["status"] == "fail"}
    assert failed == {"compare.cache"}


def test_arms_that_take_turns_are_paired_by_repeat(tmp_path: Path) -> None:
    """A B A B on a machine that gets slower: paired, the difference shows; side by side it would not."""
    made = [MadeArm(f"{name}-batch", name, "batch", Engine(), noise=0.005) for name in ("a", "b")]
    for block in range(8):
        for arm, slower in zip(made, (1.0, 1.06), strict=True):
            arm.engine = Engine(speed=slower * (1 + 0.1 * block))
            arm.now_s = 100.0 * block + 50.0 * (slower > 1)
            for count in (1, 2):
                case = "single" if count == 1 else "ladder"
                arm.wave(f"{case}-{count}-r{block + 1}", case, count, block + 1, [Asked()] * count)
    for arm in made:
        arm.write(tmp_path)
    assert set(tables(load(tmp_path))["head_to_head"]["a_b_finding"]) == {"faster"}
    for arm in made[1:]:  # the same figures, but all of b after all of a
        for row in arm.rows:
            row["sent_ns"] += 10**12
            row["scheduled_ns"] += 10**12
        arm.write(tmp_path)
    assert set(tables(load(tmp_path))["head_to_head"]["a_b_finding"]) == {"no difference shown"}
