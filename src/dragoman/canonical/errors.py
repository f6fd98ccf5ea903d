"""One hierarchy of errors, and the neutral description each protocol renders in its own shape."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct


class FaultKind(StrEnum):
    """What went wrong, independent of protocol. Each protocol package maps a kind to its status,
    type and code.
    """

    INVALID_REQUEST = "invalid_request"
    CONTEXT_TOO_LONG = "context_too_long"
    POLICY_BLOCKED = "policy_blocked"
    UNAUTHENTICATED = "unauthenticated"
    PAYMENT_REQUIRED = "payment_required"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    MODEL_NOT_FOUND = "model_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    REQUEST_TIMEOUT = "request_timeout"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    UNPROCESSABLE = "unprocessable"
    UPGRADE_REQUIRED = "upgrade_required"
    RATE_LIMITED = "rate_limited"
    INTERNAL = "internal"
    UPSTREAM_FAILED = "upstream_failed"
    NO_ACCOUNT = "no_account"
    OVERLOADED = "overloaded"
    UPSTREAM_TIMEOUT = "upstream_timeout"


class ErrorReport(Struct, frozen=True):
    """What an upstream's error contains, whatever its shape, in the upstream's own terms: the rules
    of accounts are written in them.

    `words` are its machine-readable types and codes, `text` is its message, `resets` are members of
    its body that give a time to retry, as they are: `resets_in_seconds`, `resets_at` (Unix
    seconds), `retryDelay` (a duration, such as `34s`).
    """

    words: tuple[str, ...] = ()
    text: str = ""
    resets: tuple[tuple[str, float | str], ...] = ()


class Fault(Struct, frozen=True):
    """An error for a client.

    `param` names the field at fault, `code` is a machine-readable word in the vocabulary of the
    OpenAI protocols, `retry_after` is in seconds. `status` overrides the HTTP status that the
    kind implies (for example an upstream's own 4xx). `details` are extra members for protocols
    that have a place for them. `report` is the content of the upstream's error, None for an error
    that no upstream sent; it is not sent to clients. `limited` is the kind of the client key's
    limit that refused the request: `requests`, `tokens` or `budget`.
    """

    kind: FaultKind
    message: str
    param: str | None = None
    code: str | None = None
    status: int | None = None
    retry_after: float | None = None
    details: dict[str, Any] | None = None
    report: ErrorReport | None = None
    limited: Literal["requests", "tokens", "budget"] | None = None


class DragomanError(Exception):
    """Root of all errors dragoman raises on purpose; `fault` is what a client may see."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled."""
        return type(self), (self.fault,)


class InvalidRequest(DragomanError):
    """The client's request is at fault. Nothing was sent upstream."""

    @classmethod
    def at(cls, path: str, problem: str, *, code: str | None = None) -> InvalidRequest:
        """An error at `path`, for example `messages[0].role`, with `problem` in plain words."""
        message = f"{path}: {problem}" if path else problem
        return cls(Fault(FaultKind.INVALID_REQUEST, message, param=path or None, code=code))


class Refused(InvalidRequest):
    """The request is well formed but the policy does not allow these `losses` of its translation,
    each a `dragoman.canonical.losses.Loss`."""

    def __init__(self, fault: Fault, losses: tuple[Any, ...]) -> None:
        super().__init__(fault)
        self.losses = losses

    @property
    def paths(self) -> tuple[str, ...]:
        """Where they are in the request."""
        return tuple(dict.fromkeys(loss.path for loss in self.losses))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fault, self.losses)


class UpstreamError(DragomanError):
    """The upstream answered with an error, or with an answer that is unusable."""

    @classmethod
    def unreadable(cls, problem: str) -> UpstreamError:
        """The upstream's answer is not what its protocol says; becomes a 502."""
        return cls(
            Fault(
                FaultKind.UPSTREAM_FAILED,
                f"The upstream's answer is unusable: {problem}",
                code="upstream_error",
            )
        )


class IllegalEvent(AssertionError):
    """A stream stage was given an event that the grammar does not allow: a bug of dragoman."""
