"""The Interactions API on both sides: bytes pass, only what must change changes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.blocks import Opaque, Reasoning
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.losses import Ledger
from dragoman.canonical.usage import Usage
from dragoman.jsontext import decode, members
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json
from dragoman.protocols.settings import make_capabilities
from dragoman.sse import Decoder
from dragoman.translation import Call, CallSettings, ClientRequest

JsonObject = dict[str, Any]
NAME = "google_interactions"
CODEC = CODECS[NAME]
GOLDEN = (Path(__file__).parents[2] / "golden" / "interactions.sse").read_bytes()
ENVELOPE = base64.b64encode(
    Sealer().seal(Reasoning(opaque=Opaque("anthropic_messages", "c2ln"))).encode()
).decode()
HI = {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}
THOUGHT = {"type": "thought", "signature": "c2lnLW9uZQ=="}
CALL = {"type": "function_call", "id": "c1", "name": "find", "arguments": {"a": 1.0}}
RESULT = {"type": "function_result", "call_id": "c1", "name": "find", "result": "found"}


def call(model: str | None = None, **body: Any) -> Call:
    """A request on its way to an upstream of the same protocol."""
    request = ClientRequest(NAME, to_json({"model": "m", "input": "Hi", "stream": True, **body}))
    return Call(request, NAME, CallSettings(model=model))


def test_a_request_passes_but_is_not_to_be_kept() -> None:
    steps = [HI, THOUGHT, CALL, RESULT]
    sent = decode(call("gemini-3", input=steps, store=True, future={"a": [1]}).body)
    assert sent == {
        "model": "gemini-3",
        "input": steps,
        "stream": True,
        "store": False,
        "future": {"a": [1]},
    }


def test_thoughts_of_another_vendor_are_not_sent() -> None:
    made = call(input=[HI, {**THOUGHT, "signature": ENVELOPE}, CALL, RESULT])
    assert decode(made.body)["input"] == [HI, CALL, RESULT]
    assert [loss.path for loss in made.losses] == ["input[1]"]


def test_signed_thoughts_are_left_out_after_a_refusal() -> None:
    given = members(to_json({"input": [HI, THOUGHT, CALL, RESULT, THOUGHT]}))
    left, count = CODEC.passthrough.without_reasoning(given, Ledger(), 1)
    assert (decode(left["input"]), count) == ([HI, CALL, RESULT, THOUGHT], 1)


def test_an_output_limit_is_fitted() -> None:
    capabilities = make_capabilities(max_output_tokens=5)
    request = ClientRequest(
        NAME, to_json({"model": "m", "input": "Hi", "generation_config": {"max_output_tokens": 9}})
    )
    sent = Call(request, NAME, CallSettings(capabilities=capabilities)).body
    assert decode(sent)["generation_config"] == {"max_output_tokens": 5}


def test_the_example_passes_byte_for_byte() -> None:
    made = call("gemini-3.5-flash")
    made._source.model = "gemini-3.5-flash"
    stream = made.open_stream()
    assert stream.feed(GOLDEN) + stream.finish() == GOLDEN
    assert stream.outcome.usage == Usage(input=70, output=69, cached=16, reasoning=38)
    assert stream.outcome.ended
    assert stream.answer_id == "v1_dgm0"


def test_the_client_is_shown_its_own_name_of_the_model() -> None:
    stream = call().open_stream()
    passed = stream.feed(GOLDEN) + stream.finish()
    named = {
        json.loads(frame.data)["interaction"]["model"]
        for frame in Decoder().feed(passed)
        if b'"interaction":' in frame.data
    }
    assert named == {"m"}


@pytest.mark.parametrize("end", [b"", b"data: [DO"])
def test_the_last_frame_is_added(end: bytes) -> None:
    stream = call().open_stream()
    body = GOLDEN[: GOLDEN.index(b"event: done")] + end
    passed = stream.feed(body) + stream.finish()
    assert passed.endswith(b"event: done\ndata: [DONE]\n\n")
    assert stream.outcome.ended


def test_a_stream_that_breaks_off_ends_with_an_error() -> None:
    stream = call().open_stream()
    cut = GOLDEN[: GOLDEN.index(b'"arguments":"\\"Oslo')]
    passed = stream.feed(cut) + stream.finish()
    frames = Decoder().feed(passed)
    assert [frame.event for frame in frames[-2:]] == [b"error", b"done"]
    assert json.loads(frames[-2].data)["error"]["code"] == "api_error"
    assert b'"Oslo' not in passed
    assert not stream.outcome.ended


def test_what_is_not_exact_is_written_from_there_on() -> None:
    """The client sees no seam: indices and numbers of events go on."""
    stream = call(generation_config={"thinking_summaries": "auto"}).open_stream()
    at = GOLDEN.index(b'event: step.stop\ndata: {"event_type":"step.stop","index":1')
    odd = GOLDEN[at:].replace(b'"index":1,', b'"index":"1",', 1)
    passed = stream.feed(GOLDEN[:at] + odd) + stream.finish()
    frames = [json.loads(frame.data) for frame in Decoder().feed(passed)[:-1]]
    started = [frame["index"] for frame in frames if frame["event_type"] == "step.start"]
    stopped = [frame["index"] for frame in frames if frame["event_type"] == "step.stop"]
    assert started == [0, 1, 2, 3]
    assert sorted(set(stopped)) == stopped
    assert len({frame["event_id"] for frame in frames}) == len(frames)
    assert frames[-1]["interaction"]["status"] == "requires_action"


def test_a_whole_answer_passes() -> None:
    answer = {
        "id": "v1_x",
        "object": "interaction",
        "model": "gemini-3",
        "status": "completed",
        "steps": [{"type": "model_output", "content": [{"type": "text", "text": "a"}]}],
        "usage": {"total_input_tokens": 7, "total_output_tokens": 5},
    }
    passed = CODEC.passthrough.match_response(to_json(answer), "m")
    assert passed is not None
    assert decode(passed.body) == {**answer, "model": "m"}
    assert (passed.usage, passed.reason) == (Usage(input=7, output=5), "completed")
    for changed in ({"status": "failed"}, {"status": "in_progress"}, {"errors": [{"code": "x"}]}):
        assert CODEC.passthrough.match_response(to_json({**answer, **changed}), "m") is None


def test_the_beginning_of_a_conversation_stays_the_same() -> None:
    beginning = CODEC.passthrough.beginning
    first = beginning(members(to_json({"input": [HI]})))
    later = beginning(members(to_json({"input": [HI, THOUGHT, CALL, RESULT]})))
    assert first.text == later.text
    assert (first.is_all, later.is_all) == (True, False)
    assert beginning(members(to_json({"input": "Hi"}))).text == first.text
