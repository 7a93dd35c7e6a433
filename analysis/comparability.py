"""May two arms be compared at all? The `compare.*` verdicts, and which pairs of a run they are asked for."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import pandas as pd

from analysis.rundata import Arm, Run
from analysis.schema import MEASURED_CASES, Verdict, verdict
from analysis.wavemetrics import arm_waves

AGAIN_SHARE = 0.5
REPEATING_CASE = "isolation"
"""The one case that sends a prompt again on purpose."""
LIMITS = ("max_context", "max_model_len", "prefill_token_budget", "kv_dtype", "dtype")


def pairs(run: Run) -> list[tuple[Arm, Arm]]:
    """The pairs that tables divide: each mode against serial of its subject, subjects within one mode."""
    found: list[tuple[Arm, Arm]] = []
    for subject in run.subjects:
        serial = run.arm(subject, "serial")
        if serial:
            others = [run.arm(subject, mode) for mode in run.modes if mode != "serial"]
            found += [(serial, other) for other in others if other]
    for mode in run.modes:
        same = [arm for arm in (run.arm(subject, mode) for subject in run.subjects) if arm]
        found += list(combinations(same, 2))
    return found


def compare(first: Arm, second: Arm) -> list[Verdict]:
    """All `compare.*` checks of one pair of arms, the passed ones too."""
    checks = (_payload, _work, _cache, _settings, _harness)
    return [check(first, second) for check in checks]


def refusal(first: Arm, second: Arm, case: str) -> str:
    """Why the two may not be compared in a case, in words; "" if they may. Token totals: level by level.

    What another case sent is no reason: prompts fitted to two tokenizers differ, a ladder's do not.
    """
    cases = MEASURED_CASES if case in MEASURED_CASES else (case,)
    one, other = (
        replace(arm, requests=arm.requests[arm.requests["case"].isin(cases)]) for arm in (first, second)
    )
    asked = [_payload(one, other), _cache(first, second), _settings(one, other), _harness(first, second)]
    return "; ".join(f"{v['check']}: {v['observed']}" for v in asked if v["status"] == "fail")


def work_differs(first: Arm, second: Arm, case: str, count: int) -> str:
    """How the token totals of one level differ, "" if they are equal. Failed waves say so on their own."""
    left, right = (_totals(arm, case, count) for arm in (first, second))
    both = left.merge(right, left_index=True, right_index=True, suffixes=("_first", "_second"))
    words = []
    for kind in ("prompt", "completion"):
        a, b = both[f"{kind}_tokens_first"].sum(), both[f"{kind}_tokens_second"].sum()
        if a != b:
            words.append(f"{a} against {b} {kind} tokens")
    return f"compare.work: {' and '.join(words)}" if words else ""


def _totals(arm: Arm, case: str, count: int) -> pd.DataFrame:
    waves = arm_waves(arm)
    chosen = waves[
        (waves["case"] == case)
        & (waves["count"] == count)
        & (waves["repeat"] > 0)
        & (waves["ok"] == waves["requests"])
    ]
    return chosen.groupby("repeat")[["prompt_tokens", "completion_tokens"]].sum()


def _title(first: Arm, second: Arm) -> str:
    return f"{first.name} / {second.name}"


def _payload(first: Arm, second: Arm) -> Verdict:
    left, right = (
        arm.recorded.drop_duplicates("request").set_index("request")["payload_sha256"]
        for arm in (first, second)
    )
    both = pd.concat([left, right], axis=1, join="inner", keys=["first", "second"])
    both = both[(both["first"] != "") & (both["second"] != "")]
    differing = int((both["first"] != both["second"]).sum())
    pair = _title(first, second)
    if both.empty:
        return verdict("compare.payload", "skip", "no request in common", "equal bytes", pair)
    status = "fail" if differing else "pass"
    detail = pair
    if differing:
        detail += f"; first: {both.index[both['first'] != both['second']][0]}"
    return verdict("compare.payload", status, f"{differing} of {len(both)} payloads differ", "0", detail)


def _work(first: Arm, second: Arm) -> Verdict:
    waves = pd.concat([arm_waves(first), arm_waves(second)])
    levels = waves[waves["case"].isin(MEASURED_CASES) & (waves["repeat"] > 0)][
        ["case", "count"]
    ].drop_duplicates()
    words = []
    for case, count in levels.itertuples(index=False):
        if difference := work_differs(first, second, str(case), int(count)):
            words.append(f"n = {count}: {difference.removeprefix('compare.work: ')}")
    observed = "; ".join(words) or "token totals are equal"
    return verdict(
        "compare.work", "fail" if words else "pass", observed, "equal totals", _title(first, second)
    )


def _cache(first: Arm, second: Arm) -> Verdict:
    """By the servers' own count of cached tokens; where one does not count, by how soon it answers again.

    Prompts are sent once, except by the isolation case: it shows that a cache was left on, and a cache that
    served nothing else is a warning, for it touched no measured cell.
    """
    pair, limit = _title(first, second), "no prompt served from a cache"
    for arm in (first, second):
        if answers_again_sooner(arm.requests[arm.requests["case"] != REPEATING_CASE]):
            observed = f"{arm.name} answers a prompt it has seen in less than half the time"
            return verdict("compare.cache", "fail", observed, limit, f"{pair}; TTFT pattern, no count given")
    cached = [_cached_tokens(arm.recorded[arm.recorded["case"] != REPEATING_CASE]) for arm in (first, second)]
    if any(cached):
        observed = f"{cached[0]} against {cached[1]} prompt tokens came from a cache"
        return verdict("compare.cache", "fail" if cached[0] != cached[1] else "warn", observed, limit, pair)
    keeping = [arm.name for arm in (first, second) if _keeps_a_cache(arm)]
    if not keeping:
        return verdict("compare.cache", "pass", "no prompt token came from a cache", limit, pair)
    observed = f"{' and '.join(keeping)}: a cache is on, and serves a prompt that is sent again"
    detail = f"{pair}; measured cells sent none again; turn the cache off before prompts repeat"
    return verdict("compare.cache", "warn", observed, limit, detail)


def _cached_tokens(rows: pd.DataFrame) -> int:
    return int(rows["cached_tokens"].sum())


def _keeps_a_cache(arm: Arm) -> bool:
    rows = arm.requests[arm.requests["case"] == REPEATING_CASE]
    return _cached_tokens(rows) > 0 or answers_again_sooner(rows)


def answers_again_sooner(rows: pd.DataFrame) -> bool:
    """Whether lone streams of the very same bytes get their first token in under half the time when repeated.

    Asked only of servers that do not say how many tokens came from a cache.
    """
    if rows["cached_tokens"].notna().any():
        return False
    lone = rows[(rows["stream"] == 1) & (rows["count"] == 1) & rows["ttft_ms"].notna()].sort_values("sent_ns")
    lone = lone[lone["payload_sha256"] != ""]
    again = lone["payload_sha256"].duplicated()
    firsts = lone[~again & lone["payload_sha256"].isin(lone.loc[again, "payload_sha256"])]
    if firsts.empty:
        return False
    return bool(lone.loc[again, "ttft_ms"].median() < AGAIN_SHARE * firsts["ttft_ms"].median())


def _settings(first: Arm, second: Arm) -> Verdict:
    words = []
    for arm in (first, second):
        asked, got = arm.requested_width, arm.record.get("effective_width")
        if asked is not None and got is not None and int(got) != asked:
            words.append(f"{arm.name} runs at width {got}, not the asked {asked}")
    if first.mode == second.mode and first.requested_width != second.requested_width:
        words.append(f"widths asked {first.requested_width} against {second.requested_width}")
    keys = LIMITS if first.mode == second.mode else LIMITS[:2]
    for key in keys:
        if key == "prefill_token_budget" and _whole_prompts(first) and _whole_prompts(second):
            continue
        left, right = (_setting(arm, key) for arm in (first, second))
        if left is not None and right is not None and left != right:
            words.append(f"{key} {left} against {right}")
    budgets = [_budgets(arm) for arm in (first, second)]
    if budgets[0] and budgets[1] and budgets[0] != budgets[1]:
        words.append(f"token budgets {budgets[0]} against {budgets[1]}")
    observed = "; ".join(words) or "limits are equal"
    return verdict(
        "compare.settings", "fail" if words else "pass", observed, "equal limits", _title(first, second)
    )


def _whole_prompts(arm: Arm) -> bool:
    """One request at a time, its prompt in one go: no budget (0), or one that every prompt kept to.

    Streams may carry no usage; their prompts are estimated from their words."""
    rows = arm.recorded
    tokens, words = rows["prompt_tokens"].astype("Float64"), rows["prompt_words"].astype("Float64")
    longest = max(tokens.max(), (tokens / words).max() * words.max()) if tokens.notna().any() else math.inf
    budget = _setting(arm, "prefill_token_budget")
    return arm.mode == "serial" and budget is not None and (budget == 0 or longest <= budget)


def _setting(arm: Arm, key: str) -> Any:
    for kind in ("settings_effective", "settings_asked"):
        value = (arm.record.get(kind) or {}).get(key)
        if value is not None:
            return value
    return None


def _budgets(arm: Arm) -> list[int]:
    measured = arm.recorded[arm.recorded["case"].isin(MEASURED_CASES)]
    return sorted(int(budget) for budget in measured["max_tokens"].dropna().unique())


def _harness(first: Arm, second: Arm) -> Verdict:
    versions = [str(arm.record.get("harness") or "unknown") for arm in (first, second)]
    same = versions[0] == versions[1]
    observed = versions[0] if same else f"{versions[0]} against {versions[1]}"
    return verdict(
        "compare.harness", "pass" if same else "fail", observed, "one version", _title(first, second)
    )
