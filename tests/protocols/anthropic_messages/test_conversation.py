"""Where turns and system texts go in a request for a Messages upstream."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.canonical.blocks import Block, Opaque, Reasoning, Text, ToolCall, ToolResult
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.pairing import UNAVAILABLE
from dragoman.canonical.requests import JsonSchema, Request, Role, Thinking, Turn
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.settings import make_capabilities, make_options
from dragoman.simulator.validation.messages import check_messages
from tests.properties import strategies
from tests.protocols.anthropic_messages.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    OLD_VERSION,
    REPAIRED,
    request_of,
    write,
)

CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}


def turn(role: Role, *said: str | Block, **fields: Any) -> Turn:
    blocks = tuple(Text(text=item) if isinstance(item, str) else item for item in said)
    return Turn(role=role, blocks=blocks, **fields)


def call(identifier: str, path: str = "") -> ToolCall:
    return ToolCall(id=identifier, name="f", arguments="{}", path=path)


def result(identifier: str, path: str = "") -> ToolResult:
    return ToolResult(call_id=identifier, content=(Text(text=f"r-{identifier}"),), path=path)


def outline(body: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Roles, and what is said in each message in a few letters."""
    return [
        (message["role"], [brief(block) for block in message["content"]])
        for message in body["messages"]
    ]


def brief(block: dict[str, Any]) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "tool_use":
            return f"call {block['id']}"
        case "tool_result":
            return f"result {block['tool_use_id']}"
    return str(block["type"])


SYSTEM = turn("system", "s1", path="m[0]")
BUDGETS = make_capabilities(adaptive_thinking=False)


def test_one_system_text_is_a_string() -> None:
    """req: 31, 32"""
    body, losses = write(request_of(SYSTEM, turn("user", "u")))
    assert body["system"] == "s1"
    assert outline(body) == [("user", ["u"])]
    assert losses == set()


def test_several_system_texts_are_blocks_in_order() -> None:
    """req: 31, 32"""
    request = request_of(
        turn("system", "a", ""),
        turn("developer", "b", "c", name="boss", path="m[1]"),
        turn("user", "u"),
        instructions=(Text(text="i"),),
    )
    body, losses = write(request)
    assert body["system"] == [{"type": "text", "text": text} for text in "iabc"]
    assert losses == {("m[1].name", KNOB)}


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([turn("user", "u"), turn("system", "s")], [("user", ["u"]), ("system", ["s"])]),
        (
            [
                turn("user", "u"),
                turn("developer", "s"),
                turn("system", "t"),
                turn("assistant", "a"),
                turn("user", "v"),
            ],
            [("user", ["u"]), ("system", ["s", "t"]), ("assistant", ["a"]), ("user", ["v"])],
        ),
        (
            [
                turn("user", "u"),
                turn("assistant", call("1")),
                turn("system", "s"),
                turn("user", result("1")),
                turn("assistant", "a"),
                turn("user", "v"),
            ],
            [
                ("user", ["u"]),
                ("assistant", ["call 1"]),
                ("user", ["result 1"]),
                ("system", ["s"]),
                ("assistant", ["a"]),
                ("user", ["v"]),
            ],
        ),
    ],
)
def test_late_system_messages_stay_where_they_may(turns: list[Turn], expected: Any) -> None:
    body, losses = write(request_of(*turns))
    assert outline(body) == expected
    assert "system" not in body
    assert losses == set()


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([turn("user", "u")], ["user", "system"]),
        ([turn("user", "u"), turn("assistant", "a")], ["user", "assistant", "user", "system"]),
    ],
)
def test_late_system_messages_before_the_user_move_behind(
    before: list[Turn], expected: list[str]
) -> None:
    """And stay there when the conversation goes on, so that its beginning does not change."""
    turns = [*before, turn("system", "s", path="p"), turn("user", "v")]
    body, losses = write(request_of(*turns))
    assert [role for role, _ in outline(body)] == expected
    assert "system" not in body
    assert losses == {("p", CONVERTED)}
    longer, _ = write(request_of(*turns, turn("assistant", "b"), turn("user", "w")))
    assert longer["messages"][: len(expected)] == body["messages"]


def test_a_late_system_message_that_no_user_follows_moves_to_the_front() -> None:
    turns = [turn("user", "u"), turn("assistant", "a"), turn("system", "s", path="p")]
    body, losses = write(request_of(*turns))
    assert body["system"] == "s"
    assert ("p", CONVERTED) in losses


def test_late_system_messages_around_the_user_are_one() -> None:
    turns = [
        turn("user", "u"),
        turn("assistant", "a"),
        turn("system", "s", path="p"),
        turn("user", "v"),
        turn("system", "t"),
        turn("assistant", "b"),
        turn("user", "w"),
    ]
    body, losses = write(request_of(*turns))
    roles = [role for role, _ in outline(body)]
    assert roles == ["user", "assistant", "user", "system", "assistant", "user"]
    assert losses == {("p", CONVERTED)}


@pytest.mark.parametrize(
    ("options", "capabilities"),
    [
        (make_options(late_system="hoist"), Capabilities()),
        (Options(), make_capabilities(system_in_messages=False)),
    ],
)
def test_late_system_messages_can_always_be_moved(options: Any, capabilities: Any) -> None:
    request = request_of(SYSTEM, turn("user", "u"), turn("system", "s2", path="p"))
    body, losses = write(request, options, capabilities)
    assert body["system"] == [{"type": "text", "text": "s1"}, {"type": "text", "text": "s2"}]
    assert outline(body) == [("user", ["u"])]
    assert losses == {("p", CONVERTED)}


def test_late_system_messages_can_become_user_text() -> None:
    request = request_of(turn("user", "u"), turn("system", "s", path="p"), turn("user", "v"))
    body, losses = write(request, make_options(late_system="user"))
    assert outline(body) == [("user", ["u", "s", "v"])]
    assert losses == {("p", CONVERTED)}


def test_neighbours_are_one_message_and_empty_turns_none() -> None:
    request = request_of(
        turn("user", "a"),
        turn("user", "b", ""),
        turn("assistant", "c"),
        turn("assistant", ""),
        turn("assistant", "d"),
        turn("user", "e"),
    )
    assert outline(write(request)[0]) == [
        ("user", ["a", "b"]),
        ("assistant", ["c", "d"]),
        ("user", ["e"]),
    ]


def test_results_come_first_in_one_message() -> None:
    """Whatever order they came in. req: 23"""
    request = request_of(
        turn("user", "u"),
        turn("assistant", "t", call("1"), call("2")),
        turn("user", "why"),
        turn("user", result("2")),
        turn("user", result("1")),
        turn("user", "go"),
    )
    body, losses = write(request)
    assert outline(body)[2] == ("user", ["result 1", "result 2", "why", "go"])
    assert losses == set()


def test_calls_without_a_result_get_one() -> None:
    """req: 151"""
    request = request_of(turn("user", "u"), turn("assistant", call("1", "p")), turn("user", "v"))
    body, losses = write(request)
    assert body["messages"][2]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "1",
        "content": UNAVAILABLE,
        "is_error": True,
    }
    assert losses == {("p", REPAIRED)}


def test_results_without_a_call_are_lost_content() -> None:
    body, losses = write(request_of(turn("user", result("1", "p"), "v")))
    assert outline(body) == [("user", ["v"])]
    assert losses == {("p", CONTENT)}


@pytest.mark.parametrize(("option", "loss"), [("pass", CONVERTED), ("reject", CONTENT)])
def test_a_final_assistant_message_is_a_prefill(option: Any, loss: Any) -> None:
    request = request_of(turn("user", "u"), turn("assistant", "{ ", path="p"))
    body, losses = write(request, make_options(trailing_assistant=option))
    assert outline(body)[-1] == ("assistant", ["{"])
    assert losses == {("p", loss), ("p", REPAIRED)}


@pytest.mark.parametrize(
    "fields",
    [{"thinking": Thinking(effort="low")}, {"output_format": JsonSchema(schema=CLOSED)}],
)
def test_the_user_has_the_last_word_where_nothing_can_be_prefilled(fields: Any) -> None:
    """The service refuses a prefill beside thinking or a schema for the answer."""
    request = request_of(turn("user", "u"), turn("assistant", "a ", path="p"), **fields)
    body, losses = write(request)
    assert [role for role, _ in outline(body)] == ["user", "assistant", "user"]
    assert outline(body)[1] == ("assistant", ["a "])
    assert losses == {("p", REPAIRED)}


@pytest.mark.parametrize("before", [(), (Text(text="a"),)])
def test_thinking_that_led_to_nothing_is_left_out(before: Any) -> None:
    """The service refuses an assistant turn that ends with it."""
    thought = Reasoning(parts=("t",), opaque=Opaque("anthropic_messages", "SIG"))
    idle = Turn(role="assistant", blocks=(*before, thought), path="p")
    body, losses = write(request_of(turn("user", "u"), idle, turn("user", "v")))
    expected = [("user", ["u"]), ("assistant", ["a"]), ("user", ["v"])]
    assert outline(body) == (expected if before else [("user", ["u", "v"])])
    assert losses == {("p", KNOB)}


def test_the_user_speaks_first() -> None:
    request = request_of(turn("assistant", "Hello!", path="p"), turn("user", "u"))
    body, losses = write(request)
    assert [role for role, _ in outline(body)] == ["user", "assistant", "user"]
    assert losses == {("p", REPAIRED)}


def test_system_text_alone_is_given_as_the_user() -> None:
    body, losses = write(request_of(SYSTEM))
    assert "system" not in body
    assert outline(body) == [("user", ["s1"])]
    assert losses == {("m[0]", CONVERTED)}


def test_thinking_keeps_its_place() -> None:
    """Blocks come back in the order the service gave them."""
    thought = Reasoning(parts=("t",), opaque=Opaque("anthropic_messages", "SIG"))
    request = request_of(
        turn("user", "u"),
        turn("assistant", thought, "a", thought, call("1")),
        turn("user", result("1")),
    )
    body, losses = write(request)
    assert outline(body)[1] == ("assistant", ["thinking", "a", "thinking", "call 1"])
    assert losses == set()


@given(conversation=strategies.conversations())
def test_a_longer_conversation_keeps_the_earlier_bytes(conversation: list[Turn]) -> None:
    """Prompt caches live on that."""
    ends = [n for n, found in enumerate(conversation) if found.role == "user"]
    request = request_of(*conversation)
    whole = msgspec.json.encode(write(request)[0])
    for end in ends:
        shorter = replace(request, turns=request.turns[: end + 1])
        part = msgspec.json.encode(write(shorter)[0])
        assert part == msgspec.json.encode(write(shorter)[0])
        assert whole.startswith(part.removesuffix(b"]}"))


@given(request=strategies.requests())
def test_writing_changes_nothing_it_is_given(request: Request) -> None:
    before = repr(request)
    write(request)
    assert repr(request) == before


@given(
    request=strategies.requests(tool_names=strategies.wild_names, call_ids=strategies.wild_names),
    capabilities=st.sampled_from((Capabilities(), OLD_VERSION, BUDGETS)),
)
def test_the_service_accepts_what_is_written(request: Request, capabilities: Capabilities) -> None:
    """The simulator checks as the service does, and shares no code with the writer."""
    body, _ = write(request, capabilities=capabilities)
    check_messages(
        body, {"anthropic-version": capabilities.of(MessagesCapabilities).anthropic_version}, "org"
    )


@given(conversation=strategies.conversations(call_ids=strategies.wild_names))
def test_roles_alternate_and_every_call_is_answered(conversation: list[Turn]) -> None:
    body, _ = write(request_of(*conversation))
    messages = body["messages"]
    assert messages[0]["role"] == "user"
    for before, after in pairwise(messages):
        assert before["role"] != after["role"]
        calls = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        answers = [
            block["tool_use_id"]
            for block in after["content"][: len(calls)]
            if block["type"] == "tool_result"
        ]
        assert answers == calls
