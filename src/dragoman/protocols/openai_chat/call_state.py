"""State that a Chat upstream puts beside a tool call, and wants back with it.

Gemini signs calls in `extra_content.google.thought_signature`, of the call or of its function, and
refuses the next turn without. Clients of other protocols carry it as opaque reasoning before the
call: as an entry of `reasoning_details` with the type `tool_call`. To Chat clients, state that
another protocol has on a call is given in the same member of the call, in the gateway's envelope.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat.shapes import CallPiece, FunctionPiece

_TYPE: Final = "tool_call"
CONTENT: Final = "extra_content"
_NOTHING: Final = FunctionPiece()
_VENDOR, _SIGNATURE = "google", "thought_signature"


def call_entry(piece: CallPiece) -> JsonObject | None:
    """The entry with the state in a fragment of a call; None if it has none."""
    function = piece.function or _NOTHING
    if not (
        piece.extra_content
        or piece.thought_signature
        or function.extra_content
        or function.thought_signature
    ):
        return None
    own, inner = _carried(piece), _carried(function)
    # The text under `data` marks the entry as state that only its maker reads.
    state = to_json_text({"call": own, "function": inner})
    return {"type": _TYPE, "id": piece.id, "data": state, "call": own, "function": inner}


def _carried(piece: CallPiece | FunctionPiece) -> JsonObject:
    state = {
        "extra_content": piece.extra_content,
        "thought_signature": piece.thought_signature,
    }
    return {name: value for name, value in state.items() if value}


def split_entries(entries: Iterable[Any]) -> tuple[list[Any], list[JsonObject]]:
    """The entries of `reasoning_details` proper, and those that belong to calls."""
    reasoning: list[Any] = []
    of_calls: list[JsonObject] = []
    for entry in entries:
        if type(entry) is dict and entry.get("type") == _TYPE:
            of_calls.append(entry)
        else:
            reasoning.append(entry)
    return reasoning, of_calls


def put_back(entries: Iterable[JsonObject], ids: list[str], calls: list[JsonObject]) -> None:
    """Put the state in `entries` back to the calls of a message, by their ids (`ids` are those of
    the upstream), else to the first call."""
    for entry in entries:
        place = ids.index(entry["id"]) if entry.get("id") in ids else 0
        if place >= len(calls):
            continue
        call = calls[place]
        function = call.get("function")
        if entry.get("function") and type(function) is dict:
            call = {**call, "function": {**function, **entry["function"]}}
        calls[place] = {**call, **(entry.get("call") or {})}


def signed(envelope: str) -> JsonObject:
    """The member of a call with state in an envelope."""
    return {CONTENT: {_VENDOR: {_SIGNATURE: envelope}}}


def signature_in(content: Any) -> str:
    """The signature in `extra_content`; empty if it has none."""
    inner = content.get(_VENDOR) if type(content) is dict else None
    signature = inner.get(_SIGNATURE) if type(inner) is dict else None
    return signature if type(signature) is str else ""
