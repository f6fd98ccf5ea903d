"""What became of one value of an upstream's answer on its way to a client."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.losses import Loss
from dragoman.translation import Call
from tests.checkers import CHECKERS
from tests.library import translate_request
from tests.losses.answers import AnswerCase
from tests.losses.clients import asking
from tests.losses.verdict import LENIENT, Verdict, indexless
from tests.losses.walker import path_text

_MINTED = re.compile(rb"[_-][0-9a-f]{24}|\"completed_at\":\d+")
"""What differs between two translations of the same answer."""


def judge_answer(case: AnswerCase, client: str) -> Verdict:
    """Translate the case's answer and see where its value went."""
    verdict = _judge(case, client, case.probe.value)
    for second in case.probe.second:
        if verdict is Verdict.SILENT:
            verdict = _judge(case, client, second)
    return verdict


def _judge(case: AnswerCase, client: str, value: Any) -> Verdict:
    call = _call(case, client)
    shown = _shown(call, case, client, case.body(value))
    if shown is None:
        return Verdict.REFUSED
    needle = case.probe.needle
    if needle is not None and needle.encode() in shown:
        return Verdict.ARRIVED
    if needle is None and _matters(case, client, value, shown):
        return Verdict.ARRIVED
    if any(_tells(loss, case) for loss in call.losses):
        return Verdict.REPORTED
    return Verdict.SILENT


def _call(case: AnswerCase, client: str) -> Call:
    body = msgspec.json.encode(asking(client, case.streamed))
    return translate_request(client, case.upstream, body, options=LENIENT, created=5)


def _shown(call: Call, case: AnswerCase, client: str, answer: bytes) -> bytes | None:
    """The client's bytes; None for an explicit failure."""
    if not case.streamed:
        try:
            return _MINTED.sub(b"", call.translate_response(answer))
        except UpstreamError:
            return None
    stream = call.open_stream()
    shown = stream.feed(answer) + stream.finish()
    if stream.outcome.fault is not None:
        assert not CHECKERS[client](shown).succeeded
        return None
    return _MINTED.sub(b"", shown)


def _matters(case: AnswerCase, client: str, value: Any, shown: bytes) -> bool:
    """Whether another value, or none, gives another answer."""
    for rival in case.probe.rivals:
        if rival is value or (type(rival) is type(value) and rival == value):
            continue
        if _shown(_call(case, client), case, client, case.body(rival)) != shown:
            return True
    return False


_SAME = {
    "citation": "annotations",
    "citations": "annotations",
    "annotation": "annotations",
    "content_block": "content",
    "item": "output",
    "output_text": "content",
    "added": "done",
    "part": "content",
    "thought": "reasoning",
    "RedactedThinkingBlock": "reasoning",
    "ThinkingBlock": "reasoning",
    "SignatureDelta": "reasoning",
    "ResponseReasoningItem": "reasoning",
    "groundingChunks": "annotations",
    "groundingSupports": "annotations",
    "citationMetadata": "annotations",
    "logprobsResult": "logprobs",
}
"""Words of the SDKs' types to the words in which answers' losses are reported."""


def _tells(loss: Loss, case: AnswerCase) -> bool:
    """Whether a loss names the case's value, or something around it.

    A value of a stream is reported by its place in the event or in the whole answer, so the
    words of the reported path have to stand in the case's path, in their order.
    """
    steps = [*case.event.split("."), *case.probe.turns, *path_text(case.path).split(".")]
    words = iter([_SAME.get(indexless(step), indexless(step)) for step in steps])
    reported = [_SAME.get(step, step) for step in indexless(loss.path).split(".")]
    return all(step in words for step in reported)
