"""A server that only counts tokens. Equal digits in a row are one, and a space with two digits is one: what a
number takes depends on its digits and on what is before it.

Prints its port; ends with its standard input. With `--usage` it has no /tokenize, only the usage of answers.
"""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = re.compile(r" \d\d|(\d)\1*|[A-Za-z]{1,6}|\S")
TEMPLATE_TOKENS = 9


def count(messages: list[dict[str, str]]) -> int:
    return TEMPLATE_TOKENS + sum(1 for message in messages for _ in TOKEN.finditer(message["content"]))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        tokenize = self.path == "/tokenize"
        counted = count(asked["messages"])
        answer = {"count": counted} if tokenize else {"usage": {"prompt_tokens": counted}}
        body = json.dumps(answer).encode()
        self.send_response(404 if tokenize and "--usage" in sys.argv else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
