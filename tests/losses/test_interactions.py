"""No field of a request from a client of the Interactions API, of one for it, or of its answer
vanishes without a word: proved from the SDKs' types."""

from __future__ import annotations

from functools import cache

import pytest

from tests.losses.answer_verdict import judge_answer
from tests.losses.excused import FOR_INTERACTIONS, REQUESTS, excuse
from tests.losses.google import EXCUSED as OF_GOOGLE
from tests.losses.google import google_cases
from tests.losses.interactions import EXCUSED, INTERACTIONS, interaction_cases
from tests.losses.interactions_answers import EXCUSED as ANSWERS
from tests.losses.interactions_answers import interaction_answer_cases
from tests.losses.requests import GOOGLE, PROTOCOLS, Case, cases
from tests.losses.verdict import Verdict, judge

UPSTREAMS = (*PROTOCOLS, GOOGLE)


@cache
def silent(upstream: str) -> tuple[tuple[str, str], ...]:
    """Id and label of each case whose value is lost and not told of."""
    return tuple(
        (case.id, case.probe.label)
        for case in interaction_cases()
        if judge(case, upstream) is Verdict.SILENT
    )


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_every_field_arrives_or_is_reported(upstream: str) -> None:
    assert [name for name, label in silent(upstream) if excuse(label, EXCUSED) is None] == []


def test_the_walk_reaches_the_types() -> None:
    """So that a change of the SDK cannot silently empty the walk."""
    assert len(interaction_cases()) > 1000


def test_every_excuse_is_needed() -> None:
    needed = {excuse(label, EXCUSED) for one in UPSTREAMS for _, label in silent(one)}
    assert [pattern for pattern in EXCUSED if pattern not in needed] == []


def test_every_field_of_a_request_for_it_arrives_or_is_reported() -> None:
    """One case of each value: other tests walk all the ways there are to it."""
    chosen: dict[tuple[str, str], Case] = {}
    for case in (*cases(), *google_cases()):
        chosen.setdefault((case.source, case.probe.label), case)
    lost = [
        case.probe.label
        for case in chosen.values()
        if judge(case, INTERACTIONS) is Verdict.SILENT
        and excuse(case.probe.label, REQUESTS) is None
        and excuse(case.probe.label, OF_GOOGLE) is None
    ]
    assert {label for label in lost if excuse(label, FOR_INTERACTIONS) is None} == set()
    assert {excuse(label, FOR_INTERACTIONS) for label in lost} == FOR_INTERACTIONS.keys()


@cache
def silent_answers(client: str) -> tuple[tuple[str, str], ...]:
    """The same of whole answers."""
    return tuple(
        (case.id, case.probe.label)
        for case in interaction_answer_cases()
        if judge_answer(case, client) is Verdict.SILENT
    )


@pytest.mark.parametrize("client", UPSTREAMS)
def test_every_field_of_an_answer_arrives_or_is_reported(client: str) -> None:
    assert len(interaction_answer_cases()) > 500
    lost = [name for name, label in silent_answers(client) if excuse(label, ANSWERS) is None]
    assert lost == []


def test_every_excuse_of_an_answer_is_needed() -> None:
    needed = {excuse(label, ANSWERS) for one in UPSTREAMS for _, label in silent_answers(one)}
    assert [pattern for pattern in ANSWERS if pattern not in needed] == []
