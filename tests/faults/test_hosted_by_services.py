"""What a service's own tools do is no call of the model's to the client, nor its words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.server.testing import RunningGateway
from tests.faults.asking import KEY, ask, saying
from tests.faults.conftest import Over
from tests.faults.streams import calls_of
from tests.faults.upstream import Upstream
from tests.gateway.clients import streamed_text, text_of
from tests.protocols.openai_responses.upstream import events_of, message, response
from tests.tables.cells import messages_answer

SEARCH = {
    "type": "x_search_call",
    "id": "x_1",
    "call_id": "c",
    "name": "x_search",
    "arguments": '{"q":1}',
}
FOUND = {"type": "search_results", "id": "x_2", "content": [{"type": "text", "text": "web page"}]}
GOOD = {**message(), "content": [{"type": "output_text", "text": "Good"}]}
USED = {"type": "x_search_tool_use", "id": "s", "name": "x_search", "input": {"q": 1}}
HOSTED: dict[str, tuple[str, Any]] = {
    "a call": ("responses", response(SEARCH, GOOD)),
    "what was found": ("responses", response(FOUND, GOOD)),
    "a use": ("messages", messages_answer(USED, {"type": "text", "text": "Good"})),
}


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(KEY)


@pytest.mark.parametrize("name", HOSTED)
def test_nothing_is_invented(gateway: RunningGateway, upstream: Upstream, name: str) -> None:
    target, whole = HOSTED[name]
    upstream.behaviours[KEY] = saying(body=json.dumps(whole).encode())
    answer = ask(gateway, "chat", target)
    assert calls_of("chat", answer.json) == []
    assert text_of("chat", answer) == "Good"


@pytest.mark.parametrize("item", [SEARCH, FOUND], ids=["a call", "what was found"])
def test_nothing_is_invented_in_a_stream(
    gateway: RunningGateway, upstream: Upstream, item: Any
) -> None:
    events = [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        *(
            {**event, "output_index": 1} if "output_index" in event else event
            for event in events_of(response(GOOD))[1:-1]
        ),
        {"type": "response.completed", "response": response(item, GOOD)},
    ]
    upstream.behaviours[KEY] = saying(*events_of(response(GOOD))[:1], *events)
    told = ask(gateway, "chat", "responses", stream=True).body
    assert b"x_search" not in told
    assert b"web page" not in told
    assert streamed_text("chat", told) == "Good"
