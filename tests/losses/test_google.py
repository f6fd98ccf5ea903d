"""No field of a Google client's request, or of a request for a Google upstream or its answer,
vanishes without a word: proved from the SDKs' types."""

from __future__ import annotations

from functools import cache

import pytest

from tests.losses.answer_verdict import judge_answer
from tests.losses.excused import FOR_GOOGLE, REQUESTS, excuse
from tests.losses.google import EXCUSED, google_cases
from tests.losses.google_answers import EXCUSED as ANSWERS
from tests.losses.google_answers import google_answer_cases, google_stream_cases
from tests.losses.requests import GOOGLE, PROTOCOLS, cases
from tests.losses.verdict import Verdict, judge


@cache
def silent(upstream: str) -> tuple[tuple[str, str], ...]:
    """Id and label of each case whose value is lost and not told of."""
    return tuple(
        (case.id, case.probe.label)
        for case in google_cases()
        if judge(case, upstream) is Verdict.SILENT
    )


@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_every_field_arrives_or_is_reported(upstream: str) -> None:
    assert [name for name, label in silent(upstream) if excuse(label, EXCUSED) is None] == []


def test_the_walk_reaches_the_types() -> None:
    """So that a change of the SDK cannot silently empty the walk."""
    assert len(google_cases()) > 500
    assert len(google_answer_cases()) > 300


def test_every_excuse_is_needed() -> None:
    needed = {excuse(label, EXCUSED) for one in PROTOCOLS for _, label in silent(one)}
    assert [pattern for pattern in EXCUSED if pattern not in needed] == []


def test_every_field_of_a_request_for_it_arrives_or_is_reported() -> None:
    labels = [case.probe.label for case in cases() if judge(case, GOOGLE) is Verdict.SILENT]
    others = [label for label in labels if excuse(label, REQUESTS) is None]
    assert {label for label in others if excuse(label, FOR_GOOGLE) is None} == set()
    assert {excuse(label, FOR_GOOGLE) for label in others} == FOR_GOOGLE.keys()


@cache
def silent_answers(client: str) -> tuple[tuple[str, str], ...]:
    """The same of answers, whole and streamed."""
    return tuple(
        (case.id, case.probe.label)
        for case in (*google_answer_cases(), *google_stream_cases())
        if judge_answer(case, client) is Verdict.SILENT
    )


@pytest.mark.parametrize("client", PROTOCOLS)
def test_every_field_of_an_answer_arrives_or_is_reported(client: str) -> None:
    lost = [name for name, label in silent_answers(client) if excuse(label, ANSWERS) is None]
    assert lost == []


def test_every_excuse_of_an_answer_is_needed() -> None:
    needed = {excuse(label, ANSWERS) for one in PROTOCOLS for _, label in silent_answers(one)}
    assert [pattern for pattern in ANSWERS if pattern not in needed] == []
