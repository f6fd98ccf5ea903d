"""The streams' grammars as an upstream writes them, checked event by event.

Unlike what a gateway writes, an upstream may interleave the deltas of parallel calls and leave
Unicode's line separators unescaped; everything else that strict clients rely on holds here too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from dragoman.lab.simulator.script import Protocol
from tests.simulator.requests import JsonObject

_MESSAGES_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
_RESPONSES_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_ANSWERS: dict[Protocol, type[BaseModel]] = {
    "chat": ChatCompletion,
    "messages": Message,
    "responses": Response,
}

_BLOCK_DELTAS = {
    "text": {"text_delta", "citations_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "tool_use": {"input_json_delta"},
    "redacted_thinking": set[str](),
    "server_tool_use": {"input_json_delta"},
    "web_search_tool_result": set[str](),
}


def events(stream: bytes) -> list[tuple[str | None, str]]:
    """The events as (name, data): LF only, one data line each, a blank line after each."""
    text = stream.decode()
    assert "\r" not in text
    assert text.endswith("\n\n")
    found = []
    for block in text.split("\n\n")[:-1]:
        lines = block.split("\n")
        assert len(lines) in (1, 2)
        name = None
        if len(lines) == 2:
            assert lines[0].startswith("event: ")
            name = lines[0].removeprefix("event: ")
        assert lines[-1].startswith("data: ")
        found.append((name, lines[-1].removeprefix("data: ")))
    return found


def check_chat(stream: bytes) -> list[JsonObject]:
    """2.1: role once, ids and names once, dense indexes, one finish each, usage and DONE last."""
    found = events(stream)
    assert {name for name, _ in found} == {None}
    assert found[-1][1] == "[DONE]"
    chunks = [json.loads(data) for _, data in found[:-1]]
    for chunk in chunks:
        # The SDK's chunk type knows no free-text tools, though the service streams them.
        if not any(f.get("custom") for c in chunk["choices"] for f in _fragments(c)):
            ChatCompletionChunk.model_validate(chunk, strict=True)
    for field in ("id", "created", "model", "object", "system_fingerprint"):
        assert len({chunk[field] for chunk in chunks}) == 1
    assert [c for c in chunks if not c["choices"]] in ([], [chunks[-1]])
    used = [chunk for chunk in chunks if chunk.get("usage") is not None]
    assert used in ([], [chunks[-1]])
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    for index in {choice["index"] for choice in choices}:
        _check_choice([choice for choice in choices if choice["index"] == index])
    return chunks


def _fragments(choice: JsonObject) -> list[JsonObject]:
    fragments: list[JsonObject] = choice["delta"].get("tool_calls", [])
    return fragments


def _check_choice(choices: list[JsonObject]) -> None:
    assert ["role" in choice["delta"] for choice in choices] == [True] + [False] * (
        len(choices) - 1
    )
    finishes = [choice["finish_reason"] for choice in choices]
    assert finishes[:-1] == [None] * (len(choices) - 1)
    assert finishes[-1] is not None
    assert choices[-1]["delta"] == {}
    started = 0
    for choice in choices:
        for fragment in _fragments(choice):
            body: JsonObject = fragment.get("function") or fragment["custom"]
            if "id" in fragment:
                assert fragment["index"] == started
                assert fragment["type"] in ("function", "custom")
                assert body["name"]
                started += 1
            else:
                assert 0 <= fragment["index"] < started
                assert "type" not in fragment
                assert "name" not in body


def check_messages(stream: bytes) -> list[JsonObject]:
    """2.2: names on every event, one open block, dense indexes, one signature, one stop."""
    found = events(stream)
    parsed = [json.loads(data) for _, data in found]
    assert [name for name, _ in found] == [event["type"] for event in parsed]
    for event in parsed:
        if event["type"] != "ping":
            _MESSAGES_EVENT.validate_python(event, strict=True)
    kinds = [event["type"] for event in parsed if event["type"] != "ping"]
    assert (kinds[0], kinds[-2], kinds[-1]) == ("message_start", "message_delta", "message_stop")
    assert kinds.count("message_start") == kinds.count("message_delta") == 1
    start = parsed[0]["message"]
    assert (start["content"], start["stop_reason"], start["stop_sequence"]) == ([], None, None)
    assert {"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"} <= set(
        start["usage"]
    )
    delta = parsed[-2]
    assert {"stop_reason", "stop_sequence"} <= set(delta["delta"])
    assert delta["usage"]["output_tokens"] >= 0
    _check_blocks([e for e in parsed if e["type"].startswith("content_block")])
    return parsed


def _check_blocks(parsed: list[JsonObject]) -> None:
    index, block, signatures = -1, "", 0
    for event in parsed:
        kind = event["type"]
        if kind == "content_block_start":
            assert not block
            index += 1
            block, signatures = event["content_block"]["type"], 0
            if block != "redacted_thinking":
                body = event["content_block"]
                assert (body.get("text") or body.get("thinking") or body.get("input")) in (
                    None,
                    "",
                    {},
                )
        elif kind == "content_block_delta":
            assert event["delta"]["type"] in _BLOCK_DELTAS[block]
            assert not signatures
            signatures += event["delta"]["type"] == "signature_delta"
        else:
            assert signatures == (block == "thinking")
            block = ""
        assert event["index"] == index
    assert not block


def check_responses(stream: bytes) -> list[JsonObject]:
    """2.3: dense numbers, one id, every added item done, the terminal repeats the items."""
    found = events(stream)
    parsed = [json.loads(data) for _, data in found]
    assert [name for name, _ in found] == [event["type"] for event in parsed]
    assert [event["sequence_number"] for event in parsed] == list(range(len(parsed)))
    parsed = [event for event in parsed if event["type"] != "keepalive"]
    for event in parsed:
        _RESPONSES_EVENT.validate_python(event, strict=True)
    kinds = [event["type"] for event in parsed]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    terminals = {"response.completed", "response.incomplete", "response.failed"}
    assert [kind for kind in kinds if kind in terminals] == [kinds[-1]]
    assert len({e["response"]["id"] for e in parsed if "response" in e}) == 1
    done: dict[int, JsonObject] = {}
    added: dict[int, JsonObject] = {}
    for event in parsed:
        index = event.get("output_index")
        if event["type"] == "response.output_item.added":
            assert index == len(added)
            added[len(added)] = event["item"]
        elif event["type"] == "response.output_item.done":
            assert index in added
            assert index not in done
            for field in ("id", "type", "call_id", "name"):
                assert added[index].get(field) == event["item"].get(field)
            done[index] = event["item"]
        elif index is not None:
            assert index in added
            assert index not in done
            assert event["item_id"] == added[index]["id"]
    final = parsed[-1]["response"]
    assert list(done) == sorted(done)
    assert final["output"] == [done[index] for index in sorted(added)]
    assert {"input_tokens_details", "output_tokens_details"} <= set(final["usage"])
    _check_parts(parsed)
    return parsed


def _check_parts(parsed: list[JsonObject]) -> None:
    """Each part is added before its deltas, which join to the text of its done events."""
    texts: dict[tuple[Any, ...], str] = {}
    for event in parsed:
        kind = event["type"].removeprefix("response.")
        inner = event.get("content_index", event.get("summary_index"))
        place = (event.get("output_index"), inner)
        if kind in ("content_part.added", "reasoning_summary_part.added"):
            assert place not in texts
            texts[place] = ""
            part = event["part"]
            assert (part.get("text") or part.get("refusal") or "") == ""
        elif kind.endswith(".delta"):
            if inner is None:
                texts.setdefault(place, "")
            texts[place] += event["delta"]
            if kind == "output_text.delta":
                assert isinstance(event["logprobs"], list)
        elif kind in (
            "output_text.done",
            "reasoning_summary_text.done",
            "reasoning_text.done",
            "refusal.done",
            "function_call_arguments.done",
            "custom_tool_call_input.done",
        ):
            whole = [event.get(name) for name in ("text", "refusal", "arguments", "input")]
            assert texts.get(place, "") in whole


STREAM_CHECKS: dict[Protocol, Callable[[bytes], list[JsonObject]]] = {
    "chat": check_chat,
    "messages": check_messages,
    "responses": check_responses,
}


def check_full(protocol: Protocol, body: JsonObject) -> None:
    """A full answer is what the SDK's own type says."""
    _ANSWERS[protocol].model_validate_json(json.dumps(body), strict=True)
