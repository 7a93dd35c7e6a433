"""What came back: the reply as the exchange collected it, and the parser that knows where it ends."""

import zlib
from dataclasses import dataclass
from typing import Literal

from geventhttpclient.response import HTTPProtocolViolationError, HTTPResponse

Clock = Literal["kernel", "user"]

# complete      the whole response came
# cut           the connection ended in the middle of it, or what came is not HTTP
# reset         the server reset the connection
# refused       no connection could be opened
# closed_clean  the server closed without sending a byte
# hang          no byte for longer than the deadline
# left          we closed it ourselves
End = Literal["complete", "cut", "reset", "refused", "closed_clean", "hang", "left"]


@dataclass(frozen=True, slots=True)
class Reply:
    """One response, whole or not.

    `arrivals` holds, for each read that brought body bytes, its stamp and the length of `body` after it.
    `end_ns` is the arrival of the last body byte, however the end was framed (of the head, without a body);
    when nothing came or we left, the time at which the exchange was over.
    """

    status: int | None
    headers: dict[str, str]
    sent_ns: int
    connect_ms: float | None
    body: bytes
    arrivals: list[tuple[int, int]]
    head_ns: int | None
    end_ns: int
    clock: Clock
    end: End
    error: str


class ResponseParser(HTTPResponse):
    """llhttp, as geventhttpclient wraps it; collects the body and passes over interim 1xx responses."""

    def __init__(self, method: str) -> None:
        super().__init__(method)
        self.body = bytearray()
        self.status: int | None = None
        self.finished = False

    def _on_message_begin(self) -> None:
        if self.finished:
            raise HTTPProtocolViolationError("bytes after the end of the response")
        super()._on_message_begin()

    def _on_headers_complete(self) -> int | bool | None:
        skip_body = super()._on_headers_complete()
        if self.get_code() >= 200:
            self.status = self.get_code()
        return skip_body

    def _on_body(self, buf: bytearray) -> None:
        self.body += buf

    def _on_message_complete(self) -> None:
        super()._on_message_complete()
        self.finished = self.status is not None

    def header_dict(self) -> dict[str, str]:
        """Names in lower case; repeated headers joined by commas."""
        joined: dict[str, str] = {}
        for name, value in self.headers:
            name = name.lower()
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
        return joined


def decompress(
    body: bytes, arrivals: list[tuple[int, int]], coding: str
) -> tuple[bytes, list[tuple[int, int]], str]:
    """Undo gzip or deflate read by read, so that each stamp keeps the bytes that it made readable.

    Returns the plain body, the arrivals counted in it, and what is wrong with it ("" if nothing).
    """
    coding = coding.strip().lower()
    if coding in ("", "identity") or not body:
        return body, arrivals, ""
    if coding not in ("gzip", "x-gzip", "deflate"):
        return body, arrivals, f"content-encoding {coding!r} is not understood"
    decoder = zlib.decompressobj(wbits=47)  # 32 + 15: gzip or zlib, whichever the first bytes say
    plain = bytearray()
    plain_arrivals = []
    start = 0
    trouble = ""
    for stamp_ns, stop in arrivals:
        piece = body[start:stop]
        start = stop
        try:
            while piece:
                plain += decoder.decompress(piece)
                piece = decoder.unused_data
                if piece:  # another gzip member follows
                    decoder = zlib.decompressobj(wbits=47)
        except zlib.error as error:
            trouble = f"broken {coding} body: {error}"
        plain_arrivals.append((stamp_ns, len(plain)))
        if trouble:
            break
    if not trouble and not decoder.eof:
        trouble = f"{coding} body ends too early"
    return bytes(plain), plain_arrivals, trouble
