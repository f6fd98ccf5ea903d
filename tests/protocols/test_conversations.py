"""What the requests of a conversation have in common; reasoning that only one account can use."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.blocks import Opaque, Reasoning
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Refused
from dragoman.canonical.losses import LossKind, Policy
from dragoman.protocols.settings import make_options
from dragoman.translation import ALL_REASONING, ClientRequest
from tests.library import translate_request
from tests.tables.answers import LEAST_ANSWER
from tests.tables.clients import answer_of
from tests.tables.upstreams import STREAMS

CHAT, MESSAGES, RESPONSES = "openai_chat", "anthropic_messages", "openai_responses"
SYSTEM = "You are terse."
FIRST = "What is a dragoman?"


def marked(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}


def billed(number: int) -> dict[str, Any]:
    return {"type": "text", "text": f"x-anthropic-billing-header: cch={number};"}


SAME: dict[str, list[dict[str, Any]]] = {
    CHAT: [
        {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": FIRST}]},
        {
            "messages": [
                {"role": "system", "content": [marked(SYSTEM)]},
                {"role": "user", "content": [{"type": "text", "text": FIRST}]},
                {"role": "assistant", "content": "An interpreter."},
                {"role": "user", "content": "Where?"},
            ]
        },
    ],
    MESSAGES: [
        {
            "system": [billed(1), marked(SYSTEM)],
            "messages": [{"role": "user", "content": [marked(FIRST)]}],
        },
        {
            "system": [billed(2), {"type": "text", "text": SYSTEM}],
            "messages": [
                {"role": "user", "content": FIRST},
                {"role": "assistant", "content": "An interpreter."},
                {"role": "user", "content": [marked("Where?")]},
            ],
        },
    ],
    RESPONSES: [
        {"instructions": SYSTEM, "input": FIRST},
        {
            "instructions": SYSTEM,
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": FIRST}]},
                {"type": "reasoning", "summary": [], "encrypted_content": "x"},
                {"role": "assistant", "content": "An interpreter."},
                {"role": "user", "content": "Where?"},
            ],
        },
    ],
}
OTHERS: dict[str, list[dict[str, Any]]] = {
    CHAT: [
        {"messages": [{"role": "user", "content": FIRST}]},
        {"messages": SAME[CHAT][0]["messages"], "user": "somebody"},
    ],
    MESSAGES: [
        {"system": "Be kind.", "messages": SAME[MESSAGES][0]["messages"]},
        {**SAME[MESSAGES][0], "metadata": {"user_id": "somebody"}},
        {"system": SYSTEM, "messages": [{"role": "user", "content": "Hello"}]},
    ],
    RESPONSES: [{"input": FIRST}, {"instructions": SYSTEM, "input": "Hello"}],
}


def read(protocol: str, made: dict[str, Any]) -> ClientRequest:
    return ClientRequest(protocol, json.dumps({"model": "m", **made}).encode())


@pytest.mark.parametrize("protocol", SAME)
def test_what_a_conversation_begins_with(protocol: str) -> None:
    """The marks of a cache, a client's billing line and the form of a text change on the way."""
    first, second = (read(protocol, made).beginning() for made in SAME[protocol])
    assert first.text == second.text
    assert (first.is_all, second.is_all) == (True, False)
    others = {read(protocol, made).beginning().text for made in OTHERS[protocol]}
    assert len(others) == len(OTHERS[protocol])
    assert first.text not in others


@pytest.mark.parametrize("protocol", SAME)
@pytest.mark.parametrize(
    "odd",
    [
        {"messages": 1, "input": 2, "system": 3, "instructions": 4, "metadata": 5, "user": 6},
        {"messages": [1, None, {}], "input": [1, None, {}], "system": [1], "metadata": []},
        {"messages": [{"role": "user", "content": [1, {"type": "image"}]}], "input": [{"role": 1}]},
        {},
    ],
)
def test_requests_of_any_form_have_a_beginning(protocol: str, odd: dict[str, Any]) -> None:
    assert isinstance(read(protocol, odd).beginning().text, bytes)
    assert read(protocol, odd).reasoning(ALL_REASONING) == 0


THOUGHT = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "first"},
    {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "x"},
    {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "second"},
    {
        "type": "message",
        "id": "msg_a",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
    },
    {"role": "user", "content": "Thanks"},
]


def test_a_responses_conversation_without_the_reasoning_of_another_account() -> None:
    """What followed it keeps no id by which the service would look for it. req: 60"""
    body = json.dumps({"model": "m", "input": THOUGHT}).encode()
    made = translate_request(RESPONSES, RESPONSES, body)
    plain = made.body
    assert made.drop_reasoning(bound=True, moved=False) == 0
    assert made.body == plain
    assert made.drop_reasoning(bound=True, moved=True) == 2
    kept = json.loads(made.body)["input"]
    assert [item.get("type", "message") for item in kept] == [
        "function_call",
        "function_call_output",
        "message",
        "message",
    ]
    assert "id" not in kept[0]
    assert kept[2]["id"] != "msg_a"
    assert [(loss.path, loss.kind) for loss in made.losses] == [
        ("input[0]", LossKind.KNOB),
        ("input[3]", LossKind.KNOB),
    ]
    assert made.drop_reasoning(bound=True, moved=False, least=1) == 1
    assert [item.get("id") for item in json.loads(made.body)["input"]][2:4] == ["rs_2", "msg_a"]
    assert made.drop_reasoning(bound=False, moved=True) == 0
    assert made.body == plain
    assert not made.losses


def test_a_messages_conversation_without_the_reasoning_of_another_account() -> None:
    thinking = {"type": "thinking", "thinking": "Hm", "signature": "s"}
    redacted = {"type": "redacted_thinking", "data": "d"}
    said = {"type": "text", "text": "thinking"}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [thinking, redacted, said]},
        {"role": "user", "content": "thinking"},
        {"role": "assistant", "content": [redacted]},
        {"role": "user", "content": "?"},
    ]
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()
    made = translate_request(MESSAGES, MESSAGES, body)
    assert made.drop_reasoning(least=ALL_REASONING) == 3
    assert json.loads(made.body)["messages"] == [
        messages[0],
        {"role": "assistant", "content": [said]},
        messages[2],
        messages[4],
    ]
    assert [(loss.path, loss.kind) for loss in made.losses] == [
        ("messages[1].content[0]", LossKind.KNOB),
        ("messages[1].content[1]", LossKind.KNOB),
        ("messages[3].content[0]", LossKind.KNOB),
    ]


SIGNED = {"type": "thinking", "thinking": "Hm", "signature": "s"}


def enveloped(account: str) -> str:
    state = Opaque(RESPONSES, "secret", "rs_1", account)
    return Sealer().seal(Reasoning(parts=("Hm",), opaque=state))


@pytest.mark.parametrize(
    ("account", "how", "left_out"),
    [
        ("a", {"bound": True}, 0),
        ("a", {"bound": True, "moved": True}, 0),
        ("b", {"bound": True}, 1),
        ("b", {"bound": False, "moved": True}, 0),
        ("", {"bound": True}, 0),
        ("", {"bound": True, "moved": True}, 1),
        ("a", {"least": ALL_REASONING}, 1),
    ],
)
def test_an_envelope_tells_whose_reasoning_it_holds(
    account: str, how: dict[str, Any], left_out: int
) -> None:
    thinking = {"type": "thinking", "thinking": "Hm", "signature": enveloped(account)}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "Yes"}]},
        {"role": "user", "content": "?"},
    ]
    body = json.dumps({"model": "m", "max_tokens": 99, "messages": messages}).encode()
    made = translate_request(MESSAGES, RESPONSES, body, account="a")
    before = len(made.losses)
    assert made.drop_reasoning(**how) == left_out
    assert (b"secret" in made.body) is not left_out
    assert len(made.losses) == before + left_out
    assert made.drop_reasoning() == 0
    assert b"secret" in made.body


def test_a_strict_policy_refuses_the_loss() -> None:
    body = json.dumps({"model": "m", "input": THOUGHT}).encode()
    made = translate_request(RESPONSES, RESPONSES, body, options=make_options(policy=Policy.STRICT))
    with pytest.raises(Refused):
        made.drop_reasoning(bound=True, moved=True)


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_tells_whose_reasoning_it_holds(streamed: bool) -> None:
    """Of a Messages account to a Responses client, whole and streamed."""
    body = json.dumps({"model": "m", "input": "Hi", "stream": streamed}).encode()
    made = translate_request(RESPONSES, MESSAGES, body, account="a")
    answer: dict[str, Any] = {**LEAST_ANSWER[MESSAGES], "content": [SIGNED]}
    if streamed:
        stream = made.open_stream()
        written = stream.feed(STREAMS[MESSAGES](answer)) + stream.finish()
        shown = answer_of(RESPONSES, written)
    else:
        shown = json.loads(made.translate_response(json.dumps(answer).encode()))
    block = Sealer().open(shown["output"][0]["encrypted_content"])
    assert block is not None
    assert block.opaque == Opaque(MESSAGES, "s", account="a")
