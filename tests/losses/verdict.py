"""What became of one value on its way to another protocol."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import msgspec

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import Loss, LossKind, Policy
from dragoman.canonical.options import Options
from dragoman.canonical.stops import EMULATED
from dragoman.protocols.settings import make_options
from tests.library import translate_request
from tests.losses.requests import Case
from tests.losses.walker import path_text

LENIENT = make_options(policy=Policy.LENIENT)


class Verdict(Enum):
    """What can happen; only the last is wrong."""

    ARRIVED = "arrived"
    REPORTED = "reported"
    REFUSED = "refused"
    EXCUSED = "excused"
    SILENT = "silently lost"


def judge(case: Case, upstream: str, options: Options = LENIENT) -> Verdict:
    """Translate the case's request and see where its value went.

    A boolean counts as silently lost only if both its values are: one of them is the default.
    """
    verdict = _judge(case, upstream, case.probe.value, options)
    for second in case.probe.second:
        if verdict is Verdict.SILENT:
            verdict = _judge(case, upstream, second, options)
    return verdict


def _judge(case: Case, upstream: str, value: Any, options: Options) -> Verdict:
    body = msgspec.json.encode(case.body(value))
    try:
        call = translate_request(case.client, upstream, body, options=options)
    except InvalidRequest as error:
        # A wrong tag is reported at the tag, which stands beside the value.
        path = (error.fault.param or "").removesuffix(".type")
        return Verdict.REFUSED if names(path, case) else Verdict.SILENT
    if case.probe.needle is not None and case.probe.needle.encode() in call.body:
        return Verdict.ARRIVED
    if case.probe.needle is None and _matters(case, upstream, value, call.body, options):
        return Verdict.ARRIVED
    if any(_tells(loss, case) for loss in call.losses):
        return Verdict.REPORTED
    return Verdict.SILENT


def _matters(case: Case, upstream: str, value: Any, written: bytes, options: Options) -> bool:
    """Whether another value, or none, gives another request."""
    for rival in case.probe.rivals:
        if rival is value or (type(rival) is type(value) and rival == value):
            continue
        try:
            body = msgspec.json.encode(case.body(rival))
            other = translate_request(case.client, upstream, body, options=options)
        except InvalidRequest:
            return True
        if other.body != written:
            return True
    return False


_BECOME_TEXT = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "Beta", "BetaRequest")
    for name in ("DocumentBlockParam", "SearchResultBlockParam")
)
"""Blocks that are turned into text as a whole: saying so says it of everything in them."""


def _tells(loss: Loss, case: Case) -> bool:
    """Whether a loss says that the case's value did not arrive.

    That something above it was left out says so; that it was converted or repaired does not.
    """
    if not names(loss.path, case):
        return False
    if loss.kind in (LossKind.KNOB, LossKind.CONTENT) or loss.path == path_text(case.path):
        return True
    if loss.detail == EMULATED:
        return True
    return not _BECOME_TEXT.isdisjoint(case.probe.turns)


def names(path: str, case: Case) -> bool:
    """Whether a reported path is the case's own or one above it."""
    return is_above(path, path_text(case.path))


def is_above(path: str, below: str) -> bool:
    """Whether `path` is `below` or a part of the way to it."""
    return bool(path) and below.startswith(path) and below[len(path) :][:1] in ("", ".", "[")


def indexless(path: str) -> str:
    """A path without list indexes."""
    return re.sub(r"\[\d+\]", "", path)
