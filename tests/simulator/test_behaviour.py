"""What the simulated model does: tools, reasoning, media, limits, structured output."""

from __future__ import annotations

import base64
import json
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

from dragoman.lab.simulator.script import Protocol
from dragoman.lab.simulator.testing import RunningSimulator
from tests.simulator.requests import (
    CITY,
    PROTOCOLS,
    JsonObject,
    chat,
    messages,
    plain,
    post,
    responses,
    rich,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(60))
PDF = b"%PDF-1.7\n" + bytes(range(40))


class Weather(BaseModel):
    city: str
    degrees: float


def _text(protocol: Protocol, answer: JsonObject) -> str:
    """The visible text of a full answer."""
    if protocol == "chat":
        return str(answer["choices"][0]["message"]["content"])
    if protocol == "messages":
        return "".join(b["text"] for b in answer["content"] if b["type"] == "text")
    parts = [p for item in answer["output"] for p in item.get("content", ())]
    return "".join(part["text"] for part in parts if part["type"] == "output_text")


def _calls(protocol: Protocol, answer: JsonObject) -> list[tuple[str, str, Any]]:
    """The calls of a full answer: id, name, arguments."""
    if protocol == "chat":
        found = answer["choices"][0]["message"].get("tool_calls", [])
        return [
            (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in found
        ]
    if protocol == "messages":
        uses = [b for b in answer["content"] if b["type"] == "tool_use"]
        return [(b["id"], b["name"], b["input"]) for b in uses]
    items = [item for item in answer["output"] if item["type"] == "function_call"]
    return [(item["call_id"], item["name"], json.loads(item["arguments"])) for item in items]


def _with_results(
    protocol: Protocol, request: JsonObject, answer: JsonObject, results: list[str]
) -> JsonObject:
    """The next request of the tool loop, with everything that was answered put back."""
    ids = [call[0] for call in _calls(protocol, answer)]
    pairs = list(zip(ids, results, strict=True))
    if protocol == "chat":
        turns: list[JsonObject] = [
            {"role": "tool", "tool_call_id": i, "content": text} for i, text in pairs
        ]
        message = answer["choices"][0]["message"]
        return {**request, "messages": [*request["messages"], message, *turns]}
    if protocol == "messages":
        blocks = [{"type": "tool_result", "tool_use_id": i, "content": t} for i, t in pairs]
        turns = [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": blocks},
        ]
        return {**request, "messages": [*request["messages"], *turns]}
    outputs = [{"type": "function_call_output", "call_id": i, "output": t} for i, t in pairs]
    first = {"role": "user", "content": request["input"]}
    return {**request, "input": [first, *answer["output"], *outputs]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_tool_loop_of_two_rounds(simulator: RunningSimulator, protocol: Protocol) -> None:
    request = rich(protocol, "sim-tool?rounds=2")
    first = post(simulator, protocol, request).json
    ((_, name, arguments),) = _calls(protocol, first)
    assert (name, arguments) == ("get_weather", {"city": "city", "days": 1})
    second_request = _with_results(protocol, request, first, ["sunny"])
    second = post(simulator, protocol, second_request).json
    assert _calls(protocol, second)[0][0] != _calls(protocol, first)[0][0]
    if protocol == "responses":
        again = second["output"]
        outputs = [
            {"type": "function_call_output", "call_id": again[0]["call_id"], "output": "rain"}
        ]
        last_request = {**request, "input": [*second_request["input"], *again, *outputs]}
    else:
        last_request = _with_results(protocol, second_request, second, ["rain"])
    last = post(simulator, protocol, last_request).json
    assert _text(protocol, last) == "The tool answered: sunny; rain"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_parallel_calls_have_their_own_ids_and_both_results_count(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    request = rich(protocol, "sim-parallel_tools")
    first = post(simulator, protocol, request).json
    calls = _calls(protocol, first)
    assert [name for _, name, _ in calls] == ["get_weather", "get_time"]
    assert len({call_id for call_id, _, _ in calls}) == 2
    last = post(simulator, protocol, _with_results(protocol, request, first, ["sunny", "noon"]))
    assert _text(protocol, last.json) == "The tool answered: sunny; noon"


def test_chat_and_responses_interleave_parallel_deltas(simulator: RunningSimulator) -> None:
    body = post(simulator, "chat", rich("chat", "sim-parallel_tools", stream=True)).body
    order = [
        json.loads(line[6:])["choices"][0]["delta"]["tool_calls"][0]["index"]
        for line in body.split(b"\n")
        if b'"tool_calls":[' in line
    ]
    assert order[:6] == [0, 1, 0, 1, 0, 1]
    body = post(simulator, "responses", rich("responses", "sim-parallel_tools", stream=True)).body
    order = [
        json.loads(line[6:])["output_index"]
        for line in body.split(b"\n")
        if line.startswith(b"data: ") and b"arguments.delta" in line
    ]
    assert order[:4] == [0, 1, 0, 1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_call_at_a_time_where_parallel_calls_are_forbidden(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    request = rich(protocol, "sim-parallel_tools")
    if protocol == "messages":
        request["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    else:
        request["parallel_tool_calls"] = False
    assert len(_calls(protocol, post(simulator, protocol, request).json)) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_friendly_model_uses_tools_when_asked(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    request = rich(protocol, f"sim-{protocol}")
    assert _calls(protocol, post(simulator, protocol, request).json) == []
    for question in ("Please use a tool.", "What does get_time say?"):
        asked = {**request, **_question(protocol, question)}
        ((_, name, _),) = _calls(protocol, post(simulator, protocol, asked).json)
        assert name == ("get_time" if "get_time" in question else "get_weather")
    forced: Any = {"type": "function", "name": "get_time"}
    if protocol == "chat":
        forced = {"type": "function", "function": {"name": "get_time"}}
    elif protocol == "messages":
        forced = {"type": "tool", "name": "get_time"}
        request["thinking"] = {"type": "disabled"}
    answer = post(simulator, protocol, {**request, "tool_choice": forced}).json
    assert [name for _, name, _ in _calls(protocol, answer)] == ["get_time"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reminder_beside_results_starts_no_new_turn(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    request = {**rich(protocol, "sim-chat"), **_question(protocol, "Use a tool.")}
    first = post(simulator, protocol, request).json
    second = _with_results(protocol, request, first, ["sunny"])
    if protocol == "messages":
        second["messages"][-1]["content"].append({"type": "text", "text": "Use tools well."})
    else:
        turns = second["input" if protocol == "responses" else "messages"]
        turns.append({"role": "user", "content": "Use tools well."})
    answer = post(simulator, protocol, second).json
    assert _text(protocol, answer) == "The tool answered: sunny"


def _question(protocol: Protocol, text: str) -> JsonObject:
    if protocol == "responses":
        return {"input": text}
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_any_other_model_name_is_friendly(simulator: RunningSimulator, protocol: Protocol) -> None:
    answer = post(simulator, protocol, plain(protocol, "gpt-or-claude", "Hello?")).json
    assert answer["model"] == "gpt-or-claude"
    assert "Hello?" in _text(protocol, answer)


def test_the_sdks_parse_structured_output(
    simulator: RunningSimulator, openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    completion = openai_client.chat.completions.parse(
        model="sim-structured",
        messages=[{"role": "user", "content": "hi"}],
        response_format=Weather,
    )
    assert isinstance(completion.choices[0].message.parsed, Weather)
    response = openai_client.responses.parse(
        model="sim-structured", input="hi", text_format=Weather
    )
    assert isinstance(response.output_parsed, Weather)
    message = anthropic_client.messages.parse(
        model="sim-structured",
        max_tokens=500,
        messages=[{"role": "user", "content": "hi"}],
        output_format=Weather,
    )
    assert isinstance(message.parsed_output, Weather)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reasoning_that_comes_back_unaltered_is_verified(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    request = rich(protocol, "sim-reasoning_roundtrip")
    first = post(simulator, protocol, request).json
    second = post(simulator, protocol, _with_results(protocol, request, first, ["sunny"]))
    assert second.status == 200, second.body
    assert _text(protocol, second.json) == "reasoning verified"


@pytest.mark.parametrize("display", ["summarized", "omitted"])
def test_thinking_that_was_altered_is_refused(simulator: RunningSimulator, display: str) -> None:
    thinking = {"type": "adaptive", "display": display}
    request = {**rich("messages", "sim-reasoning_roundtrip"), "thinking": thinking}
    first = post(simulator, "messages", request).json
    assert (first["content"][0]["thinking"] == "") == (display == "omitted")
    second = _with_results("messages", request, first, ["sunny"])
    assert post(simulator, "messages", second).status == 200
    for field, value in (("thinking", "forged"), ("signature", "c2ln"), ("signature", "")):
        block = {**first["content"][0], field: value}
        altered = {**first, "content": [block, *first["content"][1:]]}
        answer = post(simulator, "messages", _with_results("messages", request, altered, ["sunny"]))
        assert answer.status == 400
        assert "signature" in answer.json["error"]["message"]
    bare = {**first, "content": first["content"][1:]}
    answer = post(simulator, "messages", _with_results("messages", request, bare, ["sunny"]))
    assert "found no reasoning" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("encrypted_content", "gAAAAforged", "invalid_encrypted_content"),
        ("id", "rs_other", "invalid_encrypted_content"),
        ("id", "other", "invalid_value"),
        ("encrypted_content", None, "not_found"),
    ],
)
def test_encrypted_reasoning_that_was_altered_is_refused(
    simulator: RunningSimulator, field: str, value: str | None, code: str
) -> None:
    request = rich("responses", "sim-reasoning_roundtrip", store=False)
    first = post(simulator, "responses", request).json
    altered = {**first, "output": [{**first["output"][0], field: value}, *first["output"][1:]]}
    answer = post(simulator, "responses", _with_results("responses", request, altered, ["x"]))
    assert (answer.status, answer.json["error"]["code"]) == (400, code)


@pytest.mark.parametrize("protocol", ["messages", "responses"])
def test_reasoning_of_another_organisation_is_refused(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    request = rich(protocol, "sim-reasoning_roundtrip")
    first = post(simulator, protocol, request, key="sk-sim-org-a").json
    second = _with_results(protocol, request, first, ["sunny"])
    assert post(simulator, protocol, second, key="sk-sim-org-a").status == 200
    assert post(simulator, protocol, second, key="sk-sim-org-b").status == 400


def test_redacted_thinking_comes_back(simulator: RunningSimulator) -> None:
    request = rich("messages", "sim-redacted_thinking")
    first = post(simulator, "messages", request).json
    turns = [
        *request["messages"],
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": "[[sim: scenario=reasoning_roundtrip]]"},
    ]
    answer = post(simulator, "messages", {**request, "messages": turns})
    assert _text("messages", answer.json) == "reasoning verified"
    first["content"][0]["data"] = base64.b64encode(b"x" * 40).decode()
    assert post(simulator, "messages", {**request, "messages": turns}).status == 400


def test_reasoning_shows_only_when_asked_for(simulator: RunningSimulator) -> None:
    hidden = post(simulator, "messages", messages("sim-reasoning")).json
    assert [block["type"] for block in hidden["content"]] == ["text"]
    unasked = post(simulator, "responses", responses("sim-reasoning")).json
    assert unasked["output"][0]["summary"] == []
    assert unasked["output"][0]["encrypted_content"]
    off = post(simulator, "chat", chat("sim-reasoning", reasoning_effort="none")).json
    assert "reasoning_content" not in off["choices"][0]["message"]


def _media_requests() -> list[tuple[Protocol, JsonObject, str, str]]:
    image = base64.b64encode(PNG).decode()
    document = base64.b64encode(PDF).decode()
    image_url = f"data:image/png;base64,{image}"
    document_url = f"data:application/pdf;base64,{document}"
    anthropic_media: list[JsonObject] = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": document},
        },
    ]
    openai_media: list[JsonObject] = [
        {"type": "input_image", "image_url": image_url},
        {"type": "input_file", "file_data": document_url, "filename": "a.pdf"},
    ]
    chat_media: list[JsonObject] = [
        {"type": "image_url", "image_url": {"url": image_url}},
        {"type": "file", "file": {"file_data": document_url, "filename": "a.pdf"}},
    ]
    use = {"type": "tool_use", "id": "toolu_1", "name": "see", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": anthropic_media}
    in_result = messages("sim-media")
    in_result["messages"] += [
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    call = {"type": "function_call", "call_id": "call_1", "name": "see", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": openai_media}
    return [
        ("chat", {**chat(""), **_content("sim-media", chat_media)}, "user", "chat"),
        (
            "messages",
            {**messages(""), **_content("sim-media", anthropic_media)},
            "user",
            "messages",
        ),
        ("messages", in_result, "tool_result", "messages result"),
        (
            "responses",
            {**responses("sim-media"), "input": [{"role": "user", "content": openai_media}]},
            "user",
            "responses",
        ),
        ("responses", {**responses("sim-media"), "input": [call, output]}, "tool_result", "output"),
    ]


def _content(model: str, content: list[JsonObject]) -> JsonObject:
    return {"model": model, "messages": [{"role": "user", "content": content}]}


@pytest.mark.parametrize(
    ("protocol", "request_body", "where"),
    [entry[:3] for entry in _media_requests()],
    ids=[entry[3] for entry in _media_requests()],
)
def test_media_are_told_by_type_and_size(
    simulator: RunningSimulator, protocol: Protocol, request_body: JsonObject, where: str
) -> None:
    told = json.loads(_text(protocol, post(simulator, protocol, request_body).json))
    assert [(m["kind"], m["media_type"], m["size"], m["where"]) for m in told] == [
        ("image", "image/png", len(PNG), where),
        ("document", "application/pdf", len(PDF), where),
    ]


def test_the_friendly_model_tells_what_media_arrived(simulator: RunningSimulator) -> None:
    for protocol, body, _, _ in _media_requests():
        answer = post(simulator, protocol, {**body, "model": "sim-chat"}).json
        assert (
            f"I received an image (image/png, {len(PNG)} bytes), "
            f"a document (application/pdf, {len(PDF)} bytes)."
        ) in _text(protocol, answer)


def test_a_paused_turn_goes_on(simulator: RunningSimulator) -> None:
    request = messages("sim-pause_turn")
    first = post(simulator, "messages", request).json
    assert first["stop_reason"] == "pause_turn"
    request["messages"].append({"role": "assistant", "content": first["content"]})
    second = post(simulator, "messages", request).json
    assert (second["stop_reason"], second["content"][0]["text"]) == (
        "end_turn",
        "And that is the rest.",
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_token_limit_of_the_request_ends_the_answer(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    field = {"chat": "max_completion_tokens", "responses": "max_output_tokens"}.get(
        protocol, "max_tokens"
    )
    answer = post(simulator, protocol, {**plain(protocol, "sim-text?words=90"), field: 20}).json
    assert len(_text(protocol, answer)) == 80
    usage = answer["usage"]
    assert (usage.get("completion_tokens") or usage.get("output_tokens")) == 20
    if protocol == "chat":
        assert answer["choices"][0]["finish_reason"] == "length"
    elif protocol == "messages":
        assert answer["stop_reason"] == "max_tokens"
    else:
        assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
        assert answer["output"][0]["status"] == "incomplete"


def test_a_stop_sequence_ends_any_text(simulator: RunningSimulator) -> None:
    answer = post(simulator, "messages", messages("sim-text", stop_sequences=["zzz", "stood"]))
    assert _text("messages", answer.json) == "The dragoman "
    assert answer.json["stop_reason"] == "stop_sequence"
    assert answer.json["stop_sequence"] == "stood"
    completion = post(simulator, "chat", chat("sim-text", stop="stood")).json
    assert completion["choices"][0]["finish_reason"] == "stop"
    assert _text("chat", completion) == "The dragoman "


def test_cached_tokens_are_counted_each_vendor_s_way(simulator: RunningSimulator) -> None:
    options = "input=100&cached=60&written=30&output=9&reasoning_tokens=4"
    model = f"sim-text?{options}"
    usage = post(simulator, "messages", messages(model)).json["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (10, 9)
    assert usage["cache_read_input_tokens"] == 60
    assert usage["cache_creation_input_tokens"] == 30
    assert usage["output_tokens_details"] == {"thinking_tokens": 4}
    usage = post(simulator, "chat", chat(model)).json["usage"]
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (100, 109)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 60
    assert usage["prompt_tokens_details"]["cache_write_tokens"] == 30
    usage = post(simulator, "responses", responses(model)).json["usage"]
    assert usage["input_tokens_details"] == {"cached_tokens": 60, "cache_write_tokens": 30}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 4}


def test_a_custom_tool_is_called_as_each_protocol_can(simulator: RunningSimulator) -> None:
    answer = post(simulator, "messages", rich("messages", "sim-custom_tool")).json
    (use,) = (block for block in answer["content"] if block["type"] == "tool_use")
    answer = post(simulator, "responses", rich("responses", "sim-custom_tool")).json
    assert answer["output"][0]["type"] == "custom_tool_call"
    assert use["input"] == {"input": answer["output"][0]["input"]}


def test_a_namespace_tool_is_called_with_its_namespace(simulator: RunningSimulator) -> None:
    answer = post(simulator, "responses", rich("responses", "sim-namespace_tool")).json
    assert (answer["output"][0]["namespace"], answer["output"][0]["name"]) == ("web", "search")


@pytest.mark.parametrize("scenario", ["tool", "custom_tool", "structured", "stop_sequence"])
def test_a_scenario_that_lacks_what_it_needs_says_so(
    simulator: RunningSimulator, scenario: str
) -> None:
    answer = post(simulator, "chat", chat(f"sim-{scenario}"))
    assert answer.status == 400
    assert f"'{scenario}'" in answer.json["error"]["message"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_echo_is_the_body_that_arrived(simulator: RunningSimulator, protocol: Protocol) -> None:
    request = rich(protocol, "sim-echo")
    answer = post(simulator, protocol, request).json
    assert json.loads(_text(protocol, answer)) == request
    assert simulator.last.json == request


def test_a_stored_response_goes_on(
    simulator: RunningSimulator, openai_client: openai.OpenAI
) -> None:
    tools: Any = [{"type": "function", "name": "get_weather", "parameters": CITY, "strict": True}]
    first = openai_client.responses.create(model="sim-tool", input="hi", tools=tools)
    call = first.output[0]
    assert call.type == "function_call"
    second = openai_client.responses.create(
        model="sim-tool",
        previous_response_id=first.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}],
    )
    assert second.output_text == "The tool answered: sunny"
    assert openai_client.responses.retrieve(first.id) == first
    assert len(list(openai_client.responses.input_items.list(second.id))) == 3
    openai_client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        openai_client.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError, match="not found"):
        openai_client.responses.create(
            model="sim-text", previous_response_id=first.id, input="again"
        )
