"""Errors in the vendors' own shapes, and rows of the decision table made of them. Sources: the
vendors' error references and what `dragoman.accounts.decide.limits` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.accounts.decide.symptoms import (
    UNREACHABLE,
    Symptom,
    symptom_of_answer,
    symptom_of_fault,
)
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.protocols.error_body import read_error_body

NOW = 1_795_219_200.0
"""Unix seconds: 2026-11-21T00:00:00Z."""

ACTIVE = "stays active"
DISABLED = "disabled"
Fate = tuple[str, str]
"""What becomes of the request, and of the account."""
CLIENT: Fate = ("back to the client", ACTIVE)
NEXT: Fate = ("next account", ACTIVE)
DROPPED: Fate = ("next account", DISABLED)


def rests(length: str) -> Fate:
    """The account is not used for the model that was asked for."""
    return "next account", f"rests {length}, for this model"


def last(length: str) -> Fate:
    """The account is used for the model only if no other is left."""
    return "next account", f"used last for {length}, for this model"


def out(length: str) -> Fate:
    """The account is not used at all."""
    return "next account", f"out for {length}, then on trial"


def symptom_of_body(
    status: int, body: bytes, headers: Mapping[str, str] = {}, now: float = NOW
) -> Symptom:
    """What an error answer with this body looks like to the pool."""
    return symptom_of_answer(status, headers, read_error_body(body).report, now)


class Answer(Struct, frozen=True):
    """An error answer."""

    status: int
    body: Any = b""
    headers: dict[str, str] = {}

    def symptom(self) -> Symptom:
        body = self.body if isinstance(self.body, bytes) else msgspec.json.encode(self.body)
        return symptom_of_body(self.status, body, self.headers)


class Inside(Struct, frozen=True):
    """An error inside a stream that began with status 200."""

    fault: Fault

    def symptom(self) -> Symptom:
        return symptom_of_fault(self.fault, NOW)


class Nothing(Struct, frozen=True):
    """No answer."""

    def symptom(self) -> Symptom:
        return UNREACHABLE


class Row(Struct, frozen=True):
    """What happened, in an operator's words and as the gateway sees it, and what comes of it."""

    told: str
    answer: Answer | Inside | Nothing
    default: Fate
    sop: Fate


def openai(
    status: int, code: str | None = None, message: str = "", kind: str = "", **headers: str
) -> Answer:
    """An error as OpenAI writes it; `_` in the names of headers stands for `-`."""
    error = {"message": message, "type": kind or code, "param": None, "code": code}
    return Answer(status, {"error": error}, _names(headers))


def anthropic(status: int, kind: str, message: str = "", code: str = "", **headers: str) -> Answer:
    """An error as Anthropic writes it; `code` is `details.error_code`."""
    error: dict[str, Any] = {"type": kind, "message": message}
    if code:
        error["details"] = {"error_code": code}
    return Answer(status, {"type": "error", "error": error}, _names(headers))


def google(status: int, word: str, message: str, **detail: str) -> Answer:
    """An error as Google writes it."""
    error = {"code": status, "message": message, "status": word, "details": [detail]}
    return Answer(status, [{"error": error}])


def aws(status: int, name: str, message: str) -> Answer:
    """An error as AWS writes it, named in a header."""
    named = f"{name}:http://internal.amazon.com/coral/com.amazon.bedrock/"
    return Answer(status, {"message": message}, {"x-amzn-errortype": named})


def unified(status: str, **windows: str) -> Answer:
    """A 429 to a Claude subscription; `_` in the names of windows stands for `-`."""
    headers = {f"anthropic-ratelimit-unified-{k}": v for k, v in _names(windows).items()}
    headers["anthropic-ratelimit-unified-status"] = status
    return Answer(429, anthropic(429, "rate_limit_error", "Error").body, headers)


def codex(used: str, code: str = "rate_limit_exceeded", **error: int) -> Answer:
    """A 429 to a ChatGPT subscription whose 5-hour window is used to `used` percent."""
    headers = {
        "x-codex-primary-used-percent": used,
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-after-seconds": "7200",
        "x-codex-secondary-used-percent": "12",
        "x-codex-secondary-reset-after-seconds": "600000",
    }
    return Answer(429, {"error": {"type": code, "message": "Limit", **error}}, headers)


def inside(kind: FaultKind, code: str | None = None, message: str = "Something") -> Inside:
    """An error inside a stream, as a protocol's reader gives it."""
    return Inside(Fault(kind, message, code=code))


def _names(words: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in words.items()}


def epoch(seconds: float) -> str:
    return str(int(NOW + seconds))
