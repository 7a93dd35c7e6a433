"""One TCP (or TLS) connection to the server under test."""

import socket
import struct
import sys
from collections.abc import Mapping
from ssl import SSLError

import gevent.socket
from gevent import monkey

from locustfiles.transport.exchange import Exchange
from locustfiles.transport.reply import Clock
from locustfiles.transport.target import Target
from locustfiles.transport.tls import READ_SIZE, Tls

# Reads happen in event-loop callbacks, where gevent's own (patched) socket may not be used.
PlainSocket = monkey.get_original("socket", "socket")

# <asm-generic/socket.h>; Python's socket module has no name for it. The kernel then stamps every packet on
# arrival (CLOCK_REALTIME) and recvmsg hands the stamp over, however late we read.
SO_TIMESTAMPNS = 35
# Stamping is switched on system-wide, some ms after the first socket asks for it: keep one that asked, so
# that the first response is stamped like all others.
_KEEPS_STAMPING = PlainSocket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.platform == "linux":
    _KEEPS_STAMPING.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
CLOSE_WITH_RESET = struct.pack("ii", 1, 0)  # struct linger: on, zero seconds


class Connection:
    """A connection that is opened on demand and reused while the server keeps it alive.

    One exchange at a time. `clock="user"` leaves the kernel's stamps off, for comparison.
    """

    def __init__(self, target: Target, *, connect_timeout: float = 10.0, clock: Clock = "kernel") -> None:
        self.target = target
        self.connect_timeout = connect_timeout
        self.wants_kernel_clock = clock == "kernel" and sys.platform == "linux"
        self.sock: socket.socket | None = None
        self.tls: Tls | None = None
        self.exchange: Exchange | None = None

    def open(self) -> None:
        """Connect (and shake hands), letting other greenlets run. Raises OSError: refused, timed out, TLS."""
        self.close()
        host, port = self.target.host, self.target.port
        connected = gevent.socket.create_connection((host, port), timeout=self.connect_timeout)
        sock = PlainSocket(fileno=connected.detach())
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.wants_kernel_clock:
                sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            if self.target.scheme == "https":
                self.tls = Tls(host)
                self.tls.handshake(sock, self.connect_timeout)
        except BaseException:
            sock.close()
            self.tls = None
            raise
        self.sock = sock

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent; notices a server that closed (or babbled) while we were idle."""
        if self.sock is None:
            return False
        try:
            data = self.sock.recv(READ_SIZE)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if self.tls is not None and data:  # a TLS server may send session tickets at any time
            try:
                if self.tls.decrypt(data) == (b"", False):
                    return True
            except SSLError:
                pass
        self.close()
        return False

    def close(self, reset: bool = False) -> None:
        """Close now: with a FIN, or with `reset` an RST. An exchange that is under way is left."""
        if self.exchange is not None and self.exchange.is_under_way:
            self.exchange.leave(reset)
        if self.sock is None:
            return
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, CLOSE_WITH_RESET)
        self.sock.close()
        self.sock = None
        self.tls = None

    def prepare(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Exchange:
        """Build the request's bytes and open the connection if need be. Raises ValueError for a header that
        would break the request, never for network trouble: a failed connect is in the reply's `end`.
        """
        if self.exchange is not None and self.exchange.is_under_way:
            raise RuntimeError("this connection's last exchange is not over")
        self.exchange = Exchange(self, method, self._request_bytes(method, path, headers, body))
        if not self.is_open:
            self.exchange.open_connection()
        return self.exchange

    def _request_bytes(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"{method} {self.target.prefix}{path} HTTP/1.1", f"Host: {self.target.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        for line in lines:
            if "\r" in line or "\n" in line:
                raise ValueError(f"line break in the request header {line.partition(':')[0]!r}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
