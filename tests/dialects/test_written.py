"""What each dialect writes, for answers of every upstream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.protocols import CODECS
from dragoman.protocols.dialects import DIALECTS
from dragoman.protocols.settings import make_options
from dragoman.translation import Call
from tests.checkers.framing import frames
from tests.dialects.upstreams import CALLS, TEXT, UPSTREAMS
from tests.library import translate_request

ASKED = {"model": "m", "input": "hi", "stream": True}


def call(dialect: Any, upstream: str) -> Call:
    options = make_options(**DIALECTS[dialect])
    return translate_request(
        "openai_responses", upstream, json.dumps(ASKED).encode(), model="up", options=options
    )


def streamed(dialect: Any, upstream: str, given: dict[str, bytes]) -> list[Any]:
    stream = call(dialect, upstream).open_stream()
    written = stream.feed(given[upstream]) + stream.finish()
    return [
        frame.data if frame.data == "[DONE]" else json.loads(frame.data)
        for frame in frames(written)
    ]


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("dialect", ["antwort", "openresponses"])
def test_a_terminator_follows_the_last_event(dialect: str, upstream: str) -> None:
    """req: 117"""
    *events, last = streamed(dialect, upstream, TEXT)
    assert last == "[DONE]"
    assert events[-1]["type"] == "response.completed"


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_antwort_tells_a_failure_once(upstream: str) -> None:
    """req: 115"""
    cut = {name: given[: len(given) // 2] for name, given in TEXT.items()}
    *events, failed, done = streamed("antwort", upstream, cut)
    assert done == "[DONE]"
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["id"] == events[0]["response"]["id"]
    assert failed["response"]["error"]["type"] == "model_error"
    assert failed["response"]["error"]["message"]
    assert "error" not in [event["type"] for event in events]


@pytest.mark.parametrize(
    ("kind", "status", "name"),
    [
        (FaultKind.INVALID_REQUEST, 400, "invalid_request"),
        (FaultKind.CONTEXT_TOO_LONG, 400, "invalid_request"),
        (FaultKind.UNPROCESSABLE, 400, "invalid_request"),
        (FaultKind.UNAUTHENTICATED, 401, "invalid_request"),
        (FaultKind.NOT_FOUND, 404, "not_found"),
        (FaultKind.MODEL_NOT_FOUND, 404, "not_found"),
        (FaultKind.METHOD_NOT_ALLOWED, 405, "invalid_request"),
        (FaultKind.TOO_LARGE, 413, "invalid_request"),
        (FaultKind.UNSUPPORTED_MEDIA_TYPE, 415, "invalid_request"),
        (FaultKind.RATE_LIMITED, 429, "too_many_requests"),
        (FaultKind.PAYMENT_REQUIRED, 429, "too_many_requests"),
        (FaultKind.UPSTREAM_FAILED, 500, "model_error"),
        (FaultKind.UPSTREAM_TIMEOUT, 500, "server_error"),
        (FaultKind.NO_ACCOUNT, 500, "server_error"),
        (FaultKind.OVERLOADED, 500, "server_error"),
        (FaultKind.INTERNAL, 500, "server_error"),
    ],
)
def test_errors_of_open_responses(kind: FaultKind, status: int, name: str) -> None:
    """req: 153"""
    options = make_options(error_style="openresponses")
    shown = CODECS["openai_responses"].translate.write_error(Fault(kind, "told"), "r", options)
    assert shown.status == status
    assert shown.body["error"]["type"] == name
    assert shown.body["error"]["message"] == "told"


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_tokligence_asks_for_the_outputs_of_tools(upstream: str) -> None:
    """req: 114, 162"""
    events = streamed("tokligence", upstream, CALLS)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    asked, completed = events[-2:]
    assert asked["type"] == "response.required_action"
    assert completed["type"] == "response.completed"
    assert asked["response"]["status"] == completed["response"]["status"] == "incomplete"
    assert asked["required_action"] == completed["response"]["required_action"]
    action = asked["required_action"]
    assert action["type"] == "submit_tool_outputs"
    output = completed["response"]["output"]
    made = [item for item in output if item["type"] == "function_call"]
    assert action["submit_tool_outputs"]["tool_calls"] == [
        {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }
        for item in made
    ]
    assert [item["name"] for item in made] == ["read", "list"]
    for item in made:
        same = [event for event in events if event.get("item_id") == item["id"]]
        kinds = [event["type"].removeprefix("response.function_call_arguments.") for event in same]
        assert kinds == ["delta"] * (len(kinds) - 1) + ["done"]
        assert "".join(event["delta"] for event in same[:-1]) == item["arguments"]
        assert same[-1]["arguments"] == item["arguments"]
        added, done = [
            event["item"]
            for event in events
            if event["type"].startswith("response.output_item")
            and event["item"]["id"] == item["id"]
        ]
        assert (added["status"], added["arguments"]) == ("in_progress", "")
        assert done == item
        assert (added["call_id"], added["name"]) == (item["call_id"], item["name"])
    assert completed["response"]["reasoning"] == {"effort": None, "summary": None}


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_tokligence_completes_what_calls_nothing(upstream: str) -> None:
    last = streamed("tokligence", upstream, TEXT)[-1]
    assert last["response"]["status"] == "completed"
    assert "required_action" not in last["response"]


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_tokligence_counts_its_pings(upstream: str) -> None:
    stream = call("tokligence", upstream).open_stream()
    assert stream.keepalive() == b": keepalive\n\n"
    given = TEXT[upstream]
    written = stream.feed(given[: len(given) * 2 // 3]) + stream.keepalive()
    written += stream.feed(given[len(given) * 2 // 3 :]) + stream.finish()
    events = [json.loads(frame.data) for frame in frames(written)]
    assert [event["type"] for event in events].count("ping") == 1
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_the_22_fields_of_sop(upstream: str) -> None:
    """req: 105"""
    fields = (
        "id object created_at status model output usage error incomplete_details instructions "
        "metadata parallel_tool_calls temperature tool_choice tools top_p max_output_tokens "
        "previous_response_id reasoning store truncation user"
    )
    shown = [event["response"] for event in streamed("sop", upstream, TEXT) if "response" in event]
    assert len(shown) == 3
    for response in shown:
        assert sorted(response) == sorted(fields.split())
