"""The chat template and tokenizer that PocketLLM's native server asks for, one JSON object a line.

The server starts `PYTHON -u THIS --ckpt DIR --architecture NAME`, waits for one banner line, then sends
requests and reads exactly one line for each, under a lock: {"op": "encode" | "tokenize" | "parse" | "ping" |
"shutdown", ...}. Needs only `tokenizers` and `jinja2`. A traceback would break the conversation, so errors
become {"ok": false, "err"}.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer


class Sidecar:
    def __init__(self, checkpoint: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
        settings = json.loads((checkpoint / "tokenizer_config.json").read_text(encoding="utf-8"))
        self.words = {key: self.word(settings.get(key)) for key in ("bos_token", "eos_token", "pad_token")}
        eos = self.words["eos_token"]
        self.eos_id = self.tokenizer.token_to_id(eos) if eos else None
        beside = checkpoint / "chat_template.jinja"
        source = beside.read_text(encoding="utf-8") if beside.exists() else settings["chat_template"]
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = self.refuse
        self.template = environment.from_string(source)

    @staticmethod
    def word(entry: Any) -> str | None:
        return entry.get("content") if isinstance(entry, dict) else entry

    @staticmethod
    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request.get("op"):
            case "encode":
                text = self.template.render(
                    messages=request.get("messages") or [],
                    tools=request.get("tools") or None,
                    add_generation_prompt=request.get("add_generation_prompt", True),
                    enable_thinking=request.get("thinking_mode") == "thinking",
                    **self.words,
                )
                return {"ok": True, "prompt_text": text, "token_ids": self.ids(text)}
            case "tokenize":
                return {"ok": True, "token_ids": self.ids(request.get("prompt", ""))}
            case "parse":
                return {"ok": True} | self.parsed(
                    request.get("text", ""), request.get("thinking_mode") == "thinking"
                )
            case "ping":
                return {"ok": True, "pong": True}
            case "shutdown":
                return {"ok": True, "bye": True}
            case other:
                return {"ok": False, "err": f"unknown op: {other!r}"}

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    @staticmethod
    def parsed(text: str, thinking: bool) -> dict[str, Any]:
        before, closed, after = text.partition("</think>")
        if closed:
            reasoning, content = before.removeprefix("<think>"), after
        else:
            reasoning, content = (text.removeprefix("<think>"), "") if thinking else ("", text)
        return {"content": content, "reasoning_content": reasoning, "tool_calls": []}


def say(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--ckpt", type=Path, required=True)
    arguments.add_argument("--architecture", default="")
    given = arguments.parse_args()
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]  # the native side's bytes
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # never a plain TextIO
    sidecar = Sidecar(given.ckpt)
    say(
        {
            "ok": True,
            "ready": True,
            "architecture": given.architecture,
            "templater": "jinja",
            "eos_token_id": sidecar.eos_id if sidecar.eos_id is not None else 1,
        }
    )
    for line in sys.stdin:
        if not line.strip():
            continue
        request: dict[str, Any] = {}
        try:
            request = json.loads(line)
            say(sidecar.answer(request))
        except Exception as error:  # whatever it is, the server waits for exactly one line
            say({"ok": False, "err": f"{type(error).__name__}: {error}"})
        if request.get("op") == "shutdown":
            return


if __name__ == "__main__":
    main()
