"""Errors as Chat clients see them, and finish reasons that are errors."""

from __future__ import annotations

from dragoman.canonical.errors import Fault
from dragoman.canonical.options import Options
from dragoman.protocols.base import OFFICIAL, Rendered, to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_errors import FORMS, shown_status, shown_type
from dragoman.protocols.retrying import worded_for_stream
from dragoman.sse import DONE, encode


def write_error(fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
    """The status and body of a fault. The request id has its place in a header."""
    return Rendered(shown_status(fault, options), {"error": error_object(fault)})


def error_object(fault: Fault) -> JsonObject:
    """The `error` member of a body or a stream frame."""
    form = FORMS[fault.kind]
    return {
        **(fault.details or {}),
        "message": fault.message,
        "type": shown_type(fault),
        "param": fault.param,
        "code": fault.code or (None if form.optional else form.code),
    }


def error_frames(fault: Fault) -> bytes:
    """The frames that end a failed stream: the error, then the terminator, so that no reader hangs.
    The error is an object, since the SDKs do not show the message of a string."""
    return encode(to_json({"error": error_object(worded_for_stream(fault))})) + encode(DONE)
