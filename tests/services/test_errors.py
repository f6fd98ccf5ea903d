"""What clients are told of the errors of clouds; what accounts are thought of for them is in
`tests/accounts/answers.py`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.protocols import CODECS
from tests.accounts.answers import BUSY, ON_DEMAND
from tests.accounts.shapes import Answer, aws, google, openai

AWS_TOO_LONG = "Input is too long for requested model."
LONG, SHORT = FaultKind.CONTEXT_TOO_LONG, FaultKind.RATE_LIMITED
GONE = FaultKind.MODEL_NOT_FOUND
ROUTE = "model `openai.gpt-oss-120b` isn't supported on this route"

ROWS: list[tuple[str, Answer, FaultKind, int | None]] = [
    ("anthropic_messages", aws(400, "ValidationException", AWS_TOO_LONG), LONG, None),
    ("anthropic_messages", aws(400, "ValidationException", "prompt is too long: 9"), LONG, None),
    ("anthropic_messages", aws(429, "ThrottlingException", BUSY), SHORT, 429),
    ("anthropic_messages", aws(429, "ThrottlingException", "Too many tokens per day"), SHORT, 429),
    ("anthropic_messages", aws(429, "ThrottlingException", AWS_TOO_LONG), SHORT, 429),
    ("openai_chat", openai(429, "429", "Requests exceeded token rate limit"), SHORT, 429),
    ("openai_chat", openai(400, "context_length_exceeded", "Too many tokens"), LONG, None),
    ("anthropic_messages", aws(400, "ValidationException", ON_DEMAND), GONE, None),
    (
        "anthropic_messages",
        aws(400, "ValidationException", "The provided model identifier is invalid."),
        GONE,
        None,
    ),
    ("openai_chat", openai(400, "validation_error", ROUTE), GONE, None),
    ("openai_chat", openai(404, "DeploymentNotFound", "It does not exist."), GONE, 404),
    (
        "anthropic_messages",
        aws(424, "ModelErrorException", "unexpected"),
        FaultKind.UPSTREAM_FAILED,
        None,
    ),
    ("anthropic_messages", google(499, "CANCELLED", "x"), FaultKind.UPSTREAM_FAILED, None),
    ("openai_chat", openai(400, "content_filter", "x"), FaultKind.INVALID_REQUEST, 400),
]


def fault(protocol: str, answer: Answer) -> Fault:
    body: Any = answer.body
    read = CODECS[protocol].translate.read_error
    return read(answer.status, answer.headers, msgspec.json.encode(body))


@pytest.mark.parametrize(("protocol", "answer", "kind", "status"), ROWS)
def test_the_kind_of_an_error(
    protocol: str, answer: Answer, kind: FaultKind, status: int | None
) -> None:
    """A throttle is no overflow, and no overflow a throttle, though both speak of tokens."""
    found = fault(protocol, answer)
    assert (found.kind, found.status) == (kind, status)


def test_an_error_of_aws_names_itself_in_its_body_too() -> None:
    body = {"__type": "com.amazon.coral.service#ExpiredTokenException", "Message": "Expired"}
    found = fault("anthropic_messages", Answer(403, body))
    assert found.report is not None
    assert found.report.words == ("ExpiredTokenException",)
    assert found.message == "Expired"
