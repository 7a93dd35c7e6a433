"""What happens after a client leaves: to the next request, to the slot, to the others, in the long run."""

from __future__ import annotations

import pandas as pd

from analysis.rundata import Arm
from analysis.schema import Verdict, verdict
from analysis.wavemetrics import arm_waves, tpot_ms

RECLAIM_SHARE = 0.5
RECLAIM_FLOOR_S = 0.15
"""Real seconds below which the server's answers about itself cannot resolve a reclaim."""
LEAK_LIMIT = 1.25


def verdicts(arm: Arm) -> list[Verdict]:
    return [_recovers(arm), _reclaims(arm), _leak(arm), _bystanders(arm)]


def _recovers(arm: Arm) -> Verdict:
    limit = "every request after a disconnect passes"
    after = arm.requests[arm.requests["case"] == "recover"]
    if after.empty:
        return verdict("disconnect.recovers", "skip", "no disconnect", limit)
    bad = _due_to_leaving(arm, after[after["outcome"] != "ok"])
    status = "fail" if len(bad) else "pass"
    return verdict(
        "disconnect.recovers", status, f"{len(after) - len(bad)} of {len(after)}", limit, _first(bad)
    )


def _due_to_leaving(arm: Arm, bad: pd.DataFrame) -> pd.DataFrame:
    """Those whose failure has no other reason: not also seen where nobody had left, not the engine's end.

    Nor an id given twice: both requests have it from their beginning, whoever leaves later.
    """
    elsewhere = arm.requests[~arm.requests["case"].isin(["disconnect", "recover", "leak"])]
    known = set(elsewhere["failure"]) - {""}
    if str(arm.record.get("failure") or "").startswith("engine."):
        known |= {"http.connection", "engine.hang"}
    twice = arm.requests["response_id"][arm.requests["response_id"].duplicated()]
    id_given_twice = (bad["failure"] == "stream.identity") & bad["response_id"].isin(set(twice) - {""})
    return bad[~bad["failure"].isin(known) & ~id_given_twice]


def _first(bad: pd.DataFrame) -> str:
    if bad.empty:
        return ""
    one = bad.iloc[0]
    return f"{one['request']}: {one['failure'] or one['outcome']} {one['detail']}".strip()


def _reclaims(arm: Arm) -> Verdict:
    """Free long before the abandoned request would have ended; never, or at its end, is too late."""
    found = pd.DataFrame(arm.conduct.get("reclaims") or [], columns=["repeat", "variant", "reclaim_s", "how"])
    seconds = found["reclaim_s"].astype("float64") * arm.time_scale
    if found.empty:
        found = _probed(arm)
        seconds = found["reclaim_s"]
    left_s = _rest_s(arm)
    if found.empty or left_s is None:
        limit = "free before the abandoned request would have ended"
        detail = "case leak finds out by probing"
        observed = "the server does not tell, or nobody left"
        return verdict("disconnect.reclaims", "skip", observed, limit, detail)
    limit_s = max(RECLAIM_SHARE * left_s, RECLAIM_FLOOR_S * arm.time_scale)
    limit = f"{limit_s:.3f} s (half of what the abandoned request had to go)"
    worst = int(seconds.fillna(float("inf")).to_numpy().argmax())
    late = int((seconds.isna() | (seconds > limit_s)).sum())
    shown = "never" if pd.isna(seconds.iloc[worst]) else f"{seconds.iloc[worst]:.3f} s"
    variant, how = found.iloc[worst][["variant", "how"]]
    detail = f"worst of {len(found)}, client left: {variant}; by {how}; {late} too late"
    if not late:
        return verdict("disconnect.reclaims", "pass", shown, limit, detail)
    known = (arm.record.get("capabilities") or {}).get("cancels_on_disconnect")
    if known in ("no", "late"):
        detail += f"; this engine is known for it (cancels on disconnect: {known})"
        return verdict("disconnect.reclaims", "warn", shown, limit, detail)
    return verdict("disconnect.reclaims", "fail", shown, limit, detail)


def _probed(arm: Arm) -> pd.DataFrame:
    """Seconds by which requests that came right behind leavers took longer than the same without any.

    With one slot that is the next request, against the lone short request of `interleave`. With more, a
    free slot would answer it: a wave of the full width, against the same wave a moment later. The median
    over the repeats, because one late wave is no slot that is held.
    """
    waves = arm_waves(arm)
    wall_s = waves[waves["ok"] == waves["requests"]].set_index("wave")["wall_s"]
    repeats = sorted(set(arm.recorded["repeat"]))
    pairs = {"leak": [(f"leak_probe-r{k}", f"leak_after-r{k}") for k in repeats]}
    if arm.mode == "serial":
        pairs["events"] = [(f"recover-r{k}", f"interleave-alone-r{k}") for k in repeats]
    rows = []
    for variant, named in pairs.items():
        late = [wall_s[soon] - wall_s[later] for soon, later in named if {soon, later} <= set(wall_s.index)]
        if late:
            rows.append((len(late), variant, max(float(pd.Series(late).median()), 0.0), "probe"))
    return pd.DataFrame(rows, columns=["repeat", "variant", "reclaim_s", "how"])


def _rest_s(arm: Arm) -> float | None:
    """How long a stream goes on after its first two tokens, by the arm's own complete streams."""
    whole = arm.recorded[(arm.recorded["stream"] == 1) & (arm.recorded["outcome"] == "ok")]
    per_token_ms = tpot_ms(whole).median()
    budget = arm.recorded.loc[arm.recorded["case"] == "disconnect", "max_tokens"].max()
    return (
        None if pd.isna(per_token_ms) or pd.isna(budget) else float(per_token_ms) * (int(budget) - 2) / 1000
    )


def _leak(arm: Arm) -> Verdict:
    """A full-width wave after 2 W + 1 disconnects against the same wave before them."""
    limit = f"not more than {LEAK_LIMIT:g}x the wave before, and all of it passes"
    waves = arm_waves(arm)
    waves = waves[waves["case"] == "leak"]
    before, after = (waves[waves["wave"].str.startswith(f"leak_{when}")] for when in ("before", "after"))
    if before.empty or after.empty:
        return verdict("disconnect.leak", "skip", "not tried", limit)
    rows = arm.requests[arm.requests["wave"].isin(after["wave"])]
    bad = _due_to_leaving(arm, rows[rows["outcome"] != "ok"])
    if len(bad):
        return verdict("disconnect.leak", "fail", f"{len(bad)} of {len(rows)} failed", limit, _first(bad))
    # A wave in which a request failed, for whatever other reason, has no time to compare.
    before, after = (found[found["ok"] == found["requests"]] for found in (before, after))
    if before.empty or after.empty:
        return verdict("disconnect.leak", "skip", "no wave without a failure", limit)
    # Slots that leaked stay lost, so a later "before" is no reference any more: the best one is.
    best_s, walls_s = float(before["wall_s"].min()), after["wall_s"]
    ratio = float(walls_s.median()) / best_s
    detail = f"{best_s:.3f} s before at best, {walls_s.median():.3f} s after; {len(after)} repeats"
    status = "fail" if ratio > LEAK_LIMIT and walls_s.min() > best_s else "pass"
    return verdict("disconnect.leak", status, f"{ratio:.2f}x", limit, detail)


def _bystanders(arm: Arm) -> Verdict:
    limit = "no other client's request is hurt"
    rows = arm.requests[arm.requests["case"].isin(["disconnect", "leak"])]
    beside = rows[(rows["case"] == "disconnect") & (rows["user"] != "DisconnectingChatUser")]
    beside = beside[~beside["request"].str.endswith("-0")]
    if beside.empty:
        return verdict("disconnect.bystanders", "skip", "nobody was beside a leaver", limit)
    bad = _due_to_leaving(arm, beside[beside["outcome"] != "ok"])
    status = "fail" if len(bad) else "pass"
    return verdict("disconnect.bystanders", status, f"{len(bad)} of {len(beside)} hurt", limit, _first(bad))
