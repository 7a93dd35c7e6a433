"""One request and its response: sent at a stamped instant, collected by event-loop callbacks.

The read callback takes the stamp first and then only appends: decoding happens after the exchange is over,
and the waiting greenlet is woken once, at the end.
"""

import math
import struct
import time
from ssl import SSLError
from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import Event
from geventhttpclient.response import HTTPParseError

from locustfiles.transport import sse
from locustfiles.transport.reply import Clock, End, Reply, ResponseParser, decompress
from locustfiles.transport.tls import READ_SIZE

if TYPE_CHECKING:
    from locustfiles.transport.connection import Connection

READABLE, WRITABLE = 1, 2  # libev's event bits
TIMESPEC = struct.Struct("@ll")
ANCILLARY_SIZE = 32  # CMSG_SPACE of one struct timespec

_in_flight: set["Exchange"] = set()


def in_flight() -> int:
    """How many exchanges of this process are sent and not over."""
    return len(_in_flight)


class Exchange:
    """Made by `Connection.prepare`; used once: `send()`, `wait()`."""

    def __init__(self, connection: "Connection", method: str, request: bytes) -> None:
        self.connect_ms: float | None = None
        self.sent_ns = 0
        self._connection = connection
        self._request = request
        self._unsent = memoryview(b"")
        self._parser = ResponseParser(method)
        # Two lists of integers, not one of pairs: the garbage collector has nothing to walk through, and so
        # no reason to stop a busy process for 20 ms in mid-stream.
        self._stamps_ns: list[int] = []
        self._body_lengths: list[int] = []
        self._head_ns: int | None = None
        # When we read, by the monotonic clock: neither a system clock that is set nor a load process that
        # did not get to run must look like the server's silence.
        self._heard_s = 0.0
        self._clock: Clock = "kernel" if connection.wants_kernel_clock else "user"
        self._end: End | None = None
        self._end_ns = 0
        self._error = ""
        self._over = Event()
        self._watchers: list[Any] = []
        self._leave_after: int | None = None
        self._leave_with_reset = False
        self._events_counter = sse.Counter()

    @property
    def arrivals(self) -> int:
        """How many reads have brought body bytes so far."""
        return len(self._stamps_ns)

    @property
    def is_under_way(self) -> bool:
        """Whether its callbacks are reading the connection."""
        return bool(self._watchers)

    def open_connection(self) -> None:
        """Open the connection, counting the time apart; failure becomes the reply's end."""
        started = time.perf_counter()
        try:
            self._connection.open()
            self.connect_ms = (time.perf_counter() - started) * 1000
        except OSError as error:
            reason = str(error) or type(error).__name__
            self._error = f"cannot connect to {self._connection.target.authority}: {reason}"
            self._end = "refused"

    def send(self) -> None:
        """Stamp `sent_ns` and send. Does not read and does not wait."""
        self.arm()
        self.send_armed()

    def arm(self) -> None:
        """All that has to come before the stamp: a connection that is still open, and its read callback."""
        if self.sent_ns or self._watchers or self._connection.exchange is not self:
            raise RuntimeError("an exchange can be sent only once, and only if none was prepared after it")
        if self._end is None and not self._connection.is_open:
            self.open_connection()
        if self._end is None:
            self._watch(READABLE, self._on_readable)

    def send_armed(self) -> None:
        """Stamp and send, nothing else."""
        sock, tls = self._connection.sock, self._connection.tls
        if sock is None or self._end is not None:  # refused, or left beforehand
            self.sent_ns = time.time_ns()
            self._finish(self._end or "refused", self._error)
            return
        request = tls.encrypt(self._request) if tls else self._request
        _in_flight.add(self)
        self.sent_ns = time.time_ns()
        try:
            sent = sock.send(request)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            # The server may have answered before it closed: the read callback finds out.
            self._error = str(error)
            sent = len(request)
        self._heard_s = time.monotonic()
        if sent < len(request):
            self._unsent = memoryview(request)[sent:]
            self._watch(WRITABLE, self._on_writable)

    def _watch(self, events: int, callback: Any) -> None:
        assert self._connection.sock is not None
        watcher = gevent.get_hub().loop.io(self._connection.sock.fileno(), events)
        watcher.start(callback)
        self._watchers.append(watcher)

    def _on_writable(self) -> None:
        assert self._connection.sock is not None
        try:
            self._unsent = self._unsent[self._connection.sock.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            self._error = str(error)
            self._unsent = memoryview(b"")
        if not self._unsent:
            watcher = self._watchers.pop()
            watcher.stop()
            watcher.close()

    def _on_readable(self) -> None:
        assert self._connection.sock is not None
        try:
            data, ancillary, _, _ = self._connection.sock.recvmsg(READ_SIZE, ANCILLARY_SIZE)
            if ancillary:
                seconds, nanoseconds = TIMESPEC.unpack(ancillary[0][2])
                stamp_ns = seconds * 1_000_000_000 + nanoseconds
            else:
                stamp_ns = time.time_ns()
        except BlockingIOError:
            return
        except OSError as error:
            self._finish("reset", str(error))
            return
        if data and not ancillary:
            self._clock = "user"
        try:
            self._take(stamp_ns, data)
        except Exception as error:  # a callback that raises would be called again, and again
            self._finish("cut", f"cannot be read: {error!r}")

    def _take(self, stamp_ns: int, data: bytes) -> None:
        if not data:
            self._on_end_of_stream()
            return
        self._heard_s = time.monotonic()
        ended = False
        if self._connection.tls is not None:
            try:
                data, ended = self._connection.tls.decrypt(data)
            except SSLError as error:
                self._finish("cut", f"TLS: {error}")
                return
        if data:
            self._collect(stamp_ns, data)
        if ended and self._end is None:
            self._on_end_of_stream()

    def _collect(self, stamp_ns: int, data: bytes) -> None:
        parser = self._parser
        before = len(parser.body)
        try:
            parser.feed(data)
            broken = ""
        except HTTPParseError as error:
            broken = f"not HTTP: {error}"
        if len(parser.body) > before:
            self._stamps_ns.append(stamp_ns)
            self._body_lengths.append(len(parser.body))
        if self._head_ns is None and parser.status is not None:
            self._head_ns = stamp_ns
        if parser.finished:
            # Bytes after the end: the response stands, the connection is not to be used again.
            self._finish("complete", keep=not broken and not self._unsent and parser.should_keep_alive())
        elif broken:
            self._finish("cut", broken)
        elif self._leave_after is not None:
            self._leave_when_due()

    def _on_end_of_stream(self) -> None:
        if not self._parser.message_begun:
            self._finish("closed_clean", self._error or "the server closed the connection without answering")
            return
        try:
            self._parser.feed(b"")  # tells llhttp that a body without a length ends here
            self._finish(
                "complete" if self._parser.finished else "cut", "connection closed before the head's end"
            )
        except HTTPParseError:
            self._finish("cut", "connection closed in the middle of the response")

    def _leave_when_due(self) -> None:
        assert self._leave_after is not None
        if self._events_counter.count(self._parser.body) >= self._leave_after:
            self.leave(self._leave_with_reset)

    def leave(self, reset: bool = False) -> None:
        """Close the connection now, whatever has come: with a FIN, or with `reset` an RST."""
        if self._end is None:
            self._finish("left", reset=reset)

    def _finish(self, end: End, error: str = "", *, keep: bool = False, reset: bool = False) -> None:
        for watcher in self._watchers:
            watcher.stop()
            watcher.close()
        self._watchers.clear()
        if not keep and self._connection.exchange is self:
            self._connection.close(reset)
        _in_flight.discard(self)
        self._end = end
        self._error = "" if end == "complete" else error
        last_byte_ns = self._stamps_ns[-1] if self._stamps_ns else self._head_ns
        self._end_ns = last_byte_ns if end == "complete" and last_byte_ns else time.time_ns()
        self._over.set()

    def wait(
        self,
        idle_deadline_s: float,
        leave_after_events: int | None = None,
        total_s: float | None = None,
        *,
        leave_with_reset: bool = False,
    ) -> Reply:
        """Block this greenlet until the response is over, for whatever reason, and return it.

        The end is "hang" after `idle_deadline_s` seconds without a byte, or `total_s` seconds from now. With
        `leave_after_events` the connection is closed as soon as so many SSE events (comments not counted)
        have arrived: by FIN, or `leave_with_reset` by RST. A greenlet killed here closes the connection;
        `reply()` then still gives what had come.
        """
        if not self.sent_ns:
            raise RuntimeError("wait() before send()")
        if leave_after_events is not None and self._end is None:
            self._leave_after, self._leave_with_reset = leave_after_events, leave_with_reset
            self._leave_when_due()
        started_s = time.monotonic()
        try:
            while not self._over.is_set():
                now_s = time.monotonic()
                idle_left_s = idle_deadline_s - (now_s - self._heard_s)
                total_left_s = math.inf if total_s is None else total_s - (now_s - started_s)
                if total_left_s <= 0:
                    self._finish("hang", f"not over after {total_s:g} s")
                elif idle_left_s > 0:
                    self._over.wait(min(idle_left_s, total_left_s))
                elif not self._has_unread():
                    self._finish("hang", f"no byte for {idle_deadline_s:g} s")
        finally:
            self.leave()
        return self.reply()

    def _has_unread(self) -> bool:
        """One more look, in case it was us who were late; what is there is read."""
        heard_s = self._heard_s
        self._on_readable()
        return self._heard_s != heard_s or self._over.is_set()

    def reply(self) -> Reply:
        """The response as far as it has come."""
        headers = self._parser.header_dict()
        coding = headers.get("content-encoding", "")
        arrivals = list(zip(self._stamps_ns, self._body_lengths, strict=True))
        body, arrivals, trouble = decompress(bytes(self._parser.body), arrivals, coding)
        return Reply(
            status=self._parser.status,
            headers=headers,
            sent_ns=self.sent_ns,
            connect_ms=self.connect_ms,
            body=body,
            arrivals=arrivals,
            head_ns=self._head_ns,
            end_ns=self._end_ns or time.time_ns(),
            clock=self._clock,
            end=self._end or "left",
            error=self._error or trouble,
        )
