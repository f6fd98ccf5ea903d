"""State that a Chat upstream puts beside a tool call, and wants back with it.

Gemini signs calls in `extra_content.google.thought_signature`, of the call or of its function, and
refuses the next turn without. Clients of other protocols carry it as opaque reasoning before the
call: as an entry of `reasoning_details` with the type `tool_call`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject

_TYPE: Final = "tool_call"
_CARRIED: Final = frozenset({"extra_content", "thought_signature"})
_READ: Final = frozenset({"index", "id", "type", "function", "custom"})
_READ_INSIDE: Final = frozenset({"name", "arguments", "parameters", "input"})


def call_entry(fragment: JsonObject) -> JsonObject | None:
    """The entry with the state in a fragment of a call; None if it has none."""
    function = fragment.get("function")
    inner = _carried(function) if type(function) is dict else {}
    own = _carried(fragment)
    if not own and not inner:
        return None
    # The text under `data` marks the entry as state that only its maker reads.
    state = to_json_text({"call": own, "function": inner})
    return {"type": _TYPE, "id": fragment.get("id"), "data": state, "call": own, "function": inner}


def unread_members(fragment: JsonObject) -> Iterator[str]:
    """The paths of the members of a fragment that nobody reads."""
    function = fragment.get("function")
    read = _READ if type(function) is dict or "custom" in fragment else _READ | _READ_INSIDE
    for name, value in fragment.items():
        if name not in read and name not in _CARRIED and value not in _EMPTY:
            yield name
    for name, value in function.items() if type(function) is dict else ():
        if name not in _READ_INSIDE and name not in _CARRIED and value not in _EMPTY:
            yield f"function.{name}"


_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {}, False)


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


def _carried(member: JsonObject) -> JsonObject:
    return {name: member[name] for name in _CARRIED if member.get(name)}
