"""Bodies of requests as JSON: decoded, checked, and refused in the same words by all protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias, TypeVar

import msgspec

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.jsontext import JsonError, JsonTooDeep

T = TypeVar("T")

JsonObject: TypeAlias = dict[str, Any]

MAX_DEPTH = 64
"""Deepest nesting of arrays and objects accepted inside a request."""


SPEAKING = frozenset(
    {
        "answer",
        "completion",
        "content",
        "content_block",
        "generated_text",
        "message",
        "output_text",
        "reasoning",
        "reasoning_content",
        "response",
        "text",
        "thinking",
        "tool_calls",
    }
)
"""Names of members with model output. In an unexpected place, their loss is one of content: an
answer with nothing else to read then fails."""


def loss_of(path: str) -> LossKind:
    """The loss of an unknown member of an answer, by the last name of its path."""
    return LossKind.CONTENT if path.rpartition(".")[2] in SPEAKING else LossKind.KNOB


def decode_object(body: bytes) -> JsonObject:
    """The JSON object in a request body.

    Raises:
        InvalidRequest: not JSON, not an object, or nested without end.
    """
    try:
        value = jsontext.decode(body)
    except JsonTooDeep:
        raise InvalidRequest.at("", "The request body is nested too deeply.") from None
    except JsonError:
        _explain(body)
    if not isinstance(value, dict):
        raise InvalidRequest.at("", "The request body must be a JSON object.")
    return value


def _explain(body: bytes) -> NoReturn:
    """Raise the error for an unusable JSON `body`."""
    import json  # only on the way to an error

    try:
        json.loads(body)
    except RecursionError:
        raise InvalidRequest.at("", "The request body is nested too deeply.") from None
    except ValueError as error:
        raise InvalidRequest.at("", f"The request body is not valid JSON: {error}.") from None
    raise InvalidRequest.at("", "The request body is not valid JSON.")


def checker(kind: type[T]) -> Callable[[bytes], T]:
    """A function that decodes a body as `kind`, and raises InvalidRequest, naming the field that is
    missing, or of a wrong type."""
    decode = msgspec.json.Decoder(kind).decode

    def check(body: bytes) -> T:
        try:
            return decode(body)
        except msgspec.ValidationError as error:
            raise mismatch(error) from None
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            _explain(body)

    return check


def mismatch(error: Exception) -> InvalidRequest:
    """The error for a value that a decoder refused for its type."""
    problem, _, place = str(error).partition(" - at `$")
    path = place.removesuffix("`").removeprefix(".")
    if problem.startswith(_MISSING):
        name = problem.removeprefix(_MISSING).strip("`")
        return InvalidRequest.at(f"{path}.{name}" if path else name, "is required")
    if problem.startswith("Invalid enum value"):
        problem = "is not one of the known values"
    return InvalidRequest.at(path, problem)


_MISSING = "Object missing required field "


def check_depth(value: Any, path: str, limit: int = MAX_DEPTH) -> None:
    """Refuse a carried value (a schema, tool input) nested deeper than `limit`.

    Raises:
        InvalidRequest: naming `path`.
    """
    if not _is_within(value, limit):
        raise InvalidRequest.at(path, _TOO_DEEP.format(limit))


_TOO_DEEP = "nested deeper than {} levels"


def _is_within(value: Any, limit: int) -> bool:
    """Whether `value` has at most `limit` levels of arrays and objects."""
    level = [value] if type(value) in _NESTED else []
    while level and limit:
        limit -= 1
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) in _NESTED
        ]
    return not level


_NESTED = frozenset({dict, list})
