"""Rows of the tables of requests: what a client sends, what its upstream is sent, what is lost.

A row holds members of a client's body; the rest of it is the least that its protocol takes. Of
the upstream's body it states everything that differs from the translation of that least body, by
place (`tools[0].strict`), and of the ledger everything. Each row is run under all policies.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

from dragoman.canonical.errors import InvalidRequest, Refused
from dragoman.canonical.losses import LossKind, Policy
from dragoman.protocols.settings import make_capabilities, make_options
from dragoman.translation import Call
from tests.library import translate_request

JsonObject = dict[str, Any]

KNOB, CONVERTED = LossKind.KNOB, LossKind.CONVERTED
CONTENT = LossKind.CONTENT
REPAIRED, CONTENT = LossKind.REPAIRED, LossKind.CONTENT
C, A, R = "openai_chat", "anthropic_messages", "openai_responses"
G = "google_generate_content"

HI: JsonObject = {"role": "user", "content": "hi"}
LEAST: dict[str, JsonObject] = {
    C: {"model": "m", "messages": [HI]},
    A: {"model": "m", "max_tokens": 4096, "messages": [HI]},
    R: {"model": "m", "input": "hi"},
    G: {"model": "m", "contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
}
"""The least body of each protocol."""

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
PDF = base64.b64encode(b"%PDF-1.4\n").decode()
NOTE = base64.b64encode(b"a note").decode()
PNG_URL = f"data:image/png;base64,{PNG}"
PDF_URL = f"data:application/pdf;base64,{PDF}"
NOTE_URL = f"data:text/plain;base64,{NOTE}"
WEB = "https://example.com/a"

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**SCHEMA, "required": ["a"], "additionalProperties": False}
"""A schema that OpenAI's strict mode takes."""
NO_ARGUMENTS = {"type": "object", "properties": {}}
UNAVAILABLE = "[Tool result unavailable - conversation history was truncated]"


class _Absent(Enum):
    ABSENT = "absent"


ABSENT = _Absent.ABSENT
"""Nothing stands there."""


@dataclass(frozen=True)
class Row:
    """One row. `lost` maps a path to its kind (or kinds); `invalid` names the field of a request
    that is refused before any translation.
    """

    name: str
    body: JsonObject
    sent: Mapping[str, Any] = field(default_factory=dict)
    lost: Mapping[str, LossKind | tuple[LossKind, ...]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    upstream: Mapping[str, Any] = field(default_factory=dict)
    invalid: str = ""

    @property
    def losses(self) -> set[tuple[str, LossKind]]:
        """The expected ledger."""
        return {
            (path, kind)
            for path, kinds in self.lost.items()
            for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
        }


def ids(rows: list[Row]) -> list[str]:
    """Names for pytest; two rows of one name would hide a mistake."""
    names = [row.name for row in rows]
    assert len(names) == len(set(names)), {name for name in names if names.count(name) > 1}
    return names


def check(client: str, upstream: str, row: Row) -> None:
    """Translate the row under every policy and compare."""
    if row.invalid:
        with pytest.raises(InvalidRequest) as caught:
            _translate(client, upstream, row, Policy.LENIENT)
        assert not isinstance(caught.value, Refused)
        assert caught.value.fault.param == row.invalid
        return
    call = _translate(client, upstream, row, Policy.LENIENT)
    assert {(loss.path, loss.kind) for loss in call.losses} == row.losses
    sent = json.loads(call.body)
    for place, value in row.sent.items():
        assert value_at(sent, place) == value, place
    least = json.loads(_translate(client, upstream, Row("", {}), Policy.STRICT).body)
    stated = {re.split(r"[.\[]", place)[0] for place in row.sent}
    assert _without(sent, stated) == _without(least, stated)
    _check_policies(client, upstream, row, call.body)


def _check_policies(client: str, upstream: str, row: Row, body: bytes) -> None:
    kinds = {kind for _, kind in row.losses}
    for policy, refused in ((Policy.BALANCED, CONTENT in kinds), (Policy.STRICT, bool(kinds))):
        if refused:
            with pytest.raises(Refused) as caught:
                _translate(client, upstream, row, policy)
            assert caught.value.fault.param in row.lost
        else:
            assert _translate(client, upstream, row, policy).body == body


def _translate(client: str, upstream: str, row: Row, policy: Policy) -> Call:
    body = {**LEAST[client], **row.body}
    return translate_request(
        client,
        upstream,
        json.dumps(body).encode(),
        options=make_options(**{"policy": policy, **row.options}),
        capabilities=make_capabilities(**row.upstream),
    )


def _without(body: JsonObject, names: set[str]) -> JsonObject:
    return {name: value for name, value in body.items() if name not in names}


def value_at(body: Any, place: str) -> Any:
    """What stands at a place like `messages[0].content`; ABSENT if nothing does."""
    for step in re.findall(r"[^.\[\]]+", place):
        try:
            body = body[int(step) if isinstance(body, list) else step]
        except (KeyError, IndexError):
            return ABSENT
    return body
