"""Replaces what a request says by filler of the same length, and keeps how it says it.

Field names, types, enums, tool names, schemas, the prefixes of ids and well-known beginnings stay;
every other text is filled word by word. Equal texts stay equal and a text that begins as another
one still does, so that what a client repeats from turn to turn can be recognised; which words
stood there cannot be told: there are a few fillers for each length, chosen by a secret that is
thrown away.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import Any

KEPT = frozenset(
    {
        "context",
        "display",
        "effort",
        "execution",
        "include",
        "keep",
        "mode",
        "model",
        "name",
        "namespace",
        "object",
        "phase",
        "reasoning_effort",
        "role",
        "scope",
        "search_content_types",
        "service_tier",
        "status",
        "strategy",
        "summary",
        "syntax",
        "tool_choice",
        "tool_name",
        "truncation",
        "ttl",
        "type",
        "verbosity",
    }
)
"""Fields whose texts are words of the protocol, or names of tools and models."""

SCHEMAS = frozenset({"input_schema", "output_schema", "parameters", "schema"})
SAID_IN_SCHEMAS = frozenset({"$comment", "default", "description", "examples", "title"})
"""What people read in a schema; all else of it is structure."""

BEGINNINGS = re.compile(
    r"x-anthropic-billing-header:|<system-reminder>|gAAAA(?=[A-Za-z0-9+/=_-]+$)"
    r"|[a-z]{2,8}_(?=[A-Za-z0-9-]+$)"
)
"""How texts begin that a gateway may recognise by it: ids among them."""

_WORD = re.compile(r"[^\W_]+")
_FILLERS = ("fillerpaddingsample", "wordsinplaceofothers", "quietharmlessletters")
_DIGITS, _HEX = "0123456789", "0123456789abcdef"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Filler:
    """Fills texts; `secret` decides with which of the fillers."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def body(self, value: Any, field: str = "", *, written: bool = False) -> Any:
        """A JSON value with its texts filled; `field` is the name under which it stands."""
        match value:
            case dict() if field in SCHEMAS:
                return self._schema(value)
            case dict():
                # What a model wrote into a call: nothing in it is a word of the protocol.
                written = written or field == "input"
                return {n: self.body(item, n, written=written) for n, item in value.items()}
            case list():
                # The words of a list stand under its name, its objects have names of their own.
                named = {True: field, False: ""}
                return [
                    self.body(item, named[isinstance(item, str)], written=written) for item in value
                ]
            case str() if field in KEPT and not written:
                return value
            case str():
                return self.text(value)
        return value

    def _schema(self, value: Any, field: str = "") -> Any:
        match value:
            case dict() if field == "properties":
                return {name: self._schema(item) for name, item in value.items()}
            case dict():
                return {name: self._schema(item, name) for name, item in value.items()}
            case list():
                return [self._schema(item, field) for item in value]
            case str() if field in SAID_IN_SCHEMAS:
                return self.text(value)
        return value

    def text(self, text: str) -> str:
        """Filler of the same length; JSON inside a text keeps its structure."""
        inside = self._json(text)
        if inside is not None:
            return inside
        begin = BEGINNINGS.match(text)
        kept = begin.group() if begin else ""
        return kept + _WORD.sub(lambda word: self._word(word.group()), text[len(kept) :])

    def _json(self, text: str) -> str | None:
        if not text.startswith("{"):
            return None
        try:
            value = json.loads(text)
        except ValueError:
            return None
        separators = (",", ":") if ": " not in text else None
        return json.dumps(
            self.body(value, written=True), ensure_ascii=text.isascii(), separators=separators
        )

    def _word(self, word: str) -> str:
        code = hmac.digest(self._secret, word.encode(), hashlib.sha256)
        if not any(char.isdigit() for char in word):
            filler = _FILLERS[code[0] % len(_FILLERS)]
            return (filler * (len(word) // len(filler) + 1))[: len(word)]
        # Numbers and ids differ from one another wherever the true ones do.
        return "".join(
            self._char(char, code[number % len(code)] + number) for number, char in enumerate(word)
        )

    @staticmethod
    def _char(char: str, code: int) -> str:
        if char.isdigit():
            return _DIGITS[code % 10]
        letter = (_HEX[10:] if char in "abcdef" else _LETTERS)[
            code % (6 if char in "abcdef" else 26)
        ]
        return letter.upper() if char.isupper() else letter
