"""The checkpoint that every real engine here loads: the same model and words in both of its forms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from launchers import tiny_checkpoint
from launchers.asking import ask
from launchers.engines.llamacpp import LlamaCpp, LlamaCppSettings
from launchers.interruption import Interruption
from launchers.lifecycle import RunningEngine
from tests.engines.support import chat, running

TEXTS = [
    "The harbour master describes a wooden bridge before the rain begins.",
    '2345678901 don\'t   say "naïve":\n\n\t12 — 345 x_y',
    "日本語のテスト 🙂",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.checkpoint("5m", tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    engine = LlamaCpp(LlamaCppSettings(gguf=folder / "tiny.gguf", server="xllamacpp", max_context=1024))
    with Interruption() as interruption, running(engine, tmp_path_factory.mktemp("arm"), interruption) as up:
        yield up


def test_it_is_made_once_and_always_the_same(folder: Path, tmp_path: Path) -> None:
    assert tiny_checkpoint.checkpoint("5m", folder.parent) == folder
    again = tiny_checkpoint.checkpoint("5m", tmp_path)
    assert again.name == folder.name
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in again.iterdir())
    assert all((folder / name).read_bytes() == (again / name).read_bytes() for name in names)


def test_both_forms_hold_the_same_float32_weights(folder: Path) -> None:
    hf = load_file(folder / "model.safetensors")
    gguf = {tensor.name: tensor.data for tensor in GGUFReader(folder / "tiny.gguf").tensors}
    assert {tiny_checkpoint.gguf_name(name) for name in hf} == set(gguf)
    for name, weight in hf.items():
        assert weight.dtype == np.float32
        np.testing.assert_array_equal(weight, gguf[tiny_checkpoint.gguf_name(name)])


def test_sizes_are_what_their_names_say(folder: Path) -> None:
    parameters = sum(weight.size for weight in load_file(folder / "model.safetensors").values())
    assert 4.5e6 < parameters < 6.5e6
    config = json.loads((folder / "config.json").read_text())
    assert config["hidden_size"] == config["num_attention_heads"] * 64


@pytest.mark.parametrize("text", TEXTS)
def test_llama_cpp_counts_the_tokens_that_the_tokenizer_counts(
    folder: Path, server: RunningEngine, text: str
) -> None:
    text = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    asked = {"content": text, "parse_special": True, "add_special": False}
    status, answer = ask(server.base_url, "/tokenize", asked)
    assert status == 200
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert json.loads(answer)["tokens"] == tokenizer.encode(text).ids


def test_every_token_can_be_said(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    assert tokenizer.get_vocab_size() == size
    assert all(tokenizer.decode([token]) for token in range(len(tiny_checkpoint.SPECIAL), size))


def test_an_answer_depends_on_the_prompt_and_never_ends_early(server: RunningEngine) -> None:
    answers = []
    for text in TEXTS:
        answer = chat(server, messages=[{"role": "user", "content": text}], max_tokens=48)
        assert answer["usage"]["completion_tokens"] == 48
        assert answer["choices"][0]["finish_reason"] == "length"
        answers.append(answer["choices"][0]["message"]["content"])
    assert len(set(answers)) == len(TEXTS)
