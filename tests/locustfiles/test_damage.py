"""Recorded streams, lost, changed and split at every byte: never an exception, never a wrong "ok"."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locustfiles.reading import Reading, read
from tests.locustfiles.replies import DONE, FINISH, ROLE, SENT_NS, STREAMS, USAGE, reply, verdict


@pytest.mark.parametrize("name", ["vllm-usage", "llamacpp"])
def test_no_stream_that_lost_its_end_is_ok(name: str) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes()
    whole = len(body.rstrip())

    for stop in range(len(body)):
        code = verdict(reply(body[:stop]), 8)
        assert (code == "ok") == (stop >= whole), f"{stop} of {whole} bytes: {code}"


def sound(reading: Reading) -> bool:
    """What an "ok" promises, said once more in other words."""
    ends = [event.kind for event in reading.events if event.kind in ("done", "error")]
    usage = reading.usage
    return (
        ends == ["done"]
        and reading.data_events[-1].kind == "done"
        and len(reading.finish_reasons) == len(reading.ids) == 1
        and reading.roles > 0
        and usage is not None
        and usage.completion is not None
        and usage.prompt is not None
        and usage.total == usage.prompt + usage.completion
        and usage.completion >= 8
    )


@pytest.mark.parametrize("name", ["vllm-usage", "vllm-continuous-usage", "llamacpp"])
@pytest.mark.parametrize("put", [b"", b"\n", b"\x00", b"\xff", b"}", b'"', b"7"])
def test_no_byte_of_a_stream_can_be_lost_or_changed_unseen(name: str, put: bytes) -> None:
    """Each byte in turn; letters of the text may change, what holds the stream together may not."""
    body = (STREAMS / f"{name}.sse").read_bytes()
    whole = len(body.rstrip())
    for at in range(whole):
        answer = reply(body[:at] + put + body[at + 1 :])
        if verdict(answer, 8) == "ok":
            assert sound(read(answer, True)), f"byte {at} of {name}"


@pytest.mark.parametrize("name", ["vllm-usage", "llamacpp"])
def test_a_stream_may_be_split_at_any_byte(name: str) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes()
    whole = read(reply(body), True)
    for at in range(1, len(body)):
        first, last = SENT_NS + 1_000_000, SENT_NS + 2_000_000
        halves = read(reply(body, arrivals=[(first, at), (last, len(body))], end_ns=last), True)
        assert verdict(halves.reply, 8) == "ok"
        assert [event.kind for event in halves.events] == [event.kind for event in whole.events]
        assert (halves.text, halves.usage) == (whole.text, whole.usage)


@given(data=st.data())
@settings(deadline=None, max_examples=300)
def test_damage_is_never_an_exception_and_never_a_wrong_ok(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["vllm-usage", "vllm-continuous-usage", "llamacpp"]))
    body = bytearray((STREAMS / f"{name}.sse").read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=8))
    answer = reply(bytes(body), data.draw(st.integers(1, 50)))

    if verdict(answer, 8) == "ok":
        assert sound(read(answer, True))


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda c: (
            st.lists(c)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "object",
                        "choices",
                        "message",
                        "delta",
                        "usage",
                        "id",
                        "role",
                        "content",
                        "finish_reason",
                        "error",
                        "prompt_tokens",
                        "completion_tokens",
                        "total_tokens",
                        "tool_calls",
                        "function",
                    ]
                ),
                c,
            )
        ),
    )
)
@settings(deadline=None, max_examples=300)
def test_no_json_is_too_strange(value: Any) -> None:
    text = json.dumps(value)
    verdict(reply(text.encode()), streamed=False)
    verdict(reply(f"data: {text}\n\ndata: [DONE]\n\n".encode()))
    if isinstance(value, dict):
        chunk_text = json.dumps({"object": "chat.completion.chunk", **value})
        verdict(reply(f"{ROLE}\n\ndata: {chunk_text}\n\n{FINISH}\n\n{USAGE}\n\n{DONE}\n\n".encode()), 2)
