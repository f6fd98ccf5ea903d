"""What the readers share: the texts, tool results and media of a conversation."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from dragoman.lab.simulator.directives import has_directive
from dragoman.lab.simulator.usage import MEDIA_TOKENS, MESSAGE_TOKENS, tokens
from dragoman.lab.simulator.view import JsonObject, Media, ToolResult

_REMINDER = re.compile(r"\s*<system-reminder>.*</system-reminder>\s*", re.DOTALL)
_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*?)(;base64)?,")

Kind = Literal["image", "document", "audio"]
Where = Literal["user", "tool_result"]


def media_from_bytes(
    kind: Kind, media_type: str | None, data: str, where: Where, name: str | None = None
) -> Media:
    """Media that came as base64."""
    raw = base64.b64decode(data)
    digest = hashlib.sha256(raw).hexdigest()[:16]
    return Media(kind, "base64", media_type, len(raw), digest, where, name)


def media_from_url(kind: Kind, url: str, where: Where, name: str | None = None) -> Media:
    """Media that came as a link or as a data URL."""
    found = _DATA_URL.match(url)
    if found is None:
        return Media(kind, "url", None, None, None, where, name)
    return media_from_bytes(kind, found[1] or None, url[found.end() :], where, name)


def media_from_file(data: str, where: Where, name: str | None) -> Media:
    """A file that came as a data URL or as bare base64."""
    if data.startswith("data:"):
        return media_from_url("document", data, where, name)
    return media_from_bytes("document", None, data, where, name)


def media_from_text(text: str, media_type: str, where: Where, name: str | None) -> Media:
    """A document that came as plain text."""
    raw = text.encode()
    digest = hashlib.sha256(raw).hexdigest()[:16]
    return Media("document", "text", media_type, len(raw), digest, where, name)


@dataclass(slots=True)
class Conversation:
    """The conversation as far as it has been read."""

    user_text: str = ""
    system: list[str] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    media: list[Media] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    rounds: int = 0
    turns: int = 0
    characters: int = 0
    messages: int = 0
    _fresh_results: bool = False

    def add_user_text(self, text: str) -> None:
        """A user's own words start a new turn, so earlier tool results are history.

        Words that stand beside fresh tool results (clients add reminders there) don't, and
        reminders of the system by themselves, unless they steer the simulator.
        """
        self.characters += len(text)
        is_aside = self._fresh_results or _REMINDER.fullmatch(text) is not None
        if text.strip() and (has_directive(text) or not is_aside):
            self.user_text = text
            self.results.clear()
            self.rounds = 0

    def add_assistant_turn(self) -> None:
        """The assistant spoke or called: results before it are no longer fresh."""
        self.turns += 1
        self._fresh_results = False

    def add_system_text(self, text: str) -> None:
        self.characters += len(text)
        self.system.append(text)

    def add_result(self, call_id: str, text: str, *, new_round: bool) -> None:
        self.characters += len(text)
        self.results.append(ToolResult(call_id, text))
        self.rounds += new_round
        self._fresh_results = True

    def add_other(self, text: str | None) -> None:
        """Text that only counts: the assistant's own words and calls."""
        self.characters += len(text or "")

    def prompt_tokens(self, tools: Sequence[Any]) -> int:
        """An estimate of the prompt's size."""
        characters = self.characters + (len(msgspec.json.encode(tools)) if tools else 0)
        return (
            tokens(characters)
            + MEDIA_TOKENS * len(self.media)
            + MESSAGE_TOKENS * max(1, self.messages)
        )


def json_schema(schema: Any) -> Mapping[str, Any]:
    """A tool's parameters; none at all means an empty object."""
    return schema if isinstance(schema, Mapping) else {"type": "object", "properties": {}}


def text_parts(content: str | Sequence[JsonObject], kinds: tuple[str, ...] = ("text",)) -> str:
    """The text of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] in kinds)
