"""Pass-through to OpenAI-shaped upstreams keeps the output limit of their model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.protocols.settings import make_capabilities
from dragoman.translation import Call, CallSettings, ClientRequest

BODIES: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "openai_responses": {"model": "m", "input": "Hi"},
}


@pytest.mark.parametrize(
    ("protocol", "name"),
    [
        ("openai_chat", "max_tokens"),
        ("openai_chat", "max_completion_tokens"),
        ("openai_responses", "max_output_tokens"),
    ],
)
@pytest.mark.parametrize(
    ("asked", "most", "sent"), [(32_000, 8192, 8192), (100, 8192, 100), (32_000, None, 32_000)]
)
def test_a_larger_limit_is_fitted(
    protocol: str, name: str, asked: int, most: int | None, sent: int
) -> None:
    """It is reported, and everything else is left alone."""
    body = {**BODIES[protocol], name: asked}
    settings = CallSettings(capabilities=make_capabilities(max_output_tokens=most))
    call = Call(ClientRequest(protocol, json.dumps(body).encode()), protocol, settings)
    assert json.loads(call.body) == {**body, name: sent}
    lost = [(name, "repaired")] if sent != asked else []
    assert [(loss.path, loss.kind.value) for loss in call.losses] == lost


@pytest.mark.parametrize("protocol", BODIES)
def test_a_limit_that_is_not_set_stays_so(protocol: str) -> None:
    """A null asks for nothing."""
    name = "max_tokens" if protocol == "openai_chat" else "max_output_tokens"
    body = {**BODIES[protocol], name: None}
    settings = CallSettings(capabilities=make_capabilities(max_output_tokens=10))
    call = Call(ClientRequest(protocol, json.dumps(body).encode()), protocol, settings)
    assert json.loads(call.body) == body
    assert call.losses == ()
