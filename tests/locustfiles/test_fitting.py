"""Prompts of an exact length, whatever the server's tokens are."""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from locustfiles.arguments import add_arguments
from locustfiles.fitting import Fitter
from locustfiles.settings import Settings
from tests.locustfiles.counting_server import count
from tests.locustfiles.support import REPOSITORY


@contextmanager
def counting_server(*arguments: str) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.locustfiles.counting_server", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


def fitter_for(server: str) -> Fitter:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return Fitter(Settings.of(parser.parse_args([]), server))


@pytest.mark.parametrize("arguments", [(), ("--usage",)], ids=["by /tokenize", "by usage"])
def test_every_repeat_has_exactly_the_tokens_that_were_asked_for(arguments: tuple[str, ...]) -> None:
    """The nonces of the repeats take different numbers of tokens, as they do in many real tokenizers."""
    with counting_server(*arguments) as server:
        fitter = fitter_for(server)
        for tokens in (300, 4096):
            prompts = [fitter.content(tokens, f"long_context-{tokens}-r{repeat}-0") for repeat in range(8)]
            leads = {count([{"content": prompt.split()[0]}]) for prompt in prompts}

            assert len(leads) > 1
            assert {count([{"content": prompt}]) for prompt in prompts} == {tokens}
            assert len(set(prompts)) == len(prompts)


def test_engines_with_the_same_tokens_get_the_same_bytes_however_they_count() -> None:
    with counting_server() as tokenizes, counting_server("--usage") as answers:
        one, other = fitter_for(tokenizes), fitter_for(answers)
        for request in (f"long_context-300-r{repeat}-0" for repeat in range(8)):
            assert one.content(300, request) == other.content(300, request)
