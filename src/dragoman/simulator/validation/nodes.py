"""A JSON value being checked: it knows its path and how its vendor words a complaint."""

import base64
import binascii
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from dragoman.simulator.errors import ApiError

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(;[\w-]+=[^;,]*)*;base64,")
_TYPE_NAMES: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal number",
    type(None): "null",
}
_VALID: dict[str, str] = {
    "an object": "a valid dictionary",
    "an array": "a valid list",
    "a string": "a valid string",
    "a boolean": "a valid boolean",
    "an integer": "a valid integer",
    "a decimal number": "a valid number",
}
"""How Anthropic names what it expects."""

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Vendor:
    """How a vendor words a complaint. The texts are formatted with ``path`` and more."""

    dotted: bool
    missing: str
    unknown: str
    wrong_type: str
    invalid: str
    not_one_of: str
    too_short: str
    too_long: str
    no_match: str
    too_small: str
    too_great: str
    too_few: str
    too_many: str

    def path(self, path: Path) -> str:
        if self.dotted:
            return ".".join(map(str, path))
        text = ""
        for part in path:
            if isinstance(part, int):
                text += f"[{part}]"
            else:
                text += f".{part}" if text else part
        return text


OPENAI = Vendor(
    dotted=False,
    missing="Missing required parameter: '{path}'.",
    unknown="Unknown parameter: '{path}'.",
    wrong_type="Invalid type for '{path}': expected {expected}, but got {got} instead.",
    invalid="Invalid '{path}': {detail}",
    not_one_of="Invalid value: '{got}'. Supported values are: {options}.",
    too_short=(
        "Invalid '{path}': empty string. Expected a string with minimum length {limit}, but got "
        "an empty string instead."
    ),
    too_long=(
        "Invalid '{path}': string too long. Expected a string with maximum length {limit}, but "
        "got a string with length {got} instead."
    ),
    no_match=(
        "Invalid '{path}': string does not match pattern. Expected a string that matches the "
        "pattern '^{pattern}$'."
    ),
    too_small=(
        "Invalid '{path}': {kind} below minimum value. Expected a value >= {limit}, but got {got} "
        "instead."
    ),
    too_great=(
        "Invalid '{path}': {kind} above maximum value. Expected a value <= {limit}, but got {got} "
        "instead."
    ),
    too_few=(
        "Invalid '{path}': empty array. Expected an array with minimum length {limit}, but got an "
        "empty array instead."
    ),
    too_many=(
        "Invalid '{path}': array too long. Expected an array with maximum length {limit}, but got "
        "an array with length {got} instead."
    ),
)
ANTHROPIC = Vendor(
    dotted=True,
    missing="{path}: Field required",
    unknown="{path}: Extra inputs are not permitted",
    wrong_type="{path}: Input should be {valid}",
    invalid="{path}: {detail}",
    not_one_of="{path}: Input should be {options}",
    too_short="{path}: String should have at least {limit} character",
    too_long="{path}: String should have at most {limit} characters",
    no_match="{path}: String should match pattern '^{pattern}$'",
    too_small="{path}: Input should be greater than or equal to {limit}",
    too_great="{path}: Input should be less than or equal to {limit}",
    too_few="{path}: List should have at least {limit} item after validation, not {got}",
    too_many="{path}: List should have at most {limit} items after validation, not {got}",
)


class Node:
    """One value of the request, with its path from the root.

    Every method that returns a plain value raises ``ApiError`` when the value is not of the
    wanted kind. An optional field that is null counts as absent, as both vendors have it.
    """

    __slots__ = ("path", "value", "vendor")

    def __init__(self, value: Any, vendor: Vendor, path: Path = ()) -> None:
        self.value = value
        self.vendor = vendor
        self.path = path

    @property
    def name(self) -> str:
        """The path in the vendor's notation."""
        return self.vendor.path(self.path)

    def fail(self, detail: str, code: str = "invalid_value") -> NoReturn:
        """Complain about this value."""
        self._raise(self.vendor.invalid.format(path=self.name, detail=detail), code)

    def fail_plainly(self, message: str, code: str | None = None) -> NoReturn:
        """Complain in the vendor's own words, without the usual opening."""
        self._raise(message, code)

    def _raise(self, message: str, code: str | None) -> NoReturn:
        raise ApiError(400, message, code=code, param=self.name or None)

    def _say(self, text: str, code: str, **values: object) -> NoReturn:
        self._raise(text.format(path=self.name, **values), code)

    def _wrong_type(self, expected: str) -> NoReturn:
        got = _TYPE_NAMES.get(type(self.value), "something else")
        valid = _VALID[expected]
        self._say(self.vendor.wrong_type, "invalid_type", expected=expected, valid=valid, got=got)

    def child(self, key: str | int) -> "Node":
        """The value at a key or an index that is known to be there."""
        return Node(self.value[key], self.vendor, (*self.path, key))

    def object(
        self, *, allowed: Collection[str] | None = None, required: Collection[str] = ()
    ) -> "Node":
        """This node, once it is an object with the required keys and only allowed ones."""
        if not isinstance(self.value, dict):
            self._wrong_type("an object")
        for key in required:
            if key not in self.value:
                missing = Node(None, self.vendor, (*self.path, key))
                message = self.vendor.missing.format(path=missing.name)
                missing._raise(message, "missing_required_parameter")
        if allowed is not None:
            for key in self.value:
                if key not in allowed and key not in required:
                    extra = Node(None, self.vendor, (*self.path, key))
                    message = self.vendor.unknown.format(path=extra.name)
                    extra._raise(message, "unknown_parameter")
        return self

    def get(self, key: str) -> "Node | None":
        """The field's node, or None if it is absent or null."""
        return None if self.value.get(key) is None else self.child(key)

    def tagged(self, tag: str) -> "Node":
        """This node as Anthropic names it once a tag has told which member of a union it is."""
        path = (*self.path, tag) if self.vendor.dotted else self.path
        return Node(self.value, self.vendor, path)

    def items(self, *, least: int = 0, most: int | None = None) -> Iterator["Node"]:
        """The elements of an array."""
        if not isinstance(self.value, list):
            self._wrong_type("an array")
        got = len(self.value)
        if got < least:
            self._say(self.vendor.too_few, "empty_array", limit=least, got=got)
        if most is not None and got > most:
            self._say(self.vendor.too_many, "array_above_max_length", limit=most, got=got)
        return (self.child(index) for index in range(len(self.value)))

    def string(
        self, *, pattern: re.Pattern[str] | None = None, most: int | None = None, least: int = 0
    ) -> str:
        if not isinstance(self.value, str):
            self._wrong_type("a string")
        got = len(self.value)
        if got < least:
            self._say(self.vendor.too_short, "empty_string", limit=least)
        if most is not None and got > most:
            self._say(self.vendor.too_long, "string_above_max_length", limit=most, got=got)
        if pattern is not None and not pattern.fullmatch(self.value):
            self._say(self.vendor.no_match, "invalid_value", pattern=pattern.pattern)
        return self.value

    def one_of(self, values: Collection[str]) -> str:
        """A string out of a closed set."""
        text = self.string()
        if text not in values:
            options = self._listed(values)
            self._say(self.vendor.not_one_of, "invalid_value", got=text[:100], options=options)
        return text

    def _listed(self, values: Collection[str]) -> str:
        *others, last = (f"'{value}'" for value in values)
        if not others:
            return last
        if self.vendor.dotted:
            return f"{', '.join(others)} or {last}"
        return f"{', '.join(others)}{',' * (len(others) > 1)} and {last}"

    def tag(self, values: Collection[str]) -> str:
        """The ``type`` of an object, which tells which member of a union it is."""
        self.object(required=("type",))
        if not self.vendor.dotted:
            return self.child("type").one_of(values)
        text = self.child("type").string()
        if text not in values:
            expected = ", ".join(f"'{value}'" for value in values)
            self.fail(
                f"Input tag '{text[:100]}' found using 'type' does not match any of the expected "
                f"tags: {expected}"
            )
        return text

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            self._wrong_type("a boolean")
        return self.value

    def integer(self, least: int | None = None, most: int | None = None) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self._wrong_type("an integer")
        self._bounds("integer", least, most)
        return self.value

    def number(self, least: float | None = None, most: float | None = None) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self._wrong_type("a decimal number")
        self._bounds("decimal", least, most)
        return self.value

    def _bounds(self, kind: str, least: float | None, most: float | None) -> None:
        got = self.value
        if least is not None and got < least:
            code = f"{kind}_below_min_value"
            self._say(self.vendor.too_small, code, kind=kind, limit=least, got=got)
        if most is not None and got > most:
            code = f"{kind}_above_max_value"
            self._say(self.vendor.too_great, code, kind=kind, limit=most, got=got)

    def base64(self) -> bytes:
        """The bytes behind text that is base64 and not empty."""
        text = self.string(least=1)
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            self.fail("the value is not valid base64.", "invalid_base64")

    def url(self, *, media_types: Collection[str]) -> None:
        """A link, or a data URL of one of the media types whose data is base64."""
        text = self.string(least=1)
        if text.startswith("data:"):
            self.data_url(media_types)
        elif not text.startswith(("http://", "https://")):
            self.fail("expected a valid URL or a base64-encoded data URL.")

    def data_url(self, media_types: Collection[str] | None = None) -> None:
        """A data URL, of one of the media types if given, whose data is base64."""
        text = self.string(least=1)
        head = _DATA_URL.match(text)
        if head is None:
            self.fail("expected a base64-encoded data URL with a MIME type.")
        if media_types is not None and head[1].lower() not in media_types:
            expected = ", ".join(f"'{kind}'" for kind in media_types)
            self.fail(f"unsupported MIME type '{head[1]}'. Expected one of: {expected}.")
        Node(text[head.end() :], self.vendor, self.path).base64()
