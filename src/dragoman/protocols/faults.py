"""The classification of upstream errors, for all protocols, in whole answers and in streams.

Services and compatible servers mix the vendors' vocabularies, so there is one table. Sources:
OpenAI's guide to error codes, `responses/response_error.py` of openai, `types/shared/` and
`_error_classes.py` of anthropic, the Open Responses specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.canonical.errors import FaultKind
from dragoman.failing import is_refused_by_template
from dragoman.protocols.base import to_json_text
from dragoman.protocols.overflow import CODES, is_too_long

_BY_STATUS: Mapping[int, FaultKind] = {
    401: FaultKind.UNAUTHENTICATED,
    402: FaultKind.PAYMENT_REQUIRED,
    403: FaultKind.FORBIDDEN,
    404: FaultKind.NOT_FOUND,
    405: FaultKind.METHOD_NOT_ALLOWED,
    408: FaultKind.REQUEST_TIMEOUT,
    409: FaultKind.CONFLICT,
    413: FaultKind.TOO_LARGE,
    415: FaultKind.UNSUPPORTED_MEDIA_TYPE,
    422: FaultKind.UNPROCESSABLE,
    # Bedrock's status for a model that failed, and Google's for a call that was cancelled there.
    424: FaultKind.UPSTREAM_FAILED,
    499: FaultKind.UPSTREAM_FAILED,
    426: FaultKind.UPGRADE_REQUIRED,
    429: FaultKind.RATE_LIMITED,
    503: FaultKind.OVERLOADED,
    504: FaultKind.UPSTREAM_TIMEOUT,
    # Cloudflare's status for a timeout of the origin server.
    524: FaultKind.UPSTREAM_TIMEOUT,
    529: FaultKind.OVERLOADED,
}
"""Statuses that identify the kind by themselves. 400, 500 and unlisted ones do not."""

_REFINED: Mapping[int, frozenset[FaultKind]] = {
    403: frozenset({FaultKind.PAYMENT_REQUIRED}),
    404: frozenset({FaultKind.MODEL_NOT_FOUND}),
    413: frozenset({FaultKind.CONTEXT_TOO_LONG}),
    429: frozenset({FaultKind.PAYMENT_REQUIRED}),
}
"""Kinds by which a word refines such a status."""

REQUEST_CODES = frozenset(
    {
        "bio_policy",
        "data_residency_mismatch",
        "empty_image_file",
        "failed_to_download_image",
        "image_content_policy_violation",
        "image_file_not_found",
        "image_file_too_large",
        "image_parse_error",
        "image_too_large",
        "image_too_small",
        "invalid_base64_image",
        "invalid_image",
        "invalid_image_format",
        "invalid_image_mode",
        "invalid_image_url",
        "invalid_prompt",
        "misalignment_policy_violation",
        "unsupported_image_media_type",
    }
)
"""Codes of a failed response caused by the request (responses/response_error.py)."""

OPENAI_CODES: Mapping[FaultKind, str] = {
    FaultKind.CONTEXT_TOO_LONG: "context_length_exceeded",
    FaultKind.MODEL_NOT_FOUND: "model_not_found",
    FaultKind.PAYMENT_REQUIRED: "insufficient_quota",
}
"""OpenAI's codes for kinds of which other protocols' errors have none."""

_BY_WORD: Mapping[str, FaultKind] = {
    **dict.fromkeys(REQUEST_CODES, FaultKind.INVALID_REQUEST),
    "invalid_request_error": FaultKind.INVALID_REQUEST,
    **dict.fromkeys(CODES, FaultKind.CONTEXT_TOO_LONG),
    "authentication_error": FaultKind.UNAUTHENTICATED,
    "invalid_api_key": FaultKind.UNAUTHENTICATED,
    "billing_error": FaultKind.PAYMENT_REQUIRED,
    "billing_hard_limit_reached": FaultKind.PAYMENT_REQUIRED,
    "contract_spend_limit_reached": FaultKind.PAYMENT_REQUIRED,
    "credit_balance_exhausted": FaultKind.PAYMENT_REQUIRED,
    "enforced_spend_limit_reached": FaultKind.PAYMENT_REQUIRED,
    "insufficient_quota": FaultKind.PAYMENT_REQUIRED,
    "linked_organization_billing_unavailable": FaultKind.PAYMENT_REQUIRED,
    "linked_organization_spend_limit_reached": FaultKind.PAYMENT_REQUIRED,
    "organization_spend_limit_exceeded": FaultKind.PAYMENT_REQUIRED,
    "organization_usage_limit_exceeded": FaultKind.PAYMENT_REQUIRED,
    "project_spend_limit_exceeded": FaultKind.PAYMENT_REQUIRED,
    "permission_denied": FaultKind.FORBIDDEN,
    "permission_error": FaultKind.FORBIDDEN,
    "not_found": FaultKind.NOT_FOUND,
    "not_found_error": FaultKind.NOT_FOUND,
    "model_not_found": FaultKind.MODEL_NOT_FOUND,
    "DeploymentNotFound": FaultKind.MODEL_NOT_FOUND,
    "method_not_allowed": FaultKind.METHOD_NOT_ALLOWED,
    "request_timeout": FaultKind.REQUEST_TIMEOUT,
    "conflict": FaultKind.CONFLICT,
    "conflict_error": FaultKind.CONFLICT,
    "request_too_large": FaultKind.TOO_LARGE,
    "unsupported_media_type": FaultKind.UNSUPPORTED_MEDIA_TYPE,
    "unprocessable_entity": FaultKind.UNPROCESSABLE,
    "upgrade_required": FaultKind.UPGRADE_REQUIRED,
    "ramp_limit_exceeded": FaultKind.RATE_LIMITED,
    "rate_limit_error": FaultKind.RATE_LIMITED,
    "rate_limit_exceeded": FaultKind.RATE_LIMITED,
    "too_many_requests": FaultKind.RATE_LIMITED,
    "usage_limit_reached": FaultKind.RATE_LIMITED,
    "no_account_available": FaultKind.OVERLOADED,
    "overloaded_error": FaultKind.OVERLOADED,
    "server_is_overloaded": FaultKind.OVERLOADED,
    "service_unavailable_error": FaultKind.OVERLOADED,
    "slow_down": FaultKind.OVERLOADED,
    "timeout": FaultKind.UPSTREAM_TIMEOUT,
    "timeout_error": FaultKind.UPSTREAM_TIMEOUT,
}
"""Error types and codes. Unlisted ones (`api_error`, `server_error`) are unspecific."""

FIXED_STATUS = frozenset(
    {
        FaultKind.CONTEXT_TOO_LONG,
        FaultKind.PAYMENT_REQUIRED,
        FaultKind.OVERLOADED,
        FaultKind.NO_ACCOUNT,
        FaultKind.UPSTREAM_TIMEOUT,
    }
)
"""Kinds with the status of the client's protocol, whatever the upstream's was."""

_NO_MODEL = re.compile(
    r"on-demand throughput isn.t supported|model identifier is invalid"
    r"|model .{1,200} isn.t supported on this route",
    re.IGNORECASE,
)
"""Of Bedrock, which has a status of 400 for a name that it does not serve so."""

_MAX_MESSAGE = 4096


def kind_of(status: int | None, words: Iterable[Any], message: str) -> FaultKind:
    """The kind of an error.

    `status` is None inside a stream and in an answer of status 200; `words` are its codes and
    types, the most specific first (values other than strings are ignored)."""
    kind = _kind(status, [_meaning(word) for word in words if type(word) is str])
    if kind in (FaultKind.INVALID_REQUEST, FaultKind.TOO_LARGE) and is_too_long(message):
        return FaultKind.CONTEXT_TOO_LONG
    if kind is FaultKind.INVALID_REQUEST and _NO_MODEL.search(message):
        return FaultKind.MODEL_NOT_FOUND
    if status is not None and status >= 500 and is_refused_by_template(message):
        return FaultKind.INVALID_REQUEST
    return kind


def _meaning(word: str) -> FaultKind | None:
    known = _BY_WORD.get(word)
    if known is None and word.startswith("invalid_"):
        return FaultKind.INVALID_REQUEST
    return known


def _kind(status: int | None, meant: list[FaultKind | None]) -> FaultKind:
    of_request = FaultKind.INVALID_REQUEST in meant
    named = next((kind for kind in meant if kind not in (None, FaultKind.INVALID_REQUEST)), None)
    if status is None:
        otherwise = FaultKind.INVALID_REQUEST if of_request else FaultKind.UPSTREAM_FAILED
        return named or otherwise
    by_status = _BY_STATUS.get(status)
    if named is not None and (by_status is None or named in _REFINED.get(status, ())):
        return named
    if by_status is not None:
        return by_status
    return FaultKind.INVALID_REQUEST if 400 <= status < 500 else FaultKind.UPSTREAM_FAILED


def client_status(kind: FaultKind, status: int | None) -> int | None:
    """The upstream's status, if a client of another protocol is shown it, too."""
    if status is None or kind in FIXED_STATUS or not 400 <= status < 500:
        return None
    if status in (424, 499) or (kind is FaultKind.MODEL_NOT_FOUND and status == 400):
        return None
    return status


def message_of(error: Mapping[str, Any], status: int | None) -> str:
    """The message in an error object, or one made from the status; of bounded length."""
    message = error.get("message")
    if isinstance(message, list | dict) and message:
        message = to_json_text(message)
    if not isinstance(message, str) or not message:
        if status is None:
            return "The upstream reported an error."
        return f"The upstream answered with status {status}."
    if is_refused_by_template(message):
        message = f"{message[:_MAX_MESSAGE]} {_TEMPLATE_HINT}"
    return message[:_MAX_MESSAGE]


_TEMPLATE_HINT = (
    "(The model's chat template refuses the conversation: the operator of the gateway can set the"
    " upstream's capabilities `late_system`, `alternating_turns` or `efforts`.)"
)
