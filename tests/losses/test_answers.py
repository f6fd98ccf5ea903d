"""No field of an answer vanishes without a word: proved from the SDKs' own types."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.losses.answer_verdict import judge_answer
from tests.losses.answers import AnswerCase, answer_cases, stream_cases
from tests.losses.excused import ANSWERS, excuse
from tests.losses.requests import PROTOCOLS
from tests.losses.verdict import Verdict

ALL = (*answer_cases(), *stream_cases())


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_every_field_arrives_or_is_reported(
    case: AnswerCase, verdicts: Counter[tuple[str, Verdict]]
) -> None:
    """The value is in the client's answer, or the ledger names it, or the answer is a failure."""
    for client in PROTOCOLS:
        if client == case.upstream:
            continue
        verdict = judge_answer(case, client)
        allowed = verdict is Verdict.SILENT and excuse(case.probe.label, ANSWERS) is not None
        kind = "streams" if case.streamed else "answers"
        verdicts[kind, Verdict.EXCUSED if allowed else verdict] += 1
        assert allowed or verdict is not Verdict.SILENT, f"{case.upstream} to {client}"


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
        for case in ALL
        for client in PROTOCOLS
        if client != case.upstream and judge_answer(case, client) is Verdict.SILENT
    }

    assert [pattern for pattern in ANSWERS if pattern not in needed] == []
    assert all(ANSWERS.values()), "every excuse has a reason"
