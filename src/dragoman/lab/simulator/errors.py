"""Errors as each vendor sends them: status, body and headers.

The shapes and the usual ``type`` and ``code`` of each status follow the vendors' documented
error tables (OpenAI error codes, Anthropic ``shared/error_object`` types).
"""

import msgspec

from dragoman.lab.simulator.script import Failure, Protocol
from dragoman.lab.simulator.view import JsonObject

_OPENAI: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request is invalid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    402: ("insufficient_quota", "insufficient_quota", "The account's balance is used up."),
    403: ("permission_error", None, "You are not allowed to use this model."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist."),
    405: ("invalid_request_error", "method_not_allowed", "Method not allowed."),
    409: ("invalid_request_error", None, "The request conflicts with another one."),
    413: ("invalid_request_error", None, "The request is too large."),
    415: ("invalid_request_error", None, "Unsupported content type."),
    422: ("invalid_request_error", None, "The request can't be processed."),
    426: ("invalid_request_error", None, "Websockets are not served here."),
    429: ("rate_limit_error", "rate_limit_exceeded", "Rate limit reached for requests."),
    500: ("server_error", None, "The server had an error while processing your request."),
    502: ("server_error", None, "Bad gateway."),
    503: ("service_unavailable_error", "server_is_overloaded", "The server is overloaded."),
    504: ("server_error", None, "The request timed out."),
    529: ("service_unavailable_error", "server_is_overloaded", "The server is overloaded."),
}

_ANTHROPIC: dict[int, tuple[str, str]] = {
    400: ("invalid_request_error", "The request is invalid."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the API."),
    403: ("permission_error", "Your API key does not have permission to use this model."),
    404: ("not_found_error", "The requested resource could not be found."),
    405: ("invalid_request_error", "Method Not Allowed"),
    408: ("invalid_request_error", "The request timed out."),
    409: ("conflict_error", "The request conflicts with another one."),
    413: ("request_too_large", "Request exceeds the maximum size."),
    415: ("invalid_request_error", "Unsupported content type."),
    422: ("invalid_request_error", "The request can't be processed."),
    426: ("invalid_request_error", "Websockets are not served here."),
    429: ("rate_limit_error", "This request would exceed your rate limit."),
    500: ("api_error", "Internal server error"),
    502: ("api_error", "Bad gateway"),
    503: ("api_error", "Service unavailable"),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}


_GOOGLE: dict[int, tuple[str, str]] = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    402: ("FAILED_PRECONDITION", "Billing is not enabled for this project."),
    403: ("PERMISSION_DENIED", "The caller does not have permission."),
    404: ("NOT_FOUND", "Requested entity was not found."),
    405: ("INVALID_ARGUMENT", "Method not allowed."),
    409: ("ABORTED", "The operation was aborted."),
    413: ("INVALID_ARGUMENT", "Request payload size exceeds the limit."),
    429: ("RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    499: ("CANCELLED", "The operation was cancelled."),
    500: ("INTERNAL", "An internal error has occurred."),
    501: ("UNIMPLEMENTED", "Operation is not implemented."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "The request timed out."),
    529: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
}
_INTERACTIONS: dict[int, tuple[str, str]] = {
    400: ("invalid_request", "The request is invalid."),
    401: ("authentication", "The API key is missing or invalid."),
    402: ("payment_required", "Billing is not enabled for this project."),
    403: ("permission_denied", "The caller does not have permission."),
    404: ("not_found", "The requested resource was not found."),
    405: ("invalid_request", "Method not allowed."),
    409: ("aborted", "The operation was aborted."),
    413: ("invalid_request", "The request is too large."),
    415: ("invalid_request", "Unsupported content type."),
    416: ("out_of_range", "The value is out of range."),
    429: ("rate_limit_exceeded", "You exceeded your current rate limit."),
    499: ("cancelled", "The operation was cancelled."),
    500: ("api_error", "An internal error has occurred."),
    501: ("unimplemented", "The operation is not implemented."),
    503: ("service_unavailable", "The model is overloaded. Please try again later."),
    504: ("deadline_exceeded", "The request timed out."),
    529: ("service_unavailable", "The model is overloaded. Please try again later."),
}
_INTERACTIONS_CODES = frozenset(
    {
        *(code for code, _ in _INTERACTIONS.values()),
        *("parameter_unknown", "failed_precondition", "model_not_found", "already_exists"),
        *("quota_exceeded", "too_many_requests", "malformed_function_call", "content_blocked"),
        *("safety", "recitation", "language", "prohibited_content", "spii", "blocklist"),
        *("image_safety", "image_prohibited_content", "image_recitation", "image_other"),
    }
)
"""Codes that the Interactions API knows."""

_RPC = "type.googleapis.com/google.rpc."


class ApiError(Exception):
    """An error to answer with instead of what was asked; raised anywhere before the answer.

    ``param`` names the request's field at fault and ``code`` the kind of mistake, both as
    OpenAI has them; ``details_code`` is Anthropic's ``details.error_code``, which few errors have.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        details_code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.details_code = details_code

    def failure(self, protocol: Protocol) -> Failure:
        """The error as that protocol words it."""
        code = self.details_code if protocol == "messages" else self.code
        if protocol == "google":  # whose reasons are others
            code = None
        if protocol == "interactions" and code not in _INTERACTIONS_CODES:
            code = None
        return Failure(status=self.status, message=self.message, code=code, param=self.param)


def openai_error(failure: Failure) -> JsonObject:
    """OpenAI's error object: ``message``, ``type``, ``param``, ``code``."""
    kind, code, message = _OPENAI.get(failure.status, _OPENAI[400 + 100 * (failure.status >= 500)])
    return {
        "message": message if failure.message is None else failure.message,
        "type": failure.type or kind,
        "param": failure.param,
        "code": failure.code or code,
    }


def anthropic_error(failure: Failure) -> JsonObject:
    """Anthropic's error object: ``type``, ``message`` and, with a code, ``details``."""
    kind, message = _ANTHROPIC.get(failure.status, _ANTHROPIC[400 + 100 * (failure.status >= 500)])
    error: JsonObject = {
        "type": failure.type or kind,
        "message": message if failure.message is None else failure.message,
    }
    if failure.code is not None:
        error["details"] = {"error_code": failure.code}
    return error


def google_error(failure: Failure) -> JsonObject:
    """Google's error object: ``code``, ``message``, ``status`` and ``details``.

    A ``code`` is the reason of an ErrorInfo, or the id of a quota if it has a ``Per``; a wait is
    in a RetryInfo and in the message, and in no header.
    """
    status, message = _GOOGLE.get(failure.status, _GOOGLE[400 + 100 * (failure.status >= 500)])
    message = message if failure.message is None else failure.message
    details: list[JsonObject] = []
    if failure.code is not None and "Per" in failure.code:
        details.append({"@type": f"{_RPC}QuotaFailure", "violations": [{"quotaId": failure.code}]})
    elif failure.code is not None:
        info = {"reason": failure.code, "domain": "googleapis.com"}
        details.append({"@type": f"{_RPC}ErrorInfo", **info})
    if failure.param is not None:
        violations = [{"field": failure.param, "description": message}]
        details.append({"@type": f"{_RPC}BadRequest", "fieldViolations": violations})
    if failure.retry_after is not None:
        details.append({"@type": f"{_RPC}RetryInfo", "retryDelay": f"{failure.retry_after}s"})
        message += f" Please retry in {failure.retry_after}s."
    error = {"code": failure.status, "message": message, "status": failure.type or status}
    return {**error, "details": details} if details else error


def interactions_error(failure: Failure) -> JsonObject:
    """The error object of the Interactions API: ``code``, which is a word, and ``message``."""
    usual = _INTERACTIONS.get(failure.status, _INTERACTIONS[400 + 100 * (failure.status >= 500)])
    message = usual[1] if failure.message is None else failure.message
    return {"code": failure.code or failure.type or usual[0], "message": message}


def error_body(protocol: Protocol, failure: Failure, request_id: str) -> bytes:
    """The JSON body of an error answer in the protocol's own shape."""
    if protocol == "google":
        return msgspec.json.encode({"error": google_error(failure)})
    if protocol == "interactions":
        return msgspec.json.encode({"error": interactions_error(failure)})
    if protocol == "messages":
        return msgspec.json.encode(
            {"type": "error", "error": anthropic_error(failure), "request_id": request_id}
        )
    return msgspec.json.encode({"error": openai_error(failure)})


def error_headers(protocol: Protocol, failure: Failure) -> list[tuple[str, str]]:
    """The headers that go with an error beside the content type."""
    headers: list[tuple[str, str]] = []
    if protocol == "google":
        return headers
    if failure.retry_after is not None:
        headers.append(("retry-after", failure.retry_after))
    if protocol == "messages" and failure.status == 429:
        headers.append(("anthropic-ratelimit-requests-remaining", "0"))
    if protocol not in ("messages", "interactions") and failure.status == 429:
        headers.append(("x-ratelimit-remaining-requests", "0"))
    return headers
