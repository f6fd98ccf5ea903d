"""No field of an answer vanishes without a word: proved from the SDKs' own types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from tests.losses.answer_verdict import judge_answer
from tests.losses.answers import AnswerCase, answer_cases, stream_cases
from tests.losses.excused import ANSWERS, excuse
from tests.losses.requests import PROTOCOLS
from tests.losses.verdict import Verdict

ALL = (*answer_cases(), *stream_cases())


@cache
def verdict_of(number: int, client: str) -> Verdict:
    """What becomes of a case."""
    return judge_answer(ALL[number], client)


def by_type() -> dict[str, list[int]]:
    """Cases by what they are found in: the SDK's answer or event, and the type that has the
    field."""
    found: dict[str, list[int]] = {}
    for number, case in enumerate(ALL):
        found.setdefault(f"{case.source}-{case.probe.label.partition('.')[0]}", []).append(number)
    return found


def crossings(numbers: Iterable[int]) -> Iterator[tuple[int, AnswerCase, str]]:
    """Each case with each client of another protocol."""
    for number in numbers:
        case = ALL[number]
        for client in PROTOCOLS:
            if client != case.upstream:
                yield number, case, client


FIELDS = by_type()


@pytest.mark.parametrize("numbers", FIELDS.values(), ids=FIELDS)
def test_every_field_arrives_or_is_reported(
    numbers: list[int], verdicts: Counter[tuple[str, Verdict]]
) -> None:
    """The value is in the client's answer, or the ledger names it, or the answer is a failure."""
    lost = []
    for number, case, client in crossings(numbers):
        verdict = verdict_of(number, client)
        excused = verdict is Verdict.SILENT and excuse(case.probe.label, ANSWERS) is not None
        kind = "streams" if case.streamed else "answers"
        verdicts[kind, Verdict.EXCUSED if excused else verdict] += 1
        if verdict is Verdict.SILENT and not excused:
            lost.append(f"{case.id} to {client}")
    assert lost == []


def test_the_walk_reaches_the_types() -> None:
    """Each protocol gives cases, so that a change of the SDKs cannot silently empty the walk."""
    whole = Counter(case.upstream for case in answer_cases())
    streamed = Counter(case.upstream for case in stream_cases())

    for protocol in PROTOCOLS:
        assert whole[protocol] > 80
        assert streamed[protocol] > 80
    assert len({case.source for case in stream_cases()}) > 60, "one source per type of event"


def test_every_excuse_is_needed() -> None:
    needed = {
        excuse(case.probe.label, ANSWERS)
        for number, case, client in crossings(range(len(ALL)))
        if verdict_of(number, client) is Verdict.SILENT
    }

    assert [pattern for pattern in ANSWERS if pattern not in needed] == []
    assert all(ANSWERS.values()), "every excuse has a reason"
