"""The command line as a user meets it: a server accepted, an engine served, bad input in one line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchers import ports
from launchers.asking import ask
from launchers.process import Supervised
from tests.launchers import tiny_server
from tests.launchers.support import becomes, processes_marked

HEADTOHEAD = [sys.executable, "-m", "launchers"]


def headtohead(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HEADTOHEAD, *map(str, words)], capture_output=True, text=True, timeout=120)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A simulated engine that somebody else started."""
    port = ports.free_port()
    argv = [sys.executable, "-m", "launchers.simulator", "--port", str(port), "--served-model-name", "other"]
    process = Supervised("server", argv, tmp_path / "server.log", grace_s=1)
    assert becomes(lambda: "listening" in " ".join(process.tail()))
    yield f"http://127.0.0.1:{port}"
    process.stop()


def test_a_running_server_is_accepted_without_a_plan(server: str, tmp_path: Path) -> None:
    out = tmp_path / "accepted"
    done = headtohead("accept", f"{server}/v1", "--out", out, "--deadline", "20")

    record = json.loads((out / "accept" / "record.json").read_text())
    failed = [v["check"] for v in record["verdicts"] if v["status"] == "fail" and "client." not in v["check"]]
    assert failed == [], done.stderr
    assert record["workload"]["model"] == "other"
    assert record["provenance"]["command"] == []
    for title in ("Single request", "Concurrent non-streaming requests", "Long/short interleave", "Verdicts"):
        assert title in done.stdout
    assert ask(server, "/health")[0] == 200  # it is not ours to stop


def test_only_the_cases_that_are_asked_for(server: str, tmp_path: Path) -> None:
    done = headtohead("accept", server, "--cases", "single isolation", "--out", tmp_path / "some", "--json")

    summary = json.loads((tmp_path / "some" / "accept" / "record.json").read_text())
    assert {name.rpartition("-")[0] for name in summary["cases"]} >= {"single", "isolation"}, done.stderr
    assert not any(name.startswith(("ladder", "streams", "disconnect")) for name in summary["cases"])


def test_nobody_at_the_url() -> None:
    url = f"http://127.0.0.1:{ports.free_port()}"
    done = headtohead("accept", url, "--start-deadline", "0.5")

    assert done.returncode == 2
    assert done.stderr.startswith(f"headtohead: {url}/v1/models: no use after 0.5 s (")
    assert done.stderr.endswith("refused); start the server or mend the URL\n")


def test_a_server_that_wants_a_key(tmp_path: Path) -> None:
    port = ports.free_port()
    argv = [sys.executable, tiny_server.__file__, str(port), "--status", "401"]
    server = Supervised("server", argv, tmp_path / "server.log", grace_s=1)
    done = headtohead("accept", f"http://127.0.0.1:{port}")
    server.stop()

    assert done.returncode == 2
    assert done.stderr == (
        f"headtohead: http://127.0.0.1:{port} asks for a key (HTTP 401); "
        "set HEADTOHEAD_API_KEY in the environment\n"
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["accept", "ftp://x"], "must look like http://127.0.0.1:8000"),
        (["accept", "http://127.0.0.1:1", "--mode", "fast"], "arm 1 mode: is 'fast'; must be 'batch'"),
        (["accept", "http://127.0.0.1:1", "--cases", "lader"], "workload.cases 1: is 'lader'; must be"),
        (["run", "none.toml"], "none.toml: cannot read the plan: No such file or directory"),
        (["report", "nowhere"], "nowhere is not the folder of a run: it has no run.json"),
        (["gate", "nowhere", "--baseline", "x"], "nowhere is not the folder of a run: it has no run.json"),
        (["serve", "vlllm"], "arm 1 engine: is 'vlllm'; did you mean 'vllm'?"),
        (["serve", "simulated", "--arm", "a"], "--arm a: simulated is an engine; give a plan"),
        (["serve", "plans/demo.toml"], "plans/demo.toml: give one of its arms with --arm: "),
        (["serve", "plans/demo.toml", "--mode", "serial"], "says the mode, port and settings of its arms"),
        (["serve", "simulated", "--set", "width"], "--set width: must be KEY=VALUE, as width=4"),
        (
            ["serve", "simulated", "--set", "width=0"],
            "settings.width: is 0; must be greater than or equal to 1",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_2(words: list[str], line: str) -> None:
    done = headtohead(*words)

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("headtohead: ")
    assert line in done.stderr


def test_the_folder_of_a_search_for_capacity_is_told_from_a_run(tmp_path: Path) -> None:
    (tmp_path / "capacity.json").write_text("{}")
    done = headtohead("report", str(tmp_path))

    assert done.returncode == 2
    assert done.stderr == (
        f"headtohead: {tmp_path} is a search for capacity, not a run; its rates are in capacity.json\n"
    )


def test_serve_runs_one_engine_until_ctrl_c(tmp_path: Path) -> None:
    words = [
        "serve",
        "simulated",
        "--mode",
        "serial",
        "--set",
        "model=mine",
        "--out",
        str(tmp_path / "served"),
    ]
    with subprocess.Popen(
        [*HEADTOHEAD, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(f"{url}/v1/models") as answer:
            assert json.load(answer)["data"][0]["id"] == "mine"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "simulated is stopped" in stderr
    assert processes_marked(str(tmp_path)) == []


def test_engines_are_listed() -> None:
    rows = {row["engine"]: row for row in json.loads(headtohead("engines", "--json").stdout)}

    assert rows["simulated"]["found"]
    assert rows["command"]["found"]
    assert {"simulated", "external", "command"} <= set(rows)
