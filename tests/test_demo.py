"""The demo's plan, run as a user would, against the published tables that its engines are fitted to."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent
SEED = pd.read_csv(ROOT / "tests/data/seed-results.csv")
# The published tables spread over two what is one of ours, and call the short request's latency otherwise.
SEED.loc[SEED["metric"].isin(["output_tok_s", "mean_latency_s"]), "table"] = "throughput"
SEED = SEED.drop_duplicates(["table", "engine", "mode", "concurrency", "metric"])
SEED["metric"] = SEED["metric"].replace("short_latency_s", "short_s")
KEY = ["table", "engine", "mode", "concurrency", "metric"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    out = tmp_path_factory.mktemp("demo") / "run"
    command = [sys.executable, "-m", "launchers", "run", "plans/demo.toml", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    done.args = out
    return done


def cells(demo: subprocess.CompletedProcess[str]) -> pd.DataFrame:
    """The published and the measured value of every cell that is in both."""
    ours = pd.read_csv(Path(demo.args) / "tables/results.csv")
    joined = SEED.merge(ours[[*KEY, "value"]], on=KEY, how="left", suffixes=("_seed", "_ours"))
    joined["off"] = joined["value_ours"] / joined["value_seed"] - 1
    return joined


def test_it_passes_and_prints_the_tables(demo: subprocess.CompletedProcess[str]) -> None:
    assert demo.returncode == 0, demo.stdout[-3000:] + demo.stderr[-1000:]
    for title in (
        "Single request",
        "Concurrent non-streaming requests",
        "Head-to-head",
        "Long/short interleave",
    ):
        assert title in demo.stdout
    assert (Path(demo.args) / "report.html").stat().st_size > 50_000


def test_every_published_cell_is_there(demo: subprocess.CompletedProcess[str]) -> None:
    missing = cells(demo).query("value_ours.isna()")
    assert missing.empty, missing[KEY].to_string()


@pytest.mark.parametrize(
    ("tables", "metrics", "tolerance"),
    [
        (["single", "ladder"], ["wall_s"], 0.05),
        (["ladder", "head_to_head"], ["ratio"], 0.06),
        (["throughput"], ["output_tok_s", "mean_latency_s"], 0.06),
        (["interleave"], ["short_s", "wall_s"], 0.10),
    ],
)
def test_its_cells_are_the_published_ones(
    demo: subprocess.CompletedProcess[str], tables: list[str], metrics: list[str], tolerance: float
) -> None:
    wanted = cells(demo).query("table in @tables and metric in @metrics")
    assert len(wanted) >= 4
    off = wanted[wanted["off"].abs() > tolerance]
    assert off.empty, off[[*KEY, "value_seed", "value_ours", "off"]].to_string()
