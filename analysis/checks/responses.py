"""What single responses were found guilty of, counted by code; and ids that two streams share."""

from __future__ import annotations

import pandas as pd

from analysis.rundata import Arm
from analysis.schema import Verdict, verdict

PER_RESPONSE = ("http.status", "http.body", "http.connection", "usage.missing", "usage.total",
                "finish.reason", "budget.short")  # fmt: skip
PER_STREAM = ("stream.framing", "stream.json", "stream.role", "stream.finish", "stream.done", "stream.error",
              "stream.identity")  # fmt: skip


def verdicts(arm: Arm) -> list[Verdict]:
    """One verdict a code, over all requests, warm-ups included: a broken response is broken there, too."""
    rows = arm.requests
    answered = rows[rows["outcome"].isin(["ok", "failed"])]
    streams = answered[answered["stream"] == 1]
    found = [_by_code(rows, code, len(answered), "responses") for code in PER_RESPONSE]
    found += [_by_code(rows, code, len(streams), "streams") for code in PER_STREAM[:-1]]
    return [*found, _identity(rows, len(streams)), *_other_codes(rows)]


def _by_code(rows: pd.DataFrame, code: str, asked: int, kind: str) -> Verdict:
    bad = rows[rows["failure"] == code]
    if asked == 0 and bad.empty:
        return verdict(code, "skip", f"no {kind}", f"0 {kind}")
    return verdict(
        code, "fail" if len(bad) else "pass", f"{len(bad)} of {asked} {kind}", f"0 {kind}", _first(bad)
    )


def _first(bad: pd.DataFrame) -> str:
    return f"{bad['request'].iloc[0]}: {bad['detail'].iloc[0]}" if len(bad) else ""


def _identity(rows: pd.DataFrame, asked: int) -> Verdict:
    """Ids that differ within a stream (found on the response), and ids that several responses share.

    Chunks of two streams with one id cannot be told apart; whole answers can, so there it is a warning.
    """
    found = _by_code(rows, "stream.identity", asked, "streams")
    if found["status"] == "fail":
        return found
    named = rows[rows["response_id"] != ""]
    streams = _sharing(named[named["stream"] == 1])
    if len(streams):
        observed = f"{len(streams)} of {asked} streams"
        return verdict("stream.identity", "fail", observed, "0 streams", _sharers(streams))
    shared = _sharing(named)
    if len(shared):
        observed = f"{len(shared)} of {len(named)} responses"
        return verdict("stream.identity", "warn", observed, "0 responses", _sharers(shared))
    return found


def _sharing(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["response_id"].duplicated(keep=False)]


def _sharers(shared: pd.DataFrame) -> str:
    name = shared["response_id"].iloc[0]
    return f"{', '.join(shared.loc[shared['response_id'] == name, 'request'][:3])} share the id {name}"


def _other_codes(rows: pd.DataFrame) -> list[Verdict]:
    """A failure under any code that no check here asks for must not get lost."""
    known = {*PER_RESPONSE, *PER_STREAM, "engine.hang"}
    failed = rows[(rows["outcome"] == "failed") & ~rows["failure"].isin(known)]
    return [
        verdict(str(code) or "http.body", "fail", f"{len(group)} requests", "0 requests", _first(group))
        for code, group in failed.groupby("failure")
    ]
