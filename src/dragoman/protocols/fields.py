"""Reading of JSON objects field by field, with each field either taken or accounted for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any, NoReturn, TypeAlias

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import UNSUPPORTED, LossKind
from dragoman.canonical.requests import Extra
from dragoman.jsontext import JsonError, JsonMismatch, JsonTooDeep

JsonObject: TypeAlias = dict[str, Any]

MAX_DEPTH = 64
"""Deepest nesting of arrays and objects accepted inside a request."""


class _Missing(Enum):
    MISSING = 0


class Field:
    """The treatment of a wire field with no canonical counterpart.

    `kind` is the kind of loss if it is omitted; `neutral` values have no effect and are no loss;
    `code` is the error code when the policy refuses the request for it.
    """

    __slots__ = ("code", "detail", "kind", "neutral")

    def __init__(
        self,
        kind: LossKind,
        detail: str = "has no counterpart upstream",
        neutral: tuple[Any, ...] = (),
        code: str = UNSUPPORTED,
    ) -> None:
        self.kind = kind
        self.detail = detail
        self.neutral = neutral
        self.code = code


UNKNOWN = Field(LossKind.KNOB, "unknown field")
"""Fields in no table: passed through in the same protocol, reported otherwise."""


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


def check_shape(body: bytes, shape: Callable[[bytes], Any]) -> None:
    """Refuse a body that lacks, or has with a wrong type, what `shape` describes.

    Raises:
        InvalidRequest: naming the field.
    """
    try:
        shape(body)
    except JsonMismatch as error:
        raise mismatch(error) from None
    except JsonError:
        decode_object(body)


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


class Fields:
    """A cursor over one JSON object of a request.

    Each `take_*` removes a field, checks its type and returns None when it is absent or null.
    `rest` returns the fields not taken. `path` is the path of the object, empty at the top.
    """

    __slots__ = ("_data", "path")

    def __init__(self, value: Any, path: str = "") -> None:
        if type(value) is not dict:
            raise InvalidRequest.at(path, "must be an object")
        self._data: JsonObject = value.copy()
        self.path = path

    def at(self, name: str) -> str:
        """The path of the field `name`."""
        return f"{self.path}.{name}" if self.path else name

    def fail(self, name: str, problem: str) -> NoReturn:
        """Raise `InvalidRequest` at the field `name`."""
        raise InvalidRequest.at(self.at(name), problem)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null (and not yet taken)."""
        return self._data.get(name) is not None

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether one of the fields is there, or null (and not yet taken)."""
        return not names.isdisjoint(self._data)

    def is_done(self) -> bool:
        """Whether every field was taken."""
        return not self._data

    def take(self, name: str) -> Any:
        """The field, of any type."""
        return self._data.pop(name, None)

    def take_str(self, name: str) -> str | None:
        """A string."""
        value = self._data.pop(name, None)
        if value is None or type(value) is str:
            return value
        self.fail(name, "must be a string")

    def need_str(self, name: str) -> str:
        """A string that must be there."""
        value = self._data.pop(name, None)
        if type(value) is str:
            return value
        self.fail(name, "is required" if value is None else "must be a string")

    def take_bool(self, name: str) -> bool | None:
        """A boolean."""
        value = self._data.pop(name, None)
        if value is None or type(value) is bool:
            return value
        self.fail(name, "must be a boolean")

    def take_int(self, name: str, minimum: int | None = None) -> int | None:
        """A whole number."""
        value = self._data.pop(name, None)
        if value is None:
            return None
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            self.fail(name, "must be a whole number")
        if minimum is not None and value < minimum:
            self.fail(name, f"must be at least {minimum}")
        return value

    def take_float(
        self, name: str, minimum: float | None = None, maximum: float | None = None
    ) -> float | None:
        """A number."""
        value = self._data.pop(name, None)
        if value is None:
            return None
        if type(value) not in (int, float):
            self.fail(name, "must be a number")
        if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
            self.fail(name, f"must be between {minimum} and {maximum}")
        return float(value)

    def take_list(self, name: str) -> list[Any] | None:
        """An array."""
        value = self._data.pop(name, None)
        if value is None or type(value) is list:
            return value
        self.fail(name, "must be an array")

    def take_object(self, name: str) -> JsonObject | None:
        """An object that is carried as it is; its depth is checked."""
        value = self._data.pop(name, None)
        if value is None:
            return None
        if type(value) is not dict:
            self.fail(name, "must be an object")
        if not _is_within(value, MAX_DEPTH):
            self.fail(name, _TOO_DEEP.format(MAX_DEPTH))
        return value

    def take_fields(self, name: str) -> Fields | None:
        """An object that is read field by field."""
        value = self._data.pop(name, None)
        return None if value is None else Fields(value, self.at(name))

    def take_choice(self, name: str, words: Collection[str]) -> str | None:
        """One of a closed set of words."""
        value = self.take_str(name)
        if value is not None and value not in words:
            self.fail(name, f"must be one of {', '.join(words)}")
        return value

    def take_given(self, readers: Readers, extras: list[Extra]) -> JsonObject:
        """The values that `readers` return for the present fields, by canonical name, in the order
        of `readers`. An object has few of the many fields it may have."""
        data = self._data
        taken: JsonObject = {}
        found: Collection[str] = readers.keys() & data.keys()
        if len(found) > 1:
            found = [name for name in readers if name in found]
        for name in found:
            if data.get(name) is not None:  # another reader may have taken it
                canonical, read = readers[name]
                taken[canonical] = read(self, name, extras)
        return taken

    def ignore(self, *names: str) -> None:
        """Ignore fields without meaning for another protocol."""
        for name in names:
            self._data.pop(name, None)

    def rest(self, extras: list[Extra], table: Mapping[str, Field] = {}) -> None:
        """Move all fields not taken into `extras`, classified by `table`."""
        if not self._data:
            return
        for name, value in self._data.items():
            if value is None:
                continue
            field = table.get(name, UNKNOWN)
            if any(type(value) is type(same) and value == same for same in field.neutral):
                continue
            extras.append(Extra(self.at(name), value, field.kind, field.detail, field.code))


Reader: TypeAlias = Callable[[Fields, str, list[Extra]], Any]
"""A reader of one field; parts with no canonical counterpart go into the extras."""

Readers: TypeAlias = Mapping[str, tuple[str, Reader]]
"""Fields that few requests have: the name on the wire to the canonical one and its reader."""


def string(fields: Fields, name: str, _: list[Extra]) -> str | None:
    """A string, for `Readers`."""
    return fields.take_str(name)


def boolean(fields: Fields, name: str, _: list[Extra]) -> bool | None:
    """A boolean, for `Readers`."""
    return fields.take_bool(name)


def carried(fields: Fields, name: str, _: list[Extra]) -> JsonObject | None:
    """An object that is carried as it is, for `Readers`."""
    return fields.take_object(name)


def whole(minimum: int | None = None) -> Reader:
    """A whole number of at least `minimum`, for `Readers`."""
    return lambda fields, name, _: fields.take_int(name, minimum)


def number(minimum: float, maximum: float) -> Reader:
    """A number in a range, for `Readers`."""
    return lambda fields, name, _: fields.take_float(name, minimum, maximum)


def choice(*words: str) -> Reader:
    """One of `words`, for `Readers`."""
    return lambda fields, name, _: fields.take_choice(name, words)
