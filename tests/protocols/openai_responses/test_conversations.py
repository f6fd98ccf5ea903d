"""Input as it is kept and as it is sent: bytes stay what they are wherever they can."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.canonical.errors import FaultKind, InvalidRequest
from dragoman.protocols.openai_responses.conversations import (
    given_items,
    named_item,
    no_conversations,
    outputs_as_items,
    place_of,
    references,
    unstored_members,
    whole_members,
    with_stored,
)
from dragoman.protocols.raw import join_object
from dragoman.protocols.stored_answers import GivenItems

RESPONSE = "resp_01234567"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            b'"a\\u2028b"',
            b'{"id":"msg_012345670000","type":"message","role":"user","content":"a\\u2028b"}',
        ),
        (
            b'[{"role":"user", "content":"\\u00e9"}]',
            b'{"type":"message","id":"msg_012345670000","role":"user", "content":"\\u00e9"}',
        ),
        (
            b'[{"type":"function_call","n":1.0e2}]',
            b'{"id":"fc_012345670000","type":"function_call","n":1.0e2}',
        ),
        (b'[{"type":null,"id":"x","role":"user"}]', b'{"type":"message","id":"x","role":"user"}'),
        (b'[{"type":"message","id":"x", "y":1.0}]', b'{"type":"message","id":"x", "y":1.0}'),
        (b'[{"type":"x","id":""}]', b'{"type":"x","id":"item_012345670000"}'),
        (b"[{}]", b'{"type":"message","id":"msg_012345670000"}'),
        (b"[ { } ]", b'{"type":"message","id":"msg_012345670000"}'),
    ],
)
def test_items_are_kept_as_they_came_and_shown_with_an_id(given: bytes, shown: bytes) -> None:
    found = given_items(Raw(given))
    assert found is not None
    if given.startswith(b"["):
        assert found.body == given
    [item] = msgspec.json.decode(found.body, type=list[Raw])
    assert named_item(bytes(item), RESPONSE, 0) == shown
    name = msgspec.json.decode(shown)["id"]
    assert found.ids == ((name,) if b'"x"' in given and name == "x" else ())
    assert found.references == ()
    assert references(Raw(given)) == []
    if name != "x":
        assert place_of(name) == (RESPONSE, 0)


def test_an_id_tells_the_place_of_its_item() -> None:
    shown = named_item(b'{"type":"reasoning"}', RESPONSE, 300)
    assert place_of(msgspec.json.decode(shown)["id"]) == (RESPONSE, 300)
    for other in ("x", "msg_1", "msg_" + "g" * 28, "MSG_" + "0" * 28, ""):
        assert place_of(other) is None


@pytest.mark.parametrize("item", [b'{"type":"item_reference","id":"rs_1"}', b'{"id":"rs_1"}'])
def test_items_that_stand_for_others(item: bytes) -> None:
    assert given_items(Raw(b"[%b]" % item)) == GivenItems(b"[%b]" % item, (), ((0, "rs_1"),))
    said = b'{"role":"user","id":"x"}'
    given = b"[%b, %b,%b]" % (said, item, item)
    assert references(Raw(given)) == [(1, "rs_1"), (2, "rs_1")]
    found = given_items(Raw(given))
    assert found is not None
    assert found.ids == ("x",)
    whole = with_stored(found, {1: b'{"type":"a"}', 2: b'{"type":"b"}'})
    assert whole.body == b'[%b,{"type":"a"},{"type":"b"}]' % said
    assert whole.ids == ("x", "rs_1", "rs_1")


@pytest.mark.parametrize(
    "item",
    [
        b'{"type":"item\\u005freference","id":"rs_1"}',
        b'{"type":"item_reference","\\u0069d":"rs_1"}',
        b'{"type":"item_reference","\\u0069\\u0064":"rs_1"}',
        b'{"type":"item_reference","i\\u0064":"rs_1"}',
        b'{"type":"","id":""}',
        b'{"type":null,"role":null,"id":"rs_1","content":[{"id":1}]}',
        b'{"type":"item_reference","id":5}',
        b'{"type":"item_reference"}',
        b'{"role":"","id":"rs_1"}',
        b'{"type":[],"id":"rs_1"}',
        b'{"type":["item_reference"],"id":"rs_1"}',
    ],
)
def test_whoever_asks_sees_the_same_items_refer(item: bytes) -> None:
    given = Raw(b"[%b]" % item)
    found = given_items(given)
    assert found is not None
    assert references(given) == list(found.references)


@pytest.mark.parametrize("given", [b"5", b"{}", b"null", b"true", b"[5]", b'[{"id":"x"},"x"]'])
def test_what_is_no_input(given: bytes) -> None:
    assert given_items(Raw(given)) is None
    assert references(Raw(given)) == []


def test_no_input_adds_nothing() -> None:
    assert given_items(None) == GivenItems()
    assert references(None) == []


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        (b"[]", b'[{"n":1},{"n":2}]'),
        (b"[ ]", b'[{"n":1},{"n":2}]'),
        (b'[{"n":3}, {"n":4}]', b'[{"n":1},{"n":2},{"n":3}, {"n":4}]'),
    ],
)
def test_a_conversation_is_put_together(given: bytes, whole: bytes) -> None:
    members = {"model": Raw(b'"m"'), "previous_response_id": Raw(b'"r"'), "input": Raw(b"5")}
    found = whole_members(members, [b'{"n":1}', b'{"n":2}'], GivenItems(given))
    assert found == {"model": Raw(b'"m"'), "input": Raw(whole)}
    assert whole_members({}, [], GivenItems(given)) == {
        "input": Raw(b"[" + given[1:-1].strip() + b"]" if given.strip(b"[ ]") else b"[]")
    }


@pytest.mark.parametrize(
    ("item", "sent"),
    [
        (b'{"role":"user","id":"1","content":1.0}', b'{"role":"user","content":1.0}'),
        (b'{"type":"function_call","id":"1"}', b'{"type":"function_call"}'),
        (b'{"type":"mcp_call","id":"1"}', b'{"type":"mcp_call","id":"1"}'),
        (b'{"type":"item_reference","id":"1"}', b'{"type":"item_reference","id":"1"}'),
        (b'{"id":"1"}', b'{"id":"1"}'),
        (
            b'{"type":"reasoning","id":"1","encrypted_content":"e"}',
            b'{"type":"reasoning","id":"1","encrypted_content":"e"}',
        ),
        (b'{"type":"reasoning","id":"1","summary":[]}', b""),
        (b'{"type":"reasoning","id":"1","content":[],"encrypted_content":null}', b""),
    ],
)
def test_what_is_sent_to_who_keeps_nothing(item: bytes, sent: bytes) -> None:
    members = {"model": Raw(b'"m"'), "input": Raw(b"[%b]" % item), "store": Raw(b"true")}
    assert bytes(join_object(unstored_members(members))) == (
        b'{"model":"m","input":[%b],"store":false,"include":["reasoning.encrypted_content"]}' % sent
    )


def test_what_else_is_asked_for_stays_so() -> None:
    given = Raw(b'["message.output_text.logprobs"]')
    made: Any = msgspec.json.decode(join_object(unstored_members({"include": given})))
    assert made["include"] == ["message.output_text.logprobs", "reasoning.encrypted_content"]


WAITING = {"c1": "function_call_output", "c2": "custom_tool_call_output"}
FIRST, SECOND = ({"tool_call_id": called, "output": "x"} for called in WAITING)


def test_outputs_of_tools_become_items() -> None:
    """In the order of the calls. req: 11"""
    parts = [{"type": "input_text", "text": "y"}]
    outputs = [{**SECOND, "output": parts}, FIRST]
    assert outputs_as_items({"tool_outputs": outputs}, WAITING) == [
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": parts},
    ]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        (None, "tool_outputs"),
        ([], "tool_outputs"),
        ("none", "tool_outputs"),
        ([FIRST], "tool_outputs"),
        ([None, SECOND], "tool_outputs[0]"),
        ([FIRST, SECOND, FIRST], "tool_outputs[2].tool_call_id"),
        ([FIRST, SECOND, {**FIRST, "tool_call_id": "c3"}], "tool_outputs[2].tool_call_id"),
        ([{"output": "x"}, SECOND], "tool_outputs[0].tool_call_id"),
        ([{**FIRST, "output": 1}, SECOND], "tool_outputs[0].output"),
    ],
)
def test_outputs_that_do_not_fit_the_calls(given: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        outputs_as_items({"tool_outputs": given}, WAITING)
    assert caught.value.fault.param == param


def test_conversations_of_the_services_are_an_unsupported_parameter() -> None:
    fault = no_conversations().fault
    assert (fault.kind, fault.param) == (FaultKind.INVALID_REQUEST, "conversation")
    assert fault.code == "unsupported_parameter"
