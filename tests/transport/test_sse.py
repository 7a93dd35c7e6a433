"""Events out of the collected bytes: every dialect that is allowed, and each kind of damage named."""

import re
import time
from itertools import pairwise
from pathlib import Path

import pytest
import sseclient
from hypothesis import given, settings
from hypothesis import strategies as st

from locustfiles.transport import Reply, sse

RECORDED = sorted((Path(__file__).parents[1] / "data" / "streams").glob("*.sse"))
FIRST_NS = 1_000_000


def reply_of(*reads: bytes) -> Reply:
    """A finished reply whose read k (from 0) was stamped FIRST_NS + k."""
    lengths = [len(b"".join(reads[: k + 1])) for k in range(len(reads))]
    return Reply(
        status=200,
        headers={},
        sent_ns=0,
        connect_ms=None,
        body=b"".join(reads),
        arrivals=[(FIRST_NS + k, length) for k, length in enumerate(lengths)],
        head_ns=0,
        end_ns=FIRST_NS + len(reads) - 1,
        clock="kernel",
        end="complete",
        error="",
    )


def data_of(*reads: bytes) -> list[str]:
    decoded = sse.decode(reply_of(*reads))
    assert decoded.problems == []
    assert not decoded.truncated
    return [event.data for event in decoded.events if not event.comment]


@pytest.mark.parametrize(
    "stream",
    [
        b"data: a\n\ndata: b\n\n",
        b"data:a\n\ndata:b\n\n",
        b"data: a\r\n\r\ndata: b\r\n\r\n",
        b"data: a\r\rdata: b\r\r",
        b"data: a\n\r\ndata: b\r\n\n",
        b"\xef\xbb\xbfdata: a\n\ndata: b\n\n",
        b"\n\n\ndata: a\n\n\n\ndata: b\n\n\n",
        b": ping\n\ndata: a\n\n:\n\n: ping\ndata: b\n\n",
        b"id: 1\nretry: 10\ndata: a\n\nid\ndata: b\nx-extra: 1\n\n",
        b"event: ping\n\ndata: a\n\nretry: 10\n\ndata: b\n\n",
    ],
)
def test_dialects_that_are_fine(stream: bytes) -> None:
    assert data_of(stream) == ["a", "b"]
    for cut in range(1, len(stream)):
        assert data_of(stream[:cut], stream[cut:]) == ["a", "b"]
    assert data_of(*(stream[i : i + 1] for i in range(len(stream)))) == ["a", "b"]


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\ndata: b\n\n", "a\nb"),
        (b"data:  two spaces: and a colon\n\n", " two spaces: and a colon"),
        (b"data\n\n", ""),
        (b"data:\n\n", ""),
        ("data: form\ffeed, \u2028separator, \x85nel\n\n".encode(), "form\ffeed, \u2028separator, \x85nel"),
        ("data: é, 語, 🦙\n\n".encode(), "é, 語, 🦙"),
        (b"data: [DONE] \n\n", "[DONE] "),
    ],
)
def test_the_data_of_an_event(stream: bytes, data: str) -> None:
    assert data_of(stream) == [data]


def test_event_names_and_comments_are_kept() -> None:
    decoded = sse.decode(reply_of(b": ping 1\n: ping 2\n\nevent: error\ndata: {}\n\ndata: x\n\n"))
    assert [(event.event, event.data, event.comment) for event in decoded.events] == [
        ("", "ping 1\nping 2", True),
        ("error", "{}", False),
        ("message", "x", False),
    ]


def test_each_event_has_the_stamp_of_the_read_that_completed_it() -> None:
    decoded = sse.decode(reply_of(b"data: a\n", b"\ndata: b\n\nda", b"ta: c", b"\n\n"))
    assert [(event.data, event.at_ns - FIRST_NS, event.raw_end) for event in decoded.events] == [
        ("a", 1, 9),
        ("b", 1, 18),
        ("c", 3, 27),
    ]


@pytest.mark.parametrize(
    ("stream", "events", "rest"),
    [
        (b"data: a\n\ndata: b", 1, "data: b"),
        (b"data: a\n\ndata: b\n", 1, "data: b\n"),
        (b"data: a\n\nd", 1, "d"),
        (b"data: a\n\n\n", 1, ""),
        ("data: a\n\ndata: é".encode()[:-1], 1, "data: \ufffd"),
    ],
)
def test_an_unfinished_last_event_is_not_an_event(stream: bytes, events: int, rest: str) -> None:
    decoded = sse.decode(reply_of(stream))
    assert (len(decoded.events), decoded.truncated, decoded.rest) == (events, bool(rest), rest)


@pytest.mark.parametrize(
    ("stream", "problem"),
    [
        (b'{"object": "chat.completion", "choices": []}', "not SSE: "),
        (b'{"a": 1}\n{"a": 2}\n', "not SSE: "),
        (b'{"a": 1}\n\n{"a": 2}\n\n', "line without a field name: "),
        (b"data: a\nmore text without a name\n\n", "line without a field name: "),
        (b"<html>\n\n</html>\n\n", "line without a field name: "),
        (b"data: \xff\xfe\n\n", "not UTF-8: "),
    ],
)
def test_what_is_not_sse_is_named(stream: bytes, problem: str) -> None:
    problems = sse.decode(reply_of(stream)).problems
    assert problems
    assert all(found.startswith(problem) for found in problems)


def test_problems_do_not_grow_without_bound() -> None:
    stream = b"".join(b"{%d}\n\n" % n for n in range(1000))
    assert len(sse.decode(reply_of(stream)).problems) == sse.MAX_PROBLEMS


def test_an_empty_body_is_no_problem_of_framing() -> None:
    assert sse.decode(reply_of()) == sse.Decoded()


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_streams_decode_as_sseclient_decodes_them(path: Path) -> None:
    stream = path.read_bytes()
    expected = [event.data for event in sseclient.SSEClient(iter([stream])).events()]
    assert data_of(stream) == expected
    assert len(expected) == stream.count(b"data: ")


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_a_recorded_stream_split_anywhere_is_the_same_stream(data: st.DataObject) -> None:
    stream = data.draw(st.sampled_from(RECORDED)).read_bytes()
    line_end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    stream = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + stream.replace(b"\n", line_end)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=40)))
    reads = [stream[start:stop] for start, stop in pairwise([0, *cuts, len(stream)])]
    whole, split = sse.decode(reply_of(stream)), sse.decode(reply_of(*reads))
    assert [event.data for event in split.events] == [event.data for event in whole.events]
    for event in split.events:
        completed_by = event.at_ns - FIRST_NS
        assert len(b"".join(reads[:completed_by])) < event.raw_end <= len(b"".join(reads[: completed_by + 1]))
    counter, body = sse.Counter(), bytearray()
    for read in reads:
        body += read
        counted = counter.count(body)
    assert counted == len(whole.events)


@given(data=st.data())
@settings(deadline=None, max_examples=300)
def test_a_damaged_stream_never_raises_and_never_gains_events(data: st.DataObject) -> None:
    stream = bytearray(data.draw(st.sampled_from(RECORDED)).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(stream) - 1))
        kind = data.draw(st.sampled_from(["cut", "delete", "overwrite"]))
        if kind == "cut":
            del stream[max(at, 1) :]
        elif kind == "delete":
            del stream[at : min(at + data.draw(st.integers(1, 20)), len(stream) - 1)]
        else:
            stream[at] = data.draw(st.integers(0, 255))
    decoded = sse.decode(reply_of(bytes(stream)))
    blank_lines = len(re.findall(rb"[\r\n]{2}", stream))
    assert len(decoded.events) <= blank_lines
    last = decoded.events[-1].raw_end if decoded.events else 0
    unfinished = bytes(stream[last:]).strip()
    assert decoded.truncated or not unfinished or decoded.problems or b"data" not in unfinished


@given(st.binary(max_size=300))
def test_any_bytes_at_all_never_raise(stream: bytes) -> None:
    decoded = sse.decode(reply_of(stream))
    assert sse.Counter().count(bytearray(stream)) == sum(not event.comment for event in decoded.events)


def test_one_huge_event_in_small_reads_takes_linear_time() -> None:
    """A quadratic decoder would need 256 times as long for 16 times the bytes."""

    def seconds(lines: int) -> float:
        stream = b"data: " + b"x" * 500 + b"\n"
        reply = reply_of(stream * lines + b"\n")
        body, counter = bytearray(), sse.Counter()
        started = time.perf_counter()
        sse.decode(reply)
        for _ in range(lines):
            body += stream
            counter.count(body)
        return time.perf_counter() - started

    small = min(seconds(500) for _ in range(3))
    assert seconds(8000) < small * 100
