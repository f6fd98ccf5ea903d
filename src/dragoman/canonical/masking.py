"""Hides the gateway's secrets in an upstream's errors: vendors quote keys and organisations, and a
proxy may quote whole requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.canonical.errors import Fault

HIDDEN = "[hidden]"

SHORTEST = 8
"""Characters of the shortest secret that is looked for: self-hosted servers have keys such as
`none`, which are part of any message."""

# Lengths are bounded, so that no text makes the search slow.
_NAME = (
    r"\b(?:sk|pk|rk|org|proj|acct|key|user)[-_]"
    r"(?=[A-Za-z_.-]{0,100}[0-9*])[A-Za-z0-9_*.-]{6,200}"
)
_NAMES = re.compile(_NAME)
_NAMES_IN_BYTES = re.compile(_NAME.encode())
"""Keys and organisations as vendors name them, whole or starred out. The digit or star that is
required excludes names of fields."""


_ESCAPE = re.compile(rb"\\u00[2-7]|%[2-7]")
"""How JSON and URLs may write a character of a secret."""


class Mask:
    """Hides the secrets of one account, and names that look like a vendor's of an account."""

    __slots__ = ("_escaped", "_forms", "secrets")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Secrets shorter than `SHORTEST` characters are not looked for."""
        # A secret that is part of another one must not leave the other's rest.
        known = {secret for secret in secrets if len(secret) >= SHORTEST}
        self.secrets = tuple(sorted(known, key=len, reverse=True))
        forms = {form.encode() for secret in self.secrets for form in _spellings(secret)}
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        self._escaped = _escaped(self.secrets)

    def secrets_in(self, data: bytes) -> bytes:
        """`data` with the account's own secrets hidden, however their characters are escaped."""
        for form in self._forms:
            if form in data:
                data = data.replace(form, HIDDEN.encode())
        if self._escaped is not None and (b"\\u00" in data or b"%" in data):
            if _ESCAPE.search(data) is None:
                return data
            data = self._escaped.sub(HIDDEN.encode(), data)
        return data

    def error(self, body: bytes) -> bytes:
        """An upstream's error with secrets and names of accounts hidden."""
        return _NAMES_IN_BYTES.sub(HIDDEN.encode(), self.secrets_in(body))

    def fault(self, fault: Fault) -> Fault:
        """A fault with secrets and names of accounts hidden; the same one if it has none."""
        hidden: dict[str, Any] = {
            name: self._text(value)
            for name in ("message", "param", "code")
            if (value := getattr(fault, name)) is not None
        }
        report = fault.report
        if report is not None:
            words = tuple(map(self._text, report.words))
            hidden["report"] = replace(report, words=words, text=self._text(report.text))
        if fault.details is not None:
            hidden["details"] = self._value(fault.details)
        if all(getattr(fault, name) == value for name, value in hidden.items()):
            return fault
        return replace(fault, **hidden)

    def _value(self, value: Any) -> Any:
        """A JSON value with secrets and names of accounts hidden, in names of members as well."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {self._text(name): self._value(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._value(inner) for inner in value]
        return value

    def _text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        hidden = self.secrets_in(data)
        if hidden is not data:
            text = hidden.decode("utf-8", "surrogatepass")
        return _NAMES.sub(HIDDEN, text)


class StreamMask:
    """Hides the secrets of an account in the bytes of a stream: in each event, and where one is cut
    over several.

    An event whose text ends with the beginning of a secret waits for the next one. A beginning
    of one or two characters, as many words end with, is let through, for it tells nothing; what
    follows it is found without.
    """

    __slots__ = ("_cores", "_held", "_mask", "_rests", "_secrets", "_signs", "_tail")

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._secrets = tuple(secret.encode() for secret in mask.secrets)
        self._cores = tuple(secret[_LET_THROUGH:] for secret in self._secrets)
        self._tail = _tails(self._secrets)
        self._signs = tuple(sign for secret in self._secrets for sign in _signs(secret))
        """What each event has in which a secret may begin."""
        self._held: list[tuple[bytes, bytes, bytes]] = []
        """Events, each with the part of a secret in it, and what is before and after that."""
        self._rests: tuple[bytes, ...] = ()
        """What is missing of the secrets that the last event may have begun."""

    def push(self, data: bytes) -> bytes:
        """Take whole events; return those that may go on."""
        data = self._mask.secrets_in(data)
        if not self._rests:
            for sign in self._signs:
                if sign in data:
                    break
            else:
                return data
        for core in self._cores:
            data = data.replace(core, HIDDEN.encode())
        return b"".join([self._event(event) for event in _events(data)])

    def flush(self) -> bytes:
        """The events that wait, for what they wait for does not come."""
        return self._release(None)

    def _event(self, event: bytes) -> bytes:
        for rest in self._rests:
            whole = re.search(rb':\s*"(%b)' % re.escape(rest), event)
            if whole is not None:
                self._hold(event, whole, 1, ())
                return self._release(HIDDEN.encode())
        goes_on = [text for text in _TEXT.finditer(event) if _begins(self._rests, text[1])]
        if goes_on:
            found = max(goes_on, key=lambda text: len(text[1]))
            return self._hold(event, found, 1, _begins(self._rests, found[1]))
        released = self._release(None)
        ends = [] if self._tail is None else [*self._tail.finditer(event)]
        if not ends:
            return released + event
        end = ends[-1]
        missing = end.lastindex or 1
        begun = tuple(secret[missing - 1 :] for secret in self._secrets)
        return released + self._hold(event, end, missing, _begins(begun, end[missing]))

    def _hold(
        self, event: bytes, found: re.Match[bytes], group: int, secrets: tuple[bytes, ...]
    ) -> bytes:
        """Keep an event with a part of the `secrets`."""
        start, end = found.span(group)
        self._held.append((event[:start], event[start:end], event[end:]))
        self._rests = tuple(secret[end - start :] for secret in secrets)
        return b""

    def _release(self, instead: bytes | None) -> bytes:
        """The events that waited; `instead` of the secret in them, if that is given."""
        self._rests = ()
        held, self._held = self._held, []
        pieces: list[bytes] = []
        for number, (before, part, after) in enumerate(held):
            shown = part if instead is None else b"" if number else instead
            pieces += (before, shown, after)
        return b"".join(pieces)


_LET_THROUGH = 2
"""Characters of a secret's beginning that are let through."""


def _events(data: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in data.split(b"\n\n") if event]


_TEXT = re.compile(rb':\s*"([^"\\]+)"')
"""A text in an event, if nothing in it is escaped."""


def _tails(secrets: Iterable[bytes]) -> re.Pattern[bytes] | None:
    """Finds texts that end with the beginning of a secret, or that are all of one without its
    first character or two. The group tells which."""
    least = _LET_THROUGH + 1
    ends = [b"|".join([_run(secret, start, least) for secret in secrets]) for start in range(least)]
    if not ends[0]:
        return None
    return re.compile(b'(?:(%b)|:\\s*"(?:(%b)|(%b)))"(?=\\s*[,}\\]])' % tuple(ends))


def _signs(secret: bytes) -> Iterable[bytes]:
    """What any text has that `_tails` finds."""
    yield secret[: _LET_THROUGH + 1]
    for missing in range(1, _LET_THROUGH + 1):
        yield b'"' + secret[missing : _LET_THROUGH + 1]


def _begins(secrets: Iterable[bytes], text: bytes) -> tuple[bytes, ...]:
    """Those that begin with a text."""
    return tuple(secret for secret in secrets if secret.startswith(text))


def _run(secret: bytes, start: int, least: int) -> bytes:
    """A pattern of the secret from `start` to anywhere from `least` on, but for its end."""
    pattern = b""
    for at in range(len(secret) - 2, least - 1, -1):
        pattern = b"(?:%b%b)?" % (re.escape(secret[at : at + 1]), pattern)
    return re.escape(secret[start:least]) + pattern


def _escaped(secrets: tuple[str, ...]) -> re.Pattern[bytes] | None:
    """Finds secrets of which any character may be escaped, as JSON does it or as URLs do, also in
    JSON or in a URL that is quoted in one."""
    patterns = [
        b"".join([_any_form(byte) for byte in secret.encode()])
        for secret in secrets
        if secret.isascii()
    ]
    return re.compile(b"|".join(patterns)) if patterns else None


def _any_form(byte: int) -> bytes:
    code = "".join(f"[{digit}{digit.upper()}]" for digit in f"{byte:02x}").encode()
    plain = re.escape(bytes((byte,)))
    return rb"(?:\\*%b|\\+u00%b|%%(?:25)*%b)" % (plain, code, code)


def _spellings(secret: str) -> Iterable[str]:
    """A secret as it is and as JSON may write it."""
    escaped = json.dumps(secret)[1:-1]
    return secret, escaped, escaped.replace("/", "\\/")
