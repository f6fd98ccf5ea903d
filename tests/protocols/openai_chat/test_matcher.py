"""Chat on both sides: bytes pass, only what must change changes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import Matcher, Passed
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.settings import make_capabilities
from dragoman.sse import Decoder
from dragoman.translation.streams import AnswerStream
from tests.library import translate_request
from tests.tables.cells import DONE, ROLE, STOP, chat_answer, chat_chunk, chat_stream, chunks

USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
USAGE_CHUNK = chat_chunk(usage=USAGE)
TEXT = chat_chunk({"content": 'He said "model":"x" and \\"finish_reason\\":\\"stop\\"'})


def matched(
    stream: bytes, model: str | None = None, include_usage: bool = False, choices: int = 1
) -> tuple[bytes | None, Matcher]:
    """What a client is passed of a stream, None if it is not exact, and what was recorded of it."""
    matcher = CODEC.passthrough.matcher(model, include_usage, {}, choices)
    decoder = Decoder()
    shown: list[bytes] = []
    for frame in (*decoder.feed(stream), *decoder.finish()):
        if matcher.ended or matcher.fault is not None:
            break
        passed = matcher.more(frame)
        passed = matcher.match(frame) if passed is None else passed
        if passed is None:
            return None, matcher
        shown.append(passed)
    if not matcher.ended and matcher.fault is None:
        rest = matcher.finish()
        if rest is None:
            return None, matcher
        shown.append(rest)
    return b"".join(shown), matcher


def answer() -> AnswerStream:
    """A stream on its way to a client of the same protocol."""
    asked = {"model": "theirs", "messages": [{"role": "user", "content": "hi"}]}
    body = json.dumps(asked).encode()
    return translate_request("openai_chat", "openai_chat", body).open_stream()


def shown(stream: bytes) -> tuple[bytes, Fault | None]:
    """What a client is shown of any stream, and how that failed."""
    made = answer()
    return made.feed(stream) + made.finish(), made.outcome.fault


def test_bytes_pass_unchanged() -> None:
    """Odd spacing, unknown fields and all. req: 159"""
    odd = b'data: {"x_unknown" : [1.50, "\\u00e9"], "choices":[]}\n\n'
    stream = chat_stream(ROLE, done=False) + odd + chat_stream(TEXT, STOP)
    passed, matcher = matched(stream)
    assert passed == stream
    assert (matcher.ended, matcher.fault, matcher.usage) == (True, None, None)


@pytest.mark.parametrize("asked", [True, False])
def test_the_usage_chunk_is_for_those_who_asked(asked: bool) -> None:
    """It is always read, and left out if the client did not want it. req: 78"""
    passed, matcher = matched(chat_stream(ROLE, TEXT, STOP, USAGE_CHUNK), include_usage=asked)
    assert matcher.usage == Usage(input=9, output=5)
    expected = (ROLE, TEXT, STOP, USAGE_CHUNK) if asked else (ROLE, TEXT, STOP)
    assert passed == chat_stream(*expected)


def test_a_role_in_every_chunk_is_passed() -> None:
    texts = [chat_chunk({"role": "assistant", "content": text}) for text in ("a", "b")]
    stream = chat_stream(*texts, STOP)
    assert matched(stream)[0] == stream


@pytest.mark.parametrize("padding", ["a", "Zz9", "", "a-b", 'a"b', "\u00e9"])
def test_pieces_with_padding_pass(padding: str) -> None:
    """Of any length, as some services hide the lengths of texts."""
    texts = ("one", "two", 'th"ree', "\u2603", "five\\", "six")
    pieces = [
        {**chat_chunk({"content": text}), "obfuscation": padding * number}
        for number, text in enumerate(texts, start=1)
    ]
    stream = chat_stream(ROLE, *pieces, STOP)
    passed, matcher = matched(stream)
    assert passed == stream
    read: list[bytes] = []
    unused: Any = None
    matcher.hand_over(lambda frame: read.append(frame.data), unused)
    assert json.loads(read[2])["choices"][0]["delta"] == {"content": "".join(texts)}


def test_usage_on_a_chunk_that_says_more_is_passed() -> None:
    stream = chat_stream(ROLE, TEXT, {**STOP, "usage": USAGE})
    passed, matcher = matched(stream)
    assert passed == stream
    assert matcher.usage == Usage(input=9, output=5)


@pytest.mark.parametrize("name", ["m", 'we"ird\\1 \u2028 ü'])
def test_the_model_is_shown_under_the_clients_name(name: str) -> None:
    """Only the name changes; text that looks like it does not. req: 150"""
    passed, _ = matched(chat_stream(ROLE, TEXT, STOP), model=name)
    assert passed is not None
    assert passed.count(b'\\"model\\":\\"x\\"') == 1
    expected = [{**frame, "model": name} for frame in (ROLE, TEXT, STOP)]
    assert chunks(passed) == [*expected, "[DONE]"]
    assert "\u2028".encode() not in passed


def test_a_missing_done_is_added() -> None:
    passed, matcher = matched(chat_stream(ROLE, TEXT, STOP, done=False))
    assert passed == chat_stream(ROLE, TEXT, STOP)
    assert matcher.ended


@pytest.mark.parametrize("done", [True, False])
def test_an_answer_without_a_finish_becomes_an_error(done: bool) -> None:
    """The end of bytes and [DONE] alike. req: 156, 163"""
    passed, fault = shown(chat_stream(ROLE, TEXT, done=done))
    *passed_on, last, _ = chunks(passed)
    assert passed_on == [ROLE, TEXT]
    assert last["error"]["code"] == "upstream_error"
    assert fault is not None
    assert passed.endswith(DONE)


def test_an_empty_finish_reason_ends_only_with_done() -> None:
    blank = chat_chunk({}, "")
    assert shown(chat_stream(ROLE, TEXT, blank))[1] is None
    assert shown(chat_stream(ROLE, TEXT, blank, done=False))[1] is not None
    assert shown(chat_stream(ROLE, chat_chunk({"content": "a"}, "")))[1] is not None


@pytest.mark.parametrize("finished", [True, False])
def test_an_error_in_the_stream_is_passed_and_noted(finished: bool) -> None:
    """And ended, whatever the upstream sends after it. req: 155"""
    error = {"error": {"message": "boom", "code": "slow_down"}}
    given = (ROLE, STOP, error) if finished else (ROLE, error)
    passed, matcher = matched(chat_stream(*given) + chat_stream(TEXT))
    assert passed == chat_stream(*given)
    assert matcher.fault is not None
    assert matcher.fault.kind is FaultKind.OVERLOADED


def test_a_failure_as_the_finish_reason_is_an_error() -> None:
    passed, fault = shown(chat_stream(ROLE, chat_chunk({}, "insufficient_system_resource")))
    assert "error" in chunks(passed)[-2]
    assert fault is not None


def test_a_stream_cut_by_us_ends_in_an_error() -> None:
    made = answer()
    made.feed(chat_stream(ROLE, TEXT, done=False))
    fault = Fault(FaultKind.UPSTREAM_TIMEOUT, "too slow")
    message = chunks(made.fail(fault))[0]["error"]["message"]
    assert message == "Provider returned error: too slow"
    assert made.outcome.fault is fault
    assert made.finish() == b""


def test_nothing_passes_after_done() -> None:
    """req: 80"""
    assert shown(chat_stream(ROLE, STOP) + chat_stream(TEXT))[0] == chat_stream(ROLE, STOP)


ODD = b"""\
id: 1
retry: 5
event: message
data:{"choices":[{"index":0,"delta":{"role":"assistant","content":"a\xe2\x80\xa8b"}}]}

: a comment

data: {"choices":
data: [{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]\x20\x20

"""


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_an_odd_stream_is_passed_on_in_the_common_form(newline: bytes) -> None:
    """Values keep their bytes, frames do not: no names, no ids, one data line each, the space, no
    separator at which a reader splits lines. req: 71, 80"""
    passed, _ = shown(ODD.replace(b"\n", newline))
    made = passed.decode()
    assert [line[:6] for line in made.splitlines() if line] == ["data: "] * 3
    first, last, done = chunks(made.encode())
    assert first["choices"][0]["delta"]["content"] == "a\u2028b"
    assert last["choices"][0]["finish_reason"] == "stop"
    assert done == "[DONE]"


def forward(body: bytes, model: str = "up", **capabilities: Any) -> bytes:
    """A request as it is passed on."""
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return CODEC.passthrough.forward_request(members, model, make_capabilities(**capabilities))


def test_a_request_passes_byte_for_byte() -> None:
    """Except for the model."""
    body = b'{"temperature":1.0,"model":"m","messages":[ {"role" : "user"} ],"x":"\\u00e9"}'
    assert forward(body) == (
        b'{"temperature":1.0,"model":"up","messages":[ {"role" : "user"} ],"x":"\\u00e9"}'
    )


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, {"include_usage": True}),
        ({"stream_options": None}, {"include_usage": True}),
        (
            {"stream_options": {"include_obfuscation": False}},
            {"include_obfuscation": False, "include_usage": True},
        ),
        ({"stream_options": {"include_usage": False}}, {"include_usage": True}),
    ],
)
def test_streams_are_asked_for_usage(given: dict[str, Any], options: dict[str, Any]) -> None:
    body = json.dumps({"model": "m", "stream": True, **given}).encode()
    assert json.loads(forward(body))["stream_options"] == options
    assert json.loads(forward(body, stream_usage=False)).get("stream_options") == given.get(
        "stream_options"
    )
    whole = json.dumps({"model": "m", **given}).encode()
    assert json.loads(forward(whole)) == {"model": "up", **given}


def test_usage_that_is_asked_for_keeps_its_bytes() -> None:
    body = b'{"stream":true,"model":"up","stream_options":{"include_usage" : true}}'
    assert forward(body) == body


def test_a_whole_answer_passes_byte_for_byte() -> None:
    body = json.dumps(chat_answer({"content": "a"}, usage=USAGE), indent=2).encode()
    usage = Usage(input=9, output=5)
    assert CODEC.passthrough.match_response(body, "theirs") == Passed(body, usage, "stop")


@pytest.mark.parametrize("first", [{}, {"metadata": {"model": "inner"}}])
def test_a_whole_answer_under_the_clients_name(first: dict[str, Any]) -> None:
    made = {**first, **chat_answer({"content": 'a "model": "b"'})}
    body = json.dumps(made, indent=2).encode()
    passed = CODEC.passthrough.match_response(body, 'sh"own')
    assert passed is not None
    assert json.loads(passed.body) == {**made, "model": 'sh"own'}
    if not first:
        assert passed.body == body.replace(b'"theirs"', b'"sh\\"own"')
    assert (passed.usage, passed.text_bytes) == (None, 14)
    # Of names that come twice the last one counts.
    twice = CODEC.passthrough.match_response(body[:-1] + b',"model":"other"}', "shown")
    assert twice is not None
    assert json.loads(twice.body) == {**made, "model": "shown"}


def test_several_choices_pass_if_they_were_asked_for() -> None:
    made = chat_answer({"content": "a"})
    made["choices"] *= 2
    body = json.dumps(made).encode()
    passed = CODEC.passthrough.match_response(body, "theirs", {}, 2)
    assert passed is not None
    assert passed.body == body
    assert CODEC.passthrough.match_response(body, "theirs") is None


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"choices":[]}',
        b'{"choices":[{"finish_reason":null}]}',
        b'{"choices":[{"finish_reason":"error","message":{}}]}',
        b'{"choices":[{"finish_reason":"end_turn","message":{"content":"a"}}]}',
        b'{"choices":[{"finish_reason":"stop","message":{"content":["a"]}}]}',
        b'{"choices":["x"]}',
        b'{"error":{"message":"boom"}}',
        b'{"type":"message","content":[]}',
    ],
)
def test_what_is_no_answer_is_not_passed(body: bytes) -> None:
    """A 200 that carries an error, or nothing, or says it in another way. req: 62"""
    assert CODEC.passthrough.match_response(body, "theirs") is None


def called(index: int, arguments: str, **head: Any) -> dict[str, Any]:
    """A chunk with a fragment of a call."""
    function = {"arguments": arguments, **({"name": head.pop("name")} if head else {})}
    return chat_chunk({"tool_calls": [{"index": index, **head, "function": function}]})


def test_calls_pass_while_they_are_whole_and_in_order() -> None:
    first = called(0, "", id="c1", type="function", name="f")
    second = called(1, '{"b":2}', id="c2", type="function", name="g")
    end = chat_chunk({}, "tool_calls")
    stream = chat_stream(ROLE, first, called(0, '{"a":'), called(0, "1}"), second, end)
    assert matched(stream)[0] == stream
    for odd in (
        (first, second),
        (first, called(1, "{}")),
        (first, called(0, "[]"), end),
        (first, called(0, '{"a":1}'), first, end),
        (called(0, "{}", id="c1", type="function", name=""),),
        (called(0, "\\ud83d", id="c1", type="function", name="f"),),
    ):
        assert matched(chat_stream(ROLE, *odd))[0] is None


def test_an_object_that_may_stand_for_arguments_waits() -> None:
    """Clients put together what comes for one call."""
    head = called(0, "", id="c1", type="function", name="f")
    end = chat_chunk({}, "tool_calls")
    made = answer()
    assert made.feed(chat_stream(ROLE, head, called(0, "{}"), done=False)).count(b"{}") == 0
    assert b'"arguments": "{}"' in made.feed(chat_stream(end))
    again = answer()
    passed = again.feed(chat_stream(ROLE, head, called(0, "{}"), called(0, '{"a":1}'), end))
    assert again.outcome.fault is None
    assert b'"{}"' not in passed


@pytest.mark.parametrize(
    ("asked", "choices"),
    [({}, 1), ({"n": 2}, 2), ({"n": "x"}, 1), ({"n": 10**9}, 128), ({"n": 0}, 1)],
)
def test_how_many_choices_are_asked_for(asked: dict[str, Any], choices: int) -> None:
    members = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in asked.items()}
    assert CODEC.passthrough.choices(members) == choices
