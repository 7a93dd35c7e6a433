"""Engines of a plan, started and stopped from Locust's page, one at a time, by `headtohead serve`."""

import ctypes
import json
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import gevent

PR_SET_PDEATHSIG = 1
STOPPING_S = 40.0


class ArmControl:
    """`state` is "none", "starting", "ready", "stopping" or "failed"; `detail` says more, in a line.

    `options`: what the running arm makes of Locust's options; they go before what the page's form says.
    """

    def __init__(self, plan: Path) -> None:
        """Raises ValueError (one line) where the plan cannot be read."""
        self.plan = plan
        try:
            arms = tomllib.loads(plan.read_text(encoding="utf-8"))["arm"]
            self.arms = {arm.get("name", f"{arm['engine']}-{arm['mode']}"): str(arm["mode"]) for arm in arms}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"--plan {plan}: not a plan that can be read ({error})") from None
        self.arm = ""
        self.state = "none"
        self.detail = ""
        self.options: dict[str, Any] = {}
        self._process: subprocess.Popen[str] | None = None

    def shown(self) -> dict[str, Any]:
        """What the page shows."""
        return {"arms": list(self.arms.items()), "arm": self.arm, "state": self.state, "detail": self.detail}

    def start(self, name: str, folder: Path) -> str:
        """Begin to start an arm; its logs go to `folder`. Returns why not, or ""."""
        if name not in self.arms:
            return f"the plan has no arm {name!r}"
        if self._process is not None:
            return f"{self.arm} is {self.state}; stop it first"
        command = [sys.executable, "-m", "launchers", "serve", str(self.plan), "--arm", name, "--json"]
        self._process = subprocess.Popen(
            [*command, "--out", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self.arm, self.state, self.detail = name, "starting", ""
        gevent.spawn(self._follow, self._process)
        return ""

    def stop(self) -> None:
        """Begin to stop what runs."""
        if self._process is not None and self.state != "stopping":
            self.state, self.options = "stopping", {}
            self._process.send_signal(signal.SIGTERM)

    def close(self, **_: Any) -> None:
        """Stop, and wait until it is gone. Also a listener of Locust's `quitting`."""
        self.stop()
        with gevent.Timeout(STOPPING_S, False):
            while self._process is not None:
                gevent.sleep(0.05)

    def _follow(self, process: subprocess.Popen[str]) -> None:
        """From the start to the end of one arm."""
        assert process.stdout is not None
        assert process.stderr is not None
        said = gevent.spawn(process.stderr.read)
        begun = time.monotonic()
        line = process.stdout.readline()
        if line and self.state == "starting":
            self.options = json.loads(line)
            self.state = "ready"
            self.detail = f"{self.options['host']}, ready after {time.monotonic() - begun:.1f} s"
        process.wait()
        lines = str(said.get()).strip().splitlines()
        wanted = self.state == "stopping"
        self.state = "none" if wanted else "failed"
        self.detail = (
            ""
            if wanted
            else (lines[-1].removeprefix("headtohead: ") if lines else f"exit code {process.returncode}")
        )
        self.options, self._process = {}, None


def _end_with_parent() -> None:
    """TERM for the launcher when we die; it then stops the engine and all that belongs to it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
