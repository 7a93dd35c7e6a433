"""Run by test_selfwatch: the transport in a process that locust has monkey-patched."""

import sys
from pathlib import Path

import gevent
import locust  # noqa: F401 - imported for its monkey patching
from gevent.pywsgi import WSGIServer

from locustfiles.selfwatch import SelfWatch
from locustfiles.transport import Connection, Target
from locustfiles.transport.tls import client_context


def stream(environ, start_response):  # type: ignore[no-untyped-def]
    start_response("200 OK", [("Content-Type", "text/event-stream")])
    for n in range(20):
        gevent.sleep(0.02)
        yield b"data: %d\n\n" % n


def main() -> None:
    client_context()
    path = Path(sys.argv[1]) / "client.csv"
    watch = SelfWatch(path)
    watch.start()
    server = WSGIServer(("127.0.0.1", 0), stream, log=None)
    server.start()
    connection = Connection(Target.parse(f"http://127.0.0.1:{server.server_port}"))
    for _ in range(2):
        exchange = connection.prepare("GET", "/", {})
        exchange.send()
        reply = exchange.wait(20)
        print(reply.end, reply.clock)
    exchange = connection.prepare("GET", "/", {})
    exchange.send()
    print(exchange.wait(20, leave_after_events=3).end)
    watch.stop()
    if len(path.read_text().splitlines()) > 2:
        print("watched")


if __name__ == "__main__":
    main()
