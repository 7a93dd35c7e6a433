"""Telemetry: the server's own numbers, both process trees, as rows that a kill cannot take back."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

from launchers import ports
from launchers.process import Supervised
from launchers.telemetry import Devices, Telemetry, server_rows
from tests.launchers.support import becomes

METRICS_SERVER = """
import sys, time
from prometheus_client import Counter, Gauge, Histogram, start_http_server
Gauge("vllm:num_requests_running", "", ["model"]).labels("tiny").set(8)
Counter("vllm:generation_tokens", "").inc(288)
Histogram("vllm:ttft", "").observe(0.5)
start_http_server(int(sys.argv[1]), "127.0.0.1")
time.sleep(600)
"""


def test_samples_of_a_server_and_of_both_process_trees(tmp_path: Path) -> None:
    port = ports.free_port()
    path = tmp_path / "telemetry.csv"
    engine = Supervised(
        "engine", [sys.executable, "-c", METRICS_SERVER, str(port)], tmp_path / "e", grace_s=1
    )
    client = Supervised("locust", ["sleep", "600"], tmp_path / "c", grace_s=1)
    try:
        assert becomes(lambda: ports.strangers(port, {engine.pid})[0])
        telemetry = Telemetry(path, f"http://127.0.0.1:{port}", "/metrics", [engine], client, Devices([None]))
        telemetry.start()
        assert becomes(lambda: len(rows(path, "client", "rss_mib")) >= 2)  # on disk while it runs
        telemetry.stop()
    finally:
        engine.stop()
        client.stop()

    running = rows(path, "metrics", "vllm:num_requests_running")
    assert float(running[0]["value"]) == 8
    assert running[0]["labels"] == '{"model": "tiny"}'
    assert float(rows(path, "metrics", "vllm:generation_tokens_total")[0]["value"]) == 288
    assert float(rows(path, "metrics", "vllm:ttft_count")[0]["value"]) == 1
    assert not rows(path, "metrics", "vllm:ttft_bucket")
    assert not [row for row in rows(path) if row["name"].startswith(("process_", "python_"))]
    assert float(rows(path, "engine", "rss_mib")[0]["value"]) > 5
    assert float(rows(path, "client", "rss_mib")[0]["value"]) < 5
    assert telemetry.notes == []


def test_a_metrics_page_that_cannot_be_read_is_said_and_not_fatal(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.csv"
    client = Supervised("locust", ["sleep", "600"], tmp_path / "c", grace_s=1)
    url = f"http://127.0.0.1:{ports.free_port()}"
    telemetry = Telemetry(path, url, "/metrics", [], client, Devices([None]))
    telemetry.start()
    assert becomes(lambda: len(rows(path, "client", "cpu_percent")) >= 1)
    telemetry.stop()
    client.stop()

    assert len(telemetry.notes) == 1
    assert re.match(r"/metrics could not be read, (\d+) of \1 samples: .*refused", telemetry.notes[0])


def test_a_full_disk_ends_the_telemetry_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.csv"
    path.symlink_to("/dev/full")
    client = Supervised("locust", ["sleep", "600"], tmp_path / "c", grace_s=1)
    telemetry = Telemetry(path, "http://127.0.0.1:1", None, [], client, Devices([None]))
    telemetry.start()
    assert becomes(lambda: telemetry.notes)
    telemetry.stop()
    client.stop()

    assert telemetry.notes == ["telemetry stopped: [Errno 28] No space left on device"]


def test_bad_lines_of_a_metrics_page_are_an_error_that_the_sampler_expects() -> None:
    try:
        list(server_rows("vllm:running{broken 8\n"))
    except ValueError:
        return
    raise AssertionError("a broken page has to raise ValueError")


def rows(path: Path, source: str | None = None, name: str | None = None) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        found = [row for row in csv.DictReader(file) if row.get("value")]
    return [row for row in found if source in (None, row["source"]) and name in (None, row["name"])]
