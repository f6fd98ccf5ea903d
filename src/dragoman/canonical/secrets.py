"""Search for secrets in JSON text, however their characters are escaped, and for the beginnings of
secrets at the end of a text.

A character may be written as JSON escapes it, or URLs, and that again as JSON does where JSON or a
URL is quoted in a text: `-`, `\\u002d`, `\\\\u002d`, `%2d`, `%252d`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cached_property

LET_THROUGH = 2
"""Characters of a secret's beginning that are not masked at the end of a text, since many words end
with them. What follows is found without them."""

_SEEN = LET_THROUGH + 1

_LOOKED_AHEAD = 8
"""Characters of a secret's beginning, if the text does not end before, that make a text worth a
closer look."""

_ESCAPE = re.compile(rb"\\u00[2-7]|%(?:25)*[2-7]")

_CHARACTER = re.compile(
    rb"\\+u([0-9a-fA-F]{4})|%(?:25)*([0-9a-fA-F]{2})|\\+([A-Za-z0-9])|\\+([^A-Za-z0-9\\]?)"
)
"""An escaped character: by its number, encoded, one that is in no secret (a line feed), or one
after a mere backslash."""

_HALF = re.compile(rb"(?:(?<!\\)\\+(?:u[0-9a-fA-F]{0,3})?|%(?:25)*[2-7]?)\Z")
"""The beginning of an escaped character."""

_LONGEST_ESCAPE = 16
"""Bytes of an escaped character at the end of a text; deeper quotes are not looked into there."""


class Secrets:
    """The secrets of one account. Larger patterns are compiled when first needed."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # A secret that is part of another one must not leave the other's rest.
        self.secrets = tuple(sorted(set(secrets), key=len, reverse=True))
        forms = {form.encode() for secret in self.secrets for form in _spellings(secret)}
        self.forms = tuple(sorted(forms, key=len, reverse=True))
        """The secrets as they are, and as JSON writes them."""
        self._smallest = tuple(
            secret
            for secret in self.secrets
            if not any(other in secret for other in self.secrets if other != secret)
        )
        """Those that contain no other one, which is masked itself."""
        seen = [_begun(secret, LET_THROUGH) for secret in self._smallest]
        self.sign = re.compile(b"|".join(seen)).search
        """Searches JSON for a secret with only mandatory escapes, for a text that ends with more of
        a secret's beginning than is let through, or that begins with what follows that."""

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """A secret, whole."""
        return re.compile(b"|".join([b"".join(_written(secret)) for secret in self.secrets]))

    @cached_property
    def _rests(self) -> re.Pattern[bytes]:
        """A secret, also without the beginning that was let through."""
        rests = []
        for secret in self._smallest:
            first, second, *core = _written(secret)
            rests.append(b"(?:(?:%b)?%b)?%b" % (first, second, b"".join(core)))
        return re.compile(b"|".join(rests))

    @cached_property
    def _doubts(self) -> re.Pattern[bytes]:
        """What may be the beginning of a secret, somewhere in JSON."""
        doubts = [rb'%(?:25)*(?:[2-7]|")|\\u00[2-7]|(?<!\\)(?:\\\\)+(?:u[0-9a-fA-F]{0,3})?"']
        for secret in self._smallest:
            doubts.append(_begun(secret, 0))
            doubts += [rb'"\\*' + _begun(secret, at) for at in range(1, _SEEN)]
        return re.compile(b"|".join(doubts))

    @cached_property
    def _plain(self) -> tuple[bytes, ...]:
        return tuple(_unescaped(secret.encode())[0] for secret in self._smallest)

    @cached_property
    def _most(self) -> int:
        """Bytes of the end of a text that may begin a secret."""
        return _LONGEST_ESCAPE * max(map(len, self._plain))

    def escapes(self, data: bytes) -> bool:
        """Whether any character in `data` is escaped as one of a secret may be."""
        # `in` takes twice as long: it fails first to take the character for a number.
        marked = data.find(b"%") >= 0 or (data.find(b"\\") >= 0 and data.find(b"\\u00") >= 0)
        return marked and _ESCAPE.search(data) is not None

    def may_begin(self, data: bytes) -> bool:
        """Whether the JSON `data` may contain a secret, or a text in it end with the beginning of
        one, or begin with the rest of one."""
        return self._doubts.search(data) is not None

    def find(self, text: bytes, *, fresh: bool) -> tuple[int, int] | None:
        """The span of a secret in `text`, or None. `fresh`: it begins where a text does that may go
        on from another one, whose end was let through."""
        plain, _ = _unescaped(text)
        if not any(secret[LET_THROUGH:] in plain for secret in self._plain):
            return None
        found = self._rests.match(text) if fresh else None
        found = found or self.pattern.search(text)
        return None if found is None else found.span()

    def cut_at(self, text: bytes, *, fresh: bool) -> int:
        """Where the beginning of a secret stands with which `text` ends: its length if it does not.
        `fresh` as for `find`."""
        skipped = max(0, len(text) - self._most)
        end = text[skipped:]
        half = _HALF.search(end)
        stop = len(end) if half is None else half.start()
        plain, places = _unescaped(end[:stop])
        least = len(end) if half is None else stop
        for secret in self._plain:
            for count in range(min(len(secret) - 1, len(plain)), 0, -1):
                if plain.endswith(secret[:count]):
                    start = places[len(plain) - count]
                    if count >= _SEEN or half is not None or stop - start > count:
                        least = min(least, start)
                        break
            least_known = 1 if half is not None else _SEEN
            if fresh and not skipped and _goes_on(secret, plain, least_known):
                return 0
        return skipped + least


def _goes_on(secret: bytes, plain: bytes, least: int) -> bool:
    """Whether a text goes on with a secret whose beginning was let through, to at least so many
    characters of it."""
    return bool(plain) and any(
        at + len(plain) >= least and secret.startswith(plain, at) for at in range(1, _SEEN)
    )


def _spellings(secret: str) -> Iterable[str]:
    """A secret as it is and as JSON may write it."""
    escaped = json.dumps(secret)[1:-1]
    return secret, escaped, escaped.replace("/", "\\/")


def _written(secret: str) -> list[bytes]:
    """For each character of a secret a pattern of all that it may be written as."""
    # A long run of backslashes must not be gone through from each of them.
    first, *others = map(_any_form, secret)
    return [rb"(?:(?<!\\)|(?!\\))" + first, *others]


def _any_form(character: str) -> bytes:
    plain = _plain_form(character)
    unit = rb"\\+u%b" % _hex(f"{ord(character):04x}")
    encoded = b"".join([b"%%(?:25)*%b" % _hex(f"{byte:02x}") for byte in character.encode()])
    return b"(?:%b|%b|%b)" % (plain, unit, encoded)


def _plain_form(character: str) -> bytes:
    plain = re.escape(character.encode())
    return plain if character.isalnum() else rb"\\*" + plain


def _hex(digits: str) -> bytes:
    return "".join(f"[{digit}{digit.upper()}]" for digit in digits).encode()


def _begun(secret: str, at: int) -> bytes:
    """A pattern of a secret from `at` on, as far as it is looked at or to the end of a text."""
    pattern = b""
    for character in reversed(secret[_SEEN : at + _LOOKED_AHEAD]):
        pattern = b'(?:"|%b%b)' % (_plain_form(character), pattern)
    # Without what precedes: a pattern that begins with a character is searched much faster.
    first = re.escape(secret[at].encode())
    return first + b"".join(map(_plain_form, secret[at + 1 : _SEEN])) + pattern


def _unescaped(text: bytes) -> tuple[bytes, range | list[int]]:
    """A text with what is escaped as it is, and where each byte of that stands in `text`. A
    character that none of a secret can be is a line feed."""
    if text.find(b"\\") < 0 and text.find(b"%") < 0:
        return text, range(len(text) + 1)
    plain, at = bytearray(), 0
    places: list[int] = []
    for found in _CHARACTER.finditer(text):
        start, end = found.span()
        plain += text[at:start]
        places += range(at, start)
        unit, encoded, other, bare = found.groups()
        made = b""
        if unit is not None:
            made = chr(int(unit, 16)).encode("utf-8", "surrogatepass")
        elif encoded is not None:
            made = bytes((int(encoded, 16),))
        else:
            made = b"\n" if other is not None else bare
        plain += made
        places += [start] * len(made)
        at = end
    plain += text[at:]
    places += range(at, len(text) + 1)
    return bytes(plain), places
