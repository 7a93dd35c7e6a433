"""A run as DataFrames: `load` a folder, find its arms, know which of them belong together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.reading import RunError, find, read_json, read_table, read_texts
from analysis.schema import (
    CLIENT_TYPES,
    ENGINE_CLOCK_COLUMNS,
    EVENT_TYPES,
    REQUEST_TYPES,
    TELEMETRY_TYPES,
    TRUTH_EVENT_TYPES,
    TRUTH_TYPES,
)

MODES = ("batch", "serial", "static")


@dataclass(eq=False)
class Arm:
    """One engine in one mode. Times in `requests` are engine time: seconds of the engine's own clock."""

    path: Path
    name: str
    record: dict[str, Any]
    conduct: dict[str, Any]
    requests: pd.DataFrame
    subject: str = ""
    """What is compared with what: the arms of one subject differ in mode only."""

    @property
    def engine(self) -> str:
        return self._said("engine", "external")

    @property
    def mode(self) -> str:
        return self._said("mode", "batch")

    @property
    def title(self) -> str:
        """The arm as tables name it."""
        return f"{self.subject} {self.mode}"

    @property
    def time_scale(self) -> float:
        """How many times faster than real the engine's clock ran (1 unless simulated)."""
        return float(self.record.get("time_scale") or 1.0)

    @property
    def requested_width(self) -> int | None:
        width = self.record.get("requested_width")
        return None if width is None else int(width)

    @cached_property
    def recorded(self) -> pd.DataFrame:
        """The requests that count: not those of warm-up passes."""
        return self.requests[self.requests["repeat"] > 0]

    @cached_property
    def events(self) -> pd.DataFrame:
        """Arrival of every stream event, `at_ms` in engine time from its request's sending."""
        events = read_table(self.path, "events.csv", EVENT_TYPES)
        events["at_ms"] *= self.time_scale
        return events

    @cached_property
    def client(self) -> pd.DataFrame:
        """Samples of the load processes themselves, in real time."""
        return read_table(self.path, "client.csv", CLIENT_TYPES)

    @cached_property
    def telemetry(self) -> pd.DataFrame:
        """Samples of the engine's own metrics, of devices and of processes, in real time."""
        return read_table(self.path, "telemetry.csv", TELEMETRY_TYPES)

    @cached_property
    def truth(self) -> pd.DataFrame:
        """What a simulated engine did, one row a request, in real nanoseconds; empty for real engines."""
        return read_table(self.path, "truth.csv", TRUTH_TYPES)

    @cached_property
    def truth_events(self) -> pd.DataFrame:
        """When a simulated engine wrote each event, in real nanoseconds; empty for real engines."""
        return read_table(self.path, "truth_events.csv", TRUTH_EVENT_TYPES)

    @cached_property
    def texts(self) -> dict[str, str]:
        """The reply's text of each request whose text was kept."""
        return read_texts(self.path)

    def _said(self, key: str, otherwise: str) -> str:
        if self.record.get(key):
            return str(self.record[key])
        return str(self.requests[key].iloc[0]) if len(self.requests) else otherwise


@dataclass(eq=False)
class Run:
    """One run, or several put together: the arms in order, and what was asked for."""

    paths: list[Path]
    name: str
    info: dict[str, Any]
    arms: list[Arm]
    notes: list[str] = field(default_factory=list)
    """Lines that stand above every table, such as why a comparison was forced."""

    @property
    def subjects(self) -> list[str]:
        return list(dict.fromkeys(arm.subject for arm in self.arms))

    @property
    def modes(self) -> list[str]:
        """The modes that occur, in the order in which tables show them."""
        there = {arm.mode for arm in self.arms}
        return [mode for mode in MODES if mode in there] + sorted(there - set(MODES))

    def arm(self, subject: str, mode: str) -> Arm | None:
        return next((arm for arm in self.arms if (arm.subject, arm.mode) == (subject, mode)), None)


def load(run_dir: Path | str) -> Run:
    """The run in `run_dir`; RunError with one line if it is none. Works on a run that was killed, too."""
    folder = Path(run_dir)
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder; give the folder of a run, as results/demo")
    info = read_json(folder / "run.json")
    names = [str(name) for name in info.get("arms", [])] or sorted(
        path.name for path in folder.iterdir() if find(path, "requests.csv")
    )
    arms = [load_arm(folder / name) for name in names if (folder / name).is_dir()]
    if not arms:
        raise RunError(
            f"{folder}: no arm with a requests.csv in it; give the folder of a run, as results/demo"
        )
    _name_subjects(arms)
    return Run([folder], folder.resolve().name, info, arms)


def load_many(run_dirs: Iterable[Path | str]) -> Run:
    """Several runs as one, their arms side by side; a name used twice gets its run's name in front."""
    runs = [load(folder) for folder in run_dirs]
    if not runs:
        raise RunError("no run given; give the folder of a run, as results/demo")
    if len(runs) == 1:
        return runs[0]
    taken = [(arm.subject, arm.mode) for run in runs for arm in run.arms]
    for run in runs:
        for arm in run.arms:
            if taken.count((arm.subject, arm.mode)) > 1:
                arm.subject = f"{run.name}: {arm.subject}"
                arm.name = f"{run.name}: {arm.name}"
    info = {"headtohead": runs[0].info.get("headtohead"), "runs": [run.info for run in runs]}
    return Run(
        [path for run in runs for path in run.paths],
        " + ".join(run.name for run in runs),
        info,
        [arm for run in runs for arm in run.arms],
    )


def load_arm(arm_dir: Path | str) -> Arm:
    """One arm's rows and records, as far as they were written."""
    folder = Path(arm_dir)
    record = read_json(folder / "record.json")
    requests = read_table(folder, "requests.csv", REQUEST_TYPES)
    scale = float(record.get("time_scale") or 1.0)
    for column in ENGINE_CLOCK_COLUMNS:
        requests[column] *= scale
    first = requests["sent_ns"].min()
    # Nanoseconds since the epoch exceed a float's precision: subtract as integers, then convert.
    since_first = (requests["sent_ns"] - (0 if pd.isna(first) else first)).astype("Float64")
    requests["sent_ms"] = since_first.to_numpy(dtype="float64", na_value=float("nan")) / 1e6 * scale
    arm = Arm(folder, folder.name, record, read_json(folder / "conduct.json"), requests)
    arm.subject = arm.engine
    return arm


def _name_subjects(arms: list[Arm]) -> None:
    """Arms that differ only in mode get one subject: "a-batch" and "a-serial" are both "a"."""
    engines = [(arm.engine, arm.mode) for arm in arms]
    for arm in arms:
        stem = next(
            (arm.name.removesuffix(arm.mode)[:-1] for mark in "-_./ " if arm.name.endswith(mark + arm.mode)),
            "",
        )
        unique = engines.count((arm.engine, arm.mode)) == 1
        arm.subject = stem or (arm.engine if unique else arm.name)
