"""TLS over a socket that is read elsewhere: bytes in, bytes out, so that the stamps stay the socket's own."""

import functools
import ssl
import time
from socket import socket as Socket
from ssl import MemoryBIO, SSLWantReadError, SSLZeroReturnError

from gevent import monkey
from gevent.socket import wait_read, wait_write

READ_SIZE = 65536


@functools.cache
def client_context() -> ssl.SSLContext:
    """The one verifying client context of the process (loading the certificates takes tens of ms)."""
    # Locust's monkey patching replaces ssl.SSLContext by one that insists on gevent's sockets.
    context: ssl.SSLContext = monkey.get_original("ssl", "SSLContext")(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Tls:
    """One TLS session. Errors: ssl.SSLError (an OSError) from every method."""

    def __init__(self, hostname: str) -> None:
        self._incoming = MemoryBIO()
        self._outgoing = MemoryBIO()
        self._session = client_context().wrap_bio(self._incoming, self._outgoing, server_hostname=hostname)

    def handshake(self, sock: Socket, timeout_s: float) -> None:
        """Shake hands over the non-blocking `sock`, letting other greenlets run. TimeoutError: too slow."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._session.do_handshake()
                finished = True
            except SSLWantReadError:
                finished = False
            self._flush(sock, deadline)
            if finished:
                return
            wait_read(sock.fileno(), timeout=max(0.0, deadline - time.monotonic()))
            data = sock.recv(READ_SIZE)
            if not data:
                raise ConnectionResetError("the server closed the connection during the TLS handshake")
            self._incoming.write(data)

    def _flush(self, sock: Socket, deadline: float) -> None:
        unsent = self._outgoing.read()
        while unsent:
            try:
                unsent = unsent[sock.send(unsent) :]
            except BlockingIOError:
                wait_write(sock.fileno(), timeout=max(0.0, deadline - time.monotonic()))

    def encrypt(self, data: bytes) -> bytes:
        self._session.write(data)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> tuple[bytes, bool]:
        """The plain bytes that `data` completes, and whether the server has ended the session."""
        self._incoming.write(data)
        plain = []
        try:
            while piece := self._session.read(READ_SIZE):
                plain.append(piece)
            ended = True
        except SSLWantReadError:
            ended = False
        except SSLZeroReturnError:
            ended = True
        return b"".join(plain), ended
