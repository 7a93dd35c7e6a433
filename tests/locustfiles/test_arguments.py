"""Bad input is one clear line and exit code 2, before anything is started."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.locustfiles.support import REPOSITORY, Run

SERVER = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("host", "arguments", "line"),
    [
        (
            SERVER,
            ("--ladder", "2 four"),
            "argument --ladder: '2 four' is not a list of positive whole numbers",
        ),
        (
            SERVER,
            ("--cases", "ladder marathon"),
            "argument --cases: 'ladder marathon' is not a list of cases",
        ),
        (SERVER, ("--payload", "[1]"), "argument --payload: '[1]' is not a JSON object"),
        (SERVER, ("--repeats", "0"), "argument --repeats: '0' is not a whole number above zero"),
        (SERVER, ("--time-scale", "-2"), "argument --time-scale: '-2' is not a number above zero"),
        (SERVER, ("--mode", "turbo"), "argument --mode: invalid choice: 'turbo'"),
        (SERVER, ("--laddr", "2"), "Did you mean '--ladder'?"),
        ("127.0.0.1:8000", (), "base URL '127.0.0.1:8000': must begin with http:// or https://"),
        ("", (), "no server to test: give its base URL with --host"),
    ],
)
def test_bad_arguments(tmp_path: Path, host: str, arguments: tuple[str, ...], line: str) -> None:
    with Run(tmp_path, host, *arguments) as run:
        assert run.end() == 2, run.output

    assert line in run.output
    assert "Traceback" not in run.output
    assert not run.arm.exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "arm").write_text("in the way")
    with Run(tmp_path, SERVER) as run:
        assert run.end() == 2, run.output

    assert "headtohead: --out cannot be written: [Errno 17] File exists" in run.output
    assert "Traceback" not in run.output


def test_a_second_run_never_mixes_its_rows_into_the_first(tmp_path: Path) -> None:
    for _ in range(2):
        with Run(tmp_path, SERVER, "--cases", "single", "--warmups", "0") as run:
            run.end()

    assert len(run.rows) == 1
    assert (tmp_path / "arm-2" / "requests.csv").exists()


def test_our_arguments_have_help() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "locustfiles.arguments"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "headtohead:\n" in shown
    assert "seconds between the long request and the short one" in shown
