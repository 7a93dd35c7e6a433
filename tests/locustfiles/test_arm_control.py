"""A plan's engines, started and stopped from Locust's page in a real browser."""

import json
import os
import signal
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.locustfiles.browser import CHROMIUM, Browser, until
from tests.locustfiles.support import Run, free_port
from tests.locustfiles.test_web_page import answers, get, shot

PLAN = """
name = "two"
[[arm]]
name = "quick"
engine = "simulated"
mode = "batch"
settings = { width = 4 }

[[arm]]
name = "broken"
engine = "command"
mode = "serial"
settings = { command = "false {port}" }
"""
QUICK = ("--cases", "single", "--warmups", "0")
BAR = "document.querySelector('iframe[title=\"Arms of the plan\"]')?.contentDocument"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(PLAN)
    return path


def arms(page: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(get(f"{page}/headtohead/arms"))
    return found


def post(page: str, path: str, **body: str) -> int:
    data, headers = json.dumps(body).encode(), {"content-type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(page + path, data, headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def engines_of(plan: Path) -> list[psutil.Process]:
    """The launcher of an arm and all that it started."""
    mine = [p for p in psutil.process_iter(["cmdline"]) if str(plan) in (p.info["cmdline"] or [])]
    serving = [p for p in mine if "serve" in p.info["cmdline"]]
    return serving + [child for p in serving for child in p.children(recursive=True)]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_an_arm_is_started_tested_and_stopped_from_the_page(tmp_path: Path, plan: Path) -> None:
    page = f"http://127.0.0.1:{(port := free_port())}"
    nobody = f"http://127.0.0.1:{free_port()}"
    with (
        Run(tmp_path / "run", nobody, *QUICK, "--plan", str(plan), web_port=port) as run,
        Browser(tmp_path / "profile") as browser,
    ):
        until(lambda: answers(page))
        browser.open(page)
        browser.until(f"{BAR}?.getElementById('arm')?.length === 2")
        browser.evaluate(f"{BAR}.getElementById('start').click()")
        browser.until(f"{BAR}.getElementById('state').innerText.includes('quick is ready')")
        shot(browser, "arm-ready")
        started = engines_of(plan)
        assert len(started) > 1

        with urllib.request.urlopen(f"{page}/swarm", f"host={nobody}".encode(), timeout=10) as answer:
            assert json.load(answer)["success"]
        run.until(lambda run: (run.arm / "conduct.json").exists() and run.conduct["status"] == "complete")
        assert {(row["arm"], row["engine"], row["outcome"]) for row in run.rows} == {
            ("quick", "simulated", "ok")
        }

        browser.evaluate(f"{BAR}.getElementById('stop').click()")
        browser.until(f"{BAR}.getElementById('state').innerText === 'no engine runs'")
        assert not any(process.is_running() for process in started)


def test_an_engine_that_does_not_start_says_why_and_another_can_follow(tmp_path: Path, plan: Path) -> None:
    page = f"http://127.0.0.1:{(port := free_port())}"
    with Run(tmp_path / "run", page, *QUICK, "--plan", str(plan), web_port=port):
        until(lambda: answers(page))
        assert post(page, "/headtohead/arms/start", arm="nobody") == 409
        assert post(page, "/headtohead/arms/start", arm="broken") == 200
        until(lambda: arms(page)["state"] == "failed")
        assert "exited with code 1 while loading" in arms(page)["detail"]

        assert post(page, "/headtohead/arms/start", arm="quick") == 200
        assert post(page, "/headtohead/arms/start", arm="quick") == 409
        until(lambda: arms(page)["state"] == "ready")


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGKILL])
def test_no_engine_outlives_the_page(tmp_path: Path, plan: Path, which: signal.Signals) -> None:
    page = f"http://127.0.0.1:{(port := free_port())}"
    with Run(tmp_path / "run", page, *QUICK, "--plan", str(plan), web_port=port) as run:
        until(lambda: answers(page))
        assert post(page, "/headtohead/arms/start", arm="quick") == 200
        until(lambda: arms(page)["state"] == "ready")
        started = engines_of(plan)
        assert len(started) > 1

        os.kill(run.process.pid, which)
        run.process.wait()
        until(lambda: not any(process.is_running() for process in started))


def test_a_plan_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with Run(tmp_path / "run", "http://127.0.0.1:9", "--plan", "nowhere.toml", web_port=free_port()) as run:
        assert run.end() == 2
        assert "headtohead: --plan nowhere.toml: not a plan that can be read" in run.output
