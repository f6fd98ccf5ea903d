"""Input as it is kept and as it is sent: bytes stay what they are wherever they can."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.protocols.openai_responses.conversations import (
    OwnItem,
    own_items,
    references,
    unstored_body,
    whole_members,
)


def mint(prefix: str) -> str:
    return f"{prefix}new"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (b'"a\\u2028b"', b'{"id":"msg_new","type":"message","role":"user","content":"a\\u2028b"}'),
        (
            b'[{"role":"user", "content":"\\u00e9"}]',
            b'{"type":"message","id":"msg_new","role":"user", "content":"\\u00e9"}',
        ),
        (
            b'[{"type":"function_call","n":1.0e2}]',
            b'{"id":"fc_new","type":"function_call","n":1.0e2}',
        ),
        (b'[{"type":null,"id":"x","role":"user"}]', b'{"type":"message","id":"x","role":"user"}'),
        (b'[{"type":"message","id":"x", "y":1.0}]', b'{"type":"message","id":"x", "y":1.0}'),
        (b'[{"type":"x","id":""}]', b'{"type":"x","id":"item_new"}'),
        (b"[{}]", b'{"type":"message","id":"msg_new"}'),
        (b"[ { } ]", b'{"type":"message","id":"msg_new"}'),
    ],
)
def test_own_items(given: bytes, kept: bytes) -> None:
    found = own_items(Raw(given), mint)
    assert found is not None
    [item] = found
    assert item.body == kept
    assert item.id == msgspec.json.decode(kept)["id"]
    assert not item.refers
    assert references(Raw(given)) == []


@pytest.mark.parametrize("item", [b'{"type":"item_reference","id":"rs_1"}', b'{"id":"rs_1"}'])
def test_items_that_stand_for_others(item: bytes) -> None:
    assert own_items(Raw(b"[%b]" % item), mint) == [OwnItem("rs_1", item, True)]
    said = b'{"role":"user","id":"x"}'
    assert references(Raw(b"[%b, %b,%b]" % (said, item, item))) == [(1, "rs_1"), (2, "rs_1")]


@pytest.mark.parametrize(
    "item",
    [
        b'{"type":"item\\u005freference","id":"rs_1"}',
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
    found = enumerate(own_items(given, mint) or ())
    assert references(given) == [(number, one.id) for number, one in found if one.refers]


@pytest.mark.parametrize("given", [b"5", b"{}", b"null", b"true", b"[5]", b'[{"id":"x"},"x"]'])
def test_what_is_no_input(given: bytes) -> None:
    assert own_items(Raw(given), mint) is None
    assert references(Raw(given)) == []


def test_no_input_adds_nothing() -> None:
    assert own_items(None, mint) == []
    assert references(None) == []


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
    assert unstored_body(members) == (
        b'{"model":"m","input":[%b],"store":false,"include":["reasoning.encrypted_content"]}' % sent
    )


def test_what_else_is_asked_for_stays_so() -> None:
    given = Raw(b'["message.output_text.logprobs"]')
    made: Any = msgspec.json.decode(unstored_body({"include": given}))
    assert made["include"] == ["message.output_text.logprobs", "reasoning.encrypted_content"]


def test_a_whole_conversation() -> None:
    members = {
        "model": Raw(b'"m"'),
        "previous_response_id": Raw(b'"resp_1"'),
        "input": Raw(b'"x"'),
    }
    whole = whole_members(members, [b'{"a":1.0}', b"5"])
    assert {name: bytes(raw) for name, raw in whole.items()} == {
        "model": b'"m"',
        "input": b'[{"a":1.0},5]',
    }
