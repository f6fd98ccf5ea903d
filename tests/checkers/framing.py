"""The framing rules that all three protocols share, and what a checker tells."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

JsonObject: TypeAlias = dict[str, Any]


@dataclass
class Verdict:
    """How a stream ended, and what it said.

    `text`, `refusal` and `reasoning` are all deltas joined; `calls` are the tool calls in order
    as (id, name, arguments or free text). `usage` is the protocol's own object.
    """

    ending: Literal["success", "failure"]
    text: str = ""
    refusal: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    finish: str | None = None
    usage: JsonObject | None = None
    events: list[JsonObject] = field(default_factory=list)

    @property
    def succeeded(self) -> bool:
        """Whether the client takes this stream for a whole answer."""
        return self.ending == "success"


@dataclass(frozen=True)
class Frame:
    """One event as it stands on the wire."""

    event: str | None
    data: str


def frames(stream: bytes) -> list[Frame]:
    """Cut a stream into events, asserting the framing rules every client needs.

    LF only, one data line per event, a blank line after each, no `id:` or `retry:` lines, no
    byte-order mark, no characters at which some readers split lines. Comments are left out.
    """
    text = stream.decode("utf-8")
    assert "\r" not in text, "only LF may end lines"
    assert "\ufeff" not in text[:1], "no byte-order mark"
    for separator in "\u2028\u2029\u0085":
        assert separator not in text, f"raw {separator!r} splits lines in some readers"
    assert not text or text.endswith("\n\n"), "the last event needs its blank line"
    found: list[Frame] = []
    for block in text.split("\n\n")[:-1]:
        assert block, "an empty block"
        lines = block.split("\n")
        if all(line.startswith(":") for line in lines):
            continue
        event = lines.pop(0)[len("event: ") :] if lines[0].startswith("event: ") else None
        assert len(lines) == 1, f"more than one data line, or another field: {block!r}"
        assert lines[0].startswith("data: "), f"not a data line: {block!r}"
        found.append(Frame(event, lines[0][len("data: ") :]))
    return found


def as_object(data: str) -> JsonObject:
    value = json.loads(data)
    assert isinstance(value, dict), "every event is a JSON object"
    return value


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def count(value: Any) -> int:
    assert type(value) is int, f"a token count must be a whole number, not {value!r}"
    assert value >= 0, "a token count is never negative"
    return value
