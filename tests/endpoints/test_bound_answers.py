"""What answers tell of that a service made on the way: it is the client's."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from typing import Any

import pytest

from dragoman.accounts.pool import AccountPool
from dragoman.config import Account, Config, Upstream
from dragoman.edge.auth import Caller
from dragoman.keys.ring import KeyRing
from dragoman.serving.bindings import Bindings
from dragoman.serving.bound_answers import BoundAnswerRecorder, makes_things
from dragoman.serving.bound_notes import MOST_TOLD, things_in
from dragoman.translation import ClientRequest

ME, YOU = Caller("me"), Caller("you")
ANSWER: dict[str, Any] = {
    "id": "resp_1",
    "output": [
        {"type": "code_interpreter_call", "container_id": "cntr_1"},
        {"type": "message", "content": [{"type": "output_text", "text": '"file_id": "file-no"',
         "annotations": [{"type": "container_file_citation", "container_id": "cntr_1",
                          "file_id": "cfile_1"}]}]},
    ],
    "metadata": {"file_id": "file-no"},
}  # fmt: skip


@pytest.fixture
def bindings() -> Bindings:
    upstream = Upstream(name="u", protocol="openai_responses", base_url="http://u")
    config = Config(upstreams=(upstream,), accounts=(Account(name="a", upstream="u"),))
    pool = AccountPool(config)
    return Bindings(None, OrderedDict(), pool, KeyRing(), config.upstreams)


@pytest.mark.parametrize("form", ["whole", "stream", "event"])
def test_what_an_answer_tells_of_is_bound_before_it_is_sent(bindings: Bindings, form: str) -> None:
    async def told() -> dict[str, str]:
        recorder = BoundAnswerRecorder(bindings, ME, None)
        await recorder.begun("a", "resp_1")
        body = json.dumps(ANSWER).encode()
        if form == "whole":
            assert await recorder.whole(body) == body
        else:
            event = b'event: response.completed\ndata: {"response":' + body + b"}\n\n"
            sent = recorder.stream if form == "stream" else recorder.follow
            assert await sent(event) == event
        names = ["cntr_1", "cfile_1", "file-no", "resp_1"]
        assert not await bindings.find(names, YOU)
        return {one.name: one.account for one in (await bindings.find(names, ME)).values()}

    assert asyncio.run(told()) == {"cntr_1": "a", "cfile_1": "a"}


@pytest.mark.parametrize(
    ("tools", "made"),
    [([{"type": "code_interpreter", "container": {"type": "auto"}}], True),
     ([{"type": "function", "name": "f", "parameters": {}}], False)],
)  # fmt: skip
def test_only_requests_whose_model_runs_code_are_looked_at(tools: Any, made: bool) -> None:
    body = {"model": "m", "input": "Hi", "tools": tools}
    request = ClientRequest("openai_responses", json.dumps(body).encode())
    assert makes_things(request) is made


def test_what_a_client_or_a_model_made_up_is_not_told_by_the_service(bindings: Bindings) -> None:
    """Services repeat tools as they were given, and calls have what the model says."""
    named = {"file_id": "file-no", "container": {"id": "file-no"}, "a": [{"file_id": "file-no"}]}
    answer = {
        "id": "resp_1",
        "tools": [{"type": "function", "name": "f", "parameters": named}],
        "text": {"format": {"type": "json_schema", "schema": named}},
        "output": [
            {"type": "mcp_list_tools", "tools": [{"input_schema": named, "annotations": named}]},
            {"type": "tool_search_call", "arguments": named},
        ],
        "content": [{"type": "tool_use", "input": named}, {"type": "mcp_tool_use", "input": named}],
        "made": {"file_id": "file-yes"},
    }

    async def told() -> list[str]:
        recorder = BoundAnswerRecorder(bindings, ME, None)
        await recorder.begun("a", "resp_1")
        await recorder.whole(json.dumps(answer).encode())
        return list(await bindings.find(["file-no", "file-yes"], ME))

    assert asyncio.run(told()) == ["file-yes"]


def test_an_answer_tells_of_so_many_things_at_most() -> None:
    answer = {"data": [{"file_id": f"file-{number}"} for number in range(MOST_TOLD + 5)]}
    assert len(things_in(answer, "", "me", "a")) == MOST_TOLD
