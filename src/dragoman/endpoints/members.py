"""Members of a JSON object: read when they are asked for, and replaced in its text, of which all
other bytes stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dragoman import jsontext
from dragoman.jsontext import JsonError

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SHALLOW = re.compile(rb'[^"{}\[\],:]*+(' + _STRING + rb"|[{}\[\],:])", re.DOTALL)
_DEEP = re.compile(rb'[^"{}\[\]]*+(' + _STRING + rb"|[{}\[\]])", re.DOTALL)
"""What stands before the next sign, and that: within values of an object most is skipped."""

_VALUE = re.compile(rb"\s*:\s*")
_QUOTE, _COLON, _COMMA = b'":,'
_OPEN, _CLOSE = frozenset(b"{["), frozenset(b"}]")
_SPACE = b" \t\r\n"


class Members(Mapping[str, Any]):
    """The members of an object, each decoded when it is asked for. A value that is no JSON text is
    None."""

    __slots__ = ("raw",)

    def __init__(self, raw: Mapping[str, msgspec.Raw]) -> None:
        self.raw = raw

    def __getitem__(self, name: str) -> Any:
        try:
            return jsontext.decode(self.raw[name])
        except JsonError:
            return None

    def get(self, name: str, default: Any = None) -> Any:
        """As of any mapping; most names that are asked for are not there."""
        return self[name] if name in self.raw else default

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)


def replaced(
    body: bytes, name: str, value: bytes, members: Mapping[str, msgspec.Raw] | None = None
) -> bytes:
    """The text of an object in which each top-level member of this name has the value `value`, as
    JSON text. The same text if it has none. It is found sooner where the `members` of the object
    are given."""
    if members is not None and (former := members.get(name)) is not None:
        spelled = b'"%b"' % name.encode()
        at = body.find(spelled)
        # Where no name can be escaped, the only text like it is that of the member.
        if at >= 0 and body.find(spelled, at + 1) < 0 and body.find(b"\\u") < 0:
            found = _VALUE.match(body, at + len(spelled))
            if found is not None:
                return body[: found.end()] + value + body[found.end() + len(former) :]
    parts: list[bytes] = []
    end = 0
    for start, stop in _values(body, name):
        parts += (body[end:start], value)
        end = stop
    return b"".join([*parts, body[end:]]) if parts else body


def with_member(body: bytes, name: str, value: bytes, members: Mapping[str, msgspec.Raw]) -> bytes:
    """The text of the object of these `members` with this value of one of them, or of one more."""
    if name in members:
        return replaced(body, name, value, members)
    return inserted(body, name, value)


def inserted(body: bytes, name: str, value: bytes) -> bytes:
    """The text of an object with one more member, its first."""
    at = body.index(b"{") + 1
    rest = body[at:]
    comma = b"" if rest.lstrip(_SPACE).startswith(b"}") else b","
    return b'%b"%b":%b%b%b' % (body[:at], name.encode(), value, comma, rest)


def _values(body: bytes, name: str) -> Iterator[tuple[int, int]]:
    """Where the values of the top-level members of a name begin and end. The text is that of an
    object."""
    spelled = b'"%b"' % name.encode()
    depth = start = at = 0
    key: bytes | None = None
    while (found := (_SHALLOW if depth == 1 else _DEEP).match(body, at)) is not None:
        at, sign = found.end(), body[found.start(1)]
        if depth == 1:
            if sign == _QUOTE:
                key = found[1] if key is None else key
            elif sign == _COLON:
                start = at
            elif sign == _COMMA or sign in _CLOSE:
                if key is not None and _is_spelled(key, spelled, name):
                    value = body[start : found.start(1)]
                    start += len(value) - len(value.lstrip(_SPACE))
                    yield start, start + len(value.strip(_SPACE))
                    if body.find(spelled, at) < 0 and body.find(b"\\u", at) < 0:
                        return
                key = None
        if sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth -= 1


def _is_spelled(key: bytes, spelled: bytes, name: str) -> bool:
    return key == spelled or (b"\\" in key and jsontext.decode(key) == name)
