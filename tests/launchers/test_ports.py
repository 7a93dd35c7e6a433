"""A port in use is refused whoever holds it, and a listener is attributed to its process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from launchers import ports
from launchers.errors import PortTaken

LISTEN = """
import socket, sys, time
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(sys.argv[2]))
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen()
print("listening", flush=True)
time.sleep(600)
"""


@pytest.fixture(params=[0, 1], ids=["plain", "SO_REUSEPORT"])
def other(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """Port and process id of somebody else's server."""
    port = ports.free_port()
    argv = [sys.executable, "-c", LISTEN, str(port), str(request.param)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        assert server.stdout
        server.stdout.readline()
        yield port, server.pid
        server.kill()


def test_a_free_port_is_accepted() -> None:
    ports.require_free(ports.free_port())


def test_a_port_that_is_served_is_refused_with_the_process(other: tuple[int, int]) -> None:
    port, pid = other

    with pytest.raises(
        PortTaken, match=rf"port {port} is in use by process {pid} \(python.*give another port"
    ):
        ports.require_free(port)


def test_a_port_that_is_bound_but_silent_is_refused() -> None:
    with socket.socket() as holder:
        holder.bind((ports.LOOPBACK, 0))
        port = holder.getsockname()[1]

        with pytest.raises(PortTaken, match="Address already in use"):
            ports.require_free(port)


def test_a_port_whose_last_connection_lingers_is_free() -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        caller = socket.create_connection((ports.LOOPBACK, port))
        answer, _ = server.accept()
        answer.close()  # this side goes into TIME_WAIT
        caller.close()

    ports.require_free(port)


def test_a_listener_is_ours_or_a_stranger(other: tuple[int, int]) -> None:
    port, pid = other

    assert ports.strangers(port, {pid, os.getpid()}) == (True, [])
    mine, others = ports.strangers(port, {os.getpid()})
    assert not mine
    assert others[0].startswith(f"process {pid} (python")


def test_two_listeners_on_one_port_are_told_apart(other: tuple[int, int]) -> None:
    port, pid = other
    with socket.socket() as second:
        second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            second.bind((ports.LOOPBACK, port))
        except OSError:
            return  # the plain server does not share its port
        second.listen()

        mine, others = ports.strangers(port, {os.getpid()})

        assert mine
        assert others[0].startswith(f"process {pid} ")
