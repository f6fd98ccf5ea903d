"""What goes to an upstream and comes back, or to a client and comes back, is what it was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.blocks import Opaque, Reasoning, Text, ToolCall
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.requests import CustomTool, FunctionTool
from dragoman.translation import Call
from tests.checkers import CHECKERS
from tests.folded import Response
from tests.library import translate_request
from tests.losses.clients import asking
from tests.losses.requests import CHAT, GOOGLE, MESSAGES, RESPONSES
from tests.properties import strategies as own
from tests.properties.cells import (
    CROSSINGS,
    LATEST_CROSSINGS,
    LENIENT,
    read_request,
    write_request,
    write_stream,
)

_TURNS = {CHAT: "messages", MESSAGES: "messages", RESPONSES: "input"}


def answer(*blocks: Any) -> Response:
    """An answer of the given blocks."""
    calls = any(isinstance(block, ToolCall) for block in blocks)
    reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
    return Response(id="u_1", model="m", created=5, blocks=blocks, finish=Finish(reason))


def shown(call: Call, client: str, upstream: str, data: st.DataObject, told: Response) -> Any:
    """What the client's checker understands of an upstream's stream, cut anywhere."""
    stream = write_stream(upstream, data.draw(own.event_streams(told)))
    cut = data.draw(st.integers(0, len(stream)))
    translator = call.open_stream()
    chunks = [translator.feed(stream[:cut]), translator.feed(stream[cut:]), translator.finish()]
    return CHECKERS[client](b"".join(chunks))


def declared(client: str, tools: list[dict[str, Any]]) -> list[str]:
    """The names of tools in a request body."""
    return [str(tool["name"]) for tool in functions(client, tools)]


def functions(client: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What has the names of tools in a request body."""
    if client == GOOGLE:
        return [one for tool in tools for one in tool["functionDeclarations"]]
    return [tool[tool["type"]] if client == CHAT else tool for tool in tools]


@pytest.mark.parametrize(("client", "upstream"), [*CROSSINGS, *LATEST_CROSSINGS])
@given(data=st.data())
def test_tools_come_back_under_their_own_names(
    client: str, upstream: str, data: st.DataObject
) -> None:
    """Names the upstream does not allow are changed on the way there and back."""
    names = data.draw(st.lists(own.wild_names, min_size=1, max_size=4, unique=True))
    tools = tuple(
        FunctionTool(name=f"t{n}", schema={"type": "object"}) for n, _ in enumerate(names)
    )
    request = read_request(client, asking(client, stream=True))
    body = write_request(client, msgspec.structs.replace(request, tools=tools))
    for function, name in zip(functions(client, body["tools"]), names, strict=True):
        function["name"] = name
    call = translate_request(client, upstream, msgspec.json.encode(body), options=LENIENT)
    sent = declared(upstream, msgspec.json.decode(call.body)["tools"])
    number = data.draw(st.integers(0, len(names) - 1))

    told = answer(ToolCall(id="call_1", name=sent[number], arguments='{"a":1}'))
    verdict = shown(call, client, upstream, data, told)

    assert verdict.calls == [("call_1", names[number], '{"a":1}')]


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
@given(data=st.data(), text=own.texts)
def test_custom_tools_come_back_as_text(client: str, data: st.DataObject, text: str) -> None:
    """A free-text tool that is emulated by a function is one again for the client."""
    request = read_request(client, asking(client, stream=True))
    body = write_custom(client, msgspec.structs.replace(request, tools=(CustomTool(name="patch"),)))
    call = translate_request(client, MESSAGES, msgspec.json.encode(body), options=LENIENT)

    arguments = msgspec.json.encode({"input": text}).decode()
    told = answer(ToolCall(id="call_1", name="patch", arguments=arguments))
    verdict = shown(call, client, MESSAGES, data, told)

    assert verdict.calls == [("call_1", "patch", text)]


def write_custom(client: str, request: Any) -> dict[str, Any]:
    """The client's request with a custom tool in its own protocol's form."""
    body = write_request(client, msgspec.structs.replace(request, tools=()))
    own_form = {"type": "custom", "custom": {"name": "patch"}}
    body["tools"] = [own_form if client == CHAT else {"type": "custom", "name": "patch"}]
    return body


@pytest.mark.parametrize(("client", "upstream"), [(RESPONSES, MESSAGES), (MESSAGES, RESPONSES)])
@given(data=st.data(), thought=own.texts, state=own.texts, said=own.texts)
def test_reasoning_comes_back_to_its_maker(
    client: str, upstream: str, data: st.DataObject, thought: str, state: str, said: str
) -> None:
    """Opaque state survives the way to a client of another protocol and back, byte for byte."""
    asked = asking(client, stream=False)
    call = translate_request(client, upstream, msgspec.json.encode(asked), options=LENIENT)
    reasoning = Reasoning(parts=(thought,), opaque=Opaque(upstream, state, id="rs_1"))
    told = answer(reasoning, Text(text=said))
    stream = write_stream(upstream, data.draw(own.event_streams(told)))
    given = msgspec.json.decode(call.stream_as_response(stream))

    turns = _TURNS[client]
    back = given["output"] if client == RESPONSES else [assistant(given)]
    more = {**asked, turns: [*asked[turns], *back, {"role": "user", "content": "more"}]}
    again = translate_request(client, upstream, msgspec.json.encode(more), options=LENIENT)

    blocks = [
        block
        for turn in read_request(upstream, msgspec.json.decode(again.body)).turns
        for block in turn.blocks
        if isinstance(block, Reasoning)
    ]
    assert [(block.parts, block.opaque and block.opaque.data) for block in blocks] == [
        ((thought,), state)
    ]


def assistant(message: dict[str, Any]) -> dict[str, Any]:
    """A Messages answer as the turn a client sends back."""
    return {"role": "assistant", "content": message["content"]}
