"""No field of a request vanishes without a word: proved from the SDKs' own types."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from dragoman.canonical.losses import Policy
from dragoman.protocols.settings import make_options
from tests.losses.excused import REQUESTS, SEARCHES, excuse
from tests.losses.requests import PROTOCOLS, ROOTS, Case, cases
from tests.losses.verdict import Verdict, judge

MAPPED = make_options(policy=Policy.LENIENT, hosted_tools="map")


def searching() -> list[Case]:
    """The cases with a web search in the request: its declaration, its call or its result."""
    return [case for case in cases() if b"web_search" in msgspec.json.encode(case.body())]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_every_field_arrives_or_is_reported(
    case: Case, verdicts: Counter[tuple[str, Verdict]]
) -> None:
    """The value is in the upstream's body, or the ledger names it, or the request is refused."""
    for upstream in PROTOCOLS:
        if upstream == case.client:
            continue
        verdict = judge(case, upstream)
        excused = verdict is Verdict.SILENT and excuse(case.probe.label, REQUESTS) is not None
        verdicts["requests", Verdict.EXCUSED if excused else verdict] += 1
        assert excused or verdict is not Verdict.SILENT, f"{case.client} to {upstream}"


@pytest.mark.parametrize("case", searching(), ids=lambda case: case.id)
def test_every_field_of_a_web_search_arrives_or_is_reported(case: Case) -> None:
    """Where the web search of one vendor becomes the other's."""
    for upstream in PROTOCOLS:
        if upstream == case.client:
            continue
        silent = judge(case, upstream, MAPPED) is Verdict.SILENT
        excused = silent and excuse(case.probe.label, REQUESTS | SEARCHES) is not None
        assert excused or not silent, f"{case.client} to {upstream}"


def test_the_walk_reaches_the_types() -> None:
    """Each root gives cases, so that a change of the SDKs cannot silently empty the walk."""
    found = Counter(case.source for case in cases())

    assert {root.source for root in ROOTS} == set(found)
    assert found["chat"] > 150
    assert found["responses"] > 1000
    assert found["messages"] > 1000
    assert found["beta"] > 2000


def test_every_excuse_is_needed() -> None:
    needed = {
        excuse(case.probe.label, REQUESTS)
        for case in cases()
        for upstream in PROTOCOLS
        if upstream != case.client and judge(case, upstream) is Verdict.SILENT
    }

    assert [pattern for pattern in REQUESTS if pattern not in needed] == []
    assert all(REQUESTS.values()), "every excuse has a reason"


def test_every_excuse_of_a_search_is_needed() -> None:
    needed = {
        excuse(case.probe.label, SEARCHES)
        for case in searching()
        for upstream in PROTOCOLS
        if upstream != case.client and judge(case, upstream, MAPPED) is Verdict.SILENT
    }

    assert [pattern for pattern in SEARCHES if pattern not in needed] == []
