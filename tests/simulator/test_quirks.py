"""Odd but real streams: framings, and what compatible servers send."""

from __future__ import annotations

import json
import re
from typing import Any

import openai
import pytest

from dragoman.lab.simulator.frames import FRAMINGS
from dragoman.lab.simulator.script import Protocol
from dragoman.lab.simulator.testing import RunningSimulator
from tests.simulator.requests import PROTOCOLS, JsonObject, chat, plain, post, responses

TEXT = "Some text to say."


def _data(stream: bytes) -> list[str]:
    """The data of all events, read as the SSE standard has it."""
    text = stream.decode("utf-8-sig")
    found, data = [], []
    for line in re.split("\r\n|\n|\r", text):
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            found.append("\n".join(data))
            data = []
    if data:
        found.append("\n".join(data))
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("framing", sorted(FRAMINGS))
def test_a_framing_changes_no_data(
    simulator: RunningSimulator, protocol: Protocol, framing: str
) -> None:
    usual = post(simulator, protocol, plain(protocol, "sim-text?seed=1", TEXT, stream=True)).body
    odd = post(
        simulator, protocol, plain(protocol, f"sim-{framing}?seed=1", TEXT, stream=True)
    ).body
    expected = [_parsed(data) for data in _data(usual)]
    found = [_parsed(data.replace(f"sim-{framing}?", "sim-text?")) for data in _data(odd)]
    if framing == "pings":
        found = [event for event in found if event != {"type": "ping"}]
        expected = [event for event in expected if event != {"type": "ping"}]
    if framing == "no_done":
        expected = [event for event in expected if event != "[DONE]"]
    if framing == "extra_done":
        expected.append("[DONE]")
    assert odd != usual or (framing, protocol) in {
        ("padded_done", "messages"),
        ("padded_done", "responses"),
        ("no_done", "messages"),
        ("no_done", "responses"),
    }
    assert found == expected


def _parsed(data: str) -> object:
    return data.strip() if data.strip() == "[DONE]" else json.loads(data)


def _chunks(simulator: RunningSimulator, quirk: str, **more: Any) -> list[JsonObject]:
    request = chat(f"sim-text?chunks=3&quirks={quirk}", stream=True, **more)
    return [json.loads(d) for d in _data(post(simulator, "chat", request).body)[:-1]]


def test_usage_can_stand_anywhere_in_chat(simulator: RunningSimulator) -> None:
    asked = {"stream_options": {"include_usage": True}}

    def places(quirk: str, **more: Any) -> list[tuple[int, bool]]:
        chunks = _chunks(simulator, quirk, **more)
        return [
            (number - len(chunks), bool(chunk["choices"]))
            for number, chunk in enumerate(chunks)
            if chunk.get("usage") is not None
        ]

    assert places("obfuscation") == []
    assert places("obfuscation", **asked) == [(-1, False)]
    assert places("usage_always") == [(-1, False)]
    assert places("usage_final") == [(-1, True)]
    assert places("usage_final", **asked) == [(-1, True)]
    assert places("usage_none", **asked) == []
    every = _chunks(simulator, "usage_every")
    totals = [chunk["usage"]["completion_tokens"] for chunk in every]
    assert totals == sorted(totals)
    assert len(totals) == len(every)


def test_chat_can_leave_out_or_add_what_the_official_service_has_not(
    simulator: RunningSimulator,
) -> None:
    assert all(c["choices"][0]["finish_reason"] is None for c in _chunks(simulator, "no_finish"))
    assert _chunks(simulator, "azure_preamble")[0]["choices"] == []
    assert all("obfuscation" in chunk for chunk in _chunks(simulator, "obfuscation"))
    stopped = chat("sim-stop_sequence?quirks=vllm_stop_reason", stop=["END"])
    assert post(simulator, "chat", stopped).json["choices"][0]["stop_reason"] == "END"


@pytest.mark.parametrize(
    ("quirk", "fields"),
    [
        ("no_ping", {"reasoning_content"}),
        ("reasoning_field", {"reasoning"}),
        ("reasoning_both", {"reasoning", "reasoning_content"}),
    ],
)
def test_chat_reasoning_stands_in_the_field_of_the_server(
    simulator: RunningSimulator, quirk: str, fields: set[str]
) -> None:
    full = post(simulator, "chat", chat(f"sim-reasoning?quirks={quirk}"))
    message = full.json["choices"][0]["message"]
    assert {name for name in message if "reasoning" in name} == fields
    request = chat(f"sim-reasoning?quirks={quirk}", stream=True)
    streamed = _data(post(simulator, "chat", request).body)[:-1]
    found = {
        name
        for data in streamed
        for name in json.loads(data)["choices"][0]["delta"]
        if "reasoning" in name
    }
    assert found == fields


def test_responses_can_send_raw_reasoning(
    simulator: RunningSimulator, openai_client: openai.OpenAI
) -> None:
    model = "sim-raw_reasoning?thought=Well+then&parts=2"
    with openai_client.responses.stream(model=model, input="hi") as stream:
        kinds = [event.type for event in stream]
        item = stream.get_final_response().output[0]
    assert kinds.count("response.reasoning_text.done") == 2
    assert item.type == "reasoning"
    assert item.summary == []
    assert [part.text for part in item.content or ()] == ["Well then", "Well then (2)"]


def test_responses_keepalives_are_numbered(simulator: RunningSimulator) -> None:
    request = responses("sim-keepalive_events", stream=True)
    found = [json.loads(data) for data in _data(post(simulator, "responses", request).body)]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert found[0]["type"] == "response.created"
    assert found[1]["type"] == "keepalive"
    assert found[-1]["type"] == "response.completed"


def test_messages_can_leave_out_the_ping(simulator: RunningSimulator) -> None:
    body = post(simulator, "messages", plain("messages", "sim-no_ping", stream=True)).body
    assert b"ping" not in body.replace(b"sim-no_ping", b"")
