"""Every protocol has a module of facts for tests, which agree with its package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest

from dragoman import offline
from dragoman.canonical.blocks import Text
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.requests import FunctionTool
from dragoman.jsontext import decode, members
from dragoman.protocols import CODECS, register, unregister
from dragoman.protocols.base import Endpoint, ModelList, Passthrough, Translate, to_json
from dragoman.translation import Call, CallSettings, ClientRequest
from dragoman.translation.estimate import estimate_tokens
from tests.facts import Facts, facts_of
from tests.invented import parley

FACTS = facts_of()
ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True, scope="module")
def protocol() -> Iterator[None]:
    register(parley.CODEC)
    yield
    unregister(parley.NAME)


def request_of(name: str, text: str, *, stream: bool = False, **more: Any) -> ClientRequest:
    """A request as its clients send it."""
    facts = FACTS[name]
    path, _, query = facts.path("m", stream).partition("?")
    operation = CODECS[name].endpoint.operation_of(unquote(path), query)
    body = to_json({**facts.body("m", text, stream), **more})
    return ClientRequest(name, body, operation=operation)


def test_every_protocol_has_facts() -> None:
    assert FACTS.keys() == CODECS.keys()
    assert all(isinstance(facts, Facts) for facts in FACTS.values())


@pytest.mark.parametrize("name", FACTS)
def test_requests_are_read(name: str) -> None:
    for stream in (False, True):
        request = request_of(name, "Hello", stream=stream, tools=[FACTS[name].tool])
        assert (request.model, request.stream) == ("m", stream)
        read = request.read(Sealer())
        (turn,) = read.turns
        assert [block.text for block in turn.blocks if isinstance(block, Text)] == ["Hello"]
        assert [tool.name for tool in read.tools if isinstance(tool, FunctionTool)] == [
            "get_weather"
        ]


@pytest.mark.parametrize("name", FACTS)
def test_output_limits_are_found_and_lowered(name: str) -> None:
    endpoint, facts = CODECS[name].endpoint, FACTS[name]
    plain = facts.body("m", "Hi", False)
    plain.pop("max_tokens", None)  # which Messages requires
    without = members(to_json(plain))
    assert endpoint.limits(without) is None
    assert endpoint.limits(endpoint.limited(without, 5)) == 5
    limited = members(to_json({**plain, **facts.limit(7)}))
    assert endpoint.limits(limited) == 7
    assert endpoint.limited(limited, 7) is limited
    lowered = endpoint.limited(limited, 5)
    assert endpoint.limits(lowered) == 5
    read = CODECS[name].translate.read_request(to_json({**lowered, "model": "m"}), Sealer())
    assert read.max_output_tokens == 5


@pytest.mark.parametrize("name", FACTS)
def test_counts_are_of_the_whole_prompt(name: str) -> None:
    counting = CODECS[name].endpoint.counting
    if counting is None:
        return
    asked = request_of("openai_chat", "Hello", **FACTS["openai_chat"].prompt)
    body = Call(asked, name, CallSettings()).body
    read = CODECS[name].translate.read_request
    counted = counting.completed(members(counting.write_request(body, "some-model")))
    same = read(to_json({"model": "m", **counted}), Sealer())
    assert estimate_tokens(same) == estimate_tokens(read(body, Sealer()))


ANSWER = (
    b'{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"Yes"},"finish_reason":"stop"}]}'
)


def answer_of(name: str) -> bytes:
    """A whole answer in that protocol."""
    if name == "openai_chat":
        return ANSWER
    return offline.answer(ANSWER, "openai_chat", name)[0]


@pytest.mark.parametrize(("client", "upstream"), list(permutations(FACTS, 2)))
def test_answers_of_each_reach_the_clients_of_the_others(client: str, upstream: str) -> None:
    answer = answer_of(upstream)
    assert FACTS[upstream].text_of(decode(answer)) == "Yes"
    translated, _ = offline.answer(answer, upstream, client)
    assert FACTS[client].text_of(decode(translated)) == "Yes"
    assert CODECS[client].translate.answer_names(translated).model == "m"


@pytest.mark.parametrize("name", FACTS)
def test_errors_are_its_own(name: str) -> None:
    translate = CODECS[name].translate
    shown = translate.write_error(Fault(FaultKind.INVALID_REQUEST, "No."), "req_1")
    assert translate.is_own_error(to_json(shown.body))
    assert not translate.is_own_error(answer_of(name))
    assert not translate.is_own_error(b"<html>")


@pytest.mark.parametrize(
    "struct", [Endpoint, ModelList, Translate, Passthrough], ids=lambda struct: struct.__name__
)
def test_the_skeleton_in_the_documentation_has_each_field_without_a_default(struct: Any) -> None:
    page = (ROOT / "docs/adding-a-protocol.md").read_text()
    (code,) = [
        block
        for block in re.findall("```python\n(.*?)```", page, re.DOTALL)
        if "ENDPOINT =" in block
    ]
    given = {
        keyword.arg
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == struct.__name__
        for keyword in node.keywords
    }
    assert given == {field.name for field in msgspec.structs.fields(struct) if field.required}
