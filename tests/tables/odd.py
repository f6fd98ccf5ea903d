"""Streams that servers send who keep to a protocol loosely.

A row's stream is read as what it means, which is told by the stream that an exact server would
have sent, or it is a failure. Each is shown to a client of another protocol.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from dragoman.canonical.errors import FaultKind
from dragoman.canonical.options import Options
from dragoman.translation import Call
from tests.checkers import CHECKERS
from tests.library import translate_request
from tests.tables.cells import steady
from tests.tables.clients import answer_of
from tests.tables.requests import LEAST, A, C, JsonObject, R

TOOLS = ("f", "g", "get_weather")
"""Names of the tools that a Chat upstream can call."""

CLIENTS = {C: R, A: C, R: C}
"""The client that is shown most of what each upstream can say."""


def calling(upstream: str) -> Call:
    """A call whose answer is shown whole."""
    client = CLIENTS[upstream]
    body: JsonObject = {**LEAST[client], "stream": True}
    if upstream == C:
        body["tools"] = [{"type": "function", "name": name} for name in TOOLS]
    if client == C:
        body["stream_options"] = {"include_usage": True}
    else:
        body["include"] = ["reasoning.encrypted_content"]
    return translate_request(
        client,
        upstream,
        json.dumps(body).encode(),
        options=Options(reasoning_details=True),
        response_id="resp_1" if client == R else "chatcmpl-1",
        created=5,
    )


@dataclass(frozen=True)
class Told:
    """What a client understands of a stream, and what was lost: path to kind."""

    answer: JsonObject | None
    fault: FaultKind | None
    lost: dict[str, str] = field(default_factory=dict)


def told(upstream: str, stream: bytes) -> Told:
    """Translate a stream."""
    made = calling(upstream)
    translator = made.open_stream()
    written = translator.feed(stream) + translator.finish()
    lost = {loss.path: loss.kind.value for loss in made.losses}
    fault = translator.outcome.fault
    if fault is not None:
        assert not CHECKERS[CLIENTS[upstream]](written).succeeded
        return Told(None, fault.kind, lost)
    answer = steady(answer_of(CLIENTS[upstream], written))
    answer.pop("completed_at", None)
    return Told(answer, None, lost)


@dataclass(frozen=True)
class Row:
    """A stream, and the exact one that it means or the failure that it is."""

    name: str
    stream: bytes
    means: bytes | FaultKind = FaultKind.UPSTREAM_FAILED
    lost: dict[str, str] = field(default_factory=dict)


def check(upstream: str, row: Row) -> None:
    found = told(upstream, row.stream)
    if isinstance(row.means, FaultKind):
        assert found.fault is row.means
        return
    assert found.answer is not None
    assert found.answer == told(upstream, row.means).answer
    assert found.lost == row.lost


def ids(rows: list[Row]) -> list[str]:
    """Names for pytest; two rows of one name would hide a mistake."""
    names = [row.name for row in rows]
    assert len(names) == len(set(names)), {name for name in names if names.count(name) > 1}
    return names
