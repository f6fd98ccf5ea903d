"""Requests of Messages clients for Chat upstreams: requirements 14 to 30."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import Policy
from dragoman.canonical.options import Capabilities
from dragoman.protocols.settings import make_capabilities, make_options
from dragoman.translation import Call
from tests.requirements.cells import CHAT, MESSAGES, WEATHER, Json, asking, calling, lost, sent

PNG = "iVBORw0KGgo="
CACHED = {"cache_control": {"type": "ephemeral"}}


def text(value: str, **more: Any) -> Json:
    return {"type": "text", "text": value, **more}


def user(*content: Any) -> Json:
    return {"role": "user", "content": list(content)}


def call(number: int, **arguments: Any) -> Json:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": arguments}


def result(number: int, content: Any = "seen", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content, **more}


def messages(*turns: Json, **how: Any) -> list[Json]:
    """The messages that a Chat upstream receives for these turns."""
    body = asking(MESSAGES, messages=list(turns))
    made: list[Json] = sent(MESSAGES, CHAT, body, **how)["messages"]
    return made


def test_a_system_string_is_the_first_message() -> None:
    """req: 14"""
    body = sent(MESSAGES, CHAT, asking(MESSAGES, system="Be brief."))
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]


@pytest.mark.parametrize(
    ("capabilities", "content"),
    [
        # Joined with nothing, the last word of one text and the first of the next would be one.
        (Capabilities(), [text("One."), text("Two.")]),
        (make_capabilities(system_as_string=True), "One.\n\nTwo."),
    ],
)
def test_system_blocks_are_one_message(capabilities: Capabilities, content: Any) -> None:
    """Boundaries are kept: as parts, or as blank lines for servers that want strings. req: 15"""
    asked = asking(MESSAGES, system=[text("One."), text("Two.")])
    body = sent(MESSAGES, CHAT, asked, capabilities=capabilities)
    assert body["messages"] == [
        {"role": "system", "content": content},
        {"role": "user", "content": "Hi"},
    ]


def test_a_system_block_that_is_no_text_is_refused() -> None:
    """Text blocks only. req: 15"""
    with pytest.raises(InvalidRequest) as caught:
        sent(MESSAGES, CHAT, asking(MESSAGES, system=[{"type": "image"}]))
    assert caught.value.fault.param == "system[0].type"


def test_string_content_is_kept() -> None:
    """req: 16"""
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
    assert messages(*turns) == turns


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([text("one")], "one"),
        ([text("one"), text("two")], [text("one"), text("two")]),
    ],
)
def test_one_text_is_a_string(content: list[Json], expected: Any) -> None:
    """Exactly one text is a plain string, more are parts, of either side. req: 17"""
    made = messages(user(*content), {"role": "assistant", "content": content}, user(text("x")))
    assert made[:2] == [
        {"role": "user", "content": expected},
        {"role": "assistant", "content": expected},
    ]


@pytest.mark.parametrize(
    ("source", "url"),
    [
        (
            {"type": "base64", "media_type": "image/png", "data": PNG},
            f"data:image/png;base64,{PNG}",
        ),
        ({"type": "url", "url": "https://example.test/a.png"}, "https://example.test/a.png"),
    ],
)
def test_images(source: Json, url: str) -> None:
    """Beside an image a single text stays a part. req: 17, 18"""
    assert messages(user(text("What?"), {"type": "image", "source": source})) == [
        {
            "role": "user",
            "content": [text("What?"), {"type": "image_url", "image_url": {"url": url}}],
        }
    ]


def test_thinking_is_left_out() -> None:
    """And reported; a route may send its text back to servers that want it. req: 19"""
    thoughts = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    ]
    turns = (
        user(text("Hi")),
        {"role": "assistant", "content": [*thoughts, text("Hello")]},
        user(text("Bye")),
    )
    made = calling(MESSAGES, CHAT, asking(MESSAGES, messages=list(turns)))
    assert json.loads(made.body)["messages"][1] == {"role": "assistant", "content": "Hello"}
    assert lost(made) == {"messages[1].content[0]": "knob", "messages[1].content[1]": "knob"}
    replayed = messages(*turns, capabilities=make_capabilities(replay_reasoning="always"))
    assert replayed[1] == {"role": "assistant", "content": "Hello", "reasoning_content": "Hm."}


def test_tool_calls_stay_with_the_text_of_their_turn() -> None:
    """req: 20"""
    turn = {"role": "assistant", "content": [text("Looking."), call(1, at="a b"), call(2)]}
    made = messages(user(text("Hi")), turn, user(result(1), result(2)))
    assert made[1] == {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [
            {
                "id": "toolu_1",
                "type": "function",
                "function": {"name": "look", "arguments": '{"at":"a b"}'},
            },
            {"id": "toolu_2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ],
    }


def test_each_result_is_a_message_of_its_own() -> None:
    """In the order of the calls. req: 21"""
    turn = {"role": "assistant", "content": [call(1), call(2)]}
    made = messages(user(text("Hi")), turn, user(result(2, "second"), result(1, "first")))
    assert made[2:] == [
        {"role": "tool", "tool_call_id": "toolu_1", "content": "first"},
        {"role": "tool", "tool_call_id": "toolu_2", "content": "second"},
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([text("one"), text("two")], "onetwo"),
        ([text("one")], "one"),
        ([], ""),
        ("one", "one"),
    ],
)
def test_the_texts_of_a_result_are_joined(content: Any, expected: str) -> None:
    """req: 22"""
    turn = {"role": "assistant", "content": [call(1)]}
    made = messages(user(text("Hi")), turn, user(result(1, content)))
    assert made[2]["content"] == expected


@pytest.mark.parametrize("text_first", [False, True])
def test_results_come_before_the_text_of_their_turn(text_first: bool) -> None:
    """Chat wants results directly after the calls, wherever the client put its text. req: 23"""
    content = [result(1), text("And now?")]
    if text_first:
        content.reverse()
    turn = {"role": "assistant", "content": [call(1)]}
    assert messages(user(text("Hi")), turn, user(*content))[2:] == [
        {"role": "tool", "tool_call_id": "toolu_1", "content": "seen"},
        {"role": "user", "content": "And now?"},
    ]


def test_the_error_flag_has_no_place() -> None:
    """The text goes through unchanged, the flag is reported; a route may say it in words.
    req: 24"""
    turns = (
        user(text("Hi")),
        {"role": "assistant", "content": [call(1)]},
        user(result(1, "No such file", is_error=True)),
    )
    made = calling(MESSAGES, CHAT, asking(MESSAGES, messages=list(turns)))
    told = {"role": "tool", "tool_call_id": "toolu_1", "content": "No such file"}
    assert json.loads(made.body)["messages"][2] == told
    assert lost(made) == {"messages[2].content[0].is_error": "knob"}
    prefixed = messages(*turns, options=make_options(tool_error_prefix="Error: "))
    assert prefixed[2]["content"] == "Error: No such file"


@pytest.mark.parametrize("kind", [{}, {"type": "custom"}])
def test_tools_are_functions(kind: Json) -> None:
    """Also those that say "custom", which here means nothing special. req: 25"""
    tool = {"name": "get_weather", "description": "Tells it.", "input_schema": WEATHER, **kind}
    body = sent(MESSAGES, CHAT, asking(MESSAGES, tools=[tool]))
    function = {"name": "get_weather", "description": "Tells it.", "parameters": WEATHER}
    assert body["tools"] == [{"type": "function", "function": function}]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        (
            {"type": "tool", "name": "look"},
            {"type": "function", "function": {"name": "look"}},
        ),
    ],
)
def test_the_choice_of_tools(choice: Json, expected: Any) -> None:
    """req: 26"""
    tools = [{"name": "look", "input_schema": WEATHER}]
    body = sent(MESSAGES, CHAT, asking(MESSAGES, tools=tools, tool_choice=choice))
    assert body["tool_choice"] == expected


def test_the_output_limit() -> None:
    """It passes under the name that the upstream knows, and a Messages client must give one; the
    default, 16384 and not 4096, is for clients whose protocol lets them say nothing. req: 27"""
    asked = asking(MESSAGES, max_tokens=77)
    assert sent(MESSAGES, CHAT, asked)["max_completion_tokens"] == 77
    older = make_capabilities(max_tokens_field="max_tokens")
    assert sent(MESSAGES, CHAT, asked, capabilities=older)["max_tokens"] == 77
    del asked["max_tokens"]
    with pytest.raises(InvalidRequest) as caught:
        sent(MESSAGES, CHAT, asked)
    assert caught.value.fault.param == "max_tokens"
    assert sent(CHAT, MESSAGES, asking(CHAT))["max_tokens"] == 16384
    seed = make_options(default_max_tokens=4096)
    assert sent(CHAT, MESSAGES, asking(CHAT), options=seed)["max_tokens"] == 4096


@pytest.mark.parametrize("value", [0, 0.5, 1])
def test_sampling(value: float) -> None:
    """Zero is a value too. req: 28"""
    body = sent(MESSAGES, CHAT, asking(MESSAGES, temperature=value, top_p=value))
    assert (body["temperature"], body["top_p"]) == (value, value)
    assert not {"temperature", "top_p"} & sent(MESSAGES, CHAT, asking(MESSAGES)).keys()


def test_thinking_where_the_upstream_has_none() -> None:
    """The field never goes to a Chat upstream. It becomes an effort, or nothing where the upstream
    cannot be asked. req: 29"""
    asked = asking(MESSAGES, max_tokens=9000, thinking={"type": "enabled", "budget_tokens": 8000})
    made = calling(MESSAGES, CHAT, asked)
    assert json.loads(made.body)["reasoning_effort"] == "medium"
    assert "thinking" not in json.loads(made.body)
    assert lost(made) == {"thinking": "converted"}
    made = calling(MESSAGES, CHAT, asked, capabilities=make_capabilities(effort="none"))
    assert not {"thinking", "reasoning_effort"} & json.loads(made.body).keys()
    assert lost(made) == {"thinking": "knob"}


MARKED = asking(
    MESSAGES,
    system=[text("One.", **CACHED), text("Two.")],
    messages=[user(text("Hi", **CACHED), text("there"))],
    tools=[{"name": "look", "input_schema": WEATHER, **CACHED}],
)
"""A cache mark in each place."""


def marks_lost(made: Call) -> set[str]:
    """What carried the cache marks that were lost; nothing else was."""
    assert set(lost(made).values()) == {"knob"}
    return {path.removesuffix(".cache_control") for path in lost(made)}


def test_cache_marks_where_the_upstream_has_none() -> None:
    """Removed from system blocks, content blocks and tools, and reported. req: 30"""
    made = calling(MESSAGES, CHAT, MARKED)
    assert "cache" not in made.body.decode()
    assert marks_lost(made) == {"system[0]", "messages[0].content[0]", "tools[0]"}
    with pytest.raises(InvalidRequest):
        calling(MESSAGES, CHAT, MARKED, options=make_options(policy=Policy.STRICT))


def test_cache_marks_where_the_upstream_takes_them() -> None:
    """They become breakpoints of the upstream's own kind; tools take none. req: 30"""
    capabilities = make_capabilities(prompt_cache_breakpoints=True)
    made = calling(MESSAGES, CHAT, MARKED, capabilities=capabilities)
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    assert json.loads(made.body)["messages"] == [
        {"role": "system", "content": [text("One.", **mark), text("Two.")]},
        user(text("Hi", **mark), text("there")),
    ]
    assert marks_lost(made) == {"tools[0]"}
