"""Whatever clients send, what reaches an upstream is a request its service takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from google.genai._gaos.types.interactions import CreateModelInteractionParam
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.options import Capabilities, Options
from tests.checkers.requests import REQUEST_CHECKERS
from tests.library import translate_request
from tests.losses.interactions import INTERACTIONS
from tests.losses.requests import ROOTS, Case, cases
from tests.losses.shapes import Record
from tests.losses.valid import problems
from tests.properties.cells import CROSSINGS, LENIENT, TOWARD_LATEST, says_nothing
from tests.properties.wild import any_capabilities, any_options, wild_requests

MAPPED = replace(LENIENT, hosted_tools="map")
TYPES = {
    **{root.client: Record(root.type) for root in ROOTS if root.source != "beta"},
    INTERACTIONS: Record(CreateModelInteractionParam),
}


def check(upstream: str, body: dict[str, Any]) -> None:
    """The body is of the SDK's type, and obeys the service's own rules."""
    REQUEST_CHECKERS[upstream](body)
    if upstream not in TYPES:
        return  # its SDKs have no type of a whole body
    # The SDKs declare `stream` apart, for it decides what a call returns.
    typed = {name: value for name, value in body.items() if name != "stream"}
    if upstream == INTERACTIONS:  # whose SDK lists the models
        typed["model"] = "gemini-3.5-flash"
    assert list(problems(TYPES[upstream], typed)) == []


@pytest.mark.parametrize(("client", "upstream"), [*CROSSINGS, *TOWARD_LATEST])
@given(data=st.data())
def test_any_conversation_becomes_a_valid_request(
    client: str, upstream: str, data: st.DataObject
) -> None:
    """Calls and results that miss each other, blank texts, roles in any order. req: 23, 151"""
    body = msgspec.json.encode(data.draw(wild_requests(client)))
    options = data.draw(st.one_of(st.just(LENIENT), any_options))
    abilities = data.draw(st.one_of(st.just(Capabilities()), any_capabilities))
    try:
        call = translate_request(client, upstream, body, options=options, capabilities=abilities)
    except InvalidRequest:
        return

    written = msgspec.json.decode(call.body)
    if says_nothing(upstream, written):
        # Nothing was said that could be sent: no policy but the lenient one lets that pass.
        assert any(loss.kind is LossKind.CONTENT for loss in call.losses)
        return
    check(upstream, written)


@pytest.mark.parametrize(
    "options", [LENIENT, replace(LENIENT, hosted_tools="map")], ids=["", "map"]
)
@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
def test_every_known_field_becomes_a_valid_request(
    client: str, upstream: str, options: Options
) -> None:
    """Each field and union member of the SDKs' request types."""
    for case in cases():
        body = msgspec.json.encode(case.body())
        # Where hosted tools are mapped, only what holds some is written in another way.
        if case.client != client or (options is not LENIENT and b"web_search" not in body):
            continue
        try:
            call = translate_request(client, upstream, body, options=options)
        except InvalidRequest:
            continue
        check(upstream, msgspec.json.decode(call.body))


def test_every_known_value_becomes_a_valid_interaction() -> None:
    """One case of each value, from every client."""
    chosen: dict[tuple[str, str], Case] = {}
    for case in cases():
        chosen.setdefault((case.source, case.probe.label), case)
    for case in chosen.values():
        try:
            body = msgspec.json.encode(case.body())
            call = translate_request(case.client, INTERACTIONS, body, options=LENIENT)
        except InvalidRequest:
            continue
        check(INTERACTIONS, msgspec.json.decode(call.body))
