"""Stored responses, without the store: a turn's own items, and a conversation put together again.

A request that goes on from a stored response is made what it would be had the client sent the whole
conversation; nothing after this knows the difference. Instructions are not inherited
(response_create_params.py, `previous_response_id`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.canonical.errors import InvalidRequest
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject

_PREFIXES = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "cto_",
}
"""How ids begin by the item's type; others begin with `item_`."""

MOST_LISTED = 100
"""Items in one page of a list at most (resources/responses/input_items.py)."""


def own_items(given: Any, mint: Callable[[str], str]) -> list[Any]:
    """The items that a request's `input` adds to the conversation, each with a type and an id.

    `given` is the decoded `input`. Items that refer to others stay as they are; whatever is no
    item is left to whoever reads the request.
    """
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    items = given if isinstance(given, list) else []
    return [_named(item, mint) if isinstance(item, dict) else item for item in items]


def _named(item: JsonObject, mint: Callable[[str], str]) -> JsonObject:
    kind = item.get("type")
    if reference(item) is not None:
        return item
    named = dict(item)
    if kind is None:
        kind = named["type"] = "message"
    if not isinstance(named.get("id"), str) or not named["id"]:
        named["id"] = mint(_PREFIXES.get(kind, "item_") if isinstance(kind, str) else "item_")
    return named


def reference(item: JsonObject) -> str | None:
    """The id of the stored item that `item` stands for; None if it is an item itself. Its type may
    be left out (response_input_item_param.py, `ItemReference`)."""
    kind = item.get("type")
    if kind == "item_reference" or (kind is None and "role" not in item):
        found = item.get("id")
        return found if isinstance(found, str) else None
    return None


def whole_body(members: Mapping[str, msgspec.Raw], items: Iterable[bytes]) -> bytes:
    """The request as if the client had sent the whole conversation: `items` are all of it as JSON,
    `members` the client's own top-level members, byte for byte except `input` and
    `previous_response_id`.
    """
    whole = {name: raw for name, raw in members.items() if name != "previous_response_id"}
    whole["input"] = msgspec.Raw(b"[" + b",".join(items) + b"]")
    return to_json(whole)


_NAMED = ("reasoning", "local_shell_call", "local_shell_call_output")


def unstored_body(body: bytes) -> bytes:
    """A request for a service that is to keep nothing of it, since the gateway does. Items then
    have no ids, which would be looked up there; reasoning needs its own beside its encrypted
    content, and a local shell's call and result are paired by theirs."""
    request: JsonObject = msgspec.json.decode(body)
    request["store"] = False
    given = request.get("input")
    if isinstance(given, list):
        request["input"] = [_unnamed(item) for item in given]
    return to_json(request)


def _unnamed(item: Any) -> Any:
    if not isinstance(item, dict) or item.get("type") in _NAMED or "id" not in item:
        return item
    return {name: value for name, value in item.items() if name != "id"}


def shown_input(item: JsonObject) -> JsonObject:
    """An input item as lists of them show it: content as parts, and a status."""
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


def page(items: Sequence[JsonObject], *, limit: int, after: str | None, order: str) -> JsonObject:
    """One page of a list of items, which are given oldest first; the newest come first unless
    `order` is `asc`.

    Raises:
        InvalidRequest: `after` names no item of the list.
    """
    ordered = list(items) if order == "asc" else list(reversed(items))
    start = 0
    if after is not None:
        places = [place for place, item in enumerate(ordered) if item.get("id") == after]
        if not places:
            raise InvalidRequest.at("after", "names no item of this response")
        start = places[0] + 1
    listed = ordered[start : start + limit]
    return {
        "object": "list",
        "data": listed,
        "first_id": listed[0].get("id") if listed else None,
        "last_id": listed[-1].get("id") if listed else None,
        "has_more": start + limit < len(ordered),
    }


def outputs_as_items(given: Any, waiting: Mapping[str, str]) -> list[JsonObject]:
    """The items that answer the tool calls of a stored response, from the body of
    `submit_tool_outputs`: `{"tool_outputs": [{"tool_call_id", "output"}]}`.

    `waiting` has the type of the call's output item by the id of each call.

    Raises:
        InvalidRequest: outputs are missing, twice given, or of calls that there were not.
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
    """The calls of an answer that a client is to run, by their ids, with the type of the item that
    answers each."""
    return {
        item["call_id"]: f"{kind}_output" if kind == "function_call" else "custom_tool_call_output"
        for item in output
        if (kind := item.get("type")) in ("function_call", "custom_tool_call")
    }
