"""What a translation lets out, the service would take: judged by the simulator's own rules.

The rules were written down apart from the gateway, from what the services refuse. A request may
still be refused for a value that the client itself chose and that came through as it was.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.options import Capabilities, Options
from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.validation import (
    check_chat,
    check_google,
    check_interactions,
    check_messages,
    check_responses,
)
from dragoman.lab.simulator.validation.interactions import steps_of
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.settings import with_settings
from tests.fuzz.mutations import damage, encode
from tests.fuzz.requests import merged
from tests.library import translate_request
from tests.losses.requests import CHAT, GOOGLE, MESSAGES, RESPONSES, cases
from tests.properties import strategies as own
from tests.properties.cells import CROSSINGS, LATEST, TOWARD_LATEST, says_nothing, write_request
from tests.properties.wild import any_capabilities, any_options, wild_requests

BALANCED = Options()
USUAL = Capabilities()
VERSIONS = ("2023-06-01", "2026-10-21")
VALIDATORS: dict[str, Callable[[dict[str, Any], str], None]] = {
    CHAT: lambda body, version: check_chat(body),
    MESSAGES: lambda body, version: check_messages(
        body, {"anthropic-version": version}, "organization"
    ),
    RESPONSES: lambda body, version: check_responses(body, "organization", frozenset()),
    GOOGLE: lambda body, version: check_body(body),
    LATEST: lambda body, version: check_interactions(
        body, steps_of(body["input"]), {}, "organization"
    ),
}


def check_body(body: dict[str, Any]) -> None:
    """A Google body, whose model and stream may be in it although the path has them."""
    members = {name: value for name, value in body.items() if name != "stream"}
    check_google(members, "filler", "organization")


def refusal(
    protocol: str, body: dict[str, Any], version: str = MessagesCapabilities().anthropic_version
) -> ApiError | None:
    """Why the service would not take a body."""
    try:
        VALIDATORS[protocol](body, version)
    except ApiError as error:
        return error
    return None


def translated(
    client: str, upstream: str, body: bytes, options: Options, abilities: Capabilities = USUAL
) -> Any:
    """The upstream's body; None if the gateway refuses."""
    try:
        call = translate_request(client, upstream, body, options=options, capabilities=abilities)
    except InvalidRequest:
        return None
    return msgspec.json.decode(call.body)


_SHARED_RULES = ("must contain the word 'json'",)
"""Complaints about a whole request, which the client's own service would make as well."""

_leaves: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {},
        {"type": "string"},
        {"type": "string", "minLength": 1, "format": "binary", "description": "a name"},
        {"type": "integer", "minimum": 0, "exclusiveMaximum": 9},
        {"type": "array"},
        {"type": ["array", "null"]},
        {"type": "array", "items": {"type": "array"}, "minItems": 2, "uniqueItems": True},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "array"}},
        {"enum": ["a", 1]},
        {"$ref": "#/$defs/x", "description": "d"},
        {"anyOf": [{"type": "string"}, {"type": "array"}]},
        {"oneOf": [{"type": "string"}, {"type": "null"}], "not": {"const": "b"}},
    )
)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """Objects as the servers of tools describe them."""
    properties = draw(st.dictionaries(own.names, _leaves, max_size=3))
    schema: dict[str, Any] = {"type": "object", "$defs": {"x": {"type": "array"}}}
    named, closed = draw(st.tuples(st.booleans(), st.booleans()))
    if properties or named:
        schema["properties"] = properties
    if closed:
        schema["required"] = list(properties)
        schema["additionalProperties"] = False
    return schema


@st.composite
def settings(draw: st.DrawFn, client: str) -> dict[str, Any]:
    """How to think, what to offer, and the shape of the answer."""
    effort = draw(st.sampled_from((None, "none", "low", "max")))
    schema = draw(st.one_of(st.none(), schemas()))
    choices: tuple[dict[str, bool], ...] = ({}, {"strict": True}, {"strict": False})
    strict = draw(st.sampled_from(choices))
    offered = draw(st.one_of(st.none(), schemas()))
    fields: dict[str, Any] = {}
    if client == CHAT:
        function = {"name": "f", "parameters": offered, **strict}
        fields["tools"] = [{"type": "function", "function": function}]
        fields["reasoning_effort"] = effort
        answer = {"name": "answer", "schema": schema, **strict}
        fields["response_format"] = schema and {"type": "json_schema", "json_schema": answer}
    elif client == MESSAGES:
        fields["tools"] = [{"name": "f", "input_schema": offered or {"type": "object"}, **strict}]
        kind = draw(st.sampled_from((None, "adaptive", "disabled", "enabled", "between_tools")))
        fields["thinking"] = kind and {"type": kind}
        if kind == "enabled":
            fields["thinking"]["budget_tokens"] = draw(st.sampled_from((1024, 32000)))
        answer = {"type": "json_schema", "schema": schema}
        fields["output_config"] = schema and {"format": answer}
    elif client == GOOGLE:
        declared = {"name": "f", "parametersJsonSchema": offered}
        fields["tools"] = [{"functionDeclarations": [declared if offered else {"name": "f"}]}]
        level = {None: None, "none": "MINIMAL", "low": "LOW", "max": "XHIGH"}[effort]
        config: dict[str, Any] = {
            "thinkingConfig": level and {"thinkingLevel": level, "includeThoughts": True}
        }
        if schema:
            config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        fields["generationConfig"] = config
    else:
        fields["tools"] = [{"type": "function", "name": "f", "parameters": offered, **strict}]
        fields["reasoning"] = {"effort": effort, "summary": "auto"}
        answer = {"type": "json_schema", "name": "answer", "schema": schema, **strict}
        fields["text"] = schema and {"format": answer}
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(request=own.requests())
def test_what_one_service_takes_the_other_is_given_in_its_way(
    client: str, upstream: str, request: Any
) -> None:
    body = write_request(client, request)
    assert refusal(client, body) is None

    written = translated(client, upstream, msgspec.json.encode(body), BALANCED)

    if written is not None:
        assert refusal(upstream, written) is None


@pytest.mark.parametrize(("client", "upstream"), [*CROSSINGS, *TOWARD_LATEST])
@given(data=st.data())
def test_wild_histories_are_sent_as_the_service_wants_them(
    client: str, upstream: str, data: st.DataObject
) -> None:
    """Calls and results that miss each other, blank texts, roles in any order. req: 23, 151"""
    body = {**data.draw(wild_requests(client)), **data.draw(settings(client))}
    options = data.draw(st.one_of(st.just(BALANCED), any_options))
    abilities = data.draw(st.one_of(st.just(USUAL), any_capabilities))
    version = data.draw(st.sampled_from(VERSIONS))
    abilities = with_settings(abilities, {"anthropic_version": version})

    written = translated(client, upstream, msgspec.json.encode(body), options, abilities)

    if written is not None and not says_nothing(upstream, written):
        check_blame(client, upstream, body, written, body, version)


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
def test_every_known_field_is_sent_as_the_service_wants_it(client: str, upstream: str) -> None:
    """Each field and union member of the SDKs' request types."""
    for case in cases():
        if case.client != client:
            continue
        body = case.body()
        written = translated(client, upstream, msgspec.json.encode(body), BALANCED)
        if written is not None:
            check_blame(client, upstream, body, written, case.id)


@pytest.mark.parametrize("batch", range(4))
def test_damage_is_sent_on_only_as_it_came(batch: int) -> None:
    rng = random.Random(batch)
    corpus = {client: [case for case in cases() if case.client == client] for client in VALIDATORS}
    # Google's SDKs have no types of requests as they are sent.
    crossings = [(client, upstream) for client, upstream in CROSSINGS if corpus[client]]
    for _ in range(150):
        for client, upstream in crossings:
            source = encode(rng, damage(rng, merged(rng, corpus[client])))
            written = translated(client, upstream, source, BALANCED)
            if written is not None:
                check_blame(client, upstream, jsontext.decode(source), written, source)


def check_blame(
    client: str,
    upstream: str,
    body: Any,
    written: dict[str, Any],
    about: object,
    version: str = MessagesCapabilities().anthropic_version,
) -> None:
    """What the upstream refuses is a value of the client's own, or its own service would."""
    error = refusal(upstream, written, version)
    if error is None:
        return
    own_error = refusal(client, body)
    for rule in _SHARED_RULES:
        # The client's own service may name another fault first.
        if rule in error.message and own_error is not None:
            return
    fault = _at(written, error.param or "")
    assert _holds(body, fault), f"{client} to {upstream}: {error.message} ({fault!r}) for {about!r}"


def _at(body: Any, path: str) -> Any:
    """The value that a complaint names, as far as its path leads."""
    for part in re.findall(r"[^.\[\]]+", path):
        if isinstance(body, list) and part.isdigit() and int(part) < len(body):
            body = body[int(part)]
        elif isinstance(body, dict) and part in body:
            body = body[part]
    return body


def _holds(value: Any, wanted: Any) -> bool:
    """Whether a value occurs anywhere in another."""
    if _bare(value) == _bare(wanted):
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_holds(item, wanted) for item in inner)


def _bare(value: Any) -> Any:
    """A schema without its name and description, which in some protocols stand beside it."""
    if not isinstance(value, dict):
        return value
    return {name: inner for name, inner in value.items() if name not in ("title", "description")}
