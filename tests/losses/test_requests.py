"""No field of a request vanishes without a word: proved from the SDKs' own types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

import msgspec
import pytest

from dragoman.canonical.losses import Policy
from dragoman.protocols.settings import make_options
from tests.losses.excused import REQUESTS, SEARCHES, excuse
from tests.losses.requests import PROTOCOLS, ROOTS, Case, cases
from tests.losses.verdict import Verdict, judge

MAPPED = make_options(policy=Policy.LENIENT, hosted_tools="map")


@cache
def verdict_of(number: int, upstream: str) -> Verdict:
    """What becomes of a case."""
    return judge(cases()[number], upstream)


@cache
def mapped_verdict_of(number: int, upstream: str) -> Verdict:
    """What becomes of a case where the web search of one vendor becomes the other's."""
    return judge(cases()[number], upstream, MAPPED)


def searching() -> list[int]:
    """The cases with a web search in the request: its declaration, its call or its result."""
    encoded = (msgspec.json.encode(case.body()) for case in cases())
    return [number for number, body in enumerate(encoded) if b"web_search" in body]


def by_type(numbers: Iterable[int]) -> dict[str, list[int]]:
    """Cases by what they are found in: the SDK's request, and the type that has the field."""
    found: dict[str, list[int]] = {}
    for number in numbers:
        case = cases()[number]
        found.setdefault(f"{case.source}-{case.probe.label.partition('.')[0]}", []).append(number)
    return found


def crossings(numbers: Iterable[int]) -> Iterator[tuple[int, Case, str]]:
    """Each case with each upstream of another protocol."""
    for number in numbers:
        case = cases()[number]
        for upstream in PROTOCOLS:
            if upstream != case.client:
                yield number, case, upstream


FIELDS = by_type(range(len(cases())))
SEARCHED = by_type(searching())


@pytest.mark.parametrize("numbers", FIELDS.values(), ids=FIELDS)
def test_every_field_arrives_or_is_reported(
    numbers: list[int], verdicts: Counter[tuple[str, Verdict]]
) -> None:
    """The value is in the upstream's body, or the ledger names it, or the request is refused."""
    lost = []
    for number, case, upstream in crossings(numbers):
        verdict = verdict_of(number, upstream)
        excused = verdict is Verdict.SILENT and excuse(case.probe.label, REQUESTS) is not None
        verdicts["requests", Verdict.EXCUSED if excused else verdict] += 1
        if verdict is Verdict.SILENT and not excused:
            lost.append(f"{case.id} to {upstream}")
    assert lost == []


@pytest.mark.parametrize("numbers", SEARCHED.values(), ids=SEARCHED)
def test_every_field_of_a_web_search_arrives_or_is_reported(numbers: list[int]) -> None:
    """Where the web search of one vendor becomes the other's."""
    lost = [
        f"{case.id} to {upstream}"
        for number, case, upstream in crossings(numbers)
        if mapped_verdict_of(number, upstream) is Verdict.SILENT
        and excuse(case.probe.label, REQUESTS | SEARCHES) is None
    ]
    assert lost == []


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
        for number, case, upstream in crossings(range(len(cases())))
        if verdict_of(number, upstream) is Verdict.SILENT
    }

    assert [pattern for pattern in REQUESTS if pattern not in needed] == []
    assert all(REQUESTS.values()), "every excuse has a reason"


def test_every_excuse_of_a_search_is_needed() -> None:
    needed = {
        excuse(case.probe.label, SEARCHES)
        for number, case, upstream in crossings(searching())
        if mapped_verdict_of(number, upstream) is Verdict.SILENT
    }

    assert [pattern for pattern in SEARCHES if pattern not in needed] == []
