"""TLS: the same exchanges, the same clock, and a certificate that is really checked."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from locustfiles.transport import Connection, Target, sse
from locustfiles.transport.tls import client_context


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    options = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run([*make.split(), *options], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("makes its certificate with the openssl command, which is not here")
    return certificate, key


@pytest.fixture(scope="module")
def port(certificate: tuple[Path, Path]) -> Iterator[int]:
    command = [sys.executable, str(Path(__file__).with_name("tls_server.py")), *map(str, certificate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.kill()


@pytest.fixture
def trusted(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    client_context.cache_clear()
    yield
    client_context.cache_clear()


@pytest.mark.usefixtures("trusted")
def test_a_stream_under_tls_is_stamped_by_the_kernel_and_kept_alive(port: int) -> None:
    connection = Connection(Target.parse(f"https://localhost:{port}"))
    for reused in (False, True):
        exchange = connection.prepare("GET", "/stream", {})
        exchange.send()
        reply = exchange.wait(20)
        assert (reply.end, reply.error, reply.clock) == ("complete", "", "kernel")
        assert (reply.connect_ms is None) == reused
        events = sse.decode(reply).events
        assert [event.data for event in events] == ["0", "1", "2", "3"]
        assert len({event.at_ns for event in events}) == 4, "one read, one stamp, for each write"
        assert reply.sent_ns < events[0].at_ns


@pytest.mark.usefixtures("trusted")
def test_a_body_without_a_length_ends_with_the_connection(port: int) -> None:
    exchange = Connection(Target.parse(f"https://localhost:{port}")).prepare("GET", "/cut", {})
    exchange.send()
    reply = exchange.wait(20)
    assert (reply.end, reply.body) == ("complete", b"all there is")


@pytest.mark.usefixtures("trusted")
def test_a_certificate_for_another_name_is_refused(port: int) -> None:
    exchange = Connection(Target.parse(f"https://127.0.0.1:{port}")).prepare("GET", "/stream", {})
    exchange.send()
    reply = exchange.wait(20)
    assert reply.end == "refused"
    assert "certificate" in reply.error


def test_an_unknown_authority_is_refused(port: int) -> None:
    client_context.cache_clear()
    exchange = Connection(Target.parse(f"https://localhost:{port}")).prepare("GET", "/stream", {})
    exchange.send()
    reply = exchange.wait(20)
    assert reply.end == "refused"
    assert "certificate" in reply.error


def test_tls_works_under_locusts_monkey_patching(port: int, certificate: tuple[Path, Path]) -> None:
    script = """
import sys, locust
from locustfiles.transport import Connection, Target
exchange = Connection(Target.parse(sys.argv[1])).prepare("GET", "/stream", {})
exchange.send()
reply = exchange.wait(20)
print(reply.end, reply.clock, reply.error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, f"https://localhost:{port}"],
        env={**os.environ, "SSL_CERT_FILE": str(certificate[0])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout.split(), done.stderr) == (["complete", "kernel"], "")
