"""Google's generateContent on both sides: bytes pass, only what must change changes."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from dragoman.canonical.blocks import Opaque, Reasoning
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import FaultKind
from dragoman.canonical.options import Capabilities
from dragoman.canonical.usage import Usage
from dragoman.jsontext import members
from dragoman.protocols import CODECS, google_wire
from dragoman.protocols.base import Matcher
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.presets import completed
from dragoman.sse import Decoder
from dragoman.translation import Call, CallSettings, ClientRequest

JsonObject = dict[str, Any]
CODEC = CODECS[wire.NAME]
STUDIO = "https://generativelanguage.googleapis.com"
ENVELOPE = base64.b64encode(
    Sealer().seal(Reasoning(opaque=Opaque("anthropic_messages", "c2ln"))).encode()
).decode()
NAMED = '"modelVersion":"gemini-3.8-flash","responseId":"dgm-resp-1"'


def frames(*bodies: str) -> bytes:
    """A stream as the service writes it."""
    return "".join(f"data: {body[:-1]},{NAMED}}}\r\n\r\n" for body in bodies).encode()


def said(text: str, more: str = "") -> str:
    part = json.dumps({"text": text})
    counts = '"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":5,"totalTokenCount":12}'
    content = f'"content":{{"parts":[{part}],"role":"model"}}'
    return f'{{"candidates":[{{{content}{more},"index":0}}],{counts}}}'


STOP = ',"finishReason":"STOP"'
CALL = (
    '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"glob","args":{"a": 1.0}},'
    '"thoughtSignature":"ZGdt"}],"role":"model"},"index":0}]}'
)
BLOCKED = '{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}'
GOLDEN = {
    "text": frames(said("The sky"), said(" is blue."), said("", STOP)),
    "call": frames(said("Well."), CALL, said("", STOP)),
    "blocked": frames(BLOCKED),
    "fault of the model": frames(said("a"), said("", ',"finishReason":"MALFORMED_FUNCTION_CALL"')),
    "continued": frames(said("a", ',"finishReason":"CONTINUATION","continuationToken":"AA=="')),
}


def passed(stream: bytes, model: str | None = None) -> tuple[bytes | None, Matcher]:
    """What a client is passed of a stream, None if it is not exact."""
    matcher, decoder = CODEC.passthrough.matcher(model, True, {}, 1), Decoder()
    shown: list[bytes] = []
    for frame in (*decoder.feed(stream), *decoder.finish()):
        exact = matcher.match(frame)
        if exact is None:
            return None, matcher
        shown.append(exact)
    rest = matcher.finish()
    return (None if rest is None else b"".join(shown) + rest), matcher


@pytest.mark.parametrize("stream", GOLDEN.values(), ids=GOLDEN)
def test_golden_streams_pass_byte_for_byte(stream: bytes) -> None:
    shown, matcher = passed(stream)
    assert shown == stream.replace(b"\r\n", b"\n")
    assert matcher.ended


def test_the_model_has_the_clients_name_and_all_else_its_bytes() -> None:
    shown, matcher = passed(GOLDEN["call"], "my-model")
    expected = GOLDEN["call"].replace(b"\r\n", b"\n")
    assert shown == expected.replace(b"gemini-3.8-flash", b"my-model")
    assert matcher.usage == Usage(input=7, output=5)
    assert matcher.reason == "STOP"


NOT_EXACT = {
    "no reason": frames(said("a")),
    "bare error": b'{"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}\n\n',
    "error without a code": b'data: {"error": "x"}\n\n',
    "array": b"data: [{}]\n\n",
    "refused for a signature": frames(said("", ',"finishReason":"MISSING_THOUGHT_SIGNATURE"')),
    "an account that is restricted": frames(said("", ',"finishReason":"PUP_LIMITED_DISABLED"')),
}


@pytest.mark.parametrize("stream", NOT_EXACT.values(), ids=NOT_EXACT)
def test_other_streams_do_not_pass(stream: bytes) -> None:
    shown, matcher = passed(stream)
    assert shown is None
    assert not matcher.ended


def test_an_error_in_the_form_that_clients_read_passes_and_is_known() -> None:
    error = b'data: {"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}\n\n'
    matcher, decoder = CODEC.passthrough.matcher(None, True, {}, 1), Decoder()
    (frame,) = decoder.feed(error)
    assert matcher.match(frame) == error
    assert matcher.fault is not None
    assert matcher.fault.kind is FaultKind.OVERLOADED


def test_whole_answers_pass_under_the_clients_name() -> None:
    body = f"{said('hi', STOP)[:-1]},{NAMED}}}".encode()
    found = CODEC.passthrough.match_response(body, "mine")
    assert found is not None
    assert found.body == body.replace(b"gemini-3.8-flash", b"mine")
    assert (found.usage, found.reason) == (Usage(input=7, output=5), "STOP")
    for odd in (b"[]", b"{}", b'{"error":{"code":1,"message":"x"}}', said("a").encode()):
        assert CODEC.passthrough.match_response(odd, "mine") is None


# --- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "asked"), [(b"{}", 1), (b'{"candidateCount":3}', 3), (b'{"candidateCount":0}', 1)]
)
def test_how_many_candidates_are_asked_for(config: bytes, asked: int) -> None:
    assert CODEC.passthrough.choices({"generationConfig": msgspec.Raw(config)}) == asked


def forwarded(
    body: JsonObject, model: str = "gemini-3.5-flash", without: int = 0
) -> tuple[JsonObject, list[tuple[str, str]]]:
    """What an upstream gets of a client's body, and the losses."""
    operation = CODEC.endpoint.operation_of(f"/v1/models/{model}:generateContent", "")
    request = ClientRequest(wire.NAME, json.dumps(body).encode(), operation=operation)
    able = completed(Capabilities(), wire.NAME, STUDIO, model)
    call = Call(request, wire.NAME, CallSettings(model=model, capabilities=able))
    if without:
        call.drop_reasoning(least=without)
    sent = msgspec.json.decode(call.body)
    return sent, [(loss.path, loss.kind.value) for loss in call.losses]


def history(**call: str) -> list[JsonObject]:
    return [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f"}, **call}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
    ]


def test_own_signatures_pass_unchanged() -> None:
    body = {"contents": history(thoughtSignature="c2ln"), "futureMember": {"a": 1}}
    assert forwarded(body) == (body, [])


def test_neighbouring_contents_of_the_model_are_one_turn() -> None:
    contents = history(thoughtSignature="c2ln")
    contents.insert(2, {"role": "model", "parts": [{"functionCall": {"name": "g"}}]})
    assert forwarded({"contents": contents})[0]["contents"] == contents


SEALED = {"camel": "thoughtSignature", "snake": "thought_signature"}


@pytest.mark.parametrize("name", SEALED.values(), ids=SEALED)
def test_state_of_others_becomes_a_placeholder(name: str) -> None:
    sent, losses = forwarded({"contents": history(**{name: ENVELOPE})})
    assert sent["contents"] == history(thoughtSignature=google_wire.DUMMY)
    assert [kind for _, kind in losses] == ["knob", "repaired"]
    sent, _ = forwarded({"contents": history(**{name: ENVELOPE})}, "gemini-2.5-pro")
    assert sent["contents"] == history()


def test_signatures_of_another_account_are_replaced() -> None:
    contents = history(thoughtSignature="c2ln")
    contents[1]["parts"].append({"text": "", "thoughtSignature": "bGFzdA=="})
    sent, losses = forwarded({"contents": contents}, without=9)
    assert sent["contents"] == history(thoughtSignature=google_wire.DUMMY)
    assert len(losses) == 3


def test_levels_are_not_sent_to_models_with_budgets() -> None:
    config = {"thinkingConfig": {"thinkingLevel": "LOW", "include_thoughts": True}}
    body = {"contents": history(), "generation_config": config}
    sent, losses = forwarded(body, "gemini-2.5-flash")
    thinking = {"include_thoughts": True, "thinkingBudget": 1024}
    assert sent["generation_config"] == {"thinkingConfig": thinking}
    assert losses == [("generationConfig.thinkingConfig.thinkingLevel", "converted")]


def test_the_beginning_of_a_conversation_stays() -> None:
    short = {"system_instruction": {"parts": [{"text": "s"}]}, "contents": history()[:1]}
    long = {**short, "contents": history()}
    one, other = (
        CODEC.passthrough.beginning(members(json.dumps(body).encode())) for body in (short, long)
    )
    assert one.is_all
    assert not other.is_all
    assert one.text == other.text
