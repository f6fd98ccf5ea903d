"""Between the same protocol bytes pass as they came; only the model's name may change."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.options import Capabilities
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import Matcher, Passed
from dragoman.protocols.openai_responses import CODEC
from dragoman.sse import Decoder
from dragoman.translation.streams import AnswerStream
from tests.library import translate_request
from tests.protocols.openai_responses.upstream import (
    JsonObject,
    call,
    events_of,
    message,
    reasoning,
    response,
    stream_of,
    text,
)

ANSWER = response(reasoning("Think"), message(text("Hello")), call('{"a":1}'))
EVENTS = events_of(ANSWER)
STREAM = stream_of(EVENTS)
USAGE = Usage(input=9, output=5, cached=4, cache_write=2, reasoning=3)
MEMBERS = msgspec.json.Decoder(dict[str, Raw])


def decoded(stream: bytes) -> list[JsonObject]:
    """The data of a stream's events."""
    return [msgspec.json.decode(frame.data) for frame in Decoder().feed(stream)]


def matched(
    stream: bytes, model: str | None = None, shown: JsonObject | None = None
) -> tuple[bytes | None, Matcher]:
    """What passes of a stream, None if it is not exact, and the matcher after it."""
    matcher = CODEC.passthrough.matcher(model, False, shown or {})
    passed = [matcher.match(frame) for frame in Decoder().feed(stream)]
    made = [one for one in passed if one is not None]
    return b"".join(made) if len(made) == len(passed) else None, matcher


def answer(model: str = "upstream-model") -> AnswerStream:
    """A stream on its way to a client of the same protocol."""
    body = json.dumps({"model": model, "input": "hi", "stream": True}).encode()
    return translate_request("openai_responses", "openai_responses", body).open_stream()


def shown(stream: bytes, model: str = "upstream-model") -> tuple[list[JsonObject], AnswerStream]:
    """The events that a client is shown of any stream."""
    made = answer(model)
    return decoded(made.feed(stream) + made.finish()), made


class TestRequests:
    """Bodies toward an upstream of the same protocol."""

    def test_only_the_model_changes(self) -> None:
        body = b'{"model":"shown", "input" : [ {"a":1.50} ],"x":null,"temperature":1e0}'
        forwarded = CODEC.passthrough.forward_request(MEMBERS.decode(body), "real", Capabilities())
        members = MEMBERS.decode(forwarded)
        assert bytes(members.pop("model")) == b'"real"'
        assert {name: bytes(raw) for name, raw in members.items()} == {
            "input": b'[ {"a":1.50} ]',
            "x": b"null",
            "temperature": b"1e0",
        }

    def test_members_keep_their_order(self) -> None:
        forwarded = CODEC.passthrough.forward_request(
            MEMBERS.decode(b'{"b":1,"model":"m","a":2}'), "m", Capabilities()
        )
        assert forwarded == b'{"b":1,"model":"m","a":2}'


class TestWholeAnswers:
    """Bodies toward the client."""

    ITEM = b'{"x" : 1,"type":"novelty"}'
    BODY = b'{ "id":"resp_1", "model": "real","output":[ %b ],"usage":null , "y":1.0}' % ITEM

    def test_the_same_name_keeps_every_byte(self) -> None:
        body = self.BODY.replace(b' "real"', b'"real"')
        passed = CODEC.passthrough.match_response(body, "real")
        assert passed is not None
        assert (passed.body, passed.usage) == (body, None)

    def test_another_name_keeps_all_other_values(self) -> None:
        """The reply names the model the client asked for. req: 150"""
        passed = CODEC.passthrough.match_response(self.BODY, "shown")
        assert passed is not None
        members = MEMBERS.decode(passed.body)
        assert bytes(members["model"]) == b'"shown"'
        assert bytes(members["output"]) == b"[ %b ]" % self.ITEM
        assert bytes(members["y"]) == b"1.0"

    def test_a_name_that_is_no_text_is_replaced(self) -> None:
        body = self.BODY.replace(b' "real"', b'"r\xffal"')
        expected = self.BODY.replace(b' "real"', b'"shown"')
        passed = CODEC.passthrough.match_response(body, "shown")
        assert passed is not None
        assert MEMBERS.decode(passed.body) == MEMBERS.decode(expected)

    def test_usage_is_seen(self) -> None:
        body = msgspec.json.encode(ANSWER)
        passed = Passed(body, USAGE, "tool_calls")
        assert CODEC.passthrough.match_response(body, "upstream-model") == passed

    @pytest.mark.parametrize(
        "item",
        [
            message({"type": "output_text", "text": 5}),
            message({"type": "markdown", "text": "a"}),
            call('{"a":'),
            {**call("{}"), "arguments": {"a": 1}},
            {"type": "output_text", "text": "a"},
            {**message(text("a")), "role": "user"},
        ],
    )
    def test_an_item_that_is_not_exact(self, item: JsonObject) -> None:
        body = msgspec.json.encode(response(item))
        assert CODEC.passthrough.match_response(body, "upstream-model") is None

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            (b"", FaultKind.UPSTREAM_FAILED),
            (b"<html>", FaultKind.UPSTREAM_FAILED),
            (b"[]", FaultKind.UPSTREAM_FAILED),
            (b'{"choices":[]}', FaultKind.UPSTREAM_FAILED),
            (b'{"\xff":1}', FaultKind.UPSTREAM_FAILED),
            (b'{"error":{"message":"no","code":"rate_limit_exceeded"}}', FaultKind.RATE_LIMITED),
        ],
    )
    def test_what_is_no_answer_fails(self, body: bytes, kind: FaultKind) -> None:
        asked = json.dumps({"model": "m", "input": "hi"}).encode()
        call = translate_request("openai_responses", "openai_responses", asked)
        with pytest.raises(UpstreamError) as raised:
            call.translate_response(body)
        assert raised.value.fault.kind is kind


class TestStreams:
    """Streams toward the client."""

    @pytest.mark.parametrize("named", [True, False])
    def test_bytes_pass_unchanged(self, named: bool) -> None:
        """Events without a name get it, for some clients ignore the others."""
        passed, matcher = matched(stream_of(EVENTS, named))
        assert passed == STREAM
        assert (matcher.usage, matcher.ended, matcher.fault) == (USAGE, True, None)

    def test_what_nobody_knows_passes_too(self) -> None:
        odd = b'event: response.mystery\ndata: {"type":"response.mystery" , "x":1.0}\n\n'
        stream = STREAM.replace(
            b"event: response.output_item.added", odd + b"event: response.output_item.added", 1
        )
        assert matched(stream)[0] == stream

    def test_an_item_that_nobody_knows_passes_too(self) -> None:
        item = {"type": "novelty_call", "id": "n_1", "status": "completed", "code": ["a"]}
        stream = stream_of(events_of(response(message(text("Hello")), item, call('{"a":1}'))))
        assert matched(stream)[0] == stream

    def test_an_item_may_begin_while_one_that_nobody_knows_goes_on(self) -> None:
        item = {"type": "novelty_call", "id": "n_1", "status": "completed", "code": ["a"]}
        answer = response(item, message(text("Hello")))
        first, second, added, done, *rest = events_of(answer)
        stream = stream_of([first, second, added, *rest[:-1], done, rest[-1]])
        assert matched(stream)[0] == stream

    def test_a_text_beside_the_output_may_repeat_it(self) -> None:
        """It is content where there is no other."""
        stream = stream_of(events_of(response(message(text("Hello")), output_text="Hello")))
        assert matched(stream)[0] == stream
        assert matched(stream_of(events_of(response(output_text="Hello"))))[0] is None

    @pytest.mark.parametrize("named", [True, False])
    def test_another_name_of_the_model(self, named: bool) -> None:
        """req: 150"""
        stream = stream_of(EVENTS, named)
        passed, _ = matched(stream, "shown")
        assert passed is not None
        expected, found = decoded(stream), decoded(passed)
        for event in expected:
            if "response" in event:
                event["response"] = {**event["response"], "model": "shown"}
        assert found == expected
        assert matched(stream, "upstream-model")[0] == STREAM

    def test_an_upstreams_own_failure_passes_and_is_seen(self) -> None:
        error = {"code": "rate_limit_exceeded", "message": "slow"}
        failed = {"type": "response.failed", "response": response(status="failed", error=error)}
        stream = stream_of([*EVENTS[:3], failed])
        passed, matcher = matched(stream)
        assert passed == stream
        assert matcher.ended
        assert matcher.fault is not None
        assert matcher.fault.kind is FaultKind.RATE_LIMITED

    @pytest.mark.parametrize(
        "error", [{"error": {"code": "c", "message": "no"}}, {"message": "no"}]
    )
    def test_an_error_is_completed_by_the_failed_response(self, error: JsonObject) -> None:
        begun = {"type": "response.created", "response": {"id": "resp_1"}}
        found, made = shown(stream_of([begun, {"type": "error", **error}]))
        assert made.outcome.fault is not None
        told, failed = found[-2:]
        assert told["type"] == "error"
        assert failed["type"] == "response.failed"
        assert (told["sequence_number"], failed["sequence_number"]) == (1, 2)
        assert failed["response"]["id"] == "resp_1"
        assert failed["response"]["error"]["message"] == "Provider returned error: no"

    def test_text_that_looks_like_an_event_is_only_text(self) -> None:
        told = '{"type":"response.completed"} "error"'
        events = events_of(response(message(text(told))))
        passed, matcher = matched(stream_of(events, named=False))
        assert passed == stream_of(events)
        assert (matcher.ended, matcher.fault) == (True, None)

    @pytest.mark.parametrize("kept", range(1, len(EVENTS)))
    @pytest.mark.parametrize("model", ["upstream-model", "shown"])
    def test_a_stream_that_is_cut_off_ends_in_an_error(self, kept: int, model: str) -> None:
        """Never a false success. req: 115"""
        events, made = shown(stream_of(EVENTS[:kept]), model)
        assert [event["sequence_number"] for event in events] == list(range(kept + 2))
        told, last = events[-2:]
        assert told["type"] == "error"
        assert told["error"]["message"] == told["message"]
        assert last["type"] == "response.failed"
        assert last["response"]["status"] == "failed"
        assert last["response"]["error"]["code"] == "server_error"
        assert last["response"]["id"] == events[0]["response"]["id"]
        assert last["response"]["model"] == model
        assert made.outcome.fault is not None
        assert not made.outcome.ended

    def test_a_failure_of_ours_is_told(self) -> None:
        made = answer()
        made.feed(stream_of(EVENTS[:4]))
        fault = Fault(FaultKind.UPSTREAM_TIMEOUT, "too slow")
        told, last = decoded(made.fail(fault))
        assert (told["sequence_number"], last["sequence_number"]) == (4, 5)
        assert told["code"] == told["error"]["code"] == "ETIMEDOUT"
        assert made.outcome.fault is fault

    @pytest.mark.parametrize("spaced", [False, True])
    @pytest.mark.parametrize(
        "tools",
        [
            [],
            [{"default": {"model": "real", "previous_response_id": None}}],
            [{"description": '"previous_response_id":null,"model":"real"'}],
        ],
    )
    def test_what_is_shown_stands_in_the_response_alone(
        self, tools: list[Any], spaced: bool
    ) -> None:
        """However the event is written, and whatever the client's tools repeat."""
        seen = {"id": "r1", "tools": tools, "model": "real", "previous_response_id": None}
        event = {"type": "response.created", "sequence_number": 0, "response": seen}
        data = msgspec.json.encode(event)
        if spaced:
            data = msgspec.json.format(data, indent=0)
            data = data.replace(b'{"model": "real"', b'{"model":"real"')
        stream = b"event: response.created\ndata: " + data + b"\n\n"
        passed, _ = matched(stream, "mine", {"previous_response_id": "resp_0", "id": "r9"})
        assert passed is not None
        right = {**seen, "id": "r9", "model": "mine", "previous_response_id": "resp_0"}
        assert decoded(passed) == [{**event, "response": right}]

    @pytest.mark.parametrize("data", [b"nonsense", b'{"type":"response.created","response":5}'])
    def test_broken_events_fail(self, data: bytes) -> None:
        found, made = shown(b"event: response.created\ndata: " + data + b"\n\n")
        assert "error" in [event["type"] for event in found]
        assert made.outcome.fault is not None

    def test_items_go_on_under_their_ids(self) -> None:
        """From the first odd event on the stream is translated; the client sees one response."""
        odd = [event for event in EVENTS if event["type"] != "response.output_text.done"]
        number = next(
            at for at, event in enumerate(odd) if event["type"] == "response.output_text.delta"
        )
        odd[number + 1] = {**odd[number + 1], "item_id": "other"}
        found, made = shown(stream_of(odd))
        assert made.outcome.fault is None
        assert [event["sequence_number"] for event in found] == list(range(len(found)))
        added = [event for event in found if event["type"] == "response.output_item.added"]
        done = [event for event in found if event["type"] == "response.output_item.done"]
        ids = [event["item"]["id"] for event in added]
        assert ids == [event["item"]["id"] for event in done]
        assert ids == [item["id"] for item in found[-1]["response"]["output"]]
        assert ids[:2] == [item["id"] for item in ANSWER["output"][:2]]
        assert [event["output_index"] for event in added] == [0, 1, 2]

    def test_an_output_that_nobody_listed_is_listed(self) -> None:
        """Clients read the items in the last event."""
        last = {**EVENTS[-1], "response": {**ANSWER, "output": []}}
        found, _ = shown(stream_of([*EVENTS[:-1], last]))
        assert found[:-1] == decoded(STREAM)[:-1]
        assert found[-1]["response"]["output"] == ANSWER["output"]


PART = {"item_id": "msg_u1", "output_index": 0, "content_index": 0}


@pytest.mark.parametrize(
    ("event", "begun"),
    [
        ({"type": "keepalive"}, False),
        ({"type": "response.output_text.delta", **PART, "delta": ""}, False),
        ({"type": "response.output_text.delta", **PART, "delta": "x"}, True),
        ({"type": "response.output_text.done", **PART, "text": ""}, False),
        ({"type": "response.web_search_call.searching"}, True),
    ],
)
def test_an_answer_has_begun_with_its_content(event: JsonObject, begun: bool) -> None:
    """Before it another account could still answer."""
    made = answer()
    made.feed(stream_of([*events_of(response(message(text("x"))))[:4], event]))
    assert made.begun is begun


def test_a_call_begins_an_answer() -> None:
    made = answer()
    made.feed(stream_of(events_of(response(call('{"a":1}')))[:3]))
    assert made.begun


def test_the_keepalive_is_a_comment() -> None:
    """A `ping` event makes openai-node throw. req: 129"""
    assert CODEC.translate.keepalive == b": keepalive\n\n"
    assert Decoder().feed(CODEC.translate.keepalive) == []
