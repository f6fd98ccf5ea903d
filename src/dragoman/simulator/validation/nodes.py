"""A JSON value being checked: it knows its path and how its vendor words a complaint."""

import base64
import binascii
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from dragoman.simulator.errors import ApiError

_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(;[\w-]+=[^;,]*)*;base64,")
_TYPE_NAMES: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal number",
    type(None): "null",
}

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Vendor:
    """How a vendor words a complaint. The texts are formatted with ``path`` and more."""

    dotted_indexes: bool
    missing: str
    unknown: str
    wrong_type: str
    invalid: str

    def path(self, path: Path) -> str:
        if self.dotted_indexes:
            return ".".join(map(str, path))
        text = ""
        for part in path:
            if isinstance(part, int):
                text += f"[{part}]"
            else:
                text += f".{part}" if text else part
        return text


OPENAI = Vendor(
    dotted_indexes=False,
    missing="Missing required parameter: '{path}'.",
    unknown="Unknown parameter: '{path}'.",
    wrong_type="Invalid type for '{path}': expected {expected}, but got {got} instead.",
    invalid="Invalid '{path}': {detail}",
)
ANTHROPIC = Vendor(
    dotted_indexes=True,
    missing="{path}: Field required",
    unknown="{path}: Extra inputs are not permitted",
    wrong_type="{path}: Input should be {expected}",
    invalid="{path}: {detail}",
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

    def _wrong_type(self, expected: str) -> NoReturn:
        got = _TYPE_NAMES.get(type(self.value), "something else")
        message = self.vendor.wrong_type.format(path=self.name, expected=expected, got=got)
        self._raise(message, "invalid_type")

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

    def items(self) -> Iterator["Node"]:
        """The elements of an array."""
        if not isinstance(self.value, list):
            self._wrong_type("an array")
        return (self.child(index) for index in range(len(self.value)))

    def string(
        self, *, pattern: re.Pattern[str] | None = None, most: int | None = None, least: int = 0
    ) -> str:
        if not isinstance(self.value, str):
            self._wrong_type("a string")
        if len(self.value) < least:
            self.fail(f"string should have at least {least} character")
        if most is not None and len(self.value) > most:
            self.fail(
                f"string too long. Expected a string with maximum length {most}, "
                f"but got a string with length {len(self.value)} instead.",
                "string_above_max_length",
            )
        if pattern is not None and not pattern.fullmatch(self.value):
            self.fail(f"string does not match pattern. Expected '{pattern.pattern}'.")
        return self.value

    def one_of(self, values: Collection[str]) -> str:
        """A string out of a closed set."""
        text = self.string()
        if text not in values:
            options = ", ".join(f"'{value}'" for value in values)
            self.fail(f"invalid value '{text[:100]}'. Supported values are: {options}.")
        return text

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            self._wrong_type("a boolean")
        return self.value

    def integer(self, least: int | None = None, most: int | None = None) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self._wrong_type("an integer")
        self._bounds(least, most)
        return self.value

    def number(self, least: float | None = None, most: float | None = None) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self._wrong_type("a decimal number")
        self._bounds(least, most)
        return self.value

    def _bounds(self, least: float | None, most: float | None) -> None:
        if least is not None and self.value < least:
            self.fail(f"should be at least {least}, but got {self.value}.", "below_min_value")
        if most is not None and self.value > most:
            self.fail(f"should be at most {most}, but got {self.value}.", "above_max_value")

    def base64(self) -> None:
        """Text that is base64 and not empty."""
        text = self.string(least=1)
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            self.fail("the value is not valid base64.")

    def url(self) -> None:
        """A link or a data URL whose data is base64."""
        text = self.string(least=1)
        if text.startswith("data:"):
            self.data_url()
        elif not text.startswith(("http://", "https://")):
            self.fail("expected a valid URL or a base64-encoded data URL.")

    def data_url(self) -> None:
        """A data URL whose data is base64."""
        text = self.string(least=1)
        head = _DATA_URL.match(text)
        if head is None:
            self.fail("expected a base64-encoded data URL with a MIME type.")
        Node(text[head.end() :], self.vendor, self.path).base64()
