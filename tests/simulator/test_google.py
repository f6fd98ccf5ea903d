"""The simulated Gemini API: what it takes and refuses, and how Google's own SDKs hear it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from google import genai
from google.genai import errors, types

from dragoman.lab.simulator.frames import FRAMINGS
from dragoman.lab.simulator.registry import named_scenarios
from dragoman.lab.simulator.rendering import QUIRKS
from dragoman.lab.simulator.script import FaultKind, Scenario, Text
from dragoman.lab.simulator.testing import RunningSimulator
from tests.simulator.google import (
    HEADERS,
    SAY_IT,
    ask,
    calls_of,
    check_chunks,
    chunks,
    folded,
    model,
    next_turn,
    path_of,
    rich,
    stream,
    text_of,
    user,
    whole,
)
from tests.simulator.refused_google import ACCEPTED, REFUSED, REFUSED_OF_2
from tests.simulator.requests import KEY, SCHEMA, JsonObject, call

SCENARIOS = sorted(set(named_scenarios()) - set(FRAMINGS) - set(QUIRKS) - set(get_args(FaultKind)))
PING = '{"type":"ping"}'
IMPOSSIBLE = {
    "custom_tool": "needs a free-text tool",
    "namespace_tool": "needs tool namespaces",
    "pause_turn": "no paused turns",
}


@pytest.fixture(scope="module")
def client(shared_simulator: RunningSimulator) -> Iterator[genai.Client]:
    options = types.HttpOptions(base_url=shared_simulator.base_url)
    with genai.Client(api_key=KEY, http_options=options) as made:
        yield made


def _request(scenario: str) -> JsonObject:
    if scenario == "structured":
        return rich(responseMimeType="application/json", responseJsonSchema=SCHEMA)
    if scenario == "logprobs":
        return rich(responseLogprobs=True, logprobs=2)
    return rich()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_stream_and_whole_answer_are_native_and_agree(
    simulator: RunningSimulator, scenario: str
) -> None:
    name = f"sim-{scenario}?seed=7" + ("&events=20" if scenario == "flood" else "")
    streamed, full = (way(simulator, name, _request(scenario)) for way in (stream, ask))
    if scenario in IMPOSSIBLE:
        assert streamed.status == full.status == 400
        assert IMPOSSIBLE[scenario] in full.json["error"]["message"]
        return
    assert streamed.status == full.status == 200, full.body
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert full.headers["content-type"] == "application/json"
    found = chunks(streamed.body)
    check_chunks(found)
    for one in (*found, full.json):
        types.GenerateContentResponse.model_validate(one)
    if scenario != "logprobs":  # which say where the stream was cut
        assert folded(found) == whole(full.json)


@pytest.mark.parametrize(("fields", "words"), REFUSED)
def test_a_wrong_request_is_refused(
    simulator: RunningSimulator, fields: JsonObject, words: str
) -> None:
    answer = ask(simulator, "sim-text", {"contents": [SAY_IT], **fields})
    assert answer.status in (400, 403), answer.body
    assert words in answer.json["error"]["message"]
    assert answer.json["error"]["code"] == answer.status


@pytest.mark.parametrize(("fields", "words"), REFUSED_OF_2)
def test_models_before_3_refuse_more(
    simulator: RunningSimulator, fields: JsonObject, words: str
) -> None:
    body = {"contents": [SAY_IT], **fields}
    assert words in ask(simulator, "gemini-2.5-flash", body).json["error"]["message"]
    assert ask(simulator, "gemini-3.8-flash", body).status == 200


@pytest.mark.parametrize("fields", ACCEPTED)
def test_a_right_request_is_answered(simulator: RunningSimulator, fields: JsonObject) -> None:
    answer = ask(simulator, "sim-text", {"contents": [SAY_IT], **fields})
    assert answer.status == 200, answer.body


def test_what_models_before_3_let_pass(simulator: RunningSimulator) -> None:
    calling = model({"functionCall": {"name": "f"}})
    result = user({"functionResponse": {"name": "f", "response": {}}})
    body = {"contents": [SAY_IT, calling, result]}
    assert ask(simulator, "gemini-2.5-pro", body).status == 200
    assert ask(simulator, "gemini-3.8-pro", body).status == 400


def test_a_tool_loop_keeps_its_signature(simulator: RunningSimulator) -> None:
    request = {**rich(), "contents": [user({"text": "[[sim: scenario=parallel_tools]]"})]}
    first = ask(simulator, "gemini-3.8-flash", request).json
    parts = first["candidates"][0]["content"]["parts"]
    assert ["thoughtSignature" in part for part in parts] == [True, False]
    assert [one["name"] for one in calls_of(first)] == ["get_weather", "get_time"]
    second = next_turn(request, first, "sunny", "noon")
    answer = ask(simulator, "gemini-3.8-flash", second)
    assert text_of(answer.json) == "The tool answered: sunny; noon"
    parts[0]["functionCall"]["args"]["city"] = "elsewhere"
    altered = ask(simulator, "gemini-3.8-flash", second)
    assert "Corrupted thought signature" in altered.json["error"]["message"]
    del parts[0]["thoughtSignature"]
    missing = ask(simulator, "gemini-3.8-flash", second)
    assert "missing a thought_signature" in missing.json["error"]["message"]


def test_thoughts_come_back_in_a_signature_of_their_account(simulator: RunningSimulator) -> None:
    request = {"contents": [user({"text": "[[sim: scenario=reasoning_roundtrip]]"})]}
    first = ask(simulator, "gemini-3.8-flash", request, x_goog_api_key="unused").json
    (part,) = first["candidates"][0]["content"]["parts"]
    sealed = base64.b64decode(part["thoughtSignature"])
    part["thoughtSignature"] = base64.urlsafe_b64encode(sealed).decode()
    again = {"contents": [*request["contents"], model(part), *request["contents"]]}
    assert text_of(ask(simulator, "gemini-3.8-flash", again).json) == "reasoning verified"
    other = {**HEADERS, "x-goog-api-key": "sk-sim-org-b"}
    refused = call(simulator, "POST", path_of("gemini-3.8-flash"), again, other)
    assert "Corrupted thought signature" in refused.json["error"]["message"]


def test_thoughts_are_shown_only_if_asked_for(simulator: RunningSimulator) -> None:
    parts = ask(simulator, "sim-reasoning").json["candidates"][0]["content"]["parts"]
    assert ["thought" in part for part in parts] == [False]


@pytest.mark.parametrize("way", ["x-goog-api-key", "authorization", "query"])
def test_a_key_may_come_in_three_ways(simulator: RunningSimulator, way: str) -> None:
    path, headers = path_of("sim-text", version="v1"), {"content-type": "application/json"}
    if way == "query":
        path += "?key=sk-sim-q"
    else:
        headers[way] = "sk-sim-q" if way != "authorization" else "Bearer sk-sim-q"
    assert call(simulator, "POST", path, {"contents": [SAY_IT]}, headers).status == 200
    assert simulator.last.key == "sk-sim-q"


def test_no_key_and_no_method(simulator: RunningSimulator) -> None:
    body, content_type = {"contents": [SAY_IT]}, {"content-type": "application/json"}
    answer = call(simulator, "POST", path_of("sim-text"), body, content_type)
    assert (answer.status, answer.json["error"]["status"]) == (403, "PERMISSION_DENIED")
    answer = ask(simulator, "sim-text", method="generateVideos")
    assert (answer.status, answer.json["error"]["status"]) == (404, "NOT_FOUND")


def test_a_stream_without_alt_is_an_array(simulator: RunningSimulator) -> None:
    def array(name: str) -> Any:
        path = path_of(name, "streamGenerateContent")
        return call(simulator, "POST", path, {"contents": [SAY_IT]}, HEADERS).json

    events = chunks(stream(simulator, "sim-text?seed=3").body)
    assert array("sim-text?seed=3") == events
    (error,) = array("sim-429")
    assert error["error"]["status"] == "RESOURCE_EXHAUSTED"
    *before, last = array("sim-error_in_stream?after=2&seed=3")
    assert [len(before), list(last)] == [2, ["error"]]


@pytest.mark.parametrize("framing", sorted(FRAMINGS))
def test_a_framing_changes_no_data(simulator: RunningSimulator, framing: str) -> None:
    def data(name: str) -> list[Any]:
        text = stream(simulator, name).body.decode("utf-8-sig").replace("\r\n", "\n")
        blocks = text.replace("\r", "\n").split("\n\n")
        lines = [[x for x in one.split("\n") if x.startswith("data:")] for one in blocks]
        joined = ["\n".join(x[5:] for x in one).strip() for one in lines if one]
        return [json.loads(one) for one in joined if one != "[DONE]" and one != PING]

    named = f"sim-text?seed=1&quirks={framing}"
    usual = data("sim-text?seed=1")
    found = data(named)
    assert [one["candidates"] for one in found] == [one["candidates"] for one in usual]


def test_odd_ends(simulator: RunningSimulator) -> None:
    def end(quirk: str) -> JsonObject:
        found = chunks(stream(simulator, f"sim-text?quirks={quirk}").body)
        return found[-1]

    assert end("prompt_blocked")["promptFeedback"] == {"blockReason": "PROHIBITED_CONTENT"}
    assert "candidates" not in end("no_candidates")
    assert "content" not in end("no_content")["candidates"][0]
    assert end("no_parts")["candidates"][0]["content"] == {"role": "model"}
    words = {"malformed_call": "MALFORMED_FUNCTION_CALL", "finish_other": "OTHER"}
    words["missing_signature"] = "MISSING_THOUGHT_SIGNATURE"
    for quirk, word in words.items():
        assert end(quirk)["candidates"][0]["finishReason"] == word
    assert "finishReason" not in end("no_finish")["candidates"][0]
    assert "usageMetadata" not in end("usage_none")
    every = chunks(stream(simulator, "sim-text?quirks=stop_every").body)
    assert {chunk["candidates"][0]["finishReason"] for chunk in every} == {"STOP"}
    body = stream(simulator, "sim-error_in_stream?quirks=bare_error").body
    assert b'\r\n\r\n{\n  "error": {' in body
    calls = calls_of(ask(simulator, "sim-tool?quirks=call_without_id", rich()).json)
    assert [list(one) for one in calls] == [["name", "args"]]


def test_arguments_that_are_none_are_the_model_s_fault(simulator: RunningSimulator) -> None:
    for way in (ask, stream):
        body = way(simulator, "sim-bad_arguments", rich()).body
        assert b"MALFORMED_FUNCTION_CALL" in body
        assert b'"functionCall"' not in body


def test_errors_say_what_google_says(simulator: RunningSimulator) -> None:
    answer = ask(simulator, "sim-429?retry_after=7")
    assert "retry-after" not in answer.headers
    assert answer.json["error"]["message"].endswith("Please retry in 7s.")
    assert answer.json["error"]["details"][0]["retryDelay"] == "7s"
    quota = ask(simulator, "sim-429?code=GenerateRequestsPerDay").json["error"]["details"]
    assert quota[0]["violations"] == [{"quotaId": "GenerateRequestsPerDay"}]
    reason = ask(simulator, "sim-400?code=API_KEY_INVALID").json["error"]["details"]
    assert reason[0]["reason"] == "API_KEY_INVALID"


# --- Google's SDK for Python ----------------------------------------------------------------------


def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"sunny in {city}"


@pytest.mark.parametrize("scenario", ["tool", "parallel_tools", "reasoning_tool"])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_sdk_calls_functions_by_itself(
    client: genai.Client, scenario: str, streamed: bool
) -> None:
    config = types.GenerateContentConfig(tools=[get_weather])
    chat = client.chats.create(model=f"sim-{scenario}", config=config)
    if streamed:
        said = "".join(chunk.text or "" for chunk in chat.send_message_stream("Go."))
    else:
        said = chat.send_message("Go.").text or ""
    assert said.startswith("The tool answered: sunny in city")
    again = chat.send_message("[[sim: scenario=text words=3]]")
    assert again.text == "The dragoman stood"
    assert len(chat.get_history(curated=True)) >= 6


@pytest.mark.parametrize("streamed", [False, True])
def test_the_sdk_raises_errors(client: genai.Client, streamed: bool) -> None:
    def ask_for(directive: str) -> None:
        models, text = client.models, f"[[sim: {directive}]]"
        if streamed:
            list(models.generate_content_stream(model="gemini", contents=text))
        else:
            models.generate_content(model="gemini", contents=text)

    with pytest.raises(errors.ClientError) as refused:
        ask_for("scenario=error status=429")
    assert (refused.value.code, refused.value.status) == (429, "RESOURCE_EXHAUSTED")
    with pytest.raises(errors.ServerError) as failed:
        ask_for("scenario=error_in_stream status=503 after=2")
    assert (failed.value.code, failed.value.status) == (503, "UNAVAILABLE")


def test_the_sdk_counts_and_lists(simulator: RunningSimulator, client: genai.Client) -> None:
    counted = client.models.count_tokens(model="sim-text", contents="How many? " * 40)
    answer = client.models.generate_content(model="sim-text", contents="How many? " * 40)
    assert answer.usage_metadata is not None
    assert counted.total_tokens == answer.usage_metadata.prompt_token_count
    names = [f"models/{name}" for name in simulator.app.model_names()]
    assert [one.name for one in client.models.list(config={"page_size": 40})] == names
    assert client.models.get(model="sim-text").input_token_limit
    with pytest.raises(errors.ClientError):
        client.models.get(model="nobody")


def test_the_sdk_parses_structured_output(client: genai.Client) -> None:
    answer = client.models.generate_content(
        model="sim-structured",
        contents="hi",
        config=types.GenerateContentConfig(
            response_mime_type="application/json",
            response_schema=types.Schema(
                type=types.Type.OBJECT, properties={"age": types.Schema(type=types.Type.INTEGER)}
            ),
        ),
    )
    assert answer.parsed == {"age": 1}


def test_a_test_brings_its_own_scenario(simulator: RunningSimulator, client: genai.Client) -> None:
    simulator.app.scenarios["mine"] = Scenario((Text("mine"),))
    assert client.models.generate_content(model="sim-mine", contents="hi").text == "mine"
