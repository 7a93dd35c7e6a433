"""llama.cpp for real: slots, modes, the prompt cache, and what it honours."""

from __future__ import annotations

import importlib.util
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launchers.asking import ask
from launchers.engines.llamacpp import LlamaCpp, LlamaCppSettings
from launchers.errors import EngineStartError
from launchers.interruption import Interruption
from launchers.lifecycle import RunningEngine
from tests.engines.support import chat, running
from tests.launchers.support import processes_marked

HERE = LlamaCpp.found().ok and importlib.util.find_spec("gguf") is not None
pytestmark = pytest.mark.skipif(not HERE, reason="needs llama.cpp: pip install 'headtohead[llamacpp]'")
SMALL = LlamaCppSettings(width=4, max_context=1024)


def counter(up: RunningEngine, name: str) -> float:
    lines = ask(up.base_url, "/metrics")[1].decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"llamacpp:{name} "))


def tokens_a_decode(up: RunningEngine, answers: int) -> float:
    """Over a wave of answers: 1 where they are generated one after another, more where together."""
    tokens, decodes = counter(up, "tokens_predicted_total"), counter(up, "n_decode_total")
    with ThreadPoolExecutor(answers) as callers:
        list(callers.map(lambda _: chat(up, max_tokens=32, ignore_eos=True), range(answers)))
    return (counter(up, "tokens_predicted_total") - tokens) / (counter(up, "n_decode_total") - decodes)


def test_batch_mode_has_its_slots_and_decodes_them_together(tmp_path: Path) -> None:
    with Interruption() as interruption, running(LlamaCpp(SMALL), tmp_path, interruption) as up:
        assert up.effective == {"batch_width": 4, "context_per_slot": 1024}
        assert tokens_a_decode(up, 4) > 1.5
    assert processes_marked(str(tmp_path)) == []


def test_serial_mode_decodes_one_answer_after_another(tmp_path: Path) -> None:
    with Interruption() as interruption, running(LlamaCpp(SMALL), tmp_path, interruption, "serial") as up:
        assert up.effective == {"batch_width": 1, "context_per_slot": 1024}
        assert tokens_a_decode(up, 4) <= 1


def test_static_mode_has_all_slots_but_no_continuous_batching(tmp_path: Path) -> None:
    with Interruption() as interruption, running(LlamaCpp(SMALL), tmp_path, interruption, "static") as up:
        assert up.effective["batch_width"] == 4
        assert chat(up)["usage"]["completion_tokens"] == 4
        asked = " ".join(up.command[0])
        assert '"continuous": false' in asked or "--no-cont-batching" in asked


@pytest.mark.parametrize(("on", "cached"), [(False, False), (True, True)])
def test_a_repeated_prompt_comes_from_memory_only_when_asked_for(
    tmp_path: Path, on: bool, cached: bool
) -> None:
    settings = LlamaCppSettings(width=1, max_context=1024, prompt_cache=on)
    with Interruption() as interruption, running(LlamaCpp(settings), tmp_path, interruption) as up:
        chat(up)
        again = chat(up)["usage"]
    assert (again.get("prompt_tokens_details", {}).get("cached_tokens", 0) > 0) is cached


def test_the_tiny_checkpoint_never_ends_an_answer_early(tmp_path: Path) -> None:
    with Interruption() as interruption, running(LlamaCpp(SMALL), tmp_path, interruption) as up:
        for topic in ("rivers", "stones", "windows"):
            message = [{"role": "user", "content": f"Something about {topic}"}]
            answer = chat(up, max_tokens=200, messages=message)
            assert answer["choices"][0]["finish_reason"] == "length"
            assert answer["usage"]["completion_tokens"] == 200


def test_a_model_file_that_is_not_there_is_told_by_the_log(tmp_path: Path) -> None:
    engine = LlamaCpp(LlamaCppSettings(gguf=tmp_path / "gone.gguf"))
    with (
        Interruption() as interruption,
        pytest.raises(EngineStartError, match="while loading") as told,
        running(engine, tmp_path, interruption),
    ):
        raise AssertionError("it must not get ready")
    assert any("gone.gguf" in line for line in told.value.log_tail)


def test_a_server_that_is_asked_for_by_name_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("llama-server"):
        pytest.skip("there is one on PATH")
    found = LlamaCpp.found(LlamaCppSettings(server="llama-server"))
    assert not found.ok
    assert "llama-server" in found.install_hint
