"""The installed SDKs hold nothing that the gateway does not account for, and more is found."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from anthropic.types import (
    Message,
    RawMessageStreamEvent,
    TextBlock,
    TextBlockParam,
    message_create_params,
)
from google.genai import types as google
from google.genai.interactions import Interaction, InteractionSSEEvent, Step
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseStreamEvent,
    response_create_params,
)

from dragoman.canonical.errors import InvalidRequest
from tests.library import translate_request
from tests.losses.google import google_cases
from tests.losses.requests import PROTOCOLS, ROOTS, cases
from tests.losses.requests import Root as RequestRoot
from tests.losses.values import FILLER
from tests.losses.verdict import LENIENT, indexless
from tools.drift import answer_drift, answers, request_drift
from tools.drift.__main__ import main
from tools.drift.requests import ACCOUNTED

# What is made up here is found --------------------------------------------------------------------


class NewParams(message_create_params.MessageCreateParamsBase, total=False):
    """A request with one more field at its top."""

    mood: str


class NewText(TextBlockParam, total=False):
    """A known block with one more field."""

    typeface: str


class Hologram(TypedDict):
    """A block of an unknown type."""

    type: Literal["hologram"]
    beam: str


class NewTurn(TypedDict):
    role: Literal["user"]
    content: list[NewText | Hologram]


class NewContent(TypedDict):
    """A request whose conversation holds new content."""

    model: str
    max_tokens: int
    messages: list[NewTurn]


class Whisper(TypedDict):
    """An input item of an unknown type."""

    type: Literal["whisper"]
    text: str


class NewReasoning(TypedDict):
    effort: Literal["low", "frantic"]


class NewItems(response_create_params.ResponseCreateParamsBase, total=False):
    input: list[Whisper]  # type: ignore[misc]
    reasoning: NewReasoning  # type: ignore[misc]


def _requests(name: str, params: Any) -> list[str]:
    root = next(root for root in ROOTS if root.source == name)
    made = RequestRoot(root.source, root.client, params, root.turns, root.base)
    return [f"{drift.kind} {drift.what} {drift.why}" for drift in request_drift(cases((made,)))]


@pytest.mark.parametrize(
    ("name", "params", "told"),
    [
        ("messages", NewParams, ["field*mood*unknown field"]),
        (
            "messages",
            NewContent,
            ["field NewText*typeface: unknown field", "union member Hologram refused*"],
        ),
        (
            "responses",
            NewItems,
            ["union member Whisper*unknown*", "union member*NewReasoning.effort refused*"],
        ),
    ],
)
def test_new_parts_of_requests_are_found(name: str, params: Any, told: list[str]) -> None:
    """A field at the top, a field of a block, a block, an item, a word."""
    found = _requests(name, params)

    for pattern in told:
        assert any(fnmatchcase(line, pattern) for line in found), found


class Bell(pydantic.BaseModel):
    type: Literal["bell"]
    loudness: int


class NewTextBlock(TextBlock):
    typeface: str


class NewMessage(Message):
    """An answer with a new field, a new block, a new field of a block and a new stop reason."""

    mood: str
    content: list[NewTextBlock | Bell]  # type: ignore[assignment]
    stop_reason: Literal["end_turn", "bored"] | None = None  # type: ignore[assignment]


class NewCall(ResponseFunctionToolCall):
    urgency: int


class CallSpoken(pydantic.BaseModel):
    type: Literal["response.call.spoken"]
    item: NewCall
    sequence_number: int


class AddedSpoken(pydantic.BaseModel):
    type: Literal["response.output_item.added"]
    item: NewCall
    sequence_number: int


class NewError(pydantic.BaseModel):
    type: Literal["weather_error"]
    message: str


class NewCandidate(google.Candidate):
    mood: str
    finishReason: Literal["STOP", "BORED"]  # noqa: N815


class NewFeedback(google.GenerateContentResponsePromptFeedback):
    blockReason: Literal["SAFETY", "BOREDOM"]  # noqa: N815


class NewAnswer(google.GenerateContentResponse):
    """An answer with a new field, a new finish reason and a new reason for a block."""

    candidates: list[NewCandidate] | None = None  # type: ignore[assignment]
    prompt_feedback: NewFeedback | None = pydantic.Field(default=None, alias="promptFeedback")


class NewInteraction(Interaction):
    """An interaction with a new field, a new status and a new step."""

    mood: str
    status: Literal["completed", "bored"]  # type: ignore[assignment]
    steps: list[Step | Bell] | None = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("where", "type_", "told"),
    [
        (
            "messages answer",
            NewMessage,
            {
                "field NewMessage.mood",
                "field NewTextBlock.typeface",
                "union member bell (Bell)",
                "word bored",
            },
        ),
        (
            "responses stream",
            Annotated[ResponseStreamEvent | CallSpoken, "more"],
            {"event response.call.spoken (CallSpoken)"},
        ),
        ("responses stream", AddedSpoken, {"field NewCall.urgency"}),
        ("messages stream", RawMessageStreamEvent | Bell, {"event bell (Bell)"}),
        ("google answer", NewAnswer, {"field NewCandidate.mood", "word BORED", "word BOREDOM"}),
        (
            "interactions answer",
            NewInteraction,
            {"field NewInteraction.mood", "word bored", "union member bell (Bell)"},
        ),
        ("interactions stream", InteractionSSEEvent | Bell, {"union member bell (Bell)"}),
        ("messages error", NewError, {"union member weather_error (NewError)"}),
    ],
)
def test_new_parts_of_answers_are_found(where: str, type_: Any, told: set[str]) -> None:
    """A field, a union member, an event, a stop reason, an error type."""
    known = next(root.known for root in answers.ROOTS if root.where == where)

    found = answer_drift([answers.Root(where, type_, known)])

    assert {f"{drift.kind} {drift.what}" for drift in found} == told


def test_every_entry_of_what_is_accounted_for_is_needed() -> None:
    texts: set[str] = set()
    for case in (*cases(), *google_cases()):
        for upstream in PROTOCOLS:
            body = msgspec.json.encode(case.body())
            try:
                call = translate_request(case.client, upstream, body, options=LENIENT)
            except InvalidRequest as refused:
                texts.add(refused.fault.message)
                continue
            for loss in call.losses:
                texts.add(f"{case.client} {indexless(loss.path)}: {loss.detail}")

    unused = [p for p in ACCOUNTED if not any(fnmatchcase(text, p) for text in texts)]
    assert unused == []
    assert all(ACCOUNTED.values()), "every entry has a reason"


def test_nothing_of_the_pinned_sdks_is_unaccounted_for(capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints what it found, and that is nothing."""
    status = main()

    printed = capsys.readouterr().out
    assert printed.endswith("0 found\nnothing is unaccounted for\n")
    assert FILLER not in printed
    assert status == 0
