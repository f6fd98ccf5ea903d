"""Members that nobody knows, in any object of any request: they arrive, or are told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import Policy
from dragoman.protocols.settings import make_options
from tests.library import translate_request
from tests.losses.requests import CHAT, MESSAGES, RESPONSES
from tests.properties.wild import wild_requests

PROTOCOLS = (CHAT, MESSAGES, RESPONSES)
LENIENT = make_options(policy=Policy.LENIENT, orphan_results="text")
OPAQUE = {"parameters", "input_schema", "metadata", "schema", "client_metadata"}
"""Objects that are a client's own data: whatever is in them is theirs."""


def objects(value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """All objects in a request with their paths, but for those that are data."""
    if isinstance(value, dict):
        yield path, value
        for name, inner in value.items():
            opaque = name in OPAQUE or (name == "input" and value.get("type") == "tool_use")
            if not opaque:
                yield from objects(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from objects(inner, f"{path}[{number}]")


def is_told(path: str, told: list[str]) -> bool:
    """Whether a loss names the member at `path`, or something that it stands in."""
    steps = re.split(r"(?=[.\[])", path)
    around = {"".join(steps[:end]) for end in range(1, len(steps) + 1)}
    return any(one in around for one in told)


@pytest.mark.parametrize("upstream", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
@given(data=st.data())
def test_a_member_in_any_object_arrives_or_is_told(
    client: str, upstream: str, data: st.DataObject
) -> None:
    body = data.draw(wild_requests(client))
    places = list(objects(body, ""))
    chosen = data.draw(st.lists(st.sampled_from(range(len(places))), max_size=4, unique=True))
    added: dict[str, str] = {}
    for number in chosen:
        path, value = places[number]
        name, text = f"zz_{number}", f"said-{number}-by-nobody"
        value[name] = text
        added[f"{path}.{name}" if path else name] = text
    try:
        made = translate_request(client, upstream, json.dumps(body).encode(), options=LENIENT)
    except InvalidRequest:
        return  # refused, which tells all of it
    told = [loss.path for loss in made.losses]
    sent = made.body.decode()
    lost = [path for path, text in added.items() if text not in sent and not is_told(path, told)]
    assert lost == [], (told, body)
