"""The simulated Interactions API: what it takes and refuses, and how Google's own SDK hears it."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from google import genai
from google.genai import types
from google.genai._gaos.types.interactions import Interaction, InteractionSSEEvent
from google.genai._interactions_errors import BadRequestError, NotFoundError
from pydantic import TypeAdapter

from dragoman.lab.simulator.frames import FRAMINGS
from dragoman.lab.simulator.registry import named_scenarios
from dragoman.lab.simulator.rendering import QUIRKS
from dragoman.lab.simulator.script import FaultKind
from dragoman.lab.simulator.testing import RunningSimulator
from tests.simulator.google import FILE
from tests.simulator.interactions import (
    HEADERS,
    PATH,
    SUMMARIES,
    TOOLS,
    ask,
    events,
    folded,
    results,
    say,
    text_of,
)
from tests.simulator.requests import KEY, SCHEMA, JsonObject, call

SCENARIOS = sorted(set(named_scenarios()) - set(FRAMINGS) - set(QUIRKS) - set(get_args(FaultKind)))
IMPOSSIBLE = {
    "custom_tool": "needs a free-text tool",
    "namespace_tool": "needs tool namespaces",
    "pause_turn": "no paused turns",
    "two_choices": "exactly one answer",
    "logprobs": "a request for log probabilities",
}
BLOCKED = {"refusal": "content_blocked", "content_filter": "safety"}
EVENT: TypeAdapter[Any] = TypeAdapter(InteractionSSEEvent)


@pytest.fixture(scope="module")
def client(shared_simulator: RunningSimulator) -> Iterator[genai.Client]:
    options = types.HttpOptions(base_url=shared_simulator.base_url)
    with warnings.catch_warnings(), genai.Client(api_key=KEY, http_options=options) as made:
        warnings.simplefilter("ignore")
        yield made


def _request(scenario: str) -> JsonObject:
    writer = {"type": "function", "name": "write_file", "parameters": FILE}
    tools = [*TOOLS, writer, {"type": "google_search"}]
    asked: JsonObject = {"tools": tools, **SUMMARIES}
    if scenario == "structured":
        text = {"type": "text", "mime_type": "application/json", "schema": SCHEMA}
        asked["response_format"] = text
    if scenario == "stop_sequence":
        asked["generation_config"] = {"stop_sequences": ["END"]}
    return asked


def joined(steps: list[JsonObject]) -> list[JsonObject]:
    """The steps with the parts of each summary joined, as a stream has them."""
    for summary in (step["summary"] for step in steps if "summary" in step):
        summary[:] = [{"type": "text", "text": "".join(part["text"] for part in summary)}]
    return steps


@pytest.mark.parametrize("scenario", sorted(set(SCENARIOS) - set(IMPOSSIBLE) - set(BLOCKED)))
def test_stream_and_whole_answer_are_native_and_agree(
    simulator: RunningSimulator, scenario: str
) -> None:
    name = f"sim-{scenario}?seed=7" + ("&events=20" if scenario == "flood" else "")
    whole = ask(simulator, name, **_request(scenario))
    streamed = ask(simulator, name, **_request(scenario), stream=True)
    assert whole.status == streamed.status == 200, whole.body
    found = events(streamed.body)
    steps = whole.json["steps"]
    Interaction.model_validate(whole.json)
    for event in found:
        read = EVENT.validate_python(event)
        assert not getattr(read, "is_unknown", False)
        assert not getattr(getattr(read, "delta", None), "is_unknown", False)
    if scenario == "bad_arguments":
        assert (whole.json["status"], steps) == ("failed", [])
        assert found[-1]["error"]["code"] == "malformed_function_call"
        return
    assert [event["event_type"] for event in found[:2]] == [
        "interaction.created",
        "interaction.status_update",
    ]
    end = found[-1]["interaction"]
    assert end["status"] == whole.json["status"]
    if scenario != "echo":  # which says whether it is streamed
        assert end["usage"] == whole.json["usage"]
        assert folded(found) == joined(steps)
    ids = [event["event_id"] for event in found]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("scenario", IMPOSSIBLE)
def test_what_it_cannot_express_is_told(simulator: RunningSimulator, scenario: str) -> None:
    answer = ask(simulator, f"sim-{scenario}", tools=TOOLS)
    assert answer.status == 400
    assert IMPOSSIBLE[scenario] in answer.json["error"]["message"]


@pytest.mark.parametrize(("scenario", "code"), BLOCKED.items())
def test_a_filter_answers_with_an_error(
    simulator: RunningSimulator, scenario: str, code: str
) -> None:
    whole = ask(simulator, f"sim-{scenario}")
    assert (whole.status, whole.json["error"]["code"]) == (400, code)
    streamed = ask(simulator, f"sim-{scenario}", stream=True)
    error = streamed.json if streamed.status == 400 else events(streamed.body)[-1]
    assert error["error"]["code"] == code


CALLED: list[JsonObject] = [
    {"type": "thought", "signature": "skip_thought_signature_validator"},
    {"type": "function_call", "id": "c", "name": "f", "arguments": {}},
]
DONE: JsonObject = {"type": "function_result", "call_id": "c", "name": "f", "result": "ok"}
FUNCTION: JsonObject = {"type": "function", "name": "f"}


def said(*steps: JsonObject) -> JsonObject:
    return {"input": [say("x"), *steps]}


def content(**one: Any) -> JsonObject:
    return {"input": [one]}


REFUSED: list[tuple[JsonObject, str]] = [
    ({"agent": "deep-research"}, "Exactly one of model and agent"),
    ({"input": None}, "input is required"),
    ({"input": []}, "input"),
    ({"input": [{"type": "text", "text": "x"}, say("x")]}, "either contents or steps"),
    ({"input": [{"role": "user", "content": "x"}]}, "former schema"),
    ({"input": [{"type": "monologue"}]}, "Invalid value"),
    ({"top_k": 1}, "Unknown parameter 'top_k'"),
    ({"generation_config": {"candidate_count": 2}}, "Unknown parameter"),
    ({"generation_config": {"thinking_level": "none"}}, "Invalid enum value"),
    ({"generation_config": {"tool_choice": "any"}}, "without functions"),
    ({"tools": [FUNCTION, FUNCTION]}, "Duplicate function declaration"),
    ({"tools": [{**FUNCTION, "strict": True}]}, "Unknown parameter 'tools[0].strict'"),
    ({"tools": [FUNCTION], "generation_config": {"tool_choice": "maybe"}}, "Invalid enum value"),
    (
        {"generation_config": {"tool_choice": {"allowed_tools": {"tools": ["g"]}}}},
        "is not declared",
    ),
    ({"background": True, "store": False}, "background requires store"),
    ({"labels": {"X": "y"}}, "Invalid label"),
    ({"service_tier": "default"}, "Invalid enum value"),
    ({"response_format": {"type": "text", "schema": {"type": "object"}}}, "mime_type"),
    ({"response_format": {"type": "object", "$ref": "#/x"}}, "$ref"),
    (content(type="image"), "data and uri"),
    (content(type="image", data="%", mime_type="image/png"), "Base64"),
    (content(type="document", data="eA==", mime_type="text/plain"), "Unsupported MIME type"),
    (said({"type": "thought"}, say("y")), "must have a signature"),
    (said({"type": "thought", "signature": ""}, say("y")), "must have a signature"),
    (said({"type": "thought", "signature": "c2ln"}, say("y")), "Corrupted"),
    (said(CALLED[1], DONE), "missing a thought signature"),
    (said(*CALLED), "No result"),
    (said(*CALLED, say("y")), "No result"),
    (said(*CALLED, {**DONE, "name": "g"}), "answers a call of"),
    (said(*CALLED, {**DONE, "call_id": "d"}), "No function call"),
    (said(*CALLED, {**DONE, "id": "r"}), "Unknown parameter"),
    (said(DONE), "No function call"),
    (said(*CALLED, CALLED[1], DONE), "Duplicate function call id"),
    (said(CALLED[0], {**CALLED[1], "arguments": "{}"}, DONE), "Expected `object`"),
    (said({"type": "model_output", "content": []}), "must end with"),
]
"""Requests that are refused."""

ACCEPTED: list[JsonObject] = [
    {"input": {"type": "text", "text": "x"}},
    {"input": [{"type": "text", "text": "x"}, {"type": "image", "uri": "https://x/y.png"}]},
    said(*CALLED, DONE),
    said(*CALLED, {**DONE, "result": {"a": 1}, "is_error": True}),
    said(*CALLED, DONE, {"type": "model_output"}, say("y")),
    {"tools": [FUNCTION, {"type": "google_search"}], "labels": {"a": ""}},
    {"response_format": [{"type": "text", "mime_type": "text/plain"}, {"type": "image"}]},
    {"response_format": {"type": "object", "properties": {}}, "stream": None},
]


@pytest.mark.parametrize(("fields", "words"), REFUSED)
def test_a_wrong_request_is_refused(
    simulator: RunningSimulator, fields: JsonObject, words: str
) -> None:
    answer = call(simulator, "POST", PATH, {"model": "sim-text", "input": "x", **fields}, HEADERS)
    assert answer.status == 400, answer.body
    assert words in answer.json["error"]["message"]
    assert answer.json["error"]["code"] in ("invalid_request", "parameter_unknown")


@pytest.mark.parametrize("fields", ACCEPTED)
def test_a_right_request_is_answered(simulator: RunningSimulator, fields: JsonObject) -> None:
    answer = call(simulator, "POST", PATH, {"model": "sim-text", "input": "x", **fields}, HEADERS)
    assert answer.status == 200, answer.body


def test_keys_and_revisions(simulator: RunningSimulator) -> None:
    body = {"model": "sim-text", "input": "x"}
    plain = {"content-type": "application/json"}
    refused = call(simulator, "POST", PATH, body, {**plain, "authorization": f"Bearer {KEY}"})
    assert (refused.status, refused.json["error"]["code"]) == (401, "authentication")
    assert call(simulator, "POST", f"{PATH}?key={KEY}", body, plain).status == 200
    for revision, status in (("2026-05-20", 200), ("2026-01-01", 400)):
        headers = {**HEADERS, "api-revision": revision}
        assert call(simulator, "POST", "/v1beta/interactions", body, headers).status == status
    path = "/v1beta1/projects/p/locations/l/interactions"
    assert call(simulator, "POST", path, body, HEADERS).status == 200
    agent = call(simulator, "POST", PATH, {"agent": "a", "input": "x"}, HEADERS)
    assert (agent.status, agent.json["error"]["code"]) == (501, "unimplemented")


def test_a_tool_loop_keeps_its_signature(simulator: RunningSimulator) -> None:
    asked = {"tools": TOOLS, **SUMMARIES}
    steps = ask(simulator, "sim-reasoning_tool", "Go.", **asked).json["steps"]
    assert [step["type"] for step in steps] == ["thought", "function_call"]
    again = [say("Go."), *steps, *results(steps, "sunny")]
    assert text_of(ask(simulator, "sim-reasoning_tool", again, **asked).json).endswith("sunny")
    sealed = base64.b64decode(steps[0]["signature"])
    steps[0]["signature"] = base64.urlsafe_b64encode(sealed).decode()
    assert ask(simulator, "sim-reasoning_tool", again, **asked).status == 200
    steps[0]["summary"][0]["text"] += "!"
    altered = ask(simulator, "sim-reasoning_tool", again, **asked)
    assert "Corrupted thought signature" in altered.json["error"]["message"]


def test_odd_streams(simulator: RunningSimulator) -> None:
    def stream(directive: str) -> bytes:
        return ask(simulator, f"sim-text?{directive}", stream=True, store=False).body

    assert stream("quirks=done_event").endswith(b"event: done\ndata: [DONE]\n\n")
    unended = events(stream("quirks=no_finish"))
    assert [event["event_type"] for event in unended][-1] == "step.stop"
    assert "event_id" not in unended[0]
    assert "usage" not in events(stream("quirks=usage_none"))[-1]["interaction"]
    bare = ask(simulator, "sim-error_in_stream?quirks=bare_error&status=503", stream=True).body
    assert bare.rpartition(b"\n\n")[2].startswith(b'{"error":{"code":"service_unavailable"')
    failed = ask(simulator, "sim-error_in_stream?after=3&status=429", stream=True)
    assert events(failed.body)[-1]["error"]["code"] == "rate_limit_exceeded"
    limited = ask(simulator, "sim-429?retry_after=7")
    assert (limited.status, limited.headers["retry-after"]) == (429, "7")


# --- Google's SDK for Python ----------------------------------------------------------------------


def test_the_sdk_reads_streams_and_goes_on(client: genai.Client) -> None:
    interactions: Any = client.interactions
    asked = {"tools": TOOLS, **SUMMARIES}
    found = list(interactions.create(model="sim-parallel_tools", input="Go.", stream=True, **asked))
    last = found[-1]
    assert (last.event_type, last.interaction.status) == (
        "interaction.completed",
        "requires_action",
    )
    stored = interactions.get(last.interaction.id, include_input=True)
    assert stored.input == "Go."
    steps = [step.model_dump(exclude_none=True) for step in stored.steps or ()]
    assert [step["type"] for step in steps] == ["user_input", "thought", *["function_call"] * 2]
    outputs = results(steps, "sunny", "noon")
    answer = interactions.create(
        model="sim-parallel_tools",
        previous_interaction_id=last.interaction.id,
        input=outputs,
        **asked,
    )
    assert (answer.status, answer.output_text) == (
        "completed",
        "The tool answered: sunny; noon",
    )
    rest = list(interactions.get(last.interaction.id, stream=True, last_event_id="e3"))
    assert [event.event_id for event in rest] == [event.event_id for event in found[3:]]


def test_the_sdk_waits_cancels_and_deletes(client: genai.Client) -> None:
    interactions: Any = client.interactions
    begun = interactions.create(model="sim-text", input="hi", background=True)
    states = [begun.status, *(interactions.get(begun.id or "").status for _ in range(2))]
    assert states == ["in_progress", "in_progress", "completed"]
    with pytest.raises(BadRequestError):
        interactions.cancel(begun.id or "")
    other = interactions.create(model="sim-text", input="hi", background=True)
    assert interactions.cancel(other.id or "").status == "cancelled"
    interactions.delete(other.id or "")
    with pytest.raises(NotFoundError):
        interactions.get(other.id or "")


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_the_sdk_continues_by_itself(client: genai.Client, store: bool, stream: bool) -> None:
    model: Any = "sim-text?quirks=continuation&words=8"
    made: Any = client.interactions.create(model=model, input="hi", store=store, stream=stream)
    if stream:
        deltas = [event.delta.text for event in made if event.event_type == "step.delta"]
        assert "".join(deltas).startswith("The dragoman stood")
        assert len("".join(deltas).split()) == 8
        return
    assert len(made.output_text.split()) == 8
    assert len(made.continuation_ids) == 2
