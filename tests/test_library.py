"""The library call as a user of the package makes it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import InvalidRequest, Options, Policy, Refused, translate_request
from dragoman.api_page import page
from dragoman.canonical.options import Capabilities
from dragoman.protocols import register, unregister
from tests.invented import parley

REQUEST: dict[str, Any] = {
    "model": "m",
    "max_tokens": 5,
    "messages": [{"role": "user", "content": "hi"}],
}
ANSWER = {
    "id": "x",
    "model": "up",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "ho"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}


@pytest.fixture
def parley_protocol() -> Iterator[None]:
    """The invented protocol, registered."""
    register(parley.CODEC)
    yield
    unregister(parley.NAME)


README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("body", [REQUEST, json.dumps(REQUEST), json.dumps(REQUEST).encode()])
def test_a_body_is_a_mapping_text_or_bytes(body: Any) -> None:
    call = translate_request("anthropic_messages", "openai_chat", body, model="up")
    assert json.loads(call.body)["model"] == "up"
    assert call.losses == ()


def test_what_is_to_be_sent_where() -> None:
    call = translate_request("openai_chat", "anthropic_messages", {**REQUEST, "stream": True})
    assert call.path == "/messages"
    assert call.headers("k") == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "anthropic-version": "2026-10-21",
        "x-api-key": "k",
    }
    back = translate_request("anthropic_messages", "openai_chat", REQUEST)
    assert back.headers("k")["authorization"] == "Bearer k"
    assert back.headers().keys() == {"content-type", "accept"}


def test_answers_come_back() -> None:
    call = translate_request("anthropic_messages", "openai_chat", REQUEST, response_id="msg_1")
    whole = json.loads(call.translate_response(json.dumps(ANSWER).encode()))
    assert (whole["id"], whole["content"]) == ("msg_1", [{"type": "text", "text": "ho"}])
    stream = call.response_as_stream(json.dumps(ANSWER).encode())
    assert b"event: message_stop" in stream


def test_errors_come_back() -> None:
    call = translate_request("anthropic_messages", "openai_chat", REQUEST)
    told = {"error": {"message": "slow down", "type": "rate_limit", "code": "rate_limit_exceeded"}}
    status, body = call.translate_error(429, json.dumps(told).encode(), {"retry-after": "3"})
    assert status == 429
    error = json.loads(body)
    assert error["type"] == "error"
    assert (error["error"]["type"], error["error"]["message"]) == ("rate_limit_error", "slow down")


@pytest.mark.parametrize("client", ["openai_chat", "anthropic_messages"])
def test_errors_of_streams_come_back_with_all_their_words(client: str) -> None:
    """As those of whole answers: who calls the library may know the account's names."""
    call = translate_request(client, "openai_chat", {**REQUEST, "stream": True})  # type: ignore[arg-type]
    told = {"error": {"message": "no quota for org-AbC123dEf456", "type": "server_error"}}
    stream = call.open_stream()
    shown = stream.feed(b"data: %b\n\n" % json.dumps(told).encode())
    assert b"no quota for org-AbC123dEf456" in shown
    assert stream.outcome.fault is not None
    assert stream.outcome.fault.message == "no quota for org-AbC123dEf456"


@pytest.mark.parametrize("side", ["client", "upstream"])
def test_a_wrong_protocol_names_the_choices(side: str) -> None:
    names: dict[str, Any] = {"client": "openai_chat", "upstream": "openai_chat", side: "chat"}
    with pytest.raises(ValueError, match=f"{side} must be one of openai_chat, anthropic_messages"):
        translate_request(names["client"], names["upstream"], REQUEST)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"options": {"policy": "harsh"}}, "policy: must be one of strict, balanced, lenient"),
        (
            {"capabilities": {"late_system": "bogus"}},
            "late_system: must be one of message, user, hoist",
        ),
        ({"options": {"default_max_tokens": 0}}, "default_max_tokens: .*>= 1"),
        ({"capabilities": {"max_output_tokens": -1}}, "max_output_tokens: .*>= 1"),
        ({"model": 5}, "model must be text, not 5"),
        ({"options": {"late": 1}}, "there is no such setting: late"),
        ({"options": Options(show_reasoning="bogus")}, "show_reasoning: must be one of auto"),  # type: ignore[arg-type]
        ({"options": {"default_max_tokens": "1"}}, "default_max_tokens: Expected `int`"),
        ({"capabilities": {"images": "yes"}}, "images: Expected `bool`"),
        (
            {"capabilities": {"system_role": "user"}},
            "system_role: must be one of system, dev",
        ),
        ({"capabilities": Capabilities(images=3)}, "images: Expected `bool`"),  # type: ignore[arg-type]
    ],
)
def test_settings_are_checked(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        translate_request("openai_chat", "anthropic_messages", REQUEST, **settings)


@pytest.mark.parametrize("options", [Options(policy="strict"), {"policy": "strict"}])  # type: ignore[arg-type]
def test_a_policy_may_be_given_by_name(options: Any) -> None:
    body = {**REQUEST, "seed": 1}
    with pytest.raises(Refused) as refused:
        translate_request("openai_chat", "anthropic_messages", body, options=options)
    assert refused.value.paths == ("seed",)
    assert Options(policy="lenient").policy is Policy.LENIENT  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="harsh"):
        Options(policy="harsh")  # type: ignore[arg-type]


def test_options_of_one_protocol_are_given_by_name() -> None:
    body = {"model": "m", "messages": REQUEST["messages"]}
    call = translate_request(
        "openai_chat", "anthropic_messages", body, options={"default_max_tokens": 77}
    )
    assert json.loads(call.body)["max_tokens"] == 77


def test_bad_bodies_are_bad_requests() -> None:
    for body in (b"{", "[]", {"model": "m"}, {"model": object()}, {"seed": math.nan}, "\ud800"):
        with pytest.raises(InvalidRequest):
            translate_request("openai_chat", "anthropic_messages", body)


def test_a_call_shows_itself_without_its_content() -> None:
    call = translate_request("openai_chat", "anthropic_messages", {**REQUEST, "seed": 1})
    shown = repr(call)
    assert shown.startswith("<Call openai_chat -> anthropic_messages: ")
    assert "1 loss" in shown


def test_a_path_may_name_the_model(parley_protocol: None) -> None:
    body = {"lines": [{"from": "human", "text": "hi"}]}
    call = translate_request(
        "parley",  # type: ignore[arg-type]
        "openai_chat",
        body,
        path="/p1/models/gpt:pieces",
    )
    sent = json.loads(call.body)
    assert (sent["model"], sent["stream"]) == ("gpt", True)
    back = translate_request("openai_chat", "parley", REQUEST)  # type: ignore[arg-type]
    assert back.path == "/models/m:answer"
    assert back.headers("k")[parley.EDITION] == "second"


def test_everything_public_can_be_imported() -> None:
    for name in dragoman.__all__:
        assert getattr(dragoman, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        dragoman.nothing  # noqa: B018


def test_importing_the_package_imports_nothing_else() -> None:
    script = "import sys, dragoman; print(*[m for m in sys.modules if m.startswith('dragoman.')])"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=30
    )
    assert found.stdout.split() == []


def test_the_page_is_up_to_date() -> None:
    path = README.parent / "docs" / "library.md"
    assert path.read_text(encoding="utf-8") == page(), "run: make docs"


def test_the_example_of_the_readme_runs() -> None:
    section = README.read_text(encoding="utf-8").split("## Without the server")[1]
    code = section.split("```python\n")[1].split("```")[0]
    chunk = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"ho"}}]}\n\n'
    given = {"body": REQUEST, "upstream_body": json.dumps(ANSWER).encode(), "chunk": chunk}
    exec(compile(code, "README.md", "exec"), given | {"key": "k"})
