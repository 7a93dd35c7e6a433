"""Locust's own CSV files of any run, whoever started it, as DataFrames and in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.reading import RunError

KINDS = ("stats", "stats_history", "failures", "exceptions")


@dataclass(frozen=True, slots=True)
class LocustFiles:
    """What `locust --csv PREFIX` wrote. A file that is missing is an empty frame."""

    prefix: Path
    stats: pd.DataFrame
    """One row a request name, Locust's columns; the row "Aggregated" is last."""
    history: pd.DataFrame
    """One row a second (and name, with --csv-full-history); `at` is its UTC time."""
    failures: pd.DataFrame
    exceptions: pd.DataFrame

    @property
    def aggregated(self) -> pd.Series[float]:
        """Locust's own total."""
        total: pd.Series[float] = self.stats[self.stats["Name"] == "Aggregated"].iloc[-1]
        return total

    def summary(self) -> str:
        """The run in a few plain lines. Locust rounds times above 100 ms to two digits: so do these."""
        total = self.aggregated
        count, failed = int(total["Request Count"]), int(total["Failure Count"])
        share = f"{failed / count:.1%}" if count else "none sent"
        lines = [
            f"{count:,} requests, {failed:,} failed ({share}), {float(total['Requests/s']):.2f} requests/s",
            f"response time: median {total['Median Response Time']} ms, mean "
            f"{float(total['Average Response Time']):.1f} ms, 95 % within {total['95%']} ms, 99 % within "
            f"{total['99%']} ms, longest {float(total['Max Response Time']):.1f} ms "
            "(Locust's figures, rounded to two digits above 100 ms)",
        ]
        if len(self.history) > 1:
            last = self.history[self.history["Name"] == "Aggregated"]
            seconds = (last["at"].max() - last["at"].min()).total_seconds()
            lines.append(f"{seconds:.0f} s, at most {int(last['User Count'].max())} users")
        lines += [
            f"{int(row['Occurrences'])} x {row['Method']} {row['Name']}: {row['Error']}"
            for row in self.failures.to_dict("records")
        ]
        return "\n".join(lines)


def read_locust(prefix: Path | str) -> LocustFiles:
    """The files `<prefix>_stats.csv`, `_stats_history.csv`, `_failures.csv`, `_exceptions.csv`.

    RunError if the first is not there, or is not Locust's.
    """
    base = Path(prefix)
    frames = {kind: _read(base, kind) for kind in KINDS}
    if frames["stats"].empty or "Request Count" not in frames["stats"]:
        raise RunError(f"{base}_stats.csv: not Locust's statistics; give the prefix of `locust --csv PREFIX`")
    history = frames["stats_history"]
    if "Timestamp" in history:
        history["at"] = pd.to_datetime(history["Timestamp"], unit="s", utc=True)
    return LocustFiles(base, frames["stats"], history, frames["failures"], frames["exceptions"])


def _read(base: Path, kind: str) -> pd.DataFrame:
    path = base.with_name(f"{base.name}_{kind}.csv")
    if not path.exists() or path.stat().st_size == 0:
        return pd.DataFrame()
    return pd.read_csv(path, on_bad_lines="skip", na_values=["N/A"])


def counted(arm_dir: Path) -> tuple[int, int] | None:
    """(requests, failures) that Locust counted for an arm, over all blocks; None if it wrote nothing."""
    prefixes = [
        path.with_name(path.name.removesuffix("_stats.csv")) for path in arm_dir.glob("locust*_stats.csv")
    ]
    totals = []
    for prefix in prefixes:
        try:
            total = read_locust(prefix).aggregated
        except (RunError, IndexError):
            continue
        totals.append((int(total["Request Count"]), int(total["Failure Count"])))
    return (sum(one for one, _ in totals), sum(two for _, two in totals)) if totals else None
