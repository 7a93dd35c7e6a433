"""A checkpoint of a few million random parameters that every real engine here can load, made on the spot.

One folder: an HF model (config.json, model.safetensors, tokenizer, ChatML template) and the same weights as
tiny.gguf. Qwen2's architecture, because GGUF keeps its q and k rows as they are; head dimension 64, because
vLLM's CPU attention takes no smaller one; float32, because that is where a batch on a CPU gains most.
The weights mean nothing: what the model says depends on the prompt but is no language. Greedy sampling never
reaches a special token, so no answer ends early, not even on an engine that cannot be told to ignore its EOS.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from launchers.errors import EngineMissing

Weights = dict[str, NDArray[np.float32]]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# How Qwen2's tokenizer cuts text into words. transformers gives every Qwen2 model this cut, whatever
# tokenizer.json says, and llama.cpp knows it by name: with another one the engines would count differently.
QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXT_MODULES = (
    "argparse",
    "asyncio",
    "collections",
    "csv",
    "decimal",
    "json",
    "logging",
    "pathlib",
    "random",
)


@dataclass(frozen=True)
class Size:
    """Numbers of a Qwen2 model."""

    hidden: int = 256
    layers: int = 4
    mlp: int = 1024
    head_dim: int = 64
    kv_heads: int = 2
    vocabulary: int = 4096
    context: int = 8192

    @property
    def heads(self) -> int:
        return self.hidden // self.head_dim


SizeName = Literal["5m", "15m", "30m"]
SIZES: dict[SizeName, Size] = {
    "5m": Size(),
    "15m": Size(hidden=384, layers=6, mlp=1536),
    "30m": Size(hidden=512, layers=8, mlp=2048),
}


def checkpoint(size: SizeName = "5m", folder: Path | None = None) -> Path:
    """The folder of the checkpoint, made if it is not there yet. Raises EngineMissing without the extra.

    `folder`: where checkpoints are kept; by default `.engines/checkpoints` in the working folder.
    """
    recipe = f"{asdict(SIZES[size])}{CHAT_TEMPLATE}{Path(__file__).read_text()}"
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    made = (folder or Path(".engines/checkpoints")).absolute() / f"tiny-{size}-{digest}"
    if made.is_dir():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{made.name}.", dir=made.parent))
    try:
        write(unfinished, SIZES[size])
        unfinished.chmod(0o755)
        os.replace(unfinished, made)
    except OSError:
        if not made.is_dir():  # else another process was quicker
            raise
    except ImportError as error:
        raise EngineMissing(
            f"the tiny checkpoint needs {error.name}: pip install 'headtohead[llamacpp]'"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return made


def write(folder: Path, size: Size) -> None:
    weights = random_weights(size)
    tokenizer = write_tokenizer(folder, size)
    write_hf(folder, size, weights)
    write_gguf(folder / "tiny.gguf", size, weights, tokenizer)


def random_weights(size: Size) -> Weights:
    """HF names; always the same numbers for the same size."""
    draw = np.random.default_rng(20260801)

    def matrix(rows: int, columns: int, gain: float = 1.0) -> NDArray[np.float32]:
        return draw.standard_normal((rows, columns), dtype=np.float32) * np.float32(gain / np.sqrt(columns))

    kv = size.kv_heads * size.head_dim
    ones, zeros = np.ones(size.hidden, np.float32), np.zeros
    weights = {"model.embed_tokens.weight": matrix(size.vocabulary, size.hidden, np.sqrt(size.hidden))}
    for i in range(size.layers):
        layer = f"model.layers.{i}"
        weights |= {
            f"{layer}.input_layernorm.weight": ones,
            f"{layer}.self_attn.q_proj.weight": matrix(size.hidden, size.hidden),
            f"{layer}.self_attn.q_proj.bias": zeros(size.hidden, np.float32),
            f"{layer}.self_attn.k_proj.weight": matrix(kv, size.hidden),
            f"{layer}.self_attn.k_proj.bias": zeros(kv, np.float32),
            f"{layer}.self_attn.v_proj.weight": matrix(kv, size.hidden, 2.0),
            f"{layer}.self_attn.v_proj.bias": zeros(kv, np.float32),
            f"{layer}.self_attn.o_proj.weight": matrix(size.hidden, size.hidden, 2.0),
            f"{layer}.post_attention_layernorm.weight": ones,
            f"{layer}.mlp.gate_proj.weight": matrix(size.mlp, size.hidden),
            f"{layer}.mlp.up_proj.weight": matrix(size.mlp, size.hidden),
            f"{layer}.mlp.down_proj.weight": matrix(size.hidden, size.mlp, 2.0),
        }
    weights["model.norm.weight"] = ones
    weights["lm_head.weight"] = matrix(size.vocabulary, size.hidden, 4.0)
    # A logit of exactly 0 is never the greatest of thousands that are as often above 0 as below.
    weights["lm_head.weight"][: len(SPECIAL)] = 0
    return weights


def write_tokenizer(folder: Path, size: Size) -> dict[str, Any]:
    """A byte-level BPE trained on the standard library's docstrings; returns what tokenizer.json holds."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size.vocabulary,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(docstrings(), trainer)
    filler = [f"<|filler{i}|>" for i in range(size.vocabulary - tokenizer.get_vocab_size())]
    tokenizer.add_tokens(filler)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "model_max_length": size.context,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    saved: dict[str, Any] = json.loads(tokenizer.to_str())
    return saved


def docstrings() -> list[str]:
    """Plain text that is on every machine with Python."""
    import importlib

    texts: list[str] = []
    for name in TEXT_MODULES:
        module = importlib.import_module(name)
        members = [module, *(member for _, member in sorted(vars(module).items(), key=lambda kv: kv[0]))]
        texts += [text for member in members if (text := inspect.getdoc(member))]
    return [*texts, sys.copyright]


def write_hf(folder: Path, size: Size, weights: Weights) -> None:
    from safetensors.numpy import save_file

    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": size.hidden,
        "intermediate_size": size.mlp,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "head_dim": size.head_dim,
        "vocab_size": size.vocabulary,
        "max_position_embeddings": size.context,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "eos_token_id": SPECIAL.index("<|im_end|>"),
        "pad_token_id": 0,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": config["eos_token_id"]}))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def write_gguf(path: Path, size: Size, weights: Weights, tokenizer: dict[str, Any]) -> None:
    from gguf import GGUFWriter, TokenType

    names = {token["content"]: token["id"] for token in tokenizer["added_tokens"]} | tokenizer["model"][
        "vocab"
    ]
    tokens = sorted(names, key=names.__getitem__)
    writer = GGUFWriter(path, "qwen2")
    writer.add_name("tiny")
    writer.add_context_length(size.context)
    writer.add_embedding_length(size.hidden)
    writer.add_block_count(size.layers)
    writer.add_feed_forward_length(size.mlp)
    writer.add_head_count(size.heads)
    writer.add_head_count_kv(size.kv_heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if t in SPECIAL else TokenType.NORMAL for t in tokens])
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in merges])
    writer.add_eos_token_id(SPECIAL.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, weight in weights.items():
        writer.add_tensor(gguf_name(name), weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    for hf, gguf in GGUF_NAMES.items():
        name = name.replace(hf, gguf)
    return name
