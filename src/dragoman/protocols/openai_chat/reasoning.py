"""Reasoning in Chat messages, which the protocol itself does not know.

Three fields are in use: `reasoning_content` (DeepSeek, Qwen, GLM, Kimi, older vLLM), `reasoning`
(vLLM since 0.11, OpenRouter, Groq, Ollama) and `reasoning_details` (OpenRouter), a list of entries
that can also carry opaque state: `{type, index, text | summary, signature | data, format}`.
Opaque state of other vendors is sent to clients there, in the gateway's envelope.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import Block, Opaque, Reasoning
from dragoman.canonical.envelope import MARKER, Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra
from dragoman.jsontext import JsonError, decode
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.shapes import AssistantMessage

BREAK = "\n\n"
"""The separator of two readable pieces of reasoning in one text field."""

_FORMATS = {"anthropic_messages": "anthropic", "openai_responses": "openai"}
"""The `format` of an entry, by the origin of its opaque state."""

TEXT_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_text")
"""Fields of answers with the reasoning text; few servers use the last two."""

_TEXTS = ("text", "content", "thinking", "reasoning", "summary")
"""Members with the text of a part of it."""

_STATE = ("signature", "data")
"""The fields of an entry that only its maker can read."""


def pick_text(first: Any, second: Any) -> str:
    """The reasoning text of `reasoning_content` or `reasoning`, whichever is first and not
    empty."""
    if type(first) is str and first:
        return first
    return second if type(second) is str else ""


def text_of(message: JsonObject) -> str:
    """The reasoning text of a message or delta, from the first field that is not empty."""
    return next(filter(None, (text_in(message.get(name)) for name in TEXT_FIELDS)), "")


def text_in(value: Any) -> str:
    """The text of a field of reasoning, which few servers give as parts or as an object."""
    if type(value) is str:
        return value
    if type(value) is list:
        return "".join(map(text_in, value))
    if type(value) is dict:
        return next(filter(None, (text_in(value.get(name)) for name in _TEXTS)), "")
    return ""


def readable(entry: JsonObject) -> str:
    """The text of a `reasoning_details` entry."""
    return pick_text(entry.get("text"), entry.get("summary"))


class Details(Struct, eq=False):
    """Collects the entries of `reasoning_details`, of which a stream sends fragments."""

    entries: dict[Any, JsonObject] = {}

    def add(self, entries: Iterable[Any]) -> str:
        """Take fragments; return their readable text."""
        texts: list[str] = []
        for entry in entries:
            if type(entry) is not dict:
                continue
            index = entry.get("index")
            key = index if type(index) is int else ("new", len(self.entries))
            known = self.entries.setdefault(key, {})
            for name, value in entry.items():
                if name in ("text", "summary") and type(value) is str:
                    known[name] = known.get(name, "") + value
                elif value is not None:
                    known[name] = value
            texts.append(readable(entry))
        return "".join(texts)

    @property
    def has_state(self) -> bool:
        """Whether an entry so far carries opaque state."""
        return any(entry.get(name) for entry in self.entries.values() for name in _STATE)

    def take(self, account: str = "") -> Opaque | None:
        """The opaque state of all entries so far, None if none has any; forgets the entries."""
        entries = list(self.entries.values())
        self.entries.clear()
        return _opaque_of(entries, account)


def _opaque_of(entries: Sequence[JsonObject], account: str) -> Opaque | None:
    if not any(entry.get(name) for entry in entries for name in _STATE):
        return None
    ordered = [{name: entry[name] for name in sorted(entry)} for entry in entries]
    return Opaque(wire.NAME, to_json_text(ordered), account=account)


# --- history sent by clients --------------------------------------------------------------------


def read_reasoning(
    message: AssistantMessage, path: str, sealer: Sealer, extras: list[Extra]
) -> list[Reasoning]:
    """The reasoning of an assistant message, from whichever fields have it.

    Entries of `reasoning_details` with the gateway's envelope become the block that was sealed; a
    text field that only repeats their text is used once."""
    details, first, second = (
        message.reasoning_details,
        message.reasoning_content,
        message.reasoning,
    )
    text = pick_text(first, second)
    if not text and not details:
        return []
    name = "reasoning_content" if first else "reasoning"
    if first and second and second != first:
        detail = "reasoning_content is used"
        extras.append(Extra(f"{path}.reasoning", second, LossKind.KNOB, detail))
    blocks = _read_details(details, f"{path}.reasoning_details", sealer) if details else []
    if not text or text == BREAK.join(block.text for block in blocks if block.parts):
        return blocks
    at = f"{path}.{name}"
    if not blocks:
        return [Reasoning(parts=(text,), style="raw", path=at)]
    if not any(block.parts for block in blocks):
        head, *rest = blocks
        if head.opaque is not None and head.opaque.origin == wire.NAME:
            return [replace(head, parts=(text,), style="raw"), *rest]
        return [Reasoning(parts=(text,), style="raw", path=at), *blocks]
    extras.append(Extra(at, text, LossKind.KNOB, "reasoning_details are used"))
    return blocks


def _read_details(entries: list[JsonObject], path: str, sealer: Sealer) -> list[Reasoning]:
    blocks: list[Reasoning] = []
    foreign: list[JsonObject] = []
    for number, entry in enumerate(entries):
        at = f"{path}[{number}]"
        token = next(filter(None, map(entry.get, _STATE)), "")
        if not isinstance(token, str):
            raise InvalidRequest.at(at, "the signature must be a string")
        sealed = sealer.open(token)
        if sealed is None:
            foreign.append(entry)
            continue
        text = readable(entry)
        parts = (text,) if not sealed.parts and text else sealed.parts
        blocks.append(replace(sealed, parts=parts, path=at))
    if foreign:
        blocks.append(_foreign_block(foreign, path))
    return blocks


def _foreign_block(entries: list[JsonObject], path: str) -> Reasoning:
    parts = tuple(text for text in map(readable, entries) if text)
    summarised = any(entry.get("type") == "reasoning.summary" for entry in entries)
    style: Literal["summary", "raw"] = "summary" if summarised else "raw"
    return Reasoning(parts=parts, style=style, opaque=_opaque_of(entries, ""), path=path)


# --- history sent to an upstream ----------------------------------------------------------------


def replayed_details(opaque: Opaque) -> list[Any]:
    """The entries of a Chat upstream's own opaque state, as it sent them."""
    try:
        entries = decode(opaque.data)
    except JsonError:
        return []
    return entries if type(entries) is list else []


# --- answers to clients -------------------------------------------------------------------------


def joined_text(blocks: Iterable[Block]) -> str:
    """The readable text of all reasoning blocks, as one text field shows it."""
    return BREAK.join(
        part for block in blocks if isinstance(block, Reasoning) for part in block.parts if part
    )


def is_foreign_state(opaque: Opaque | None) -> bool:
    """Whether there is opaque state that a client would have to send back."""
    return opaque is not None and opaque.origin != MARKER


def details_entry(block: Reasoning, index: int, sealer: Sealer) -> JsonObject:
    """The `reasoning_details` entry that carries a block with opaque state.

    Every entry has an `index`: clients that accumulate streams fail on a list entry without.
    """
    origin = block.opaque.origin if block.opaque is not None else MARKER
    form = _FORMATS.get(origin, origin)
    envelope = sealer.seal(block)
    if block.parts:
        text = {"type": "reasoning.text", "text": block.text, "signature": envelope}
        return {**text, "format": form, "index": index}
    return {"type": "reasoning.encrypted", "data": envelope, "format": form, "index": index}
