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


class Mask:
    """Hides the secrets of one account, and names that look like a vendor's of an account."""

    __slots__ = ("_forms",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Secrets shorter than `SHORTEST` characters are not looked for."""
        forms = {
            form.encode()
            for secret in secrets
            if len(secret) >= SHORTEST
            for form in _spellings(secret)
        }
        # A secret that is part of another one must not leave the other's rest.
        self._forms = tuple(sorted(forms, key=len, reverse=True))

    def secrets_in(self, data: bytes) -> bytes:
        """`data` with the account's own secrets hidden."""
        for form in self._forms:
            if form in data:
                data = data.replace(form, HIDDEN.encode())
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
        for form in self._forms:
            text = text.replace(form.decode(), HIDDEN)
        return _NAMES.sub(HIDDEN, text)


def _spellings(secret: str) -> Iterable[str]:
    """A secret as it is and as JSON may write it."""
    escaped = json.dumps(secret)[1:-1]
    return secret, escaped, escaped.replace("/", "\\/")
