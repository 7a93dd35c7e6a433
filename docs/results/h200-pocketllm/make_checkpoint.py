"""Random BF16 weights in the layout of a Qwen3.5 dense checkpoint, written where they are to be served.

    python make_checkpoint.py MODEL_FILES DIR [--layers 32] [--hidden 4096 ...] [--seed 1]

Text comes out as plain lower- and upper-case words: lm_head rows of every other token are zero, so that their
logit is 0 while the largest of ten thousand random ones is far above it. Hence no stop token is ever sampled,
every token carries visible text, and each makes exactly one stream event. Embeddings weigh as much in the
residual stream as all layers together do, so the next word hangs on the last one and on the prompt.
"""

import argparse
import json
import pathlib
import re
import shutil
import struct
from concurrent.futures import Future, ThreadPoolExecutor

import torch

WORD = re.compile(r"Ġ[A-Za-z]{2,}")


def write_shard(path: pathlib.Path, tensors: dict[str, torch.Tensor]) -> None:
    header, offset = {}, 0
    for name, t in tensors.items():
        end = offset + t.numel() * 2
        header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            file.write(memoryview(t.view(torch.int16).numpy()).cast("B"))


class Writer:
    """Makes tensors on the GPU one after another; a few threads copy and write the finished shards."""

    def __init__(self, folder: pathlib.Path, seed: int) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.random = torch.Generator(self.device).manual_seed(seed)
        self.folder, self.pool, self.waiting = folder, ThreadPoolExecutor(6), list[Future[None]]()
        self.map: dict[str, str] = {}
        self.bytes = 0

    def normal(self, std: float, *shape: int) -> torch.Tensor:
        t = torch.empty(shape, dtype=torch.bfloat16, device=self.device)
        return t.normal_(0.0, std, generator=self.random)

    def linear(self, rows: int, columns: int, gain: float = 1.0) -> torch.Tensor:
        return self.normal(gain * columns**-0.5, rows, columns)

    def shard(self, name: str, tensors: dict[str, torch.Tensor]) -> None:
        for tensor, t in tensors.items():
            self.map[tensor] = name
            self.bytes += t.numel() * 2
        on_host = {k: t.to(torch.bfloat16).contiguous().cpu() for k, t in tensors.items()}
        self.waiting.append(self.pool.submit(write_shard, self.folder / name, on_host))
        if len(self.waiting) > 12:
            self.waiting.pop(0).result()

    def finish(self) -> None:
        for f in self.waiting:
            f.result()
        index = {"metadata": {"total_size": self.bytes}, "weight_map": self.map}
        (self.folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))


def layer(w: Writer, c: dict, number: int, out: float) -> dict[str, torch.Tensor]:
    hidden, inner, at = c["hidden_size"], c["intermediate_size"], f"model.language_model.layers.{number}."
    zeros = torch.zeros(hidden, device=w.device)
    t = {
        at + "input_layernorm.weight": zeros,
        at + "post_attention_layernorm.weight": zeros,  # gain is 1 + weight
        at + "mlp.gate_proj.weight": w.linear(inner, hidden),
        at + "mlp.up_proj.weight": w.linear(inner, hidden),
        at + "mlp.down_proj.weight": w.linear(hidden, inner, 2 * out),
    }
    if c["layer_types"][number] == "linear_attention":
        k = c["linear_num_key_heads"] * c["linear_key_head_dim"]
        heads, v = c["linear_num_value_heads"], c["linear_num_value_heads"] * c["linear_value_head_dim"]
        at += "linear_attn."
        decay = (
            torch.rand(heads, device=w.device, generator=w.random) * 0.5 + 0.01
        )  # slow: the whole prompt counts
        t |= {
            at + "in_proj_qkv.weight": w.linear(2 * k + v, hidden),
            at + "in_proj_z.weight": w.linear(v, hidden),
            at + "in_proj_a.weight": w.linear(heads, hidden),
            at + "in_proj_b.weight": w.linear(heads, hidden),
            at + "conv1d.weight": w.normal(0.5, 2 * k + v, 1, c["linear_conv_kernel_dim"]),
            at + "A_log": decay.log(),
            at + "dt_bias": torch.full((heads,), -2.0, device=w.device),
            at + "norm.weight": torch.ones(c["linear_value_head_dim"], device=w.device),
            at + "out_proj.weight": w.linear(hidden, v, 2 * out),
        }
    else:
        dim = c["head_dim"]
        q, kv = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
        at += "self_attn."
        norm = torch.zeros(dim, device=w.device)
        t |= {
            at + "q_proj.weight": w.linear(2 * q, hidden),
            at + "k_proj.weight": w.linear(kv, hidden),
            at + "v_proj.weight": w.linear(kv, hidden),
            at + "o_proj.weight": w.linear(hidden, q, 2 * out),
            at + "q_norm.weight": norm,
            at + "k_norm.weight": norm,
        }
    return t


def words(files: pathlib.Path) -> list[int]:
    state = json.loads((files / "tokenizer.json").read_text(encoding="utf-8"))
    return [number for word, number in state["model"]["vocab"].items() if WORD.fullmatch(word)]


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("files", type=pathlib.Path)
    ask.add_argument("folder", type=pathlib.Path)
    ask.add_argument("--seed", type=int, default=1)
    for key in ("layers", "hidden", "intermediate", "heads", "kv_heads", "key_heads", "value_heads"):
        ask.add_argument("--" + key.replace("_", "-"), type=int)
    a = ask.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    for file in a.files.iterdir():
        shutil.copy(file, a.folder)
    config = json.loads((a.folder / "config.json").read_text())
    c = config["text_config"]
    asked = {
        "num_hidden_layers": a.layers,
        "hidden_size": a.hidden,
        "intermediate_size": a.intermediate,
        "num_attention_heads": a.heads,
        "num_key_value_heads": a.kv_heads,
        "linear_num_key_heads": a.key_heads,
        "linear_num_value_heads": a.value_heads,
    }
    c |= {key: value for key, value in asked.items() if value is not None}
    c["layer_types"] = [
        "linear_attention" if (n + 1) % 4 else "full_attention" for n in range(c["num_hidden_layers"])
    ]
    config["vision_config"]["out_hidden_size"] = c["hidden_size"]
    (a.folder / "config.json").write_text(json.dumps(config, indent=1))

    w = Writer(a.folder, a.seed)
    count, out = c["num_hidden_layers"], (2 * c["num_hidden_layers"]) ** -0.5
    head = w.linear(c["vocab_size"], c["hidden_size"], 3.0)
    sampled = torch.zeros(c["vocab_size"], 1, dtype=torch.bfloat16, device=w.device)
    sampled[words(a.files)] = 1
    w.shard(
        "model-00000.safetensors",
        {
            "model.language_model.embed_tokens.weight": w.normal(1.0, c["vocab_size"], c["hidden_size"]),
            "model.language_model.norm.weight": torch.zeros(c["hidden_size"], device=w.device),
            "lm_head.weight": head * sampled,
        },
    )
    for number in range(count):
        w.shard(f"model-{number + 1:05d}.safetensors", layer(w, c, number, out))
    w.finish()
    print(f"{a.folder}: {count} layers, {w.bytes / 2**30:.1f} GiB, {w.bytes / 2e9:.2f} billion weights")


if __name__ == "__main__":
    main()
