"""What the simulator refuses, as the vendor does: each row is one wrong request."""

from __future__ import annotations

import pytest

from dragoman.lab.simulator.script import Protocol
from dragoman.lab.simulator.testing import RunningSimulator
from tests.simulator.refused import (
    CALL,
    LOOSE,
    MISSING,
    OUTPUT,
    TOOL_RESULT,
    USER,
    Row,
    chat_call,
    result,
    turn,
    use,
)
from tests.simulator.refused_chat import CHAT_ROWS
from tests.simulator.refused_messages import MESSAGES_ROWS
from tests.simulator.refused_responses import RESPONSES_ROWS
from tests.simulator.requests import (
    PROTOCOLS,
    JsonObject,
    call,
    chat,
    headers_of,
    messages,
    plain,
    post,
    responses,
    rich,
)


def _rows() -> list[tuple[Protocol, JsonObject, str, str]]:
    tables: dict[Protocol, list[Row]] = {
        "chat": CHAT_ROWS,
        "messages": MESSAGES_ROWS,
        "responses": RESPONSES_ROWS,
    }
    return [(protocol, *row) for protocol, rows in tables.items() for row in rows]


@pytest.mark.parametrize(("protocol", "fields", "path", "words"), _rows())
def test_a_wrong_request_is_refused_naming_the_field(
    simulator: RunningSimulator, protocol: Protocol, fields: JsonObject, path: str, words: str
) -> None:
    body = {**plain(protocol, "sim-text"), **fields}
    answer = post(simulator, protocol, {k: v for k, v in body.items() if v is not MISSING})
    assert answer.status == 400, answer.body
    error = answer.json["error"]
    assert error["type"] == "invalid_request_error"
    assert words in error["message"]
    if protocol == "messages":
        assert answer.json["type"] == "error"
        assert error["message"].startswith(path)
    else:
        assert error["param"] == (path or None)


ACCEPTED: list[tuple[Protocol, JsonObject]] = [
    ("chat", {"messages": [USER, chat_call(), TOOL_RESULT]}),
    ("chat", {"messages": [{"role": "developer", "content": [{"type": "text", "text": "x"}]}]}),
    ("chat", {"messages": [USER, {"role": "assistant", "content": "a", "reasoning_content": "r"}]}),
    ("chat", {"temperature": None, "stop": None, "tools": None, "max_tokens": None}),
    ("chat", {"model": "sim-text?compatible=1", "top_k": 5, "chat_template_kwargs": {}}),
    ("messages", {"messages": [USER, use(), turn(result(), {"type": "text", "text": "x"})]}),
    ("messages", {"messages": [USER, use(), turn(result(content=None)), USER]}),
    (
        "messages",
        {
            "messages": [
                USER,
                {"role": "system", "content": "x"},
                {"role": "assistant", "content": "y"},
                USER,
            ]
        },
    ),
    ("messages", {"messages": [USER, {"role": "assistant", "content": "prefill"}]}),
    ("messages", {"max_tokens": 0}),
    ("messages", {"tools": [{"type": "web_search_20260318", "name": "web_search"}]}),
    (
        "messages",
        {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
    ),
    ("responses", {"input": [CALL, OUTPUT]}),
    ("responses", {"input": [{"type": "message", "role": "assistant", "content": "x"}, USER]}),
    ("responses", {"tool_choice": "auto", "tools": [], "user": None, "include": []}),
    ("responses", {"tools": [{"type": "function", "name": "f", "parameters": LOOSE}]}),
    ("responses", {"tools": [{"type": "web_search"}, {"type": "tool_search"}]}),
    (
        "responses",
        {
            "input": [
                {
                    "type": "additional_tools",
                    "role": "developer",
                    "tools": [{"type": "custom", "name": "exec"}],
                },
                USER,
            ]
        },
    ),
]


@pytest.mark.parametrize(("protocol", "fields"), ACCEPTED)
def test_a_right_request_is_answered(
    simulator: RunningSimulator, protocol: Protocol, fields: JsonObject
) -> None:
    answer = post(simulator, protocol, {**plain(protocol, "sim-text"), **fields})
    assert answer.status == 200, answer.body


def test_the_api_version_decides_about_sampling_fields(simulator: RunningSimulator) -> None:
    body = messages("sim-text", temperature=0.5, top_k=3)
    old = post(simulator, "messages", body, anthropic_version="2023-06-01")
    assert old.status == 200
    assert post(simulator, "messages", body).status == 400
    strange = post(simulator, "messages", messages("sim-text"), anthropic_version="2020-01-01")
    assert strange.status == 400
    headers = {k: v for k, v in headers_of("messages").items() if k != "anthropic-version"}
    without = call(simulator, "POST", "/v1/messages", messages("sim-text"), headers)
    assert "anthropic-version" in without.json["error"]["message"]


def test_a_beta_opens_its_fields(simulator: RunningSimulator) -> None:
    body = messages("sim-text", context_management={"edits": []})
    beta = "claude-code-20250219,context-management-2025-06-27"
    assert post(simulator, "messages", body, anthropic_beta=beta).status == 200
    assert post(simulator, "messages", body).status == 400


def test_server_held_threads_are_refused_with_their_code(simulator: RunningSimulator) -> None:
    answer = post(simulator, "messages", messages("sim-text", thread={"type": "create"}))
    assert answer.status == 400
    assert answer.json["error"]["details"]["error_code"] == "thread_unsupported_request"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"[" * 100_000, b'{"a": "\xff"}'])
def test_a_body_that_is_no_json_object_is_refused(
    simulator: RunningSimulator, protocol: Protocol, body: bytes
) -> None:
    assert post(simulator, protocol, body).status == 400


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_http_level_mistakes_get_their_status(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    body = plain(protocol, "sim-text")
    assert post(simulator, protocol, body, content_type="text/plain").status == 415
    headers = headers_of(protocol)
    path = {"chat": "chat/completions"}.get(protocol, protocol)
    assert call(simulator, "PUT", f"/v1/{path}", body, headers).status == 405
    assert call(simulator, "POST", f"/v1/v1/{path}", body, headers).status == 404
    unauthorised = {k: v for k, v in headers.items() if k != "authorization"}
    refused = call(simulator, "POST", f"/v1/{path}", body, unauthorised)
    assert refused.status == 401
    named = {**unauthorised, "x-api-key": "sk-sim-x"}
    expected = 200 if protocol == "messages" else 401
    assert call(simulator, "POST", f"/v1/{path}", body, named).status == expected
    for answer in (refused, post(simulator, protocol, plain(protocol, "sim-no_such"))):
        if protocol == "messages":
            assert answer.json["type"] == "error"
            assert set(answer.json["error"]) == {"type", "message"}
        else:
            assert set(answer.json) == {"error"}
            assert answer.json["error"]["code"]


def test_an_unknown_scenario_is_an_unknown_model(simulator: RunningSimulator) -> None:
    answer = post(simulator, "chat", chat("sim-no_such"))
    assert (answer.status, answer.json["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    "model",
    ["sim-text?chonks=3", "sim-text?chunks=many", "sim-text?quirks=odd", "sim-text?fault=odd"],
)
def test_wrong_steering_is_told(simulator: RunningSimulator, model: str) -> None:
    answer = post(simulator, "responses", responses(model))
    assert (answer.status, answer.json["error"]["code"]) == (400, "simulator")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_rich_request_is_one_the_vendor_takes(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    assert post(simulator, protocol, rich(protocol, "sim-text")).status == 200


def test_stored_items_come_with_the_reasoning_that_led_to_them(
    simulator: RunningSimulator,
) -> None:
    """The service links what it keeps; an item without its id is anybody's."""
    first = post(simulator, "responses", responses("sim-reasoning", reasoning={"summary": "auto"}))
    thought, message = first.json["output"]
    assert (thought["type"], message["type"]) == ("reasoning", "message")

    alone = post(simulator, "responses", {**responses("sim-text"), "input": [message, USER]})
    assert alone.status == 400
    assert alone.json["error"]["param"] == "input[0]"
    wording = f"without its required 'reasoning' item: '{thought['id']}'"
    assert wording in alone.json["error"]["message"]

    nameless = {name: value for name, value in message.items() if name != "id"}
    for items in ([thought, message, USER], [nameless, USER]):
        answer = post(simulator, "responses", {**responses("sim-text"), "input": items})
        assert answer.status == 200, answer.body


@pytest.mark.parametrize("protocol", ["messages", "responses"])
def test_reasoning_of_another_account_is_refused(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    """Its own account takes it back. Chat has no seal."""
    mine, other = "sk-sim-org-a", "sk-sim-org-b"
    asked = rich(protocol, "sim-reasoning")
    answer = post(simulator, protocol, asked, key=mine).json
    turns = "messages" if protocol == "messages" else "input"
    said = [{"role": "assistant", "content": answer["content"]}] if turns == "messages" else None
    again = {**asked, "model": "sim-text", turns: [USER, *(said or answer["output"]), USER]}
    assert post(simulator, protocol, again, key=mine).status == 200
    refused = post(simulator, protocol, again, key=other)
    assert refused.status == 400
    wording = {
        "messages": "messages.1.content.0: Invalid `signature` in `thinking` block",
        "responses": "organization_id did not match the target organization",
    }
    assert wording[protocol] in refused.json["error"]["message"]
