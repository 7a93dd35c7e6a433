"""Ports: find a free one, refuse one in use, and tell whose process answers on it."""

from __future__ import annotations

import socket

import psutil

from launchers.errors import PortTaken

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port that nobody uses on loopback at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(port: int) -> None:
    """Raise PortTaken when somebody answers or holds the port.

    Both are tried: a server with SO_REUSEPORT lets others bind beside it, and a bound socket that does not
    listen yet refuses connections.
    """
    with socket.socket() as caller:
        caller.settimeout(1.0)
        answered = caller.connect_ex((LOOPBACK, port)) == 0
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
            probe.bind((LOOPBACK, port))
    except OSError as error:
        raise PortTaken(
            f"port {port} is in use{_by(port)}: {error.strerror}; stop it or give another port"
        ) from error
    if answered:
        raise PortTaken(
            f"port {port} is in use{_by(port)}: somebody answers there; stop it or give another port"
        )


def strangers(port: int, ours: set[int]) -> tuple[bool, list[str]]:
    """Who listens on the port: (whether one of `ours` does, names of those who are not ours)."""
    mine, others = False, []
    for listener in _listeners(port):
        if listener in ours:
            mine = True
        else:
            others.append(_name(listener))
    return mine, others


def _listeners(port: int) -> list[int | None]:
    try:
        connections = psutil.net_connections("tcp")
    except psutil.Error:
        return []
    return [c.pid for c in connections if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port]


def _by(port: int) -> str:
    names = [_name(pid) for pid in _listeners(port)]
    return f" by {', '.join(names)}" if names else ""


def _name(pid: int | None) -> str:
    try:
        return f"process {pid} ({psutil.Process(pid).name()})" if pid else "another user's process"
    except psutil.Error:
        return f"process {pid}"
