"""Every scenario in every protocol, full and streaming: grammar, types, and the fold."""

from __future__ import annotations

import json
from typing import Any, get_args

import anthropic
import openai
import pytest

from dragoman.lab.simulator.frames import FRAMINGS
from dragoman.lab.simulator.registry import named_scenarios
from dragoman.lab.simulator.rendering import QUIRKS
from dragoman.lab.simulator.script import FaultKind, Protocol
from dragoman.lab.simulator.testing import RunningSimulator
from tests.simulator.grammar import STREAM_CHECKS, check_full
from tests.simulator.requests import PROTOCOLS, SCHEMA, JsonObject, plain, post, rich

PLAIN_SCENARIOS = sorted(
    set(named_scenarios()) - set(FRAMINGS) - set(QUIRKS) - set(get_args(FaultKind))
)
NATIVELY_IMPOSSIBLE: dict[tuple[str, Protocol], str] = {
    ("namespace_tool", "chat"): "needs tool namespaces",
    ("namespace_tool", "messages"): "needs tool namespaces",
    ("redacted_thinking", "chat"): "no redacted reasoning",
    ("two_choices", "messages"): "exactly one message",
    ("two_choices", "responses"): "exactly one answer",
    ("stop_sequence", "responses"): "needs stop sequences",
    ("hosted_search", "chat"): "needs the vendor's web search",
    ("pause_turn", "chat"): "no paused turns",
    ("pause_turn", "responses"): "no paused turns",
    ("logprobs", "messages"): "needs log probabilities",
}
ONLY_STREAMED = {("bad_arguments", "messages")}


def _sayable(protocol: Protocol) -> list[str]:
    """The scenarios that the protocol can say, less the one that no two requests share."""
    impossible = {name for name, where in NATIVELY_IMPOSSIBLE if where == protocol}
    return [name for name in PLAIN_SCENARIOS if name not in impossible | {"echo"}]


def _request(protocol: Protocol, scenario: str, *, stream: bool) -> JsonObject:
    """A request that gives the scenario what it needs. The seed makes two answers alike."""
    more: JsonObject = {"stream": stream}
    if scenario == "structured":
        more |= _structured(protocol)
    if scenario == "logprobs" and protocol == "chat":
        more |= {"logprobs": True, "top_logprobs": 2}
    if scenario == "logprobs" and protocol == "responses":
        more |= {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    options = "seed=7&events=20" if scenario == "flood" else "seed=7"
    return rich(protocol, f"sim-{scenario}?{options}", **more)


def _structured(protocol: Protocol) -> JsonObject:
    json_format = {"name": "person", "schema": SCHEMA, "strict": True}
    if protocol == "chat":
        return {"response_format": {"type": "json_schema", "json_schema": json_format}}
    if protocol == "messages":
        return {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    return {"text": {"format": {"type": "json_schema", **json_format}}}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("scenario", PLAIN_SCENARIOS)
def test_stream_and_full_answer_are_native_and_agree(
    simulator: RunningSimulator, scenario: str, protocol: Protocol
) -> None:
    streamed = post(simulator, protocol, _request(protocol, scenario, stream=True))
    full = post(simulator, protocol, _request(protocol, scenario, stream=False))
    if (reason := NATIVELY_IMPOSSIBLE.get((scenario, protocol))) is not None:
        for answer in (streamed, full):
            assert answer.status == 400
            assert reason in answer.json["error"]["message"]
        return
    assert streamed.status == 200, streamed.body
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = STREAM_CHECKS[protocol](streamed.body)
    if (scenario, protocol) in ONLY_STREAMED:
        assert full.status == 400
        assert "without a stream" in full.json["error"]["message"]
        return
    assert full.status == 200, full.body
    assert full.headers["content-type"] == "application/json"
    check_full(protocol, full.json)
    if scenario == "echo":  # the two requests differ, so what they echo differs
        return
    assert FOLDS[protocol](events) == full.json


def _fold_chat(chunks: list[JsonObject]) -> JsonObject:
    head = {key: chunks[0][key] for key in ("id", "created", "model")}
    messages: dict[int, JsonObject] = {}
    ends: dict[int, JsonObject] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            message = messages.setdefault(
                choice["index"],
                {"role": "assistant", "content": None, "refusal": None, "annotations": []},
            )
            end = ends.setdefault(choice["index"], {"logprobs": None})
            _fold_delta(message, choice["delta"])
            end["finish_reason"] = choice["finish_reason"]
            if choice["logprobs"] is not None:
                seen = end["logprobs"] or {"content": [], "refusal": None}
                seen["content"] += choice["logprobs"]["content"]
                end["logprobs"] = seen
    return {
        **head,
        "object": "chat.completion",
        "choices": [
            {"index": index, "message": messages[index], **ends[index]} for index in sorted(ends)
        ],
        "service_tier": chunks[0]["service_tier"],
        "system_fingerprint": chunks[0]["system_fingerprint"],
        "usage": chunks[-1]["usage"],
    }


def _fold_delta(message: JsonObject, delta: JsonObject) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            calls = message.setdefault("tool_calls", [])
            for fragment in value:
                _fold_call(calls, fragment)
        elif name == "annotations":
            message[name] = value
        elif name != "role" and value is not None:
            message[name] = (message.get(name) or "") + value


def _fold_call(calls: list[JsonObject], fragment: JsonObject) -> None:
    if "id" in fragment:
        calls.append({key: value for key, value in fragment.items() if key != "index"})
        return
    call = calls[fragment["index"]]
    for name, text in fragment[call["type"]].items():
        call[call["type"]][name] += text


def _fold_messages(events: list[JsonObject]) -> JsonObject:
    message: JsonObject = dict(events[0]["message"])
    blocks: list[JsonObject] = []
    arguments = ""
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
            arguments = ""
        elif event["type"] == "content_block_delta":
            block, delta = blocks[-1], event["delta"]
            match delta["type"]:
                case "text_delta":
                    block["text"] += delta["text"]
                case "thinking_delta":
                    block["thinking"] += delta["thinking"]
                case "signature_delta":
                    block["signature"] = delta["signature"]
                case "citations_delta":
                    block["citations"].append(delta["citation"])
                case "input_json_delta":
                    arguments += delta["partial_json"]
        elif event["type"] == "content_block_stop" and arguments:
            try:
                blocks[-1]["input"] = json.loads(arguments)
            except json.JSONDecodeError:
                blocks[-1]["input"] = {}
        elif event["type"] == "message_delta":
            message |= event["delta"]
            message["usage"] |= event["usage"]
    return message | {"content": blocks}


def _fold_responses(events: list[JsonObject]) -> JsonObject:
    response: JsonObject = events[-1]["response"]
    return response


FOLDS: dict[Protocol, Any] = {
    "chat": _fold_chat,
    "messages": _fold_messages,
    "responses": _fold_responses,
}

RAISES_IN_CHAT_HELPER = {
    "length": openai.LengthFinishReasonError,
    "length_tool": openai.LengthFinishReasonError,
    "context_window": openai.LengthFinishReasonError,
    "content_filter": openai.ContentFilterFinishReasonError,
    # The stream helper of openai-python has no type for free-text tools.
    "custom_tool": AttributeError,
    "agent": AttributeError,  # it writes with the free-text tool
}
INCOMPLETE = {"length", "length_tool", "context_window", "content_filter"}


@pytest.mark.parametrize("scenario", _sayable("chat"))
def test_the_chat_helper_of_the_sdk_rebuilds_the_answer(
    simulator: RunningSimulator, openai_client: openai.OpenAI, scenario: str
) -> None:
    request = _request("chat", scenario, stream=True)
    del request["stream"]
    with openai_client.chat.completions.stream(**request) as stream:
        for _ in stream:
            pass
        if (error := RAISES_IN_CHAT_HELPER.get(scenario)) is not None:
            with pytest.raises(error):
                stream.get_final_completion()
            return
        final = stream.get_final_completion()
    del request["stream_options"]
    full = openai_client.chat.completions.create(**request)
    ours, theirs = _plain(final), _plain(full)
    for message in (choice["message"] for choice in (*ours["choices"], *theirs["choices"])):
        message.pop("parsed", None)
        message.pop("annotations", None)
        for call in message.get("tool_calls", ()):
            call.get("function", {}).pop("parsed_arguments", None)
            call.pop("index", None)
    assert ours == theirs


@pytest.mark.parametrize("scenario", _sayable("messages"))
def test_the_messages_helper_of_the_sdk_rebuilds_the_answer(
    simulator: RunningSimulator, anthropic_client: anthropic.Anthropic, scenario: str
) -> None:
    request = _request("messages", scenario, stream=True)
    del request["stream"]
    if scenario == "bad_arguments":
        with (
            pytest.raises(ValueError, match="parse tool parameter JSON"),
            anthropic_client.messages.stream(**request) as stream,
        ):
            stream.get_final_message()
        return
    with anthropic_client.messages.stream(**request) as stream:
        final = _plain(stream.get_final_message())
    full = _plain(anthropic_client.messages.create(**request))
    for block in final["content"]:
        block.pop("parsed_output", None)
        if scenario == "length_tool":
            block["input"] = {}
    assert final == full


@pytest.mark.parametrize("scenario", _sayable("responses"))
def test_the_responses_helper_of_the_sdk_rebuilds_the_answer(
    simulator: RunningSimulator, openai_client: openai.OpenAI, scenario: str
) -> None:
    request = _request("responses", scenario, stream=True)
    del request["stream"]
    if scenario in ("bad_arguments", "empty_arguments", "length_tool"):
        # A strict tool's arguments are parsed by the helper, which these can't be.
        for tool in request["tools"]:
            tool.pop("strict", None)
    with openai_client.responses.stream(**request) as stream:
        kinds = [event.type for event in stream]
        if scenario in INCOMPLETE:
            assert kinds[-1] == "response.incomplete"
            with pytest.raises(RuntimeError):
                stream.get_final_response()
            return
        final = _plain(stream.get_final_response())
    full = _plain(openai_client.responses.create(**request))
    for item in final["output"]:
        item.pop("parsed_arguments", None)
        for part in item.get("content", ()):
            part.pop("parsed", None)
    assert final == full


def _plain(model: Any) -> JsonObject:
    dumped: JsonObject = model.model_dump(exclude_none=True, warnings=False)
    return dumped


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_seed_gives_the_same_bytes(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    request = plain(protocol, "sim-text?seed=3", stream=True)
    assert post(simulator, protocol, request).body == post(simulator, protocol, request).body


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ids_differ_from_answer_to_answer(simulator: RunningSimulator, protocol: Protocol) -> None:
    request = plain(protocol, "sim-text")
    ids = {post(simulator, protocol, request).json["id"] for _ in range(3)}
    assert len(ids) == 3
