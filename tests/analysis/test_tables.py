"""The tables: the usual ones in their order and with their columns, and no figure that may not be printed."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from analysis import load, print_report, report, results, summary, tables
from analysis.reading import pack
from analysis.schema import EVENT_TYPES, REQUEST_TYPES
from tests.analysis.made_run import Asked, Engine, MadeArm, make_run


def test_the_usual_tables_come_first_and_in_their_order(run_dir: Path) -> None:
    names = list(tables(load(run_dir)))
    assert names[:6] == ["single", "concurrent", "head_to_head", "throughput", "interleave", "streaming"]


def test_columns_are_those_of_the_published_page(run_dir: Path) -> None:
    report(run_dir)
    page = (run_dir / "report.md").read_text()
    for line in (
        "| Server | Wall (s) | Output tok/s | Result |",
        "| Concurrent requests | pocketllm batch | pocketllm serial | pocketllm speedup | vllm batch "
        "| vllm serial | vllm speedup |",
        "| Concurrent requests | pocketllm (s) | vllm (s) | pocketllm / vllm |",
        "| Concurrent requests | pocketllm batch tok/s | pocketllm serial tok/s | vllm batch tok/s "
        "| vllm serial tok/s | pocketllm batch latency (s) | vllm batch latency (s) |",
        "| Mode | Short latency (s) | Wall (s) | Long completion tokens | Short completion tokens |",
    ):
        assert line.rstrip("|") in page


def test_figures_are_medians_of_what_the_rows_say(run_dir: Path) -> None:
    run = load(run_dir)
    rows = run.arms[0].recorded
    ladder = rows[(rows["case"] == "ladder") & (rows["count"] == 8)]
    walls = [
        (group["sent_ms"] + group["latency_ms"]).max() - group["sent_ms"].min()
        for _, group in ladder.groupby("wave")
    ]
    expected = sorted(walls)[1] / 1000
    shown = tables(run)["concurrent"].set_index("concurrency")
    assert shown.loc[8, "pocketllm_batch_wall_s"] == pytest.approx(expected)
    speedup = shown.loc[8, "pocketllm_serial_wall_s"] / shown.loc[8, "pocketllm_batch_wall_s"]
    assert shown.loc[8, "pocketllm_speedup"] == pytest.approx(speedup)
    throughput = tables(run)["throughput"].set_index("concurrency")
    assert throughput.loc[8, "pocketllm_batch_output_tok_s"] == pytest.approx(8 * 32 / expected)


def test_the_tidy_table_has_the_same_keys_as_the_published_one(run_dir: Path) -> None:
    found = results(load(run_dir))
    keys = {
        tuple(row)
        for row in found[["table", "engine", "mode", "concurrency", "metric"]].itertuples(index=False)
    }
    assert ("ladder", "pocketllm", "speedup", 8, "ratio") in keys
    assert ("head_to_head", "pocketllm/vllm", "batch", 1, "ratio") in keys
    assert ("single", "vllm", "serial", 1, "wall_s") in keys
    assert ("throughput", "vllm", "batch", 8, "output_tok_s") in keys


def test_any_number_of_engines_and_modes(tmp_path: Path) -> None:
    folder = make_run(tmp_path, {name: Engine() for name in ("a", "b", "c")}, repeats=1)
    static = MadeArm("a-static", "a", "static", Engine(4))
    static.acceptance(repeats=1)
    static.write(folder)
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(info | {"arms": [*info["arms"], "a-static"]}))
    found = tables(load(folder))
    assert {"a_b_ratio", "a_c_ratio", "b_c_ratio"} <= set(found["head_to_head"])
    assert "a_static_speedup" in found["concurrent"]
    assert len(found["single"]) == 7


def test_one_arm_alone_has_tables_without_ratios(tmp_path: Path) -> None:
    arm = MadeArm("mine", "external", "batch", Engine())
    arm.acceptance(repeats=1)
    arm.write(tmp_path)
    found = tables(load(tmp_path))
    assert list(found["concurrent"]["concurrency"]) == [2, 4, 8]
    assert "head_to_head" not in found


def test_one_run_per_level_is_said(tmp_path: Path) -> None:
    folder = make_run(tmp_path, {"a": Engine(), "b": Engine()}, repeats=1)
    report(folder)
    page = (folder / "report.md").read_text()
    assert "One run per cell: no interval can be given." in page
    assert "one run: no interval" in page
    assert "(95 % interval)" not in page


def test_a_wave_with_a_failed_request_is_marked_and_makes_no_claim(run_dir: Path) -> None:
    path = run_dir / "vllm-batch" / "requests.csv"
    lines = path.read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if ",ladder-4-r2-1," in line)
    lines[place] = (
        lines[place].replace(",ok,", ",failed,stream.done,", 1).replace("stream.done,,", "stream.done,", 1)
    )
    path.write_text("\n".join(lines) + "\n")
    found = tables(load(run_dir))["head_to_head"].set_index("concurrency")
    assert found.loc[4, "pocketllm_vllm_finding"] == "invalid"
    assert found.loc[8, "pocketllm_vllm_finding"] == "faster"
    assert "1 of 4 failed (stream.done) in 1 of 3 repeats" in found.loc[4, "vllm_wall_s_mark"]


def test_long_context_speeds_and_their_ratios(tmp_path: Path) -> None:
    for name, speed in (("a", 1.0), ("b", 1.25)):
        arm = MadeArm(f"{name}-batch", name, "batch", Engine(speed=speed), noise=0.0, tokens=128)
        for words in (4096, 8192):
            arm.wave(f"long_context-{words}-r1", "long_context", 1, 1, [Asked(words, stream=True)])
        arm.wave("single-r1", "single", 1, 1, [Asked()])
        for row in arm.rows:  # b tells usage outside of streams only
            tells = name == "a" or row["case"] == "single"
            row["prompt_tokens"] = row["prompt_words"] if tells else ""
        arm.write(tmp_path)
    found = tables(load(tmp_path))["long_context"]
    assert found["b_prefill_tok_s"].notna().all()
    assert list(found["prompt_tokens"]) == [4096, 8192]
    assert set(found["decode_tokens"]) == {127}
    for kind in ("prefill", "decode", "wall"):
        assert found[f"{kind}_ratio"].tolist() == pytest.approx([1.25, 1.25], rel=1e-3)
    prefill_s = 4096 * Engine().per_prompt_word_s + Engine().iteration_s + Engine().per_request_s
    assert found["a_prefill_s"][0] == pytest.approx(prefill_s, rel=1e-3)
    assert found["a_prefill_tok_s"][0] == pytest.approx(4096 / prefill_s, rel=1e-3)


def test_measurement_error_is_measured_minus_true_in_real_time(tmp_path: Path) -> None:
    arm = MadeArm("a-batch", "a", "batch", Engine(), noise=0.0, time_scale=10.0)
    arm.acceptance(repeats=1)
    for row in arm.rows:
        late = 3.0 if row["stream"] else 1.0
        for column in ("latency_ms", "ttft_ms"):
            row[column] = f"{float(row[column]) + late:.3f}" if row[column] else ""
    arm.write(tmp_path)
    pd.DataFrame(arm.truth).to_csv(tmp_path / "a-batch" / "truth.csv", index=False)
    found = tables(load(tmp_path))["measurement_error"].set_index("metric")
    assert found.loc["TTFT", "median_ms"] == pytest.approx(3.0, abs=0.01)
    assert found.loc["latency", "max_ms"] == pytest.approx(3.0, abs=0.01)
    assert found.loc["latency", "median_ms"] == pytest.approx(1.0, abs=0.01)


def test_several_tokens_in_one_event_are_warned_of(tmp_path: Path) -> None:
    arm = MadeArm("a-batch", "a", "batch", Engine())
    arm.acceptance(repeats=1)
    arm.events = [event for n, event in enumerate(arm.events) if event[3] == "role" or n % 2]
    arm.write(tmp_path)
    found = tables(load(tmp_path))["stream_times"]
    assert found["tokens_per_event"].str.contains("⚠").all()


def test_simulated_time_is_said_above_every_table_of_engine_time(tmp_path: Path) -> None:
    folder = make_run(tmp_path, {"a": Engine()}, repeats=1, time_scale=10.0)
    report(folder)
    page = (folder / "report.md").read_text()
    sections = page.split("\n## ")[2:-1]
    told = {part.splitlines()[0] for part in sections if "ran 10 times faster than real" in part}
    silent = {part.splitlines()[0] for part in sections} - told
    assert silent == {"Start spread", "Requests"}  # real milliseconds, counts


def test_the_terminal_shows_tables_and_verdicts(run_dir: Path) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    print_report(load(run_dir), console)
    text = console.export_text()
    for expected in ("Single request", "Head-to-head", "faster", "Verdicts", "between arms"):
        assert expected in text


def test_the_summary_is_plain_json_with_every_figure(run_dir: Path) -> None:
    found = json.loads(json.dumps(summary(load(run_dir)), allow_nan=False))
    assert found["status"] == "pass"
    assert found["arms"]["vllm-serial"]["mode"] == "serial"
    assert any(one["metric"] == "ratio" and one["mode"] == "speedup" for one in found["results"])


def test_traffic_latency_counts_from_the_time_a_request_was_due(tmp_path: Path) -> None:
    arm = MadeArm("mine", "external", "batch", Engine(), noise=0.0)
    arm.wave("traffic", "traffic", 0, 1, [Asked(64, 0.1 * n, stream=True) for n in range(20)])
    for row in arm.rows:
        row["scheduled_ns"] -= 200_000_000
    arm.rows[-1] |= {"outcome": "unfinished", "latency_ms": "", "ttft_ms": "", "last_token_ms": ""}
    arm.write(tmp_path)
    run = load(tmp_path)
    found = tables(run)["traffic"].iloc[0]
    ended = run.arms[0].requests["latency_ms"].dropna()
    assert found["latency_p50_s"] == pytest.approx(ended.median() / 1000 + 0.2)
    assert (found["requests"], found["ok"], found["in_flight"]) == (20, 19, "1 (5.0%)")
    assert "traffic_tokens" in tables(run)


def test_large_runs_are_read_from_parquet_and_say_the_same(run_dir: Path) -> None:
    expected = tables(load(run_dir))
    for arm in load(run_dir).arms:
        pack(arm.path, "requests.csv", REQUEST_TYPES)
        pack(arm.path, "events.csv", EVENT_TYPES)
        for name in ("requests.csv", "events.csv"):
            (arm.path / name).write_text("")  # so that nothing else can have been read
            os.utime(arm.path / name, (0, 0))
    found = tables(load(run_dir))
    assert list(found) == list(expected)
    for name, frame in expected.items():
        pd.testing.assert_frame_equal(found[name], frame)
