"""What each engine's record says it honours, and that the heavy ones really do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launchers.asking import ask
from launchers.engines import ENGINES
from launchers.engines.base import Engine, EngineSettings
from launchers.engines.simulated import Simulated, SimulatedSettings
from launchers.engines.transformers import Transformers, TransformersSettings
from launchers.engines.vllm import Vllm, VllmSettings
from launchers.interruption import Interruption
from launchers.lifecycle import RunningEngine
from launchers.serve import inventory
from tests.engines.support import chat, running

REQUIRED: dict[str, dict[str, Any]] = {
    "command": {"command": "serve {port}"},
    "external": {"url": "http://127.0.0.1:8000"},
    "pocketllm": {"checkpoint": "model", "sidecar": "sidecar.py"},
    "sglang": {"checkpoint": "model"},
}


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_every_engine_says_what_it_honours_and_shows(name: str) -> None:
    kind = ENGINES[name]
    told = kind(kind.Settings.model_validate(REQUIRED.get(name, {}))).capabilities()
    assert "stream_options" in told.honours
    if name not in ("command", "external"):
        assert {"ignore_eos", "min_tokens", "stream_options", "continuous_usage_stats"} <= set(told.honours)
    if told.running is not None:
        assert told.metrics_path is not None


def test_the_list_of_engines_says_of_each_where_it_is_or_what_to_do() -> None:
    rows = {row["engine"]: row for row in inventory()}
    assert set(rows) == set(ENGINES)
    assert all(row["note"] for row in rows.values())
    assert all("serial" in row["modes"] and "batch" in row["modes"] for row in rows.values())


def test_a_misspelt_setting_is_refused_by_every_engine() -> None:
    for kind in ENGINES.values():
        assert kind.Settings.model_config["extra"] == "forbid"


def honoured(up: RunningEngine, field: str, value: Any) -> bool:
    """Whether a request with this field is answered at all."""
    body = {
        "model": up.engine.served_model,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 2,
        "temperature": 0,
        field: value,
    }
    return ask(up.base_url, "/v1/chat/completions", body, timeout_s=60)[0] == 200


def streamed(up: RunningEngine, **fields: Any) -> list[str]:
    """The data of a stream's events."""
    body = {
        "model": up.engine.served_model,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 4,
        "temperature": 0,
        "stream": True,
        **fields,
    }
    status, answer = ask(up.base_url, "/v1/chat/completions", body, timeout_s=60)
    assert status == 200, answer
    lines = answer.decode().splitlines()
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def test_the_simulated_engine_keeps_its_record(tmp_path: Path) -> None:
    engine = Simulated(SimulatedSettings(width=3))
    with Interruption() as interruption, running(engine, tmp_path, interruption) as up:
        assert up.effective == {"batch_width": 3}
        for field in ("ignore_eos", "min_tokens"):
            assert honoured(up, field, True if field == "ignore_eos" else 2)
        events = streamed(up, stream_options={"include_usage": True})
        assert events[-1] == "[DONE]"
        assert json.loads(events[-2])["usage"]["completion_tokens"] == 4


def needs(kind: type[Engine], settings: EngineSettings, build: str) -> pytest.MarkDecorator:
    reason = f"{kind.name} is not here; {build}"
    return pytest.mark.skipif(not kind.found(settings).ok, reason=reason)


@pytest.mark.engines
@needs(Vllm, VllmSettings(), "`make engines` builds it")
def test_vllm_keeps_its_record(tmp_path: Path) -> None:
    engine = Vllm(VllmSettings(width=3, max_context=2048, enforce_eager=True))
    with Interruption() as interruption, running(engine, tmp_path, interruption, deadline_s=300) as up:
        assert up.effective["batch_width"] == 3
        assert up.effective["max_model_len"] == 2048
        assert honoured(up, "min_tokens", 2)
        options = {"include_usage": True, "continuous_usage_stats": True}
        events = streamed(up, ignore_eos=True, stream_options=options)
        assert events[-1] == "[DONE]"
        assert json.loads(events[-2])["usage"]["completion_tokens"] == 4
        assert json.loads(events[1])["usage"]["completion_tokens"] >= 1


@pytest.mark.engines
@needs(
    Transformers,
    TransformersSettings(),
    "`python -m launchers.engines.install transformers` builds it",
)
@pytest.mark.parametrize("mode", ["batch", "serial"])
def test_transformers_keeps_its_record(tmp_path: Path, mode: str) -> None:
    engine = Transformers(TransformersSettings())
    told = engine.capabilities()
    with Interruption() as interruption, running(engine, tmp_path, interruption, mode, 120) as up:
        assert chat(up)["usage"]["completion_tokens"] == 4
        for field, value in (("ignore_eos", True), ("min_tokens", 2), ("cache_prompt", False)):
            assert told.honours[field] == "rejected"
            assert not honoured(up, field, value)
        events = streamed(up, stream_options={"include_usage": False})
    assert not told.sends_done
    assert "[DONE]" not in events
    assert json.loads(events[-1])["usage"]["completion_tokens"] == 4
