"""Each check of an arm: silent on a sound run, and named right where one thing is wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis import judge
from tests.analysis.made_run import Asked, Engine, MadeArm


def sound(**record: Any) -> MadeArm:
    """An arm with every case, in which nothing is wrong."""
    arm = MadeArm("a-batch", "a", "batch", Engine(), record=record)
    arm.acceptance(repeats=2)
    for repeat in (1, 2):
        arm.wave(f"leak_before-r{repeat}", "leak", 8, repeat, [Asked()] * 8)
        leavers = [Asked(64, stream=True, leaves_after=2)] * 17
        arm.wave(f"leak_leavers-r{repeat}", "leak", 17, repeat, leavers)
        arm.wave(f"leak_after-r{repeat}", "leak", 8, repeat, [Asked()] * 8)
        both = [Asked(512, stream=True, leaves_after=2), Asked(64, 0.05, stream=True)]
        arm.wave(f"disconnect_reset-r{repeat}", "disconnect", 2, repeat, both)
        for index in range(4):
            arm.wave(f"isolation_alone{index}-r{repeat}", "isolation", 1, repeat, [Asked()])
        arm.wave(f"isolation-4-r{repeat}", "isolation", 4, repeat, [Asked()] * 4)
        arm.wave(f"isolation_streams-4-r{repeat}", "isolation", 4, repeat, [Asked(stream=True)] * 4)
        for index in range(4):
            text = f"the story of number {index} in round {repeat}: " + " ".join(
                f"word{index * 100 + n}" for n in range(60)
            )
            for request in (
                f"isolation_alone{index}-r{repeat}-0",
                f"isolation-4-r{repeat}-{index}",
                f"isolation_streams-4-r{repeat}-{index}",
            ):
                arm.texts[request] = text
    return arm


def statuses(folder: Path) -> dict[str, str]:
    return {v["check"]: v["status"] for v in judge(folder)["verdicts"]}


def test_a_sound_arm_fails_nothing_and_reports_what_passed(tmp_path: Path) -> None:
    arm = sound()
    folder = arm.write(tmp_path)
    write_conduct(folder, arm, reclaim_s=0.02)
    found = statuses(folder)
    assert {check for check, status in found.items() if status not in ("pass", "skip")} == {
        "interleave.overlap"  # the miniature scheduler reads prompts in one go
    }
    for check in ("http.status", "stream.done", "batch.width", "disconnect.recovers", "disconnect.leak",
                  "disconnect.bystanders", "disconnect.reclaims", "isolation.mixed",
                  "equivalence.stream", "client.rate"):  # fmt: skip
        assert found[check] == "pass", check


def write_conduct(folder: Path, arm: MadeArm, reclaim_s: float | None = 0.02, **changes: Any) -> None:
    sent = len(arm.rows)
    conduct = {"planned": sent, "sent": sent, "finished": sent, "unfinished": 0, "lost": 0} | {
        "status": "complete",
        "reclaims": [{"repeat": 1, "variant": "events", "reclaim_s": reclaim_s, "how": "metrics"}],
    }
    (folder / "conduct.json").write_text(json.dumps(conduct | changes))


def one_row_fails(code: str) -> Callable[[MadeArm], None]:
    def spoil(arm: MadeArm) -> None:
        row = next(row for row in arm.rows if row["stream"] == 1 and row["outcome"] == "ok")
        row |= {"outcome": "failed", "failure": code, "detail": "spoilt"}

    return spoil


def two_streams_share_an_id(arm: MadeArm) -> None:
    streams = [row for row in arm.rows if row["case"] == "streams"]
    streams[0]["response_id"] = streams[1]["response_id"] = "same"


def recovery_fails(arm: MadeArm) -> None:
    row = next(row for row in arm.rows if row["case"] == "recover")
    row |= {"outcome": "failed", "failure": "http.status", "detail": "HTTP 500"}


def bystander_fails(arm: MadeArm) -> None:
    row = next(row for row in arm.rows if row["request"] == "disconnect_reset-r1-1")
    row |= {"outcome": "failed", "failure": "http.connection", "detail": "cut short"}


def slots_leak(arm: MadeArm) -> None:
    for row in arm.rows:
        if row["wave"].startswith("leak_after"):
            row["latency_ms"] = str(2 * float(row["latency_ms"]))


def replies_are_swapped(arm: MadeArm) -> None:
    one, two = "isolation-4-r1-0", "isolation-4-r1-1"
    arm.texts[one], arm.texts[two] = arm.texts[two], arm.texts[one]


def a_reply_goes_over_into_another(arm: MadeArm) -> None:
    own, other = arm.texts["isolation_alone2-r1-0"], arm.texts["isolation_alone3-r1-0"]
    arm.texts["isolation-4-r1-2"] = own[:60] + other[60:]


def hangs(arm: MadeArm) -> None:
    arm.rows[-1] |= {"outcome": "failed", "failure": "engine.hang", "detail": "no byte for 60 s"}


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        *((one_row_fails(code), code) for code in ("http.status", "usage.total", "stream.done")),
        (one_row_fails("a.code.of.the.future"), "a.code.of.the.future"),
        (two_streams_share_an_id, "stream.identity"),
        (recovery_fails, "disconnect.recovers"),
        (bystander_fails, "disconnect.bystanders"),
        (slots_leak, "disconnect.leak"),
        (replies_are_swapped, "isolation.mixed"),
        (a_reply_goes_over_into_another, "isolation.mixed"),
        (hangs, "engine.hang"),
    ],
)  # fmt: skip
def test_one_thing_wrong_is_named(tmp_path: Path, spoil: Callable[[MadeArm], None], code: str) -> None:
    arm = sound()
    spoil(arm)
    folder = arm.write(tmp_path)
    write_conduct(folder, arm)
    assert statuses(folder)[code] == "fail"


def test_a_reply_that_goes_its_own_way_is_no_evidence_of_mixing(tmp_path: Path) -> None:
    """Batch numerics may choose another word, and all that follows is then new."""
    arm = sound()
    kept = arm.texts["isolation-4-r1-2"][:80]
    arm.texts["isolation-4-r1-2"] = f"{kept} something that nobody else says at all"
    found = statuses(arm.write(tmp_path))
    assert found["isolation.mixed"] == "pass"


def test_replies_that_do_not_depend_on_the_prompt_cannot_show_mixing(tmp_path: Path) -> None:
    arm = sound()
    arm.texts = dict.fromkeys(arm.texts, "always the same words, whatever was asked")
    assert statuses(arm.write(tmp_path))["isolation.mixed"] == "skip"


def test_a_text_that_differs_when_streamed_is_a_warning(tmp_path: Path) -> None:
    arm = sound()
    arm.texts["isolation_streams-4-r1-2"] += " and more"
    assert statuses(arm.write(tmp_path))["equivalence.stream"] == "warn"


@pytest.mark.parametrize(
    ("capabilities", "status"), [({}, "fail"), ({"cancels_on_disconnect": "no"}, "warn")]
)
def test_a_slot_that_stays_busy_fails_unless_the_engine_is_known_for_it(
    tmp_path: Path, capabilities: dict[str, str], status: str
) -> None:
    arm = sound(capabilities=capabilities)
    folder = arm.write(tmp_path)
    write_conduct(folder, arm, reclaim_s=None)
    assert statuses(folder)["disconnect.reclaims"] == status


def test_an_id_given_twice_is_not_blamed_on_who_left_beside_it(tmp_path: Path) -> None:
    arm = sound()
    beside = next(row for row in arm.rows if row["request"] == "disconnect_reset-r1-1")
    left = next(row for row in arm.rows if row["request"] == "disconnect_reset-r1-0")
    left["response_id"] = "same"
    beside |= {"response_id": "same", "outcome": "failed", "failure": "stream.identity", "detail": "same"}
    found = statuses(arm.write(tmp_path))
    assert (found["stream.identity"], found["disconnect.bystanders"]) == ("fail", "pass")


def test_requests_that_were_never_sent_or_got_lost_fail(tmp_path: Path) -> None:
    arm = sound()
    folder = arm.write(tmp_path)
    write_conduct(folder, arm, planned=len(arm.rows) + 3)
    assert statuses(folder)["client.rate"] == "fail"
    write_conduct(folder, arm, lost=1)
    assert statuses(folder)["client.rate"] == "fail"
    write_conduct(folder, arm, planned=len(arm.rows) + 3, status="stopped")
    assert statuses(folder)["client.rate"] == "skip"


def sample_client(folder: Path, arm: MadeArm, wave: str, cpu: float, lag_ms: float) -> None:
    """Samples every 0.25 s, quiet but for the time of one wave."""
    rows = [row for row in arm.rows if row["wave"] == wave]
    start = min(row["sent_ns"] for row in rows)
    end = max(row["sent_ns"] + float(row["latency_ms"]) * 1e6 for row in rows)
    first, last = arm.rows[0]["sent_ns"], arm.rows[-1]["sent_ns"] + 5_000_000_000
    with (folder / "client.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["at_ns", "pid", "worker", "cpu_percent", "lag_ms", "running"])
        for at in range(first, int(last), 250_000_000):
            busy = start + 250_000_000 <= at <= end
            writer.writerow([at, 1, "", cpu if busy else 5.0, lag_ms if busy else 0.1, 1])


def test_a_busy_load_generator_marks_the_cells_it_touched_and_no_others(tmp_path: Path) -> None:
    arm = sound()
    folder = arm.write(tmp_path)
    sample_client(folder, arm, "ladder-8-r1", cpu=99.0, lag_ms=1.0)
    judged = judge(folder)
    found = {v["check"]: v for v in judged["verdicts"]}
    assert found["client.cpu"]["status"] == "fail"
    assert "processes" in found["client.cpu"]["detail"]
    assert found["client.lag"]["status"] == "pass"
    assert judged["cases"]["ladder-8"]["problems"] == ["client.cpu"]
    assert judged["cases"]["ladder-2"]["problems"] == []


def test_a_late_event_loop_counts_only_where_the_loop_took_the_time(tmp_path: Path) -> None:
    arm = sound()
    folder = arm.write(tmp_path)
    sample_client(folder, arm, "ladder-8-r1", cpu=50.0, lag_ms=400.0)
    assert statuses(folder)["client.lag"] == "pass"  # stamped by the kernel
    for row in arm.rows:
        row["clock"] = "user"
    arm.write(tmp_path)
    assert statuses(folder)["client.lag"] == "fail"


def test_counts_are_held_against_locusts_own(tmp_path: Path) -> None:
    arm = sound()
    folder = arm.write(tmp_path)
    columns = "Type,Name,Request Count,Failure Count,Median Response Time"
    total = len(arm.rows)
    (folder / "locust_stats.csv").write_text(f"{columns}\n,Aggregated,{total - 4},0,10\n")
    assert statuses(folder)["client.rows"] == "fail"
    (folder / "locust-block2_stats.csv").write_text(f"{columns}\n,Aggregated,4,0,10\n")
    assert statuses(folder)["client.rows"] == "pass"
