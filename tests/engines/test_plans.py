"""The plans that are shipped: each can be read, and each arm's settings are ones that its engine knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchers import plan
from launchers.engines.vllm import Vllm
from launchers.resolve import build_engines

PLANS = sorted(Path("plans").glob("*.toml"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_shipped_plan_is_one_that_its_engines_understand(path: Path) -> None:
    read = plan.read(path)
    engines = build_engines(read, str(path))
    assert [engine.name for engine in engines] == [arm.engine for arm in read.arms]


def test_the_published_comparison_gets_the_flags_of_its_page(tmp_path: Path) -> None:
    path = Path("plans/pocketllm-vs-vllm.toml")
    engines = build_engines(plan.read(path), str(path))
    vllm = [engine for engine in engines if isinstance(engine, Vllm)]
    asked = {
        word for engine in vllm for spec in engine.processes("batch", 8000, tmp_path) for word in spec.argv
    }
    assert {
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--max-model-len",
        "--tensor-parallel-size",
        "--gpu-memory-utilization",
        "--no-enable-prefix-caching",
        "--enable-chunked-prefill",
        "--trust-remote-code",
        '{"gdn_prefill_backend":"triton"}',
    } <= asked
