"""Items of answers come back as input without what only answers have."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from typing import Any

import openai.types.responses as types
import pytest
import typing_extensions
from openai.types.responses import response_input_item_param as params
from pydantic import BaseModel

from dragoman.protocols.openai_responses.repeated_items import (
    GIVEN_ALONE,
    GIVEN_BY_TYPE,
)
from tests.faults.conftest import Over
from tests.faults.upstream import Upstream
from tests.gateway.clients import PATHS
from tests.gateway.http import call

KEY = "key-of-an-exact-vendor"


def members(union: Any) -> Iterator[Any]:
    """The types of a union, of lists and of what is annotated."""
    arguments = typing.get_args(union)
    if not arguments:
        yield union
    for one in arguments:
        yield from members(one)


def taken() -> dict[str, dict[str, Any]]:
    """The members that a request may have, by the type of the item."""
    found: dict[str, dict[str, Any]] = {}
    for one in members(params.ResponseInputItemParam):
        if typing_extensions.is_typeddict(one):
            hints = typing_extensions.get_type_hints(one)
            for kind in typing.get_args(hints.get("type", "")):
                if isinstance(kind, str):
                    found.setdefault(kind, {}).update(hints)
    return found


def given() -> Iterator[tuple[str, type[BaseModel]]]:
    """The types of items of answers."""
    for one in members(types.ResponseOutputItem):
        if isinstance(one, type) and issubclass(one, BaseModel):
            (kind,) = typing.get_args(one.model_fields["type"].annotation)
            yield kind, one


def test_the_table_is_that_of_the_sdks_types() -> None:
    known, kinds = taken(), 0
    for kind, item in given():
        kinds += 1
        names = {field.alias or name for name, field in item.model_fields.items()}
        alone = names - known[kind].keys()
        assert alone <= GIVEN_ALONE | GIVEN_BY_TYPE.get(kind, frozenset()), kind
    assert kinds > 20


CALL = {"type": "shell_call", "id": "sh_1", "call_id": "c1", "status": "completed"}
ITEMS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {**CALL, "action": {"commands": ["ls"]}, "created_by": "u", "environment": None},
        {**CALL, "action": {"commands": ["ls"]}, "environment": None},
    ),
    (
        {
            "type": "shell_call_output",
            "call_id": "c1",
            "output": [{"stdout": "null", "stderr": "", "created_by": "u"}],
            "created_by": "u",
        },
        {
            "type": "shell_call_output",
            "call_id": "c1",
            "output": [{"stdout": "null", "stderr": ""}],
        },
    ),
    (
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "o", "status": "completed"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "o"},
    ),
    (
        {"type": "image_generation_call", "id": "ig_1", "result": None, "error": None},
        {"type": "image_generation_call", "id": "ig_1", "result": None, "error": None},
    ),
    (
        {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "", "async": None},
        {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "", "async": None},
    ),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_rebuilt_conversation_is_taken(stream: bool, over: Over, upstream: Upstream) -> None:
    user = {"role": "user", "content": "created_by null"}
    items = [user, *[item for item, _ in ITEMS], user]
    body = {"model": "responses/m", "input": items, "store": False, "stream": stream}
    told = call(over(KEY).base_url, "POST", PATHS["responses"], body)
    assert told.status == 200, told.body
    sent = json.loads(upstream.calls[-1].body)
    assert sent["input"] == [user, *[item for _, item in ITEMS], user]
    assert "input[1].created_by:knob" in told.headers["x-dragoman-losses"]


def test_what_is_exact_keeps_its_bytes(over: Over, upstream: Upstream) -> None:
    text = b'{"model":"responses/m","store":false,"input":[ {"role" : "user","content":"x"}]}'
    assert call(over(KEY).base_url, "POST", PATHS["responses"], text).status == 200
    assert b'"input":[ {"role" : "user","content":"x"}]' in upstream.calls[-1].body
