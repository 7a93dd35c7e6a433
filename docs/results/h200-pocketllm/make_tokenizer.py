"""The small files of the checkpoint (config, tokenizer, chat template); needs only `tokenizers`.

    python make_tokenizer.py DIR

Byte-level BPE, merges written as "a b" strings: PocketLLM's own reader does not take the pairs that
`tokenizers` writes nowadays. No generation_config.json on purpose: the engine takes its stop ids from there
alone.
"""

import json
import pathlib
import sys
import sysconfig
from collections.abc import Iterator

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 32_768
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
PLAIN = ["<think>", "</think>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def corpus() -> Iterator[str]:
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        if "site-packages" not in path.parts:
            yield path.read_text(encoding="utf-8", errors="ignore")
    yield from (p.read_text(encoding="utf-8", errors="ignore") for p in sorted(library.rglob("*.txt")))


def tokenizer() -> dict[str, object]:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL) - len(PLAIN),
        max_token_length=16,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(corpus(), trainer)
    made.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in SPECIAL])
    made.add_tokens([AddedToken(word, special=False, normalized=False) for word in PLAIN])
    if made.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"the tokenizer has {made.get_vocab_size()} entries instead of {VOCABULARY}")
    state = json.loads(made.to_str())
    state["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in state["model"]["merges"]]
    return state


def main(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    state = tokenizer()
    number = {t["content"]: t["id"] for t in state["added_tokens"]}
    eos = number["<|im_end|>"]
    text = {
        "model_type": "qwen3_5_text",
        "vocab_size": VOCABULARY,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "full_attention_interval": 4,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8,
        "attn_output_gate": True,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-06,
        "use_cache": True,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 0,
        "eos_token_id": eos,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000000,
            "partial_rotary_factor": 0.25,
            "mrope_section": [11, 11, 10],
            "mrope_interleaved": True,
        },
    }
    vision = {
        "model_type": "qwen3_5",
        "depth": 1,
        "hidden_size": 128,
        "hidden_act": "gelu_pytorch_tanh",
        "intermediate_size": 256,
        "num_heads": 2,
        "in_channels": 3,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 4096,
        "num_position_embeddings": 256,
        "deepstack_visual_indexes": [],
    }
    config = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "dtype": "bfloat16",
        "tie_word_embeddings": False,
        "image_token_id": number["<|image_pad|>"],
        "video_token_id": number["<|video_pad|>"],
        "vision_start_token_id": number["<|vision_start|>"],
        "vision_end_token_id": number["<|vision_end|>"],
        "text_config": text,
        "vision_config": vision,
    }
    picture = {
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "do_resize": True,
        "size": {"shortest_edge": 65536, "longest_edge": 16777216},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": "Qwen3VLProcessor",
    }
    files = {
        "config.json": config,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "clean_up_tokenization_spaces": False,
            "model_max_length": 32768,
            "chat_template": CHAT_TEMPLATE,
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "vision_bos_token": "<|vision_start|>",
            "vision_eos_token": "<|vision_end|>",
        },
        "preprocessor_config.json": picture | {"image_processor_type": "Qwen2VLImageProcessorFast"},
        "video_preprocessor_config.json": picture | {"video_processor_type": "Qwen3VLVideoProcessor"},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
