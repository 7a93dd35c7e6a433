"""What a load generator that came late leaves in the rows, and what the tables say of it."""

import csv
import json
from pathlib import Path

from analysis import judge, load, tables
from tests.analysis.made_run import Asked, Engine, MadeArm

LUMP = 4


def arm_with_lumps() -> MadeArm:
    """Two streams; every four text events share the stamp of the last of them, as one late read gives it."""
    arm = MadeArm("batch", "made", "batch", Engine())
    arm.wave("streams-2-r1", "streams", 2, 1, [Asked(64, stream=True), Asked(64, stream=True)])
    texts = [event for event in arm.events if event[3] == "text"]
    for first in range(0, len(texts), LUMP):
        for event in texts[first : first + LUMP]:
            event[2] = texts[first + LUMP - 1][2]
    return arm


def client_was_late(folder: Path, arm: MadeArm, lag_ms: float) -> None:
    with (folder / "client.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["at_ns", "pid", "worker", "cpu_percent", "lag_ms", "running"])
        for sample in range(40):
            writer.writerow([arm.rows[0]["sent_ns"] + sample * 250_000_000, 1, "", 65.0, lag_ms, 2])


def verdict_and_marks(folder: Path, lag_ms: float) -> tuple[dict[str, str], list[str]]:
    """The verdict client.lag, and what marks TTFT and the gaps in the table of streams."""
    arm = arm_with_lumps()
    client_was_late(arm.write(folder), arm, lag_ms)
    (folder / "run.json").write_text(json.dumps({"status": "pass", "arms": [arm.name]}))
    (lag,) = [found for found in judge(folder / arm.name)["verdicts"] if found["check"] == "client.lag"]
    (row,) = tables(load(folder))["stream_times"].to_dict("records")
    return lag, [row["ttft_ms_mark"], row.get("itl_p50_ms_mark", "")]


def test_tokens_that_piled_up_until_we_came_are_told_and_their_gaps_invalid(tmp_path: Path) -> None:
    lag, marks = verdict_and_marks(tmp_path, lag_ms=100.0)
    assert lag["status"] == "warn"
    assert "2 requests of streams-2-r1 read in lumps" in lag["detail"]
    assert "use 2 load processes (--processes)" in lag["detail"]
    assert marks == ["", "client.lag: 2 of 2 streams read in lumps"]


def test_tokens_that_the_server_sent_together_are_the_servers_doing(tmp_path: Path) -> None:
    lag, marks = verdict_and_marks(tmp_path, lag_ms=1.0)
    assert lag["status"] == "pass"
    assert marks == ["", ""]
