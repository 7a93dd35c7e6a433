"""Write a Qwen3-8B-shaped model folder, no download: config, tokenizer and chat template, no weights.

Meant for `vllm serve DIR --load-format dummy`: the engine fills the weights at random, so what is measured is
scheduling, batching and streaming at the cost of an 8B dense model, not the text.

    python make_model.py DIR        (in headtohead's environment, with the package `tokenizers` added)
"""

import json
import pathlib
import sys
import sysconfig
from collections.abc import Iterator

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from locustfiles.payloads import prompt

TRAINED = 32_000
VOCABULARY = 151_936
SPECIAL = {"<|endoftext|>": 151_643, "<|im_start|>": 151_644, "<|im_end|>": 151_645}

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000,
    "rope_scaling": None,
    "rms_norm_eps": 1e-06,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
    "use_cache": True,
    "use_sliding_window": False,
    "sliding_window": None,
    "max_window_layers": 36,
    "torch_dtype": "bfloat16",
    "transformers_version": "5.17.0",
    "bos_token_id": SPECIAL["<|endoftext|>"],
    "eos_token_id": SPECIAL["<|im_end|>"],
}

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def corpus() -> Iterator[str]:
    """The load's own sentences, so that a word is about one token, then Python's library for the rest."""
    for number in range(500):
        yield prompt(0, f"corpus-{number}", 400)
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        if "site-packages" not in path.parts:
            yield path.read_text(encoding="utf-8", errors="ignore")
    for path in sorted(library.rglob("*.txt")):
        yield path.read_text(encoding="utf-8", errors="ignore")


def trained_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=TRAINED, initial_alphabet=alphabet, show_progress=False, max_token_length=24
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def filled(tokenizer: Tokenizer) -> Tokenizer:
    """Give every id up to the configured vocabulary a readable word: random weights sample any of them."""
    state = json.loads(tokenizer.to_str())
    vocabulary: dict[str, int] = state["model"]["vocab"]
    by_id = {number: word for word, number in SPECIAL.items()}
    for number in range(len(vocabulary), VOCABULARY):
        vocabulary[by_id.get(number, f"Ġw{number}")] = number
    if len(vocabulary) != VOCABULARY:
        raise SystemExit(f"the vocabulary has {len(vocabulary)} entries instead of {VOCABULARY}")
    complete = Tokenizer.from_str(json.dumps(state))
    complete.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in SPECIAL])
    return complete


def main(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = filled(trained_tokenizer())
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    files = {
        "config.json": CONFIG,
        "generation_config.json": {
            "bos_token_id": CONFIG["bos_token_id"],
            "eos_token_id": [SPECIAL["<|im_end|>"], SPECIAL["<|endoftext|>"]],
            "pad_token_id": SPECIAL["<|endoftext|>"],
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "clean_up_tokenization_spaces": False,
            "model_max_length": 40960,
            "chat_template": CHAT_TEMPLATE,
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python make_model.py DIR")
    main(pathlib.Path(sys.argv[1]))
