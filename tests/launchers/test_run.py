"""A plan run by real processes: what ends up on disk, and what is refused before anything starts."""

from __future__ import annotations

import json
import sys

from tests.launchers.bench import QUICK, Bench, arm, command, read_json


def test_two_arms_pass_and_leave_the_whole_record(bench: Bench) -> None:
    code, stdout, stderr = bench.run(QUICK + arm("a") + arm("b", "serial"))

    assert (code, bench.run_json()["status"]) in ((0, "pass"), (1, "fail")), stderr
    assert bench.passed("a")
    assert bench.passed("b")
    assert "Single request" in stdout
    a, b = bench.record("a"), bench.record("b")
    assert a["payload_sha256"] == b["payload_sha256"] == bench.run_json()["payload_sha256"] is not None
    assert (a["effective_width"], b["effective_width"]) == (8, 1)
    assert a["locust_exit"] == 0
    assert a["provenance"]["command"][1:3] == ["-m", "launchers.simulator"]
    assert a["provenance"]["time_to_ready_s"] > 0
    assert a["workload"]["payload"] == {"ignore_eos": True}
    for name in ("events.csv.gz", "telemetry.csv", "locust_stats.csv", "locust.html", "logs/engine.log"):
        assert (bench.out / "a" / name).stat().st_size > 0
    assert {row["outcome"] for row in bench.rows("a")} == {"ok"}


def test_json_is_all_that_is_printed(bench: Bench) -> None:
    code, stdout, stderr = bench.run(QUICK + arm("a"), "--json", "--junit", str(bench.out / "junit.xml"))

    assert code in (0, 1)
    assert json.loads(stdout)["status"] == ("pass" if code == 0 else "fail")
    assert stderr == ""
    assert "testsuite" in (bench.out / "junit.xml").read_text()


def test_arms_take_turns_in_blocks(bench: Bench) -> None:
    plan = QUICK.replace('name = "quick"', 'name = "quick"\nblocks = 2') + "repeats = 3" + arm("a") + arm("b")
    _, _, stderr = bench.run(plan)

    assert bench.passed("a"), stderr
    assert len(bench.record("a")["provenance"]["starts"]) == 2
    recorded = {name: [row for row in bench.rows(name) if row["case"] == "single" and row["repeat"] != "0"]
                for name in "ab"}  # fmt: skip
    assert [row["repeat"] for row in recorded["a"]] == ["1", "2", "3"]
    order = sorted((int(row["sent_ns"]), name) for name, rows in recorded.items() for row in rows)
    assert "".join(name for _, name in order) == "aabbab"
    names = [row["request"] for row in bench.rows("a")]
    assert len(set(names)) == len(names)
    conduct = read_json(bench.out / "a" / "conduct.json")
    assert conduct["planned"] == conduct["finished"] == len(names)


def test_several_locust_processes_share_the_load(bench: Bench) -> None:
    _, _, stderr = bench.run(QUICK + arm("a"), "--workers", "2")

    assert bench.passed("a"), stderr
    assert len({row["worker"] for row in bench.rows("a")}) == 2


def test_a_folder_that_holds_a_run_is_left_alone(bench: Bench) -> None:
    bench.out.mkdir()
    (bench.out / "run.json").write_text("{}")

    code, _, stderr = bench.run(QUICK + arm("a"))

    assert (code, (bench.out / "run.json").read_text()) == (2, "{}")
    assert stderr == f"headtohead: {bench.out} already holds a run; give another folder with --out\n"


def test_wrong_settings_are_told_before_anything_starts(bench: Bench) -> None:
    code, _, stderr = bench.run(
        QUICK + arm("a", settings="widht = 4") + arm("b").replace("simulated", "simulatd")
    )

    assert code == 2
    assert [line.removeprefix(f"headtohead: {bench.plan}: ") for line in stderr.splitlines()] == [
        "arm 1 settings.widht: unknown key; did you mean 'width'?",
        "arm 2 engine: is 'simulatd'; did you mean 'simulated'?",
    ]
    assert not bench.out.exists()


def test_a_missing_binary_is_told_before_anything_starts(bench: Bench) -> None:
    missing = command("x", "").replace(sys.executable, "nowhere")
    code, _, stderr = bench.run(QUICK + arm("a") + missing)

    assert code == 2
    assert len(stderr.splitlines()) == 1
    assert "'nowhere' is not on PATH; install it" in stderr
    assert not bench.out.exists()
