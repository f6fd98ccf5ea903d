"""JSON text that others wrote: decoded, or one error."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

Text: TypeAlias = bytes | msgspec.Raw | str


class JsonError(ValueError):
    """The text is not JSON: malformed, or not UTF-8."""


class JsonTooDeep(JsonError):
    """Arrays and objects are nested deeper than the decoder goes."""


class JsonMismatch(JsonError):
    """It is JSON, but not of the required type; the message names the difference and its place."""


def decoder(kind: type[T]) -> Callable[[Text], T]:
    """A function that decodes JSON text of the type `kind`, and raises `JsonError`."""
    return _guarded(msgspec.json.Decoder(kind).decode)


def _guarded(raw_decode: Callable[[Any], T]) -> Callable[[Text], T]:
    def decoded(text: Text) -> T:
        try:
            return raw_decode(text)
        except msgspec.ValidationError as error:
            raise JsonMismatch(str(error)) from None
        except (msgspec.DecodeError, UnicodeError) as error:
            raise JsonError(str(error)) from None
        except RecursionError:
            raise JsonTooDeep(_TOO_DEEP) from None

    return decoded


_TOO_DEEP = "nested too deeply"


_decode = msgspec.json.Decoder().decode

strict: Callable[[Text], Any] = _guarded(_decode)
"""Decodes JSON text of any type as most readers do. Raises `JsonError`."""


def decode(text: Text) -> Any:
    """Decodes JSON text of any type: also with halves of characters, each of which becomes U+FFFD,
    and with numbers beyond a double, which stay as they are written. Raises `JsonError`.
    """
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return decode_mended(text)[0]
    except RecursionError:
        raise JsonTooDeep(_TOO_DEEP) from None


_ODD = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]|[eE]\+?\d{3}|\d{300}")
"""What JSON text has where a stricter reader than the grammar fails."""

_HALF = re.compile("[\ud800-\udfff]")
_WHOLE_DIGITS = 18


def decode_mended(text: Text, pieces: frozenset[str] = frozenset()) -> tuple[Any, bool]:
    """The value of a text that a strict reader refused, and whether halves of characters in it
    became U+FFFD. In texts that are members of the names `pieces` halves stay: the other half may
    come in the next piece.

    Raises:
        JsonError: it is no JSON either way.
    """
    try:
        decoded = text if isinstance(text, str) else bytes(text).decode()
        if _ODD.search(decoded) is None:
            raise JsonError("it is malformed")
        value = json.loads(
            decoded, parse_constant=_refuse, parse_int=_whole_number, parse_float=_number
        )
        mender = _Mender()
        return mender.mend(value, pieces), mender.used
    except RecursionError:
        raise JsonTooDeep(_TOO_DEEP) from None
    except ValueError as error:
        raise JsonError(str(error)) from None


def _refuse(word: str) -> NoReturn:
    raise JsonError(f"{word} is no JSON")


def _whole_number(digits: str) -> Any:
    return int(digits) if len(digits) <= _WHOLE_DIGITS else msgspec.Raw(digits.encode())


def _number(digits: str) -> Any:
    number = float(digits)
    return number if math.isfinite(number) else msgspec.Raw(digits.encode())


class _Mender:
    """Mends the texts of a value; `used` is whether there was anything to mend."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = False

    def mend(self, value: Any, pieces: frozenset[str]) -> Any:
        """The value, but for the texts that are members of the names `pieces`."""
        if isinstance(value, str):
            if _HALF.search(value) is None:
                return value
            self.used = True
            return mended(value)
        if isinstance(value, dict):
            return {
                self.mend(name, pieces): self._member(name, value[name], pieces) for name in value
            }
        if isinstance(value, list):
            return [self.mend(inner, pieces) for inner in value]
        return value

    def _member(self, name: str, value: Any, pieces: frozenset[str]) -> Any:
        if name not in pieces:
            return self.mend(value, pieces)
        if isinstance(value, str):
            return value
        # The arguments of a call as an object are whole, and its members' names are not ours.
        return self.mend(value, _NONE if name in _OBJECTS else pieces)


_NONE: frozenset[str] = frozenset()
_OBJECTS = frozenset({"arguments", "input"})


def mended(text: str) -> str:
    """A text in which halves of characters that meet are joined, and others are U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def may_have_halves(data: bytes) -> bool:
    """Whether JSON text has an escape of half of a character, which may be one of two."""
    # `in` fails first to take bytes for a number, which costs more than the search.
    return data.find(b"\\") >= 0 and _ESCAPES.search(data) is not None


def has_halves(data: bytes) -> bool:
    """Whether JSON text has escapes of halves of characters, so that strict readers refuse it."""
    if not may_have_halves(data):
        return False
    # An escaped backslash may stand before the letter.
    if b"\\\\u" not in data and len(_ESCAPES.findall(data)) == 2 * len(_PAIRS.findall(data)):
        return False
    try:
        strict(data)
    except JsonError:
        return True
    return False


_ESCAPES = re.compile(rb"\\u[dD][89a-fA-F]")
_PAIRS = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


members: Callable[[Text], dict[str, msgspec.Raw]] = decoder(dict[str, msgspec.Raw])
"""Decodes a JSON object into its members, whose values stay text that is not looked into. Raises
`JsonError`."""


def object_of(text: Text) -> dict[str, Any] | None:
    """The JSON object that `text` is; None if it is anything else, or no JSON."""
    try:
        value = decode(text)
    except JsonError:
        return None
    return value if type(value) is dict else None
