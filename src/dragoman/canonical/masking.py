"""Hides the gateway's secrets in an upstream's errors: vendors quote keys and organisations, and a
proxy may quote whole requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.canonical.errors import Fault
from dragoman.canonical.secrets import Secrets

HIDDEN = "[hidden]"
_HIDDEN = HIDDEN.encode()

SHORTEST = 8
"""Characters of the shortest secret that is looked for: self-hosted servers have keys such as
`none`, which are part of any message."""

_NAME = r"\b(?:sk|pk|rk|org|proj|acct|key|user)[-_][A-Za-z0-9_*.-]{6,200}"
_NAMES = re.compile(_NAME)
_NAMES_IN_BYTES = re.compile(_NAME.encode())
"""Keys and organisations as vendors name them, whole or starred out. Each character is read once:
the digit or star that tells them from names of fields is looked for in what was found."""

_DIGIT_OR_STAR = re.compile(r"[0-9*]")
_DIGIT_OR_STAR_IN_BYTES = re.compile(rb"[0-9*]")


class Mask:
    """Hides the secrets of one account, and names that look like a vendor's of an account."""

    __slots__ = ("secrets",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Secrets shorter than `SHORTEST` characters are not looked for."""
        self.secrets = Secrets(secret for secret in secrets if len(secret) >= SHORTEST)

    def secrets_in(self, data: bytes) -> bytes:
        """`data` with the account's own secrets hidden, however their characters are escaped."""
        secrets = self.secrets
        for form in secrets.forms:
            data = data.replace(form, _HIDDEN)
        if secrets.forms and secrets.escapes(data):
            data = secrets.pattern.sub(_HIDDEN, data)
        return data

    def error(self, body: bytes) -> bytes:
        """An upstream's error with secrets and names of accounts hidden."""
        return _NAMES_IN_BYTES.sub(_hidden_name_in_bytes, self.secrets_in(body))

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
        return _NAMES.sub(_hidden_name, text)


class _Nothing(Mask):
    """Hides nothing."""

    __slots__ = ()

    def error(self, body: bytes) -> bytes:
        return body

    def fault(self, fault: Fault) -> Fault:
        return fault


NO_MASK: Mask = _Nothing()


def _hidden_name(found: re.Match[str]) -> str:
    return HIDDEN if _DIGIT_OR_STAR.search(found[0]) else found[0]


def _hidden_name_in_bytes(found: re.Match[bytes]) -> bytes:
    return _HIDDEN if _DIGIT_OR_STAR_IN_BYTES.search(found[0]) else found[0]
