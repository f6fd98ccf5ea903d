"""What holds for every request, whatever is asked."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Base64,
    Block,
    Document,
    Image,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.canonical.errors import InvalidRequest, Refused
from dragoman.canonical.losses import Ledger
from dragoman.canonical.requests import CustomTool, FunctionTool, Request
from dragoman.protocols.google_conversation import UNSIGNED
from tests.library import translate_request
from tests.losses.requests import CHAT, GOOGLE, MESSAGES, RESPONSES, cases
from tests.properties import strategies as own
from tests.properties.cells import (
    CROSSINGS,
    LENIENT,
    PROTOCOLS,
    STRICT,
    read_request,
    write_request,
)


def bare(value: Any) -> Any:
    """A canonical value without where it stood in the client's body."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, msgspec.Struct):
        fields = {name: bare(getattr(value, name)) for name in value.__struct_fields__}
        for name in ("path", "paths", "source"):
            if name in fields:
                fields[name] = {} if name != "path" else ""
        return type(value)(**fields)
    if isinstance(value, tuple):
        return tuple(bare(item) for item in value)
    return value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(request=own.requests())
def test_a_request_survives_its_own_protocol(protocol: str, request: Request) -> None:
    """What a protocol can carry is read back as it was written, without any loss. A placeholder
    for a signature is none."""
    carried = read_request(protocol, write_request(protocol, request))
    ledger = Ledger()

    again = read_request(protocol, write_request(protocol, carried, ledger))

    assert [loss for loss in ledger if loss.detail != UNSIGNED] == []
    assert bare(again) == bare(carried)


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(request=own.requests())
def test_strict_translations_lose_nothing(client: str, upstream: str, request: Request) -> None:
    """Under the strict policy a request is refused, or it means the same on the other side."""
    body = write_request(client, request)
    try:
        call = translate_request(client, upstream, msgspec.json.encode(body), options=STRICT)
    except Refused:
        return
    assert call.losses == ()

    meant = meaning(read_request(client, body))
    arrived = meaning(read_request(upstream, msgspec.json.decode(call.body)))
    if upstream == GOOGLE:  # whose path says it
        arrived["stream"] = ":streamGenerateContent" in call.path

    # Messages upstreams need a limit, so a default is not a loss.
    assert arrived == {**meant, "limit": meant["limit"] or arrived["limit"]}


@pytest.mark.parametrize("client", PROTOCOLS)
def test_strict_translations_of_every_known_field_report_nothing(client: str) -> None:
    """Everything the SDKs' types allow is refused or translated whole."""
    for case in cases():
        if case.client != client:
            continue
        for upstream in PROTOCOLS:
            if upstream == client:
                continue
            body = msgspec.json.encode(case.body())
            try:
                call = translate_request(client, upstream, body, options=STRICT)
            except InvalidRequest:
                continue
            assert call.losses == ()


def meaning(request: Request) -> dict[str, Any]:
    """What a request says, apart from how its protocol arranges it."""
    said: list[Any] = []
    system: list[str] = [text.text for text in request.instructions]
    for turn in request.turns:
        for block in turn.blocks:
            if turn.role in ("system", "developer"):
                system.append(spoken(block))
            else:
                said.append((turn.role, spoken(block)))
    choice = request.tool_choice
    return {
        "system": system,
        "said": said,
        "tools": [
            (tool.name, tool.description, bare(tool.schema))
            for tool in request.tools
            if isinstance(tool, FunctionTool)
        ],
        "tool_choice": (choice.mode, choice.tool and choice.tool.name)
        if choice is not None
        else ("auto", None),
        # Without calls there are no parallel ones.
        "parallel": None
        if choice is not None and choice.mode == "none"
        else request.parallel_tool_calls,
        "temperature": request.temperature,
        "stop": request.stop,
        "format": request.output_format and request.output_format.schema,  # type: ignore[union-attr]
        "effort": request.thinking and request.thinking.effort,
        "user": request.safety_identifier,
        "limit": request.max_output_tokens,
        "stream": request.stream,
    }


def spoken(block: Block) -> Any:
    """What one block says."""
    match block:
        case Text():
            return block.text
        case ToolCall():
            return (block.id, block.name, json.loads(block.arguments or "{}"))
        case ToolResult():
            return (block.call_id, [spoken(inner) for inner in block.content])
        case Image(source=Base64() as source) | Document(source=Base64() as source):
            return source
        case Image(source=Url() as source):
            return source
    return block


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(request=own.requests())
def test_translation_is_deterministic(client: str, upstream: str, request: Request) -> None:
    body = msgspec.json.encode(write_request(client, request))

    first, second = (
        translate_request(client, upstream, body, options=LENIENT).body for _ in range(2)
    )

    assert first == second


_TURNS = {CHAT: "messages", MESSAGES: "messages", RESPONSES: "input", GOOGLE: "contents"}


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(request=own.requests(), more=own.texts)
def test_a_longer_conversation_keeps_its_earlier_bytes(
    client: str, upstream: str, request: Request, more: str
) -> None:
    """Prompt caches of upstreams match byte prefixes."""
    longer = replace(
        request,
        turns=(
            *request.turns,
            *read_request(CHAT, follow_up(more)).turns,
        ),
    )

    short, long = (
        msgspec.json.decode(
            translate_request(
                client, upstream, msgspec.json.encode(write_request(client, asked)), options=LENIENT
            ).body,
            type=dict[str, msgspec.Raw],
        )
        for asked in (request, longer)
    )

    turns = _TURNS[upstream]
    kept = bytes(short.pop(turns)).rstrip(b"]")
    assert bytes(long.pop(turns)).startswith(kept)
    assert {name: bytes(value) for name, value in short.items()} == {
        name: bytes(value) for name, value in long.items()
    }


def follow_up(text: str) -> dict[str, Any]:
    """Two more turns."""
    return {
        "model": "filler",
        "messages": [
            {"role": "assistant", "content": text},
            {"role": "user", "content": text},
        ],
    }


_LEGAL_NAMES = {
    CHAT: re.compile(r"[A-Za-z0-9_-]{1,64}"),
    MESSAGES: re.compile(r"[A-Za-z0-9_-]{1,128}"),
    RESPONSES: re.compile(r"[A-Za-z0-9_-]{1,64}"),
    GOOGLE: re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}"),
}
_LEGAL_IDS = {
    CHAT: re.compile(r"(?s).+"),
    MESSAGES: re.compile(r"[A-Za-z0-9_-]+"),
    RESPONSES: re.compile(r"(?s).{1,64}"),
    GOOGLE: re.compile(r"(?s).+"),
}
"""Ids are passed on unchanged unless the upstream forbids them."""


def names_and_ids(upstream: str, body: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Declared names, ids of calls and ids of results in an upstream's body."""
    if upstream == CHAT:
        messages = body["messages"]
        tools = [tool[tool["type"]]["name"] for tool in body.get("tools", ())]
        calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
        return tools, calls, [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    if upstream == MESSAGES:
        blocks = [
            block
            for message in body["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
        ]
        tools = [tool["name"] for tool in body.get("tools", ())]
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        return tools, calls, [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
    if upstream == GOOGLE:
        parts = [part for content in body["contents"] for part in content["parts"]]
        declared = [one for tool in body.get("tools", ()) for one in tool["functionDeclarations"]]
        calls = [part["functionCall"]["id"] for part in parts if "functionCall" in part]
        answered = [part["functionResponse"] for part in parts if "functionResponse" in part]
        return [one["name"] for one in declared], calls, [one["id"] for one in answered]
    items = body["input"] if isinstance(body["input"], list) else []
    tools = [tool["name"] for tool in body.get("tools", ())]
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    return tools, calls, [i["call_id"] for i in items if i.get("type") == "function_call_output"]


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(request=own.requests(tool_names=own.wild_names, call_ids=own.wild_names))
def test_names_and_ids_are_legal_upstream(client: str, upstream: str, request: Request) -> None:
    """Whatever names and ids clients use, an upstream is given legal, distinct ones that pair."""
    body = write_wild(client, request)

    call = translate_request(client, upstream, msgspec.json.encode(body), options=LENIENT)

    tools, calls, results = names_and_ids(upstream, msgspec.json.decode(call.body))
    assert all(_LEGAL_NAMES[upstream].fullmatch(name) for name in tools)
    assert len(set(tools)) == len(tools)
    assert all(_LEGAL_IDS[upstream].fullmatch(call_id) for call_id in calls)
    assert len(set(calls)) == len(calls)
    assert results == calls


def write_wild(client: str, request: Request) -> dict[str, Any]:
    """The client's body, with names and ids its own protocol would not allow either."""
    body = write_request(client, request)
    calls = [call for turn in request.turns for call in turn.blocks if isinstance(call, ToolCall)]
    tools = [tool.name for tool in request.tools if isinstance(tool, FunctionTool | CustomTool)]
    written_tools, written_calls, _ = names_and_ids(client, body)
    text = json.dumps(body)
    originals = [*tools, *(call.id for call in calls)]
    for original, legal in zip(originals, [*written_tools, *written_calls], strict=True):
        text = text.replace(json.dumps(legal), json.dumps(original))
    restored: dict[str, Any] = json.loads(text)
    return restored
