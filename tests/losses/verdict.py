"""What became of one value on its way to another protocol."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

import msgspec

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import Policy
from dragoman.canonical.options import Options
from dragoman.translation import Call, translate_request
from tests.losses.requests import Case
from tests.losses.walker import path_text

LENIENT = Options(policy=Policy.LENIENT)


class Verdict(Enum):
    """The four things that can happen; only the last is wrong."""

    ARRIVED = "arrived"
    REPORTED = "reported"
    REFUSED = "refused"
    SILENT = "silently lost"


def judge(case: Case, upstream: str) -> Verdict:
    """Translate the case's request and see where its value went.

    A boolean counts as silently lost only if both its values are: one of them is the default.
    """
    verdict = _judge(case, upstream, case.probe.value)
    for second in case.probe.second:
        if verdict is Verdict.SILENT:
            verdict = _judge(case, upstream, second)
    return verdict


def _judge(case: Case, upstream: str, value: Any) -> Verdict:
    body = msgspec.json.encode(case.body(value))
    try:
        call = _translate(case.client, upstream, body)
    except InvalidRequest as error:
        return Verdict.REFUSED if names(error.fault.param or "", case) else Verdict.SILENT
    if case.probe.needle is not None and case.probe.needle.encode() in call.body:
        return Verdict.ARRIVED
    if any(names(loss.path, case) for loss in call.losses):
        return Verdict.REPORTED
    if case.probe.needle is None and _matters(case, upstream, value, call.body):
        return Verdict.ARRIVED
    return Verdict.SILENT


def _translate(client: str, upstream: str, body: bytes) -> Call:
    return translate_request(client, upstream, body, options=LENIENT)


def _matters(case: Case, upstream: str, value: Any, written: bytes) -> bool:
    """Whether another value, or none, gives another request."""
    for rival in case.probe.rivals:
        if rival is value or (type(rival) is type(value) and rival == value):
            continue
        try:
            other = _translate(case.client, upstream, msgspec.json.encode(case.body(rival)))
        except InvalidRequest:
            return True
        if other.body != written:
            return True
    return False


def names(path: str, case: Case) -> bool:
    """Whether a reported path is the case's own or one above it."""
    return is_above(path, path_text(case.path))


def is_above(path: str, below: str) -> bool:
    """Whether `path` is `below` or a part of the way to it."""
    return bool(path) and below.startswith(path) and below[len(path) :][:1] in ("", ".", "[")


def indexless(path: str) -> str:
    """A path without list indexes."""
    return re.sub(r"\[\d+\]", "", path)


def summary(verdicts: Iterable[Verdict]) -> str:
    """How many of each."""
    counted = list(verdicts)
    return ", ".join(f"{counted.count(kind)} {kind.value}" for kind in Verdict)
