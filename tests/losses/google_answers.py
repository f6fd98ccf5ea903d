"""One answer of generateContent, whole and streamed, for every field of google-genai's types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
from google.genai import types

from tests.losses.answers import AnswerCase
from tests.losses.requests import GOOGLE
from tests.losses.shapes import Record, fields_of
from tests.losses.values import FILLER, Owner
from tests.losses.walker import ABSENT, walk

Json = dict[str, Any]

_OF_SDK = frozenset({"sdkHttpResponse", "automaticFunctionCallingHistory", "parsed"})
"""What the SDK itself adds to an answer: it is on no wire."""

_BASE: Json = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": FILLER}]},
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {"promptTokenCount": 50, "candidatesTokenCount": 5, "totalTokenCount": 55},
    "modelVersion": FILLER,
    "responseId": FILLER,
}
_FIRST: Json = {
    **_BASE,
    "candidates": [{"content": {"role": "model", "parts": [{"text": f"{FILLER} "}]}, "index": 0}],
}
"""The chunk before the one with the value under test."""

EXCUSED: dict[str, str] = {
    # What a gateway says in its own name, or the client's.
    "GenerateContentResponse.responseId": "An answer's id is the gateway's own.",
    "GenerateContentResponse.modelVersion": "The client is shown the model it asked for.",
    "GenerateContentResponse.createTime": "The time of the gateway's own answer.",
    "Content.role": "There is no other role in an answer.",
    # Said a second time.
    "*.totalTokenCount": "The sum of counts that are carried.",
    "ModalityTokenCount.*": "A split of counts that are carried.",
    "Candidate.tokenCount": "A count that the usage has.",
    "Candidate.avgLogprobs": "The mean of values that are carried.",
    "LogprobsResult.logProbabilitySum": "The sum of values that are carried.",
    "LogprobsResultCandidate.tokenId": "A number of the vendor's; the token itself is carried.",
    "GroundingChunk*.domain": "The host of an address that is carried.",
    "Segment.partIndex": "Citations are told of the text that they stand in.",
    "GroundingMetadata.webSearchQueries": "Told to those who declared a search.",
    # What is said of parts of a request, or of sounds.
    "Part.thoughtSignature": "A signature on a text is recommended, not needed.",
    "PartMediaResolution.*": "A wish about a medium in a request.",
    "VideoMetadata.*": "A wish about a video in a request.",
    "Part.partMetadata": "What the client itself wrote on a part of its request.",
    "SpeechMetadata.*": "How a text of a request is to be read out.",
    "Transcription.*": "The words are shown, without the marks of when and by whom they were said.",
    "WordInfo.*": "The words are shown, without the marks of when they were said.",
    # What no one but the vendor has a use for.
    "SafetyRating.*": "What a filter thought of an answer that it let pass.",
    "ModelStatus.*": "How long the vendor has the model: of the model, not of the answer.",
    "Candidate.finishMessage": "The message of an ordinary end.",
    "Candidate.continuationToken": "Belongs to an end that is told of itself.",
}
"""What may vanish without a word, each with its reason."""


@cache
def google_answer_cases() -> tuple[AnswerCase, ...]:
    """One whole answer per field."""
    return tuple(_cases("", _whole))


@cache
def google_stream_cases() -> tuple[AnswerCase, ...]:
    """One stream of two chunks per field, which is in the last."""
    return tuple(_cases("chunk", _streamed))


def _cases(event: str, encoded: Callable[[Json], bytes]) -> Iterator[AnswerCase]:
    record = Record(types.GenerateContentResponse)
    for field in fields_of(record):
        if field.name in _OF_SDK:
            continue
        for probe in walk(field.shape, Owner().field(record.name, field.name)):
            if not probe.path:
                probe = replace(probe, rivals=(ABSENT, *probe.rivals))
            path = (field.name, *probe.path)
            yield AnswerCase("google", GOOGLE, event, path, probe, _answer(field.name, encoded))


def _answer(name: str, encoded: Callable[[Json], bytes]) -> Callable[[Any], bytes]:
    def build(value: Any) -> bytes:
        answer = {**_BASE, name: value}
        if value is ABSENT:
            del answer[name]
        if name == "promptFeedback":
            del answer["candidates"]
        return encoded(answer)

    return build


def _whole(answer: Json) -> bytes:
    return msgspec.json.encode(answer)


def _streamed(answer: Json) -> bytes:
    first = {**_FIRST, "usageMetadata": answer.get("usageMetadata", {})}
    chunks = [first, answer] if "candidates" in answer else [answer]
    return b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks)
