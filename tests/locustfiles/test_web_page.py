"""Locust's web page with our tab, in a real browser: start a run, see numbers move, stop, download."""

import json
import os
import urllib.request
from pathlib import Path

import pytest

from tests.locustfiles.browser import CHROMIUM, Browser, until
from tests.locustfiles.support import Run, free_port, scripted_server

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]

BUTTON = "[...document.querySelectorAll('button')].find(button => /^{}$/i.test(button.innerText))"
TAB = "[...document.querySelectorAll('[role=tab]')].find(tab => /head to head/i.test(tab.innerText))"
CHARTS = "document.querySelector('iframe[title^=\"Head to head\"]')?.contentDocument"


def shot(browser: Browser, name: str) -> None:
    """Where HEADTOHEAD_SCREENSHOTS names a folder, for people to look at."""
    if folder := os.environ.get("HEADTOHEAD_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.screenshot(Path(folder) / f"{name}.png")


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as page:
        text: str = page.read().decode()
        return text


def answers(url: str) -> bool:
    try:
        return bool(get(url))
    except OSError:
        return False


def test_a_run_from_the_page(tmp_path: Path) -> None:
    port = free_port()
    page = f"http://127.0.0.1:{port}"
    with (
        scripted_server("--token-ms", "5") as server,
        Run(
            tmp_path / "run", server, "--cases", "single ladder streams", "--repeats", "50", web_port=port
        ) as run,
        Browser(tmp_path / "profile") as browser,
    ):
        until(lambda: answers(page))
        browser.open(page)
        browser.until(BUTTON.format("start"))
        assert "Interleave Delay (seconds between the long request" in browser.evaluate(
            "document.body.innerText"
        )
        shot(browser, "start")

        browser.evaluate(BUTTON.format("start") + ".click()")
        until(lambda: json.loads(get(f"{page}/stats/requests"))["state"] == "running")
        browser.open(page)  # on a busy machine Locust's page may miss that its own start was taken
        browser.until(TAB)
        browser.evaluate(TAB + ".click()")
        browser.until(CHARTS + "?.querySelectorAll('path[d^=M]').length >= 6")
        in_tab = CHARTS + ".getElementById('{}').innerText"
        browser.until(f"Number(parseFloat({in_tab.format('output_tok_s')})) > 0")
        browser.until(CHARTS + ".getElementById('verdicts').innerText.includes('ok')")
        first = int(browser.evaluate(in_tab.format("verdicts")).split()[1])
        browser.until(f"parseInt({in_tab.format('verdicts')}.split(/\\s+/)[1]) > {first}")
        browser.until("/ladder/.test(document.querySelector('table').innerText)")
        shot(browser, "running")

        browser.evaluate(BUTTON.format("stop") + ".click()")
        browser.until(BUTTON.format("new"))
        until(lambda: run.conduct["status"] == "stopped")
        shot(browser, "stopped")

        assert get(f"{page}/headtohead/files/requests.csv") == (run.arm / "requests.csv").read_text()
        assert get(f"{page}/headtohead/arms.csv").startswith(
            "arm,mode,case,n,waves,wall,speed\narm,batch,ladder,2,"
        )
        browser.evaluate(
            "[...document.querySelectorAll('[role=tab]')].find(t => /download/i.test(t.innerText)).click()"
        )
        browser.until('document.body.innerText.includes("Download the run\'s requests.csv")')


def test_both_locustfiles_side_by_side(tmp_path: Path) -> None:
    """With the class picker, the page offers both shapes; whichever is taken is what runs."""
    port = free_port()
    page = f"http://127.0.0.1:{port}"
    both = "acceptance.py,locustfiles/traffic"
    with (
        scripted_server() as server,
        Run(
            tmp_path / "run",
            server,
            "--class-picker",
            "--hold",
            "2",
            "--settle",
            "0",
            web_port=port,
            file=both,
        ) as run,
    ):
        until(lambda: answers(page))
        for shape, case, name in (("TrafficShape", "traffic", "arm"), ("AcceptanceShape", "single", "arm-2")):
            form = f"host={server}&shape_class={shape}&cases=single&warmups=0".encode()
            with urllib.request.urlopen(f"{page}/swarm", form, timeout=10) as answer:
                assert json.load(answer)["success"]
            run.arm = tmp_path / "run" / name
            run.until(lambda run: (run.arm / "conduct.json").exists() and run.conduct["status"] == "complete")
            until(lambda: json.loads(get(f"{page}/stats/requests"))["state"] == "stopped")
            assert {row["case"] for row in run.rows} == {case}
