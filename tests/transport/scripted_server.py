"""A server of real sockets in a real thread that does to each connection what the test's script says.

Locust's monkey patching, should another test have brought it into this process, does not reach it: the server
has to run while the test's own event loop is blocked.
"""

import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from gevent import monkey

from locustfiles.transport import Target

PlainSocket = monkey.get_original("socket", "socket")
start_thread = monkey.get_original("_thread", "start_new_thread")
sleep = monkey.get_original("time", "sleep")

Script = Callable[["Peer"], None]


class Peer:
    """The server's side of one connection. `written_ns` holds the time before each write."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.written_ns: list[int] = []
        self._received = bytearray()

    def request(self) -> bytes:
        """The next whole request (head and body), or what came before the client closed."""
        while b"\r\n\r\n" not in self._received and self._more():
            pass
        head, _, _ = self._received.partition(b"\r\n\r\n")
        whole = len(head) + 4
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                whole += int(value)
        while len(self._received) < whole and self._more():
            pass
        request = bytes(self._received[:whole])
        del self._received[:whole]
        return request

    def _more(self) -> bool:
        data = self.sock.recv(65536)
        self._received += data
        return bool(data)

    def send(self, data: bytes) -> None:
        self.written_ns.append(time.time_ns())
        self.sock.sendall(data)

    def pause(self, seconds: float) -> None:
        sleep(seconds)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def sees(self) -> str:
        """How the client left: "fin", "reset", or "bytes" if it did not leave but sent something."""
        try:
            return "bytes" if self.sock.recv(1) else "fin"
        except ConnectionResetError:
            return "reset"


class ScriptedServer:
    """Connection k gets script k, the last script being used again for any more; then it is closed."""

    def __init__(self, *scripts: Script, family: int = socket.AF_INET) -> None:
        self.peers: list[Peer] = []
        self._scripts = scripts
        self._listener = PlainSocket(family)
        self._listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self._listener.listen(1024)
        self.port: int = self._listener.getsockname()[1]
        self.target = Target.parse(
            f"http://{'[::1]' if family == socket.AF_INET6 else '127.0.0.1'}:{self.port}"
        )

    def __enter__(self) -> Self:
        start_thread(self._accept, ())
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self.peers:
            with suppress(OSError):
                peer.sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            script = self._scripts[min(len(self.peers), len(self._scripts) - 1)]
            peer = Peer(sock)
            self.peers.append(peer)
            start_thread(self._serve, (script, peer))

    @staticmethod
    def _serve(script: Script, peer: Peer) -> None:
        with suppress(OSError):
            script(peer)
        peer.sock.close()
