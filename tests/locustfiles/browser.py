"""A headless Chromium, driven by its own DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import websocket

WITHIN_S = 30
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page, of a profile that lives in `folder`."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        folder.mkdir(parents=True, exist_ok=True)
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,1400"]
        command += ["--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._number = 0
        try:
            told = folder / "DevToolsActivePort"
            until(lambda: told.exists() and told.read_text().count("\n"))
            port = told.read_text().split()[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=WITHIN_S) as pages:
                page = next(page for page in json.load(pages) if page["type"] == "page")
            self._socket = websocket.create_connection(
                page["webSocketDebuggerUrl"], timeout=WITHIN_S, suppress_origin=True
            )
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol and its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            answer: dict[str, Any] = json.loads(self._socket.recv())
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """What a piece of JavaScript gives."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until a piece of JavaScript gives something true."""
        until(lambda: self.evaluate(f"Boolean({script})"), script)

    def screenshot(self, path: Path) -> None:
        image = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(image))


def until(true: Any, what: str = "") -> None:
    give_up = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < give_up, f"never: {what}"
        time.sleep(0.1)
