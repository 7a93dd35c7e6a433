"""Engines that we know nothing about: any command line, and a server that somebody else started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from launchers import ports
from launchers.asking import API_KEY_VARIABLE, Trouble, ask
from launchers.engines.command import Command, CommandSettings
from launchers.engines.external import External, ExternalSettings
from launchers.errors import EngineStartError
from launchers.interruption import Interruption
from tests.engines import keyed_server
from tests.engines.support import chat, running
from tests.launchers.support import becomes

KEY = "sk-not-for-anybody-else"
SIMULATOR = f"{sys.executable} -m launchers.simulator --host 127.0.0.1 --port {{port}}"


def test_a_command_gets_its_port_model_and_width(tmp_path: Path) -> None:
    line = f"{SIMULATOR} --served-model-name {{model}} --width {{width}}"
    engine = Command(
        CommandSettings(command=line, model="some model", width=3, extra_args=["--mode", "batch"])
    )
    with Interruption() as interruption, running(engine, tmp_path, interruption) as up:
        answer = chat(up)
        assert up.command[0][-6:] == ["--served-model-name", "some model", "--width", "3", "--mode", "batch"]
    assert answer["model"] == "some model"


def test_the_width_of_a_serial_command_is_one(tmp_path: Path) -> None:
    spec = Command(CommandSettings(command="serve {port} {width}")).processes("serial", 80, tmp_path)[0]
    assert spec.argv == ["serve", "80", "1"]


def test_a_command_that_ends_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    engine = Command(CommandSettings(command=f"{sys.executable} -c 'raise SystemExit(\"no GPU\")' {{port}}"))
    with (
        Interruption() as interruption,
        pytest.raises(EngineStartError, match="arm exited with code 1 while loading") as told,
        running(engine, tmp_path, interruption),
    ):
        raise AssertionError("it must not get ready")
    assert told.value.log_tail == ["no GPU"]


def test_a_command_without_a_place_for_the_port_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"needs the placeholder \{port\}"):
        CommandSettings(command="serve --port 8000")


def test_a_program_that_is_not_there_is_not_found() -> None:
    found = Command.found(CommandSettings(command="no-such-program {port}"))
    assert not found.ok
    assert found.install_hint == "'no-such-program' is not on PATH; install it or give its path"


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://"])
def test_an_address_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="must look like http"):
        ExternalSettings(url=url)


@pytest.fixture
def keyed() -> Iterator[str]:
    """The address of a server that answers nobody without the key."""
    port = ports.free_port()
    server = subprocess.Popen([sys.executable, keyed_server.__file__, str(port), KEY])
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return ask(url, "/v1/models")[0] > 0
        except Trouble:
            return False

    assert becomes(answers)
    yield url
    os.kill(server.pid, signal.SIGTERM)
    server.wait()


def test_an_external_server_is_asked_with_the_key_and_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyed: str
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, KEY)
    engine = External(ExternalSettings(url=f"{keyed}/v1/"))
    with Interruption() as interruption, running(engine, tmp_path, interruption) as up:
        assert up.base_url == keyed
        assert up.processes == []
    assert ask(keyed, "/v1/models")[0] == 200


def test_an_external_server_that_wants_a_key_is_not_ready_without(tmp_path: Path, keyed: str) -> None:
    engine = External(ExternalSettings(url=keyed))
    with (
        Interruption() as interruption,
        pytest.raises(EngineStartError, match=r"not ready after 0.5 s .*last: HTTP 401"),
        running(engine, tmp_path, interruption, deadline_s=0.5),
    ):
        raise AssertionError("it must not get ready")


def test_the_key_is_in_no_file_of_a_run(tmp_path: Path, keyed: str) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'name = "keyed"\n[workload]\ncases = ["single", "streams"]\nwarmups = 0\nmax_tokens = 4\n'
        f'[[arm]]\nengine = "external"\nmode = "batch"\nsettings = {{ url = "{keyed}" }}\n'
    )
    argv = [sys.executable, "-m", "launchers", "run", str(plan), "--out", str(tmp_path / "run"), "-q"]
    done = subprocess.run(
        argv, env={**os.environ, API_KEY_VARIABLE: KEY}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(written) > 10
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
    assert KEY not in done.stdout + done.stderr
