"""What the machine did beside the load: the server's /metrics, GPUs, CPU and memory, as rows over time."""

from __future__ import annotations

import contextlib
import csv
import json
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
import pynvml
from prometheus_client.parser import text_string_to_metric_families

from launchers.asking import Trouble, ask
from launchers.process import Supervised

COLUMNS = ["at_ns", "source", "name", "labels", "value"]
INTERVAL_SECONDS = 0.5
SHARE = 0.05  # of the time at most is spent sampling: a slow /metrics is asked less often
MIB = 1024 * 1024
# What a Python server says about itself and its routes: not about the requests under test.
OF_THE_HOST = ("python_", "process_", "http_")

Row = tuple[str, str, str, float]  # source, name, labels, value


class Telemetry:
    """Samples into `path` (appended, each round flushed) between `start` and `stop`.

    source `metrics`: gauges, counters and histogram sums of the server, names and labels as the server gives
    them (labels as JSON). `gpu`: labels is the device index. `engine`, `client`: the process tree; CPU in
    percent of one core, memory in MiB.
    """

    def __init__(
        self,
        path: Path,
        base_url: str,
        metrics_path: str | None,
        engine: list[Supervised],
        client: Supervised,
        devices: Devices,
    ) -> None:
        self.path = path
        self.base_url = base_url
        self.metrics_path = metrics_path
        self.trees = {"engine": Tree(engine), "client": Tree([client])}
        self.devices = devices
        self.notes: list[str] = []  # what could not be sampled or written; complete after `stop`
        self._asked = self._missed = 0
        self._trouble = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        if self._missed:
            share = f"{self._missed} of {self._asked} samples"
            self.notes.append(f"{self.metrics_path} could not be read, {share}: {self._trouble}")

    def _run(self) -> None:
        try:
            fresh = not self.path.exists()
            with self.path.open("a", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                if fresh:
                    writer.writerow(COLUMNS)
                while not self._stop.is_set():
                    began = time.monotonic()
                    at_ns = time.time_ns()
                    writer.writerows((at_ns, *row) for row in self._sample())
                    file.flush()
                    self._stop.wait(max(INTERVAL_SECONDS, (time.monotonic() - began) / SHARE))
        except OSError as error:
            self.notes.append(f"telemetry stopped: {error}")

    def _sample(self) -> Iterator[Row]:
        if self.metrics_path:
            self._asked += 1
            try:
                status, body = ask(self.base_url, self.metrics_path, timeout_s=2.0)
                if status == 200:
                    yield from server_rows(body.decode("utf-8", "replace"))
            except (*Trouble, ValueError) as error:
                self._missed += 1
                self._trouble = str(error)
        yield from self.devices.rows()
        for source, tree in self.trees.items():
            yield from tree.rows(source)


def server_rows(text: str) -> Iterator[Row]:
    """The samples of a Prometheus page, without histogram buckets and creation times."""
    for family in text_string_to_metric_families(text):
        if family.name.startswith(OF_THE_HOST):
            continue
        for sample in family.samples:
            if not sample.name.endswith(("_bucket", "_created")):
                labels = json.dumps(sample.labels, sort_keys=True) if sample.labels else ""
                yield "metrics", sample.name, labels, float(sample.value)


class Tree:
    """CPU and memory of processes and all their descendants."""

    def __init__(self, roots: list[Supervised]) -> None:
        self.roots = roots
        self.known: dict[int, psutil.Process] = {}  # kept, because cpu_percent counts since the last call

    def rows(self, source: str) -> Iterable[Row]:
        if not self.roots:
            return []
        members = {member.pid: member for root in self.roots for member in root.tree()}
        self.known = {pid: self.known.get(pid, member) for pid, member in members.items()}
        cpu, rss = 0.0, 0
        for member in self.known.values():
            with contextlib.suppress(psutil.Error):
                cpu += member.cpu_percent()
                rss += member.memory_info().rss
        return [(source, "cpu_percent", "", round(cpu, 1)), (source, "rss_mib", "", round(rss / MIB, 1))]


class Devices:
    """The NVIDIA GPUs that an engine's processes may use; none where there is no driver.

    `visible`: the CUDA_VISIBLE_DEVICES of each process, None for all devices.
    """

    def __init__(self, visible: list[str | None]) -> None:
        self.handles = {}
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            for index in range(pynvml.nvmlDeviceGetCount()):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                names = {str(index), text(pynvml.nvmlDeviceGetUUID(handle))}
                if any(one is None or names & set(one.split(",")) for one in visible):
                    self.handles[index] = handle

    def described(self) -> list[dict[str, object]]:
        """Index, name and total memory (MiB) of each, for the record."""
        return [
            {
                "index": index,
                "name": text(pynvml.nvmlDeviceGetName(handle)),
                "memory_mib": pynvml.nvmlDeviceGetMemoryInfo(handle).total // MIB,
            }
            for index, handle in self.handles.items()
        ]

    def rows(self) -> Iterator[Row]:
        for index, handle in self.handles.items():
            with contextlib.suppress(pynvml.NVMLError):
                used = pynvml.nvmlDeviceGetMemoryInfo(handle).used / MIB
                yield "gpu", "memory_used_mib", str(index), round(used, 1)
                busy = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
                yield "gpu", "utilisation_percent", str(index), float(busy)


def text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
