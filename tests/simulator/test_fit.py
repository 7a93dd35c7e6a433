"""The profiles against the published runs, in the scheduler's own time: nothing is waited for."""

from pathlib import Path

import pandas as pd
import pytest

from launchers.simulator import profile
from tests.simulator.virtual import play, together

DATA = Path(__file__).parent.parent / "data"
SEED = pd.read_csv(DATA / "seed-results.csv")
LONG = pd.read_csv(DATA / "seed-long-context.csv")
SHORT, LONGER, BRIEF, BUDGET = 145, 1733, 42, 32  # tokens of prompts of 128, 1600 and 32 words
ENGINES = ["pocketllm", "vllm"]


def published(engine: str, mode: str, metric: str, **also: object) -> dict[int, float]:
    rows = SEED[(SEED["engine"] == engine) & (SEED["mode"] == mode) & (SEED["metric"] == metric)]
    return dict(zip(rows["concurrency"], rows["value"], strict=True))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["batch", "serial"])
def test_walls_of_the_ladder(engine: str, mode: str) -> None:
    costs = profile.load(f"{engine}-2080ti-tp4", mode, [])
    walls = SEED.query("table in ['single', 'ladder'] and engine == @engine and mode == @mode")
    for count, wall in walls.query("metric == 'wall_s'")[["concurrency", "value"]].itertuples(index=False):
        assert together(costs, int(count), SHORT, BUDGET)[0] == pytest.approx(wall, rel=0.02)


@pytest.mark.parametrize("engine", ENGINES)
def test_mean_latencies_of_the_ladder(engine: str) -> None:
    costs = profile.load(f"{engine}-2080ti-tp4", "batch", [])
    for count, latency in published(engine, "batch", "mean_latency_s").items():
        assert together(costs, count, SHORT, BUDGET)[1] == pytest.approx(latency, rel=0.03)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["batch", "serial"])
def test_the_interleave(engine: str, mode: str) -> None:
    costs = profile.load(f"{engine}-2080ti-tp4", mode, [])
    (_, long_end), (_, short_latency) = play(costs, [(0.0, LONGER, BUDGET), (0.5, BRIEF, BUDGET)])
    rows = SEED.query("table == 'interleave' and engine == @engine and mode == @mode").set_index("metric")
    assert short_latency == pytest.approx(rows.loc["short_latency_s", "value"], rel=0.05)
    assert max(long_end, 0.5 + short_latency) == pytest.approx(rows.loc["wall_s", "value"], rel=0.05)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_long_contexts(engine: str) -> None:
    costs = profile.load(f"{engine}-2080ti-tp4-long", "batch", [])
    for row in LONG.to_dict("records"):
        tokens = int(row["prompt_tokens"])
        [(ttft, wall)] = play(costs, [(0.0, tokens, 128)])
        assert tokens / ttft == pytest.approx(row[f"{engine}_prefill_tok_s"], rel=0.03)
        assert 127 / (wall - ttft) == pytest.approx(row[f"{engine}_decode_tok_s"], rel=0.03)
        assert wall == pytest.approx(row[f"{engine}_wall_s"], rel=0.03)
