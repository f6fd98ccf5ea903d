"""Between the same protocol bytes pass as they came; only the model's name may change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.options import Capabilities
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import Relay
from dragoman.protocols.openai_responses import CODEC
from dragoman.sse import Decoder
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
STREAM = stream_of(events_of(ANSWER))
USAGE = Usage(input=9, output=5, cached=4, cache_write=2, reasoning=3)
MEMBERS = msgspec.json.Decoder(dict[str, Raw])


def decoded(stream: bytes) -> list[JsonObject]:
    """The data of a stream's events."""
    return [msgspec.json.decode(frame.data) for frame in Decoder().feed(stream)]


def relayed(stream: bytes, model: str | None = None) -> tuple[bytes, Relay]:
    """What passes of a stream, and the relay after it."""
    relay = CODEC.passthrough.relay(model, False)
    decoder = Decoder()
    passed = b"".join(relay.relay(frame) for frame in decoder.feed(stream))
    return passed + relay.finish(), relay


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

    BODY = b'{ "id":"resp_1", "model": "real","output":[ {"x" : 1} ],"usage":null , "y":1.0}'

    def test_the_same_name_keeps_every_byte(self) -> None:
        body = self.BODY.replace(b' "real"', b'"real"')
        assert CODEC.passthrough.forward_response(body, "real")[:2] == (body, None)

    def test_another_name_keeps_all_other_values(self) -> None:
        """The reply names the model the client asked for. req: 150"""
        body, *_ = CODEC.passthrough.forward_response(self.BODY, "shown")
        members = MEMBERS.decode(body)
        assert bytes(members["model"]) == b'"shown"'
        assert bytes(members["output"]) == b'[ {"x" : 1} ]'
        assert bytes(members["y"]) == b"1.0"

    def test_a_name_that_is_no_text_is_replaced(self) -> None:
        body = self.BODY.replace(b' "real"', b'"r\xffal"')
        expected = self.BODY.replace(b' "real"', b'"shown"')
        passed, *_ = CODEC.passthrough.forward_response(body, "shown")
        assert MEMBERS.decode(passed) == MEMBERS.decode(expected)

    def test_usage_is_seen(self) -> None:
        body = msgspec.json.encode(ANSWER)
        assert CODEC.passthrough.forward_response(body, "upstream-model")[:2] == (body, USAGE)

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
        with pytest.raises(UpstreamError) as raised:
            CODEC.passthrough.forward_response(body, "m")
        assert raised.value.fault.kind is kind


class TestStreams:
    """Streams toward the client."""

    @pytest.mark.parametrize("named", [True, False])
    def test_bytes_pass_unchanged(self, named: bool) -> None:
        """Events without a name get it, for some clients ignore the others."""
        passed, relay = relayed(stream_of(events_of(ANSWER), named))
        assert passed == STREAM
        assert (relay.usage, relay.ended, relay.fault) == (USAGE, True, None)

    def test_what_nobody_knows_passes_too(self) -> None:
        odd = b'event: response.mystery\ndata: {"type":"response.mystery" , "x":1.0}\n\n'
        stream = STREAM.replace(b"event: response.output_item.added", odd + b"event: x", 1)
        passed, _ = relayed(stream + b"data: [DONE]\n\n")
        assert passed == stream + b"data: [DONE]\n\n"

    @pytest.mark.parametrize("named", [True, False])
    def test_another_name_of_the_model(self, named: bool) -> None:
        """req: 150"""
        stream = stream_of(events_of(ANSWER), named)
        passed, _ = relayed(stream, "shown")
        expected, found = decoded(stream), decoded(passed)
        for event in expected:
            if "response" in event:
                event["response"] = {**event["response"], "model": "shown"}
        assert found == expected
        same, _ = relayed(stream, "upstream-model")
        assert same == STREAM

    def test_a_name_of_the_model_that_is_no_text(self) -> None:
        broken = STREAM.replace(b'"upstream-model"', b'"\xff"')
        assert broken != STREAM
        passed, relay = relayed(broken, "upstream-model")
        assert passed == STREAM
        assert (relay.answer_id, relay.usage, relay.fault) == (ANSWER["id"], USAGE, None)

    @pytest.mark.parametrize(
        ("events", "kind"),
        [
            (
                [
                    *events_of(ANSWER)[:3],
                    {
                        "type": "response.failed",
                        "response": response(
                            status="failed",
                            error={"code": "rate_limit_exceeded", "message": "slow"},
                        ),
                    },
                ],
                FaultKind.RATE_LIMITED,
            ),
            (
                [{"type": "error", "code": "server_error", "message": "x"}],
                FaultKind.UPSTREAM_FAILED,
            ),
            (
                [{"type": "error", "error": {"code": "insufficient_quota", "message": "x"}}],
                FaultKind.PAYMENT_REQUIRED,
            ),
        ],
    )
    def test_an_upstreams_own_error_passes_and_is_seen(
        self, events: list[JsonObject], kind: FaultKind
    ) -> None:
        stream = stream_of(events)
        passed, relay = relayed(stream)
        assert passed == stream
        assert relay.ended
        assert relay.fault is not None
        assert relay.fault.kind is kind

    def test_an_upstreams_error_is_completed_by_the_failed_response(self) -> None:
        begun = {"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1"}}
        error = {"type": "error", "sequence_number": 1, "error": {"message": "no", "code": "c"}}
        passed, relay = relayed(stream_of([begun, error]))
        assert relay.fault is not None
        failed = decoded(passed)[-1]
        assert failed["type"] == "response.failed"
        assert failed["sequence_number"] == 2
        assert failed["response"]["id"] == "resp_1"
        assert failed["response"]["error"]["message"] == "Provider returned error: no"

    def test_text_that_looks_like_an_event_is_only_text(self) -> None:
        told = '{"type":"response.completed"} "error"'
        events = events_of(response(message(text(told))))
        passed, relay = relayed(stream_of(events, named=False))
        assert passed == stream_of(events)
        assert (relay.ended, relay.fault) == (True, None)

    @pytest.mark.parametrize("kept", range(1, 12))
    @pytest.mark.parametrize("model", [None, "shown"])
    def test_a_stream_that_is_cut_off_ends_in_an_error(self, kept: int, model: str | None) -> None:
        """Never a false success. req: 115"""
        begun = events_of(ANSWER)[:kept]
        passed, relay = relayed(stream_of(begun), model)
        events = decoded(passed)
        assert len(events) == kept + 2
        assert [event["sequence_number"] for event in events] == list(range(kept + 2))
        told, last = events[-2:]
        assert told["type"] == "error"
        assert told["error"]["message"] == told["message"]
        assert last["type"] == "response.failed"
        assert last["response"]["status"] == "failed"
        assert last["response"]["error"]["code"] == "server_error"
        assert last["response"]["id"] == events[0]["response"]["id"]
        assert last["response"]["model"] == (model or "upstream-model")
        assert relay.fault is not None
        assert not relay.ended

    def test_a_stream_that_never_began_ends_in_an_error(self) -> None:
        passed, _ = relayed(b"")
        (told,) = decoded(passed)
        assert told["type"] == "error"

    def test_a_failure_of_ours_is_told(self) -> None:
        relay: Any = CODEC.passthrough.relay(None, False)
        for frame in Decoder().feed(stream_of(events_of(ANSWER)[:4])):
            relay.relay(frame)
        fault = Fault(FaultKind.UPSTREAM_TIMEOUT, "too slow")
        told, last = decoded(relay.fail(fault))
        assert (told["sequence_number"], last["sequence_number"]) == (4, 5)
        assert told["code"] == told["error"]["code"] == "ETIMEDOUT"
        assert relay.fault is fault

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
        relay: Any = CODEC.passthrough.relay(
            "mine", False, {"previous_response_id": "resp_0", "id": "r9"}
        )
        shown = {"id": "r1", "tools": tools, "model": "real", "previous_response_id": None}
        event = {"type": "response.created", "sequence_number": 0, "response": shown}
        data = msgspec.json.encode(event)
        if spaced:
            data = msgspec.json.format(data, indent=0)
            data = data.replace(b'{"model": "real"', b'{"model":"real"')
        (frame,) = Decoder().feed(b"event: response.created\ndata: " + data + b"\n\n")
        [told] = decoded(relay.relay(frame))
        right = {**shown, "id": "r9", "model": "mine", "previous_response_id": "resp_0"}
        assert told == {**event, "response": right}

    @pytest.mark.parametrize("data", [b"nonsense", b'{"type":"response.created","response":5}'])
    def test_broken_events_pass(self, data: bytes) -> None:
        stream = b"event: response.created\ndata: " + data + b"\n\n"
        relay: Any = CODEC.passthrough.relay("shown", False)
        (frame,) = Decoder().feed(stream)
        assert relay.relay(frame) == stream
        assert decoded(relay.finish())[0]["type"] == "error"


@pytest.mark.parametrize(
    ("event", "begun"),
    [
        ({"type": "keepalive"}, False),
        ({"type": "response.output_item.added", "item": {"type": "message"}}, False),
        ({"type": "response.output_item.added", "item": {"type": "function_call"}}, True),
        (
            {
                "type": "response.output_item.added",
                "item": {"type": "reasoning", "summary": [{"text": ""}]},
            },
            False,
        ),
        (
            {
                "type": "response.output_item.added",
                "item": {"type": "reasoning", "summary": [{"text": "x"}]},
            },
            True,
        ),
        (
            {
                "type": "response.content_part.added",
                "part": {"type": "output_text", "text": ""},
            },
            False,
        ),
        (
            {
                "type": "response.content_part.done",
                "part": {"type": "refusal", "refusal": "x"},
            },
            True,
        ),
        ({"type": "response.output_text.delta", "delta": ""}, False),
        ({"type": "response.output_text.delta", "delta": "x"}, True),
        ({"type": "response.output_text.done", "text": ""}, False),
        ({"type": "response.output_text.done", "text": "x"}, True),
        ({"type": "response.refusal.done", "refusal": ""}, False),
        ({"type": "response.web_search_call.searching"}, True),
    ],
)
def test_an_answer_has_begun_with_its_content(event: JsonObject, begun: bool) -> None:
    """Before it another account could still answer."""
    _, relay = relayed(stream_of([event]))
    assert relay.begun is begun


def test_the_keepalive_is_a_comment() -> None:
    """A `ping` event makes openai-node throw. req: 129"""
    assert CODEC.translate.keepalive == b": keepalive\n\n"
    assert Decoder().feed(CODEC.translate.keepalive) == []
