"""How right is the clock, and what does it cost? N simultaneous streams into one load process on one core.

Against the simulated engine each arrival is compared with the engine's own log of its writes. With --url the
same streams run against any server; without its --truth folder only CPU and TTFT can be told.

    python benchmarks/clock.py --plot docs/img/clock.svg
    python benchmarks/clock.py --url http://127.0.0.1:8000 --streams 64
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from rich.console import Console
from rich.table import Table
from serving import client_core, on_cores, paced_server, served_model

CLIENT = Path(__file__).with_name("streaming_client.py")
CLIENTS = {
    "kernel": "transport, kernel clock",
    "user": "transport, user clock",
    "plain": "requests + sseclient-py",
}


@dataclass(frozen=True)
class Figures:
    """One cell of the benchmark. Times in ms; NaN where the server's truth is not known.

    `lag`: stamp minus the server's write of the event. `true_ttft`: write of the first token minus the
    moment at which the request's first byte left.
    """

    client: str
    streams: int
    cpu_us_per_event: float
    cpu_share: float
    lag_median: float
    lag_p99: float
    ttft: float
    true_ttft: float
    start_spread: float


def measure(client: str, streams: int, url: str, model: str, tokens: int, truth: Path | None) -> Figures:
    label = f"{client}-{streams}"
    with tempfile.TemporaryDirectory() as folder, on_cores(client_core()):
        rows_path = Path(folder) / "events.csv"
        command = [sys.executable, str(CLIENT), client, "--url", url]
        command += ["--model", model, "--streams", str(streams), "--tokens", str(tokens)]
        command += ["--label", label, "--out", str(rows_path)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"{label}: the load process failed")
        cost = json.loads(done.stdout)
        rows = pd.read_csv(rows_path)
    first_tokens = rows[rows.text].groupby("request").first()
    started = rows.groupby("request").started_ns.first()
    lag = pd.Series(dtype=float)
    true_ttft = float("nan")
    if truth is not None:
        written = pd.read_csv(truth / "truth_events.csv").rename(columns={"at_ns": "written_ns"})
        joined = rows.merge(written, on=["request", "event"], validate="one_to_one")
        if len(joined) != len(rows):
            raise SystemExit(f"{label}: {len(rows)} events arrived, {len(joined)} of them are in the truth")
        lag = (joined.at_ns - joined.written_ns) / 1e6
        truly_first = joined[joined.text].groupby("request").first()
        true_ttft = float((truly_first.written_ns - truly_first.left_ns).mean() / 1e6)
    return Figures(
        client=client,
        streams=streams,
        cpu_us_per_event=cost["cpu_s"] / len(rows) * 1e6,
        cpu_share=cost["cpu_s"] / cost["wall_s"],
        lag_median=float(lag.median()),
        lag_p99=float(lag.quantile(0.99)),
        ttft=float((first_tokens.at_ns - first_tokens.started_ns).mean() / 1e6),
        true_ttft=true_ttft,
        start_spread=float((started.max() - started.min()) / 1e6),
    )


def print_table(figures: list[Figures]) -> None:
    busy = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    table = Table(title=f"One load process on one core; times in ms; {busy}")
    table.add_column("client", no_wrap=True)
    for heading in ("streams", "CPU us/event", "CPU", "lag median", "lag p99"):
        table.add_column(heading, justify="right")
    for heading in ("mean TTFT", "true TTFT", "TTFT error", "start spread"):
        table.add_column(heading, justify="right")
    for cell in figures:
        table.add_row(
            CLIENTS[cell.client],
            str(cell.streams),
            f"{cell.cpu_us_per_event:.1f}",
            f"{cell.cpu_share:.0%}",
            told(cell.lag_median, 3),
            told(cell.lag_p99, 3),
            told(cell.ttft, 2),
            told(cell.true_ttft, 2),
            told(cell.ttft - cell.true_ttft, 2),
            told(cell.start_spread, 2),
        )
    Console(width=120).print(table)


def told(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def plot(figures: list[Figures], path: Path) -> None:
    """Two panels over the number of streams: lag p99, and error of the mean TTFT."""
    plt.rcParams["svg.hashsalt"] = "headtohead"  # the same figures give the same file
    plt.rcParams["svg.fonttype"] = "none"
    canvas, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for client, name in CLIENTS.items():
        cells = [cell for cell in figures if cell.client == client]
        streams = [cell.streams for cell in cells]
        left.plot(streams, [cell.lag_p99 for cell in cells], marker="o", label=name)
        right.plot(streams, [cell.ttft - cell.true_ttft for cell in cells], marker="o", label=name)
    left.set(title="stamp behind the server's write, p99", ylabel="ms")
    right.set(title="error of the mean TTFT", ylabel="ms")
    for panel in (left, right):
        panel.set_xscale("log", base=2)
        panel.set_xticks(sorted({cell.streams for cell in figures}))
        panel.xaxis.set_major_formatter("{x:.0f}")
        panel.set_xlabel("simultaneous streams")
        panel.set_yscale("log")
        panel.set_ylim(0.001, 1000)
        panel.grid(alpha=0.3)
    left.legend()
    canvas.savefig(path, metadata={"Date": None})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--streams", type=int, nargs="+", default=[1, 8, 64, 256, 1024])
    arguments.add_argument("--tokens", type=int, default=150, help="per stream")
    arguments.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    arguments.add_argument("--url", help="a running server, instead of the simulated engine")
    arguments.add_argument("--truth", type=Path, help="the folder of its truth files, if it writes them")
    arguments.add_argument("--plot", type=Path, help="write the errors over streams as a figure")
    options = arguments.parse_args()

    with ExitStack() as stack:
        truth: Path | None = options.truth
        url: str | None = options.url
        if url is None:
            truth = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url = stack.enter_context(paced_server(truth, "--width", str(max(options.streams))))
        model = served_model(url)
        figures = [
            measure(client, streams, url, model, options.tokens, truth)
            for streams in options.streams
            for client in options.clients
        ]
    print_table(figures)
    if options.plot:
        plot(figures, options.plot)


if __name__ == "__main__":
    main()
