"""A TLS server for the tests: `python tls_server.py CERTIFICATE KEY`; prints its port, one line.

Each connection answers GET /stream (chunked, an event every 20 ms; kept alive) and GET /cut (no length; ends
without TLS's own goodbye) until the client closes.
"""

import socket
import ssl
import sys
import threading
import time

EVENTS = [b"data: %d\n\n" % n for n in range(4)]


def serve(connection: ssl.SSLSocket) -> None:
    with connection:
        while b"\r\n\r\n" in (request := connection.recv(65536)):
            if request.startswith(b"GET /cut"):
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nall there is")
                return  # closes the socket without close_notify
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for event in EVENTS:
                time.sleep(0.02)
                connection.sendall(b"%x\r\n%s\r\n" % (len(event), event))
            connection.sendall(b"0\r\n\r\n")


def main() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            raw, _ = listener.accept()
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                connection = context.wrap_socket(raw, server_side=True)
            except OSError:
                continue
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
