"""Stored responses, without the store: the items of a turn, and the reconstruction of a
conversation.

A request that continues a stored response is rewritten as if the client had sent the whole
conversation; all later stages treat it as such. Instructions are not inherited
(response_create_params.py, `previous_response_id`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.raw import (
    is_text,
    join_list,
    join_object,
    split_list,
    split_object,
    text_of,
)
from dragoman.protocols.stored_answers import GivenItems, whole_of

_PREFIXES = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "cto_",
}
"""Id prefixes by item type; those of other types begin with `item_`."""

MOST_LISTED = 100
"""Items in one page of a list at most (resources/responses/input_items.py)."""

_ABSENT = Raw()


class _Named(Struct):
    """The members of an item that show whether it is a reference."""

    type: Any = UNSET
    id: Any = UNSET
    role: Any = None


class _Head(_Named):
    """The members read of an item."""

    encrypted_content: Raw = _ABSENT
    content: Raw = _ABSENT


_id_of = decoder(_Named)
_all_named = decoder(list[_Named])
_all_items = decoder(list[_Head])


_H = TypeVar("_H", bound=_Named)


def _decoded_items(decode: Callable[[Raw], list[_H]], given: Raw | None) -> list[_H] | None:
    """The decoded items of an input; None if it is not an array of objects."""
    if given is None:
        return None
    try:
        return decode(given)
    except JsonError:
        return None


def _refers(item: _Named) -> bool:
    """Whether an item is a reference to the stored one of its id. The type of references may be
    left out (response_input_item_param.py, `ItemReference`)."""
    kind = item.type or None
    refers = kind == "item_reference" or (kind is None and item.role is None)
    return refers and isinstance(item.id, str)


def references(given: Raw | None) -> list[tuple[int, str]]:
    """The items of a request's `input` that refer to stored ones, as their positions and the ids;
    empty if it is not an array of objects."""
    items = _decoded_items(_all_named, given) or ()
    return [(number, item.id) for number, item in enumerate(items) if _refers(item)]


def given_items(given: Raw | None) -> GivenItems | None:
    """The items of a request's `input`. None if it is neither text nor an array of objects, which
    the reader of the request reports."""
    if given is None:
        return GivenItems()
    if is_text(given):
        return GivenItems(to_json([{"type": "message", "role": "user", "content": given}]))
    entries = _decoded_items(_all_named, given)
    if entries is None:
        return None
    ids: list[str] = []
    references: list[tuple[int, str]] = []
    for place, entry in enumerate(entries):
        name = entry.id
        if not isinstance(name, str):
            continue
        if _refers(entry):
            references.append((place, name))
        elif name:
            ids.append(name)
    return GivenItems(bytes(given), tuple(ids), tuple(references))


def with_stored(given: GivenItems, stored: Mapping[int, bytes]) -> GivenItems:
    """The items, with references replaced by the stored items."""
    items = split_list(Raw(given.body)) or []
    bodies = [Raw(stored.get(place, item)) for place, item in enumerate(items)]
    names = [name for _, name in given.references]
    return GivenItems(bytes(join_list(bodies)), (*given.ids, *names))


def named_item(item: bytes, response: str, place: int) -> bytes:
    """An input item of a response as clients are shown it: with a type and an id, derived from the
    response's id and the item's position if it has none; all other values keep their bytes."""
    entry = _id_of(item)
    kind, name = entry.type or None, entry.id
    added: JsonObject = {}
    if kind is None:
        kind = added["type"] = "message"
    if not isinstance(name, str) or not name:
        prefix = _PREFIXES.get(kind, "item_") if isinstance(kind, str) else "item_"
        added["id"] = f"{prefix}{response.rpartition('_')[2]}{place:04x}"
    if not added:
        return item
    lacks = ("type" not in added or entry.type is UNSET) and (
        "id" not in added or entry.id is UNSET
    )
    if lacks and item.startswith(b'{"'):
        # Most items lack these members, which are then inserted first.
        return to_json(added)[:-1] + b"," + item[1:]
    members = split_object(Raw(item)) or {}
    raw = {key: Raw(to_json(value)) for key, value in added.items()}
    return bytes(join_object({**members, **raw}))


_MADE_ID = re.compile(r"[a-z]+_([0-9a-f]{8,})([0-9a-f]{4})")


def place_of(name: str) -> tuple[str, int] | None:
    """The response and position that `named_item` may have derived an id from."""
    found = _MADE_ID.fullmatch(name)
    return None if found is None else (f"resp_{found[1]}", int(found[2], 16))


def whole_members(
    members: Mapping[str, Raw], earlier: Iterable[bytes], given: GivenItems
) -> dict[str, Raw]:
    """The members of a request as if its client had sent the whole conversation: the items of
    `earlier` turns as JSON, and those that it gave; all other members are the client's own."""
    return whole_of(members, "previous_response_id", earlier, given)


_LOOKED_UP = frozenset(
    {
        None,
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
    }
)
"""Types of items with ids that only locate the stored item. Ids of other types pair items."""


def unstored_members(members: Mapping[str, Raw]) -> dict[str, Raw]:
    """The members of a request for a service that must not store it, since the gateway does, or
    nobody.

    Items lose ids that the service would look up. Reasoning is requested in a form that can be sent
    back; other reasoning is left out, since it would be looked up, too."""
    changed = {"store": Raw(b"false"), "include": _including(members.get("include"))}
    given = members.get("input")
    if given is not None:
        changed["input"] = unstored_items(given)
    return {**members, **changed}


def unstored_items(given: Raw) -> Raw:
    """An array of items for such a service; any other value unchanged."""
    looked_up = [_is_looked_up(entry) for entry in _decoded_items(_all_items, given) or ()]
    items = split_list(given) if any(looked_up) else None
    if items is None:
        return given
    pairs = zip(items, looked_up, strict=True)
    remaining = [_unstored(item) if found else item for item, found in pairs]
    return join_list([item for item in remaining if item is not None])


def _including(given: Raw | None) -> Raw:
    wanted = split_list(given) or []
    asked = Raw(to_json(wire.ENCRYPTED_REASONING))
    if any(bytes(one) == bytes(asked) for one in wanted):
        return given or Raw()
    return join_list([*wanted, asked])


def _is_looked_up(item: _Head) -> bool:
    """Whether the service would look up a stored item."""
    kind = item.type or None
    if kind == "reasoning":
        return _is_empty(item.encrypted_content) and _is_empty(item.content)
    if item.id is UNSET or (kind is None and item.role is None):
        return False  # without an id, or a reference
    return isinstance(kind, str | None) and kind in _LOOKED_UP


def _unstored(item: Raw) -> Raw | None:
    """Such an item without the members to look up; None if nothing of it is left."""
    members = split_object(item) or {}
    if text_of(members.get("type")) == "reasoning":
        return None
    return join_object({name: raw for name, raw in members.items() if name != "id"})


def _is_empty(raw: Raw) -> bool:
    return bytes(memoryview(raw)[:8]) in (b"", b"null", b"[]", b'""')


def no_conversations() -> InvalidRequest:
    """The error for a request that belongs to a conversation object."""
    return InvalidRequest(
        Fault(
            FaultKind.INVALID_REQUEST,
            "Conversations are not kept here; go on with previous_response_id.",
            param="conversation",
            code="unsupported_parameter",
        )
    )


def shown_input(item: JsonObject) -> JsonObject:
    """An input item in the form of item lists: content as parts, and a status."""
    if item.get("type") != "message":
        return item
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        part: JsonObject = {"type": kind, "text": content}
        if kind == "output_text":
            part |= {"annotations": [], "logprobs": []}
        item = {**item, "content": [part]}
    return {"status": "completed", **item}


def page(items: Sequence[bytes], *, limit: int, after: str | None, order: str) -> JsonObject:
    """One page of a list of items, which are given as JSON and oldest first; the newest come first
    unless `order` is `asc`.

    Raises:
        InvalidRequest: `after` names no item of the list.
    """
    ordered = list(items) if order == "asc" else list(reversed(items))
    start = 0
    if after is not None:
        start = next((place for place, body in enumerate(ordered, 1) if _id(body) == after), 0)
        if not start:
            raise InvalidRequest.at("after", "names no item of this response")
    listed = [shown_input(msgspec.json.decode(body)) for body in ordered[start : start + limit]]
    return {
        "object": "list",
        "data": listed,
        "first_id": listed[0].get("id") if listed else None,
        "last_id": listed[-1].get("id") if listed else None,
        "has_more": start + limit < len(ordered),
    }


def _id(item: bytes) -> Any:
    return _id_of(item).id


def outputs_as_items(given: Any, waiting: Mapping[str, str]) -> list[JsonObject]:
    """The items that answer the tool calls of a stored response, from the body of
    `submit_tool_outputs`: `{"tool_outputs": [{"tool_call_id", "output"}]}`.

    `waiting` has the type of the call's output item by the id of each call.

    Raises:
        InvalidRequest: outputs are missing, duplicate, or of unknown calls.
    """
    outputs = given.get("tool_outputs") if isinstance(given, dict) else None
    if not isinstance(outputs, list) or not outputs:
        raise InvalidRequest.at("tool_outputs", "must be an array of outputs")
    answered: dict[str, JsonObject] = {}
    for number, output in enumerate(outputs):
        path = f"tool_outputs[{number}]"
        if not isinstance(output, dict):
            raise InvalidRequest.at(path, "must be an object")
        called = output.get("tool_call_id")
        if not isinstance(called, str) or called not in waiting:
            raise InvalidRequest.at(f"{path}.tool_call_id", "is no call that waits for its output")
        if called in answered:
            raise InvalidRequest.at(f"{path}.tool_call_id", "is answered twice")
        text = output.get("output")
        if not isinstance(text, str | list):
            raise InvalidRequest.at(f"{path}.output", "must be a string or an array of parts")
        answered[called] = {"type": waiting[called], "call_id": called, "output": text}
    missing = [called for called in waiting if called not in answered]
    if missing:
        raise InvalidRequest.at("tool_outputs", f"has no output for {', '.join(missing)[:500]}")
    return [answered[called] for called in waiting]


def waiting_calls(output: Iterable[JsonObject]) -> dict[str, str]:
    """The calls of an answer that a client has to run, by id, with the type of the item that
    answers each."""
    return {
        item["call_id"]: f"{kind}_output" if kind == "function_call" else "custom_tool_call_output"
        for item in output
        if (kind := item.get("type")) in ("function_call", "custom_tool_call")
    }
