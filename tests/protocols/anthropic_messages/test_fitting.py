"""Pass-through to Messages upstreams: what they would refuse, or are not to see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.protocols.settings import make_capabilities
from dragoman.translation import Call, CallSettings, ClientRequest

BILLING = "x-anthropic-billing-header: cc_version=2; cch=1f2e3;"
OWN = {"type": "text", "text": "You write files.", "cache_control": {"type": "ephemeral"}}
SAID = [{"role": "user", "content": f"What is {BILLING}?"}]


def forwarded(body: dict[str, Any], **capabilities: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The body as it goes upstream, and what was lost of it: path to kind."""
    whole = {"model": "m", "max_tokens": 32_000, "messages": SAID, **body}
    settings = CallSettings(capabilities=make_capabilities(**capabilities))
    source = ClientRequest("anthropic_messages", json.dumps(whole).encode())
    call = Call(source, "anthropic_messages", settings)
    return json.loads(call.body), {loss.path: loss.kind.value for loss in call.losses}


@pytest.mark.parametrize(
    ("system", "left", "path"),
    [
        ([{"type": "text", "text": BILLING}, OWN], [OWN], "system[0]"),
        ([OWN, {"type": "text", "text": BILLING}], [OWN], "system[1]"),
        ([{"type": "text", "text": BILLING}], None, "system[0]"),
        (BILLING, None, "system"),
    ],
)
def test_the_billing_text_is_left_out(system: Any, left: Any, path: str) -> None:
    """It is new with every request: a prompt cache would find nothing again after it."""
    body, losses = forwarded({"system": system})
    assert body.get("system") == left
    assert body["messages"] == SAID
    assert losses == {path: "knob"}


@pytest.mark.parametrize(
    ("system", "capabilities"),
    [
        ([{"type": "text", "text": BILLING}, OWN], {"billing_header": True}),
        ([{"type": "text", "text": f"Leave out {BILLING}"}, OWN], {}),
        (f"Leave out {BILLING}", {}),
    ],
)
def test_other_texts_stay(system: Any, capabilities: dict[str, Any]) -> None:
    """So does the billing text where it is wanted."""
    body, losses = forwarded({"system": system}, **capabilities)
    assert body["system"] == system
    assert losses == {}


@pytest.mark.parametrize(
    ("most", "asked", "budget", "limit", "left"),
    [
        (None, 32_000, 32_000, 32_000, 24_000),
        (8192, 32_000, 32_000, 8192, 6144),
        (8192, 32_000, 4000, 8192, 4000),
        (8192, 4000, 2000, 4000, 2000),
        (None, 2000, 10_000, 2000, 10_000),  # thinking between tool calls may have more
        (None, 1024, 1024, 1024, 1024),  # nothing can be done: the upstream says so
    ],
)
def test_limits_leave_room_for_an_answer(
    most: int | None, asked: int, budget: int, limit: int, left: int
) -> None:
    """qwen-code asks for as many thinking tokens as output tokens, Claude Code for more output
    than most models write."""
    thinking = {"type": "enabled", "budget_tokens": budget, "display": "summarized"}
    body, losses = forwarded({"max_tokens": asked, "thinking": thinking}, max_output_tokens=most)
    assert body["max_tokens"] == limit
    assert body["thinking"] == {**thinking, "budget_tokens": left}
    expected = {"max_tokens"} if limit != asked else set()
    expected |= {"thinking.budget_tokens"} if left != budget else set()
    assert losses == dict.fromkeys(expected, "repaired")


def test_what_fits_keeps_its_bytes() -> None:
    body = b'{"model":"m", "max_tokens": 1000,"messages":[ {"role":"user","content":"\\u00e9"} ]}'
    settings = CallSettings(capabilities=make_capabilities(max_output_tokens=2000))
    call = Call(ClientRequest("anthropic_messages", body), "anthropic_messages", settings)
    assert call.body == body.replace(b', "', b',"').replace(b": 1000", b":1000")
    assert call.losses == ()
