"""JSON text that others wrote: decoded, or one error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

Text: TypeAlias = bytes | msgspec.Raw | str


class JsonError(ValueError):
    """The text is not JSON: malformed, not UTF-8, or (a `str`) with a lone surrogate."""


class JsonTooDeep(JsonError):
    """Arrays and objects are nested deeper than the decoder goes."""


class JsonMismatch(JsonError):
    """It is JSON, but not of the type that is wanted; the message says what differs, and where."""


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
            raise JsonTooDeep("nested too deeply") from None

    return decoded


decode: Callable[[Text], Any] = _guarded(msgspec.json.Decoder().decode)
"""Decodes JSON text of any type. Raises `JsonError`."""


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
