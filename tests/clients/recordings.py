"""The recorded requests of real clients: what they look like, without what they say.

`recorded/NAME.json` holds the turns of one conversation with its texts filled (`filler.py`). A
turn is stored as its difference from the one before: most of it repeats.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.clients.programs import Api

FOLDER = Path(__file__).parent / "recorded"
PROTOCOLS: dict[Api, str] = {
    "chat": "openai_chat",
    "messages": "anthropic_messages",
    "responses": "openai_responses",
}
_SAME = {"as before": True}
_SHORT = 80
"""Texts of at most so many characters are written out in each turn."""


@dataclass(frozen=True)
class Turn:
    """One request. `target` is its path with the query; `headers` are the names it sent, with the
    values of those that tell of versions and betas."""

    target: str
    headers: dict[str, str | None]
    body: dict[str, Any]

    @property
    def encoded(self) -> bytes:
        """The body as it goes over the wire."""
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Recording:
    """One conversation of one client: the first turn asks, the next brings the result of a tool,
    and further turns go on."""

    name: str
    client: str
    api: Api
    turns: tuple[Turn, ...]

    @property
    def conversation(self) -> tuple[Turn, ...]:
        """The turns of the conversation itself: what is asked beside it, as for a title, offers no
        tools."""
        offering = tuple(turn for turn in self.turns if turn.body.get("tools"))
        return offering or self.turns

    @property
    def protocol(self) -> str:
        """The protocol by its name in the configuration."""
        return PROTOCOLS[self.api]


def write(recording: Recording) -> None:
    """Write a recording into the folder."""
    turns = []
    before: dict[str, Any] = {}
    for turn in recording.turns:
        members = {name: _less(before.get(name), item) for name, item in turn.body.items()}
        turns.append({"target": turn.target, "headers": turn.headers, "body": members})
        before = turn.body
    data = {"client": recording.client, "api": recording.api, "turns": turns}
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(data, ensure_ascii=False, indent=1)
    (FOLDER / f"{recording.name}.json").write_text(text + "\n")


def _less(before: Any, item: Any) -> Any:
    """A member of a body, by what is new in it."""
    long = len(item) > _SHORT if isinstance(item, str) else isinstance(item, dict | list) and item
    if long and before == item:
        return _SAME
    if isinstance(before, list) and isinstance(item, list):
        same = _in_common(before, item)
        if same:
            return {"first as before": same, "then": item[same:]}
    return item


def _in_common(before: list[Any], item: list[Any]) -> int:
    pairs = zip(before, item, strict=False)
    return next(
        (n for n, (old, new) in enumerate(pairs) if old != new), min(map(len, (before, item)))
    )


@cache
def recordings() -> tuple[Recording, ...]:
    """All recordings, by name."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.json")))


def _read(path: Path) -> Recording:
    data = json.loads(path.read_text())
    turns: list[Turn] = []
    before: dict[str, Any] = {}
    for stored in data["turns"]:
        body = {name: _whole(before.get(name), item) for name, item in stored["body"].items()}
        turns.append(Turn(stored["target"], stored["headers"], body))
        before = body
    return Recording(path.stem, data["client"], data["api"], tuple(turns))


def _whole(before: Any, item: Any) -> Any:
    if item == _SAME:
        return before
    if isinstance(item, dict) and item.keys() == {"first as before", "then"}:
        return [*before[: item["first as before"]], *item["then"]]
    return item
