"""PocketLLM's launcher against a stand-in that keeps the real command line, its ranks and its traps."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from launchers.asking import ask
from launchers.engines.base import ProcessSpec
from launchers.engines.pocketllm import PocketLlm, PocketLlmSettings, known_flags
from launchers.errors import EngineStartError
from launchers.interruption import Interruption
from launchers.lifecycle import RunningEngine
from tests.engines import standin_pocketllm, standin_pocketllm_serve
from tests.engines.support import chat, command, running
from tests.launchers import tiny_server
from tests.launchers.support import becomes, processes_marked

SIDECAR = 'import json, sys\nprint(json.dumps({"ok": True, "ready": True}), flush=True)\nsys.stdin.read()\n'


def settings(folder: Path, build: dict[str, str] | None = None, **changes: object) -> PocketLlmSettings:
    """Settings for a stand-in of its own in this folder, which also marks its processes."""
    (folder / "checkpoint").mkdir(exist_ok=True)
    (folder / "checkpoint" / "model.safetensors.index.json").write_text("{}")
    (folder / "sidecar.py").write_text(SIDECAR)
    given = {
        "checkpoint": folder / "checkpoint",
        "binary": command(folder / "pocketllm_engine", Path(standin_pocketllm.__file__), build),
        "python": sys.executable,
        "sidecar": folder / "sidecar.py",
    }
    return PocketLlmSettings.model_validate(given | changes)


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_one_rank_serves_and_tells_its_width(tmp_path: Path) -> None:
    with (
        Interruption() as interruption,
        running(PocketLlm(settings(tmp_path)), tmp_path / "arm", interruption) as up,
    ):
        answer = chat(up, ignore_eos=True, stream_options={"include_usage": True})
    assert answer["usage"]["completion_tokens"] == 4
    assert up.effective == {
        "batch_width": 8,
        "max_slots": 8,
        "continuous_batching": True,
        "prefill_token_budget": 4096,
    }
    assert processes_marked(str(tmp_path)) == []


def test_the_serial_control_has_one_slot_and_no_prefill_budget(tmp_path: Path) -> None:
    engine = PocketLlm(settings(tmp_path))
    with Interruption() as interruption, running(engine, tmp_path / "arm", interruption, "serial") as up:
        assert up.effective["batch_width"] == 1
        assert up.effective["prefill_token_budget"] == 0
        assert up.effective["continuous_batching"] is False


def test_two_ranks_meet_each_on_its_gpu_with_a_log_of_its_own(tmp_path: Path) -> None:
    engine = PocketLlm(settings(tmp_path, devices=[2, 3]))
    with Interruption() as interruption, running(engine, tmp_path / "arm", interruption) as up:
        assert chat(up)["usage"]["completion_tokens"] == 4
        meeting = option(up.command[0], "--nccl-id-path")
        assert Path(f"{meeting}.cmdsock").exists()

    assert [option(words, "--tp-rank") for words in up.command] == ["0", "1"]
    assert {option(words, "--tp-world") for words in up.command} == {"2"}
    assert {option(words, "--nccl-id-path") for words in up.command} == {meeting}
    assert up.visible_devices == ["2", "3"]
    leader = (tmp_path / "arm/logs/engine-rank0.log").read_text()
    follower = (tmp_path / "arm/logs/engine-rank1.log").read_text()
    assert "tp_world=2 tp_rank=0 device=0" in leader
    assert "[server] listening on" in leader
    assert "tp_world=2 tp_rank=1 device=0" in follower
    assert "[server]" not in follower


def test_each_start_meets_at_a_fresh_place_and_leaves_none_behind(tmp_path: Path) -> None:
    engine = PocketLlm(settings(tmp_path, devices=[0, 1]))
    places = []
    for _ in range(2):
        with Interruption() as interruption, running(engine, tmp_path / "arm", interruption) as up:
            places.append(Path(option(up.command[0], "--nccl-id-path")))
            assert places[-1].exists()

    assert places[0] != places[1]
    assert not any(place.parent.exists() for place in places)


def test_the_command_channel_fits_into_a_socket_address_wherever_the_arm_lies(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60) / "arm"
    engine = PocketLlm(settings(tmp_path, devices=[0, 1]))
    with Interruption() as interruption, running(engine, deep, interruption) as up:
        place = Path(option(up.command[0], "--nccl-id-path"))
        assert len(f"{place}.cmdsock") < 108

    assert not place.parent.exists()


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_rank_is_named_and_all_are_stopped(tmp_path: Path, lost: int) -> None:
    engine = PocketLlm(settings(tmp_path, devices=[0, 1]))
    with Interruption() as interruption, running(engine, tmp_path / "arm", interruption) as up:
        os.kill(up.processes[lost].pid, signal.SIGKILL)
        assert becomes(up.exited)
        died = up.exited()

    assert died
    assert f"rank{lost} was killed by signal 9 under load" in str(died)
    assert f"engine-rank{lost}.log" in str(died)
    assert died.log_tail[0] == f"tp_world=2 tp_rank={lost} device=0"
    assert not any(process.running for process in up.processes)
    assert processes_marked(str(tmp_path)) == []


def test_a_rank_that_finds_no_gpu_is_named_with_its_last_words(tmp_path: Path) -> None:
    engine = PocketLlm(settings(tmp_path, devices=[0, 99]))
    with (
        Interruption() as interruption,
        pytest.raises(EngineStartError, match="rank1 exited with code 1 while loading") as told,
        running(engine, tmp_path / "arm", interruption),
    ):
        raise AssertionError("it must not get ready")
    assert told.value.log_tail == ["error: failed to set device"]
    assert processes_marked(str(tmp_path)) == []


def test_a_width_that_the_engine_clamps_shows_as_the_effective_one(tmp_path: Path) -> None:
    engine = PocketLlm(settings(tmp_path, {"STANDIN_MAX_SLOTS": "3"}))
    with Interruption() as interruption, running(engine, tmp_path / "arm", interruption) as up:
        assert engine.width("batch") == 8
        assert up.effective["batch_width"] == 3


def test_an_older_build_gets_only_flags_that_it_knows(tmp_path: Path) -> None:
    own = settings(tmp_path, {"STANDIN_BUILD": "old"})
    assert known_flags(str(own.binary)) == set()
    with Interruption() as interruption, running(PocketLlm(own), tmp_path / "arm", interruption) as up:
        assert chat(up)["usage"]["completion_tokens"] == 4
        assert up.effective == {}
        assert "--max-batch-size" not in up.command[0]


def test_a_newer_build_is_known_by_its_flags(tmp_path: Path) -> None:
    found = PocketLlm.found(settings(tmp_path))
    assert found.ok
    assert "--max-batch-size, --prefill-token-budget, --request-timeout-seconds" in str(found.where)


def test_the_batched_decode_of_deepseek_is_an_environment_variable(tmp_path: Path) -> None:
    own = settings(tmp_path, extra_env={"POCKETLLM_CPP_BATCHED_DECODE": "1"}, extra_args=["--seed", "7"])
    spec = PocketLlm(own).processes("batch", 1, tmp_path)[0]
    assert spec.env == {"CUDA_VISIBLE_DEVICES": "0", "POCKETLLM_CPP_BATCHED_DECODE": "1"}
    assert spec.argv[-2:] == ["--seed", "7"]


def events(up: RunningEngine, **fields: object) -> list[Any]:
    """The JSON of a stream's events, and "[DONE]"."""
    question = [{"role": "user", "content": "Say something about the sea."}]
    body = {"messages": question, "max_tokens": 4, "temperature": 0, "stream": True, **fields}
    status, answer = ask(up.base_url, "/v1/chat/completions", body, timeout_s=60)
    assert status == 200, answer
    lines = [
        line.removeprefix("data: ") for line in answer.decode().splitlines() if line.startswith("data: ")
    ]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def test_streams_say_a_bare_role_first_and_never_their_usage(tmp_path: Path) -> None:
    engine = PocketLlm(settings(tmp_path))
    with Interruption() as interruption, running(engine, tmp_path / "arm", interruption) as up:
        role, *texts, finish, done = events(up, stream_options={"include_usage": True}, request_id="mine")
    assert role["choices"][0]["delta"] == {"role": "assistant"}
    assert len(texts) == 4
    assert finish["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "length"}
    assert done == "[DONE]"
    assert not any("usage" in event for event in (role, *texts, finish))
    assert {event["id"] for event in (role, *texts, finish)} == {"mine"}
    assert engine.capabilities().honours["stream_options"] == "ignored"


def test_its_own_words_show_who_runs_and_a_client_that_left_is_served_to_the_end(tmp_path: Path) -> None:
    engine = PocketLlm(settings(tmp_path))
    told = engine.capabilities()
    assert told.cancels_on_disconnect == "no"
    with Interruption() as interruption, running(engine, tmp_path / "arm", interruption) as up:
        assert gauge(up, told.running) == 0
        leaver = post(up, max_tokens=400, request_id="left")
        assert becomes(lambda: gauge(up, told.running) == 1)
        leaver.close()
        assert gauge(up, told.running) == 1
        assert delete(up, "left") == (200, True)
        assert delete(up, "left")[0] == 404
        assert gauge(up, told.running) == 0


@pytest.mark.parametrize(("devices", "status"), [([0], 200), ([0, 1], 400)])
def test_only_one_rank_alone_honours_a_temperature(tmp_path: Path, devices: list[int], status: int) -> None:
    engine = PocketLlm(settings(tmp_path, devices=devices))
    with Interruption() as interruption, running(engine, tmp_path / "arm", interruption) as up:
        body = {"messages": [{"role": "user", "content": "Sea?"}], "max_tokens": 2, "temperature": 0.7}
        got, said = ask(up.base_url, "/v1/chat/completions", body, timeout_s=60)
    assert got == status
    assert status == 200 or json.loads(said)["error"]["type"] == "server_error"


def post(up: RunningEngine, **fields: object) -> http.client.HTTPConnection:
    """A request on its way; nobody reads the answer."""
    sent = http.client.HTTPConnection(up.base_url.removeprefix("http://"), timeout=30)
    body = {"messages": [{"role": "user", "content": "Sea?"}], "temperature": 0, **fields}
    sent.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
    return sent


def delete(up: RunningEngine, name: str) -> tuple[int, bool]:
    connection = http.client.HTTPConnection(up.base_url.removeprefix("http://"), timeout=30)
    connection.request("DELETE", f"/v1/requests/{name}")
    with connection.getresponse() as reply:
        return reply.status, bool(json.loads(reply.read()).get("cancelled"))


def gauge(up: RunningEngine, name: str | None) -> float:
    _, page = ask(up.base_url, "/metrics", None, timeout_s=30)
    return next(float(line.split()[1]) for line in page.decode().splitlines() if line.startswith(f"{name} "))


class Robbed(PocketLlm):
    """Between the check of the port and the engine's bind, somebody takes it."""

    thief: socket.socket

    def processes(self, mode: str, port: int, workdir: Path) -> list[ProcessSpec]:
        self.thief = socket.socket()
        self.thief.bind(("127.0.0.1", port))
        return super().processes(mode, port, workdir)


def test_a_failed_bind_is_an_error_though_the_engine_leaves_with_zero(tmp_path: Path) -> None:
    engine = Robbed(settings(tmp_path))
    with (
        Interruption() as interruption,
        pytest.raises(EngineStartError, match="rank0 exited with code 0 while loading") as told,
        running(engine, tmp_path / "arm", interruption),
    ):
        raise AssertionError("it must not get ready")
    engine.thief.close()
    assert told.value.log_tail[-1].startswith("[server] listening on 127.0.0.1:")


class Shadowed(PocketLlm):
    """A server that shares its port answers there already: the engine's own bind succeeds beside it."""

    stale: subprocess.Popen[bytes]

    def processes(self, mode: str, port: int, workdir: Path) -> list[ProcessSpec]:
        self.stale = subprocess.Popen([sys.executable, tiny_server.__file__, str(port), "--reuse"])
        assert becomes(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        return super().processes(mode, port, workdir)


def test_a_stale_server_on_the_shared_port_is_not_taken_for_ours(tmp_path: Path) -> None:
    engine = Shadowed(settings(tmp_path))
    with (
        Interruption() as interruption,
        pytest.raises(
            EngineStartError, match=r"is answered by process \d+ \(python[^)]*\), not by the engine"
        ),
        running(engine, tmp_path / "arm", interruption),
    ):
        raise AssertionError("it must not get ready")
    engine.stale.kill()
    engine.stale.wait()
    assert processes_marked(str(tmp_path)) == []


def test_a_native_server_without_a_tokenizer_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="sidecar is missing"):
        settings(tmp_path, sidecar=None)


def test_a_missing_tokenizer_script_shows_in_the_tail(tmp_path: Path) -> None:
    engine = PocketLlm(settings(tmp_path, sidecar=tmp_path / "gone.py"))
    with (
        Interruption() as interruption,
        pytest.raises(EngineStartError, match="rank0 exited with code 1") as told,
        running(engine, tmp_path / "arm", interruption),
    ):
        raise AssertionError("it must not get ready")
    assert told.value.log_tail[-1] == "error: PythonSidecar pipe closed unexpectedly"


def test_the_python_front_end_is_waited_for_while_it_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(tmp_path / "pocketllm", Path(standin_pocketllm_serve.__file__))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    own = settings(tmp_path, frontend="serve", sidecar=None, backend="cpp", width=4, prefix_cache=False)
    assert PocketLlm.found(own).ok
    assert PocketLlm(own).capabilities().running is None
    with Interruption() as interruption, running(PocketLlm(own), tmp_path / "arm", interruption) as up:
        assert chat(up)["usage"]["completion_tokens"] == 4
        assert option(up.command[0], "--max-batch-size") == "4"
        assert "still loading" in (tmp_path / "arm/logs/engine.log").read_text()
