"""A server for tests of what surrounds one: see its options.

Listens after `--load` seconds, answers every GET with the status, exits with code 5 after `--die` seconds.
With `--reuse` it shares its port, as a server with SO_REUSEPORT does.
"""

from __future__ import annotations

import argparse
import http.server
import os
import socket
import threading
import time


class Answer(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        body = b'{"status": "ok"}'
        self.send_response(self.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    share = False

    def server_bind(self) -> None:
        if self.share:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


def die(after_s: float) -> None:
    time.sleep(after_s)
    print("fatal: out of memory", flush=True)
    os._exit(5)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--load", type=float, default=0.0)
    parser.add_argument("--status", type=int, default=200)
    parser.add_argument("--die", type=float)
    parser.add_argument("--reuse", action="store_true")
    parser.add_argument("--mark", help="means nothing; a test finds the process by it")
    options = parser.parse_args()
    print("loading", flush=True)
    if options.die is not None:
        threading.Thread(target=die, args=[options.die], daemon=True).start()
    time.sleep(options.load)
    Answer.status = options.status
    Server.share = options.reuse
    Server(("127.0.0.1", options.port), Answer).serve_forever()


if __name__ == "__main__":
    main()
