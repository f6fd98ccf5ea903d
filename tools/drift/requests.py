"""Drift of what clients ask: every value of the SDKs' request types is given to the readers.

A value is accounted for when it arrives, when the ledger says what became of it, or when it is
refused for what it is. It is drift when a reader calls it unknown, when a list of words lacks
it, or when it vanishes without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import msgspec
from google.genai.interactions import CreateModelInteraction

from dragoman.canonical.errors import InvalidRequest
from dragoman.protocols.reading import UNKNOWN
from dragoman.protocols.unknown_text import UNKNOWN_TYPE
from tests.library import translate_request
from tests.losses.excused import REQUESTS, excuse
from tests.losses.google import EXCUSED, google_cases
from tests.losses.requests import GOOGLE, PROTOCOLS, Case, cases
from tests.losses.shapes import shape_of
from tests.losses.verdict import LENIENT, Verdict, indexless, judge
from tools.drift import interactions
from tools.drift.found import Drift, Kind
from tools.drift.known import compare

ACCOUNTED: Mapping[str, str] = {
    "messages*.type: * cannot stand in * messages": "A rule of the service about places.",
    "thread: server-held conversations *": "Known, and answered as the SDK's tool runner expects.",
    "anthropic_messages betas: unknown field": "Sent as the header `anthropic-beta`.",
    "anthropic_messages user_profile_id: unknown field": "Sent as a header of its own.",
    "anthropic_messages workspace_id: unknown field": "Sent as a header of its own.",
    "openai_responses tool_choice.tools.function: unknown field": "The sample fits both protocols.",
    "*allowedFunctionNames: can only be set where*": "The sample has no mode beside them.",
    "*responseJsonSchema: must be an object": "The SDK leaves it open; the service does not.",
    "*responseMimeType: must be *": "The SDK leaves it open; the service does not.",
}
"""What looks like drift and is none, by a pattern of its text, with the reason."""


def request_drift(probed: Iterable[Case] | None = None) -> list[Drift]:
    """What no reader accounts for in requests, by default all of them; each place once."""
    found = set[Drift]()
    if probed is None:
        asked = shape_of(CreateModelInteraction)
        found.update(compare(asked, interactions.REQUEST, "interactions request"))
    every = (*cases(), *google_cases()) if probed is None else probed
    return sorted({*found, *(drift for case in every for drift in _drift(case))})


def _drift(case: Case) -> Iterator[Drift]:
    silent = False
    for upstream in PROTOCOLS:
        told = list(_unknown(case, upstream))
        yield from told
        if told or silent or upstream == case.client:
            continue
        excused = EXCUSED if case.client == GOOGLE else REQUESTS
        if judge(case, upstream) is Verdict.SILENT and not excuse(case.probe.label, excused):
            silent = True
            yield _found(case, Kind.FIELD, case.probe.label, f"silently lost to {upstream}")


def _unknown(case: Case, upstream: str) -> Iterator[Drift]:
    body = msgspec.json.encode(case.body())
    try:
        call = translate_request(case.client, upstream, body, options=LENIENT)
    except InvalidRequest as refused:
        text = refused.fault.message
        if reason(text) is None:
            yield _found(case, Kind.MEMBER, _owner(case), f"refused: {indexless(text)}")
        return
    for loss in call.losses:
        text = f"{case.client} {indexless(loss.path)}: {loss.detail}"
        if loss.detail == UNKNOWN_TYPE and reason(text) is None:
            yield _found(case, Kind.MEMBER, _owner(case), f"unknown: {indexless(loss.path)}")
        if loss.detail == UNKNOWN.detail and reason(text) is None:
            yield _found(case, Kind.FIELD, _owner(case), f"{indexless(loss.path)}: {loss.detail}")


def reason(text: str) -> str | None:
    """The pattern that says why a text tells of no drift."""
    return next((pattern for pattern in ACCOUNTED if fnmatchcase(text, pattern)), None)


def _found(case: Case, kind: Kind, what: str, why: str) -> Drift:
    return Drift(f"{case.source} request", kind.value, what, why)


def _owner(case: Case) -> str:
    """The union member that holds the value, or the field itself."""
    if case.probe.turns and len(case.path) > 2:
        return case.probe.turns[-1]
    return re.sub(r"=.*", "", case.probe.label)
