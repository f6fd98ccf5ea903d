"""Requests of Chat clients for Messages upstreams: requirements 31 to 44."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import InvalidRequest, Refused
from dragoman.canonical.losses import Policy
from dragoman.protocols.settings import make_options
from tests.requirements.cells import (
    CHAT,
    MESSAGES,
    PROTOCOLS,
    RESPONSES,
    WEATHER,
    Json,
    asking,
    calling,
    function_call,
    lost,
    sent,
)

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQK"
PATCH = {"type": "custom", "custom": {"name": "patch", "description": "Edits."}}
LOOK = {"type": "function", "function": {"name": "look", "parameters": WEATHER}}


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def said(role: str, content: Any, **more: Any) -> Json:
    return {"role": role, "content": content, **more}


def called(*calls: Json, content: Any = None) -> Json:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def answered(number: int, content: Any = "seen") -> Json:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": content}


def body_of(*turns: Json, **more: Any) -> Json:
    return asking(CHAT, messages=list(turns), **more)


def converted(*turns: Json, **how: Any) -> Json:
    """The body that a Messages upstream receives for these messages."""
    return sent(CHAT, MESSAGES, body_of(*turns), **how)


def test_system_and_developer_texts_go_to_the_top() -> None:
    """In their order, never into the messages. req: 31, 32"""
    body = converted(said("system", "One."), said("developer", "Two."), said("user", "Hi"))
    assert body["system"] == [text("One."), text("Two.")]
    assert body["messages"] == [said("user", [text("Hi")])]


LATE = (said("system", "One."), said("user", "Hi"), said("developer", "Two."))
"""System text inside the conversation, which the service has learnt to take."""


@pytest.mark.parametrize(
    ("late_system", "system", "roles", "kinds"),
    [
        ("message", "One.", ["user", "system"], {}),
        ("hoist", [text("One."), text("Two.")], ["user"], {"messages[2]": "converted"}),
        ("user", "One.", ["user"], {"messages[2]": "converted"}),
    ],
)
def test_late_system_texts(
    late_system: Any, system: Any, roles: list[str], kinds: dict[str, str]
) -> None:
    """Their place has a meaning, so they keep it; `hoist` moves them to the top as well. req: 31"""
    call = calling(CHAT, MESSAGES, body_of(*LATE), options=make_options(late_system=late_system))
    body = json.loads(call.body)
    assert body["system"] == system
    assert [message["role"] for message in body["messages"]] == roles
    assert lost(call) == kinds


@pytest.mark.parametrize(
    ("turns", "system"),
    [
        ([said("system", "One.")], "One."),
        ([said("system", [text("One.")])], "One."),
        ([said("system", ""), said("system", "One.")], "One."),
        ([said("system", [text("One."), text("Two.")])], [text("One."), text("Two.")]),
        (
            [said("system", [text("One."), text("Two.")]), said("developer", "Three.")],
            [text("One."), text("Two."), text("Three.")],
        ),
    ],
)
def test_one_text_is_a_string_and_more_are_blocks(turns: list[Json], system: Any) -> None:
    """One block per part, order kept. req: 32"""
    assert converted(*turns, said("user", "Hi"))["system"] == system


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (text("Look."), text("Look.")),
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PNG},
            },
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}},
            {"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": f"data:image/jpg;base64,{PNG}"}},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": PNG},
            },
        ),
        (
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
            },
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                "title": "a.pdf",
            },
        ),
        (
            {"type": "file", "file": {"file_data": "data:text/plain;base64,aGVsbG8="}},
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "hello"},
            },
        ),
    ],
)
def test_what_users_send(part: Json, block: Json) -> None:
    """req: 33, 44"""
    assert converted(said("user", [part]))["messages"] == [said("user", [block])]


UNSAYABLE = [
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "image_url", "image_url": {"url": f"data:image/tiff;base64,{PNG}"}},
    {"type": "file", "file": {"file_id": "file-1"}},
    {"type": "file", "file": {"file_data": "data:application/zip;base64,AAAA"}},
]
"""Parts for which the other protocol has no block."""


@pytest.mark.parametrize("part", UNSAYABLE)
@pytest.mark.parametrize("policy", ["strict", "balanced"])
def test_a_part_that_cannot_be_sent_fails_the_request(part: Json, policy: str) -> None:
    """The error names the part. req: 34"""
    with pytest.raises(Refused) as caught:
        converted(said("user", [text("Hi"), part]), policy=policy)
    assert caught.value.fault.param == "messages[0].content[1]"


@pytest.mark.parametrize("part", UNSAYABLE)
def test_a_lenient_route_drops_such_a_part_and_says_so(part: Json) -> None:
    """As contract 000 drops it, but never without a word. req: 34"""
    call = calling(CHAT, MESSAGES, body_of(said("user", [text("Hi"), part])), policy="lenient")
    assert json.loads(call.body)["messages"] == [said("user", [text("Hi")])]
    assert lost(call) == {"messages[0].content[1]": "content"}


def test_calls_follow_the_text() -> None:
    """Same id and name, the arguments parsed, all of one turn in one message. req: 35, 42"""
    calls = (
        function_call(1, "look", '{"city": "Paris", "n": 1}'),
        function_call(2, "look", ""),
    )
    turns = (said("user", "Hi"), called(*calls, content="Looking."), answered(1), answered(2))
    assert converted(*turns)["messages"][1] == {
        "role": "assistant",
        "content": [
            text("Looking."),
            {
                "type": "tool_use",
                "id": "call_1",
                "name": "look",
                "input": {"city": "Paris", "n": 1},
            },
            {"type": "tool_use", "id": "call_2", "name": "look", "input": {}},
        ],
    }


@pytest.mark.parametrize("arguments", ['{"city": "Par', "[1]", "null", "Paris"])
def test_arguments_that_are_no_object(arguments: str) -> None:
    """Clients resend what a model once wrote, and could never go on if that were refused: it is
    wrapped and reported. A route may refuse it, or send an empty object; nothing does so in
    silence. req: 36"""
    asked = body_of(said("user", "Hi"), called(function_call(1, "look", arguments)), answered(1))
    call = calling(CHAT, MESSAGES, asked)
    block = json.loads(call.body)["messages"][1]["content"][0]
    assert block["input"] == {"invalid_arguments": arguments}
    assert lost(call) == {"messages[1].tool_calls[0]": "converted"}

    for refusing in (
        make_options(invalid_tool_arguments="error"),
        make_options(policy=Policy.STRICT),
    ):
        with pytest.raises(Refused) as caught:
            calling(CHAT, MESSAGES, asked, options=refusing)
        assert caught.value.fault.param == "messages[1].tool_calls[0]"

    call = calling(CHAT, MESSAGES, asked, options=make_options(invalid_tool_arguments="empty"))
    assert json.loads(call.body)["messages"][1]["content"][0]["input"] == {}
    assert lost(call) == {"messages[1].tool_calls[0]": "converted"}


def test_a_tool_message_is_a_result() -> None:
    """Neighbours share one user message, and what the user says next follows in it. req: 37"""
    turns = (
        said("user", "Hi"),
        called(function_call(1, "look"), function_call(2, "look")),
        answered(1, "one"),
        answered(2, [text("two"), text("more")]),
        said("user", "And?"),
    )
    assert converted(*turns)["messages"][2:] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "one"},
                {
                    "type": "tool_result",
                    "tool_use_id": "call_2",
                    "content": [text("two"), text("more")],
                },
                text("And?"),
            ],
        }
    ]


LOOPS: dict[str, Json] = {
    CHAT: body_of(said("user", "Hi"), called(function_call(1, "look")), answered(1, "RESULT")),
    MESSAGES: asking(
        MESSAGES,
        messages=[
            said("user", "Hi"),
            said("assistant", [{"type": "tool_use", "id": "call_1", "name": "look", "input": {}}]),
            said("user", [{"type": "tool_result", "tool_use_id": "call_1", "content": "RESULT"}]),
        ],
    ),
    RESPONSES: asking(
        RESPONSES,
        input=[
            said("user", "Hi"),
            {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "RESULT"},
        ],
    ),
}
"""One round of a tool in each protocol."""


@pytest.mark.parametrize("client", PROTOCOLS)
def test_results_stand_where_the_upstream_looks_for_them(client: str) -> None:
    """Never in the content of a Chat user or of an assistant. req: 38"""
    if client != CHAT:
        tool = sent(client, CHAT, LOOPS[client])["messages"][-1]
        assert tool == {"role": "tool", "tool_call_id": "call_1", "content": "RESULT"}
    if client != MESSAGES:
        *before, last = sent(client, MESSAGES, LOOPS[client])["messages"]
        block = {"type": "tool_result", "tool_use_id": "call_1", "content": "RESULT"}
        assert last == {"role": "user", "content": [block]}
        assert "RESULT" not in json.dumps(before)
    if client != RESPONSES:
        output = sent(client, RESPONSES, LOOPS[client])["input"][-1]
        assert output == {"type": "function_call_output", "call_id": "call_1", "output": "RESULT"}


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
@pytest.mark.parametrize("told", ["Error: no such file", '{"error": true}', ""])
def test_no_error_flag_is_invented(client: str, told: str) -> None:
    """However much an output looks like a failure. req: 39"""
    asked = json.loads(json.dumps(LOOPS[client]).replace('"RESULT"', json.dumps(told)))
    block = sent(client, MESSAGES, asked)["messages"][-1]["content"][0]
    assert block.get("content", "") == told
    assert "is_error" not in block


@pytest.mark.parametrize("upstream", [MESSAGES, RESPONSES])
def test_function_messages_are_refused(upstream: str) -> None:
    """They name no call, and no id is invented for them. req: 40"""
    old = {"role": "function", "name": "look", "content": "seen"}
    with pytest.raises(Refused) as caught:
        sent(CHAT, upstream, body_of(said("user", "Hi"), old))
    assert caught.value.fault.param == "messages[1]"
    call = calling(CHAT, upstream, body_of(said("user", "Hi"), old), policy="lenient")
    assert "seen" not in call.body.decode()
    assert lost(call) == {"messages[1]": "content"}


CUSTOM: dict[str, Json] = {
    "tools[0].custom": body_of(said("user", "Hi"), tools=[PATCH]),
    "messages[1].tool_calls[0]": body_of(
        said("user", "Hi"),
        called({"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": "+a"}}),
        answered(1),
    ),
}
"""Where free-text tools can stand, by the path that an error names."""


@pytest.mark.parametrize("path", CUSTOM)
def test_custom_tools_can_be_refused(path: str) -> None:
    """As contract 002 asks; so is any choice of one. req: 41"""
    with pytest.raises(Refused) as caught:
        calling(CHAT, MESSAGES, CUSTOM[path], options=make_options(custom_tools="reject"))
    assert caught.value.fault.param == path
    chosen = body_of(
        said("user", "Hi"),
        tools=[LOOK, PATCH],
        tool_choice={"type": "custom", "custom": {"name": "patch"}},
    )
    with pytest.raises(Refused) as caught:
        calling(CHAT, MESSAGES, chosen, options=make_options(custom_tools="reject"))
    assert {"tools[1].custom", "tool_choice"} == set(caught.value.paths)


def test_custom_tools_are_emulated() -> None:
    """By default, for agents cannot work without theirs; the emulation is reported. req: 41"""
    chosen = {
        **CUSTOM["messages[1].tool_calls[0]"],
        "tools": [PATCH],
        "tool_choice": {"type": "custom", "custom": {"name": "patch"}},
    }
    call = calling(CHAT, MESSAGES, chosen)
    body = json.loads(call.body)
    (tool,) = body["tools"]
    assert (tool["name"], tool["description"]) == ("patch", "Edits.")
    assert tool["input_schema"]["required"] == ["input"]
    assert tool["input_schema"]["properties"].keys() == {"input"}
    assert body["tool_choice"] == {"type": "tool", "name": "patch"}
    assert body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "call_1", "name": "patch", "input": {"input": "+a"}}
    ]
    assert lost(call)["tools[0].custom"] == "converted"


def test_function_tools() -> None:
    """req: 42"""
    function = {"name": "look", "description": "Looks.", "parameters": WEATHER}
    nothing = {"type": "function", "function": {"name": "now"}}
    body = sent(CHAT, MESSAGES, asking(CHAT, tools=[{**LOOK, "function": function}, nothing]))
    assert body["tools"] == [
        {"name": "look", "description": "Looks.", "input_schema": WEATHER},
        {"name": "now", "input_schema": {"type": "object", "properties": {}}},
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        (
            {"type": "function", "function": {"name": "look"}},
            {"type": "tool", "name": "look"},
        ),
    ],
)
def test_the_choice_of_tools(choice: Any, expected: Json) -> None:
    """req: 43"""
    body = sent(CHAT, MESSAGES, asking(CHAT, tools=[LOOK], tool_choice=choice))
    assert body["tool_choice"] == expected


@pytest.mark.parametrize("url", ["data:image/png;base64,!!!", "data:image/png,plain", "ftp://a/b"])
def test_an_image_url_that_is_none(url: str) -> None:
    """req: 44"""
    part = {"type": "image_url", "image_url": {"url": url}}
    with pytest.raises(InvalidRequest) as caught:
        converted(said("user", [part]))
    assert caught.value.fault.param == "messages[0].content[0].image_url.url"
