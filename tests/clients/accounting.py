"""Whether everything a client sent reached the upstream, or is named by the ledger.

Unlike `tests/losses`, which walks the SDKs' types, this looks at whole requests of real programs:
every value in them, wherever it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from dragoman.canonical.envelope import MARKER, Sealer
from tests.losses.verdict import indexless, is_above

EXCUSED: dict[str, str] = {
    "type": "every protocol has a word of its own for a kind of block, item or tool",
    "role": "roles are written in the protocol's own words",
    "stream_options.*": "the gateway asks for what it needs",
    "store": "the gateway keeps nothing",
    "include": "reasoning comes back in an envelope anyway",
    "tool_choice": "auto is what happens anyway",
    "thinking.budget_tokens": "becomes an effort, which the ledger says of `thinking`",
    "thinking.display": "the gateway itself shows reasoning or does not",
    "reasoning.summary": "the gateway itself shows reasoning or does not",
    "input.id": "a handle into a store, where nothing is stored",
    "input.status": "items of a past answer are replayed whole",
    "input.content.annotations": "none",
    "input.call_id": "calls have ids of the upstream's form; their pairing is looked at by itself",
    "input.tools.name": "a namespace's name is part of its tools' names, looked at by itself",
    "input.summary.text": "said again by the encrypted content beside it",
    "messages.tool_calls.id": "as input.call_id",
    "messages.tool_call_id": "as input.call_id",
    "messages.content.id": "as input.call_id",
    "messages.content.tool_use_id": "as input.call_id",
}
"""Values that need not be found, by their path without indexes (or its last part) and why."""


@dataclass
class Found:
    """What there is in a body: its texts in one, and its other values."""

    texts: list[str] = field(default_factory=list)
    others: set[Any] = field(default_factory=set)

    def holds(self, value: Any) -> bool:
        """Whether the value is there. A text may be a part of another."""
        if isinstance(value, str):
            return any(value in text for text in self.texts)
        return (type(value), value) in self.others


def unaccounted(sent: Any, received: Any, losses: Mapping[str, str]) -> list[str]:
    """The paths of values that were sent, were not received, and that no loss names."""
    found = Found()
    for _, value in leaves(received):
        if isinstance(value, str):
            found.texts.append(value)
        elif not isinstance(value, dict | list):
            found.others.add((type(value), value))
    return [
        path
        for path, value in leaves(sent)
        if not (_nothing(value) or found.holds(value) or _excused(path) or told(path, losses))
    ]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that holds no others, with its path as the ledger writes it. The JSON text of a
    call's arguments counts as what it says, an envelope of the gateway's as the vendor's state
    that is in it, and the names of a schema's properties are values too."""
    if isinstance(value, str) and path.endswith(".arguments"):
        value = _parsed(value)
    if isinstance(value, str) and (sealed := Sealer().open(value)) is not None:
        opaque = sealed.opaque
        value = opaque.data if opaque is not None and opaque.origin != MARKER else None
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            if ".properties" in path:
                yield f"{path}.{name}", name
            yield from leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{number}]")
    else:
        yield path, value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _nothing(value: Any) -> bool:
    """Whether a value says nothing that its absence would not."""
    return value is None or value is False or value in ("", [], {})


def _excused(path: str) -> bool:
    plain = indexless(path)
    return any(
        fnmatchcase(plain, pattern) or ("." not in pattern and plain.endswith(f".{pattern}"))
        for pattern in EXCUSED
    )


def told(path: str, losses: Mapping[str, str]) -> bool:
    """Whether a loss names the value or, if it says that all of it is gone, something above it."""
    return any(
        path == lost or (kind in ("knob", "content") and is_above(lost, path))
        for lost, kind in losses.items()
    )
