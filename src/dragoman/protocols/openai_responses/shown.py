"""Members of a response object that a client is shown in place of the upstream's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.jsontext import JsonMismatch
from dragoman.protocols.base import to_json
from dragoman.protocols.raw import split_object, text_of

ABSENT = Raw()


class Seen(Struct):
    """The members read of a response object."""

    output: Raw = ABSENT
    output_text: Any = None
    usage: Any = None
    error: Any = None
    status: Any = None
    id: Any = None
    model: Raw = ABSENT
    created_at: Any = None
    service_tier: Any = None
    tool_usage: Any = None
    incomplete_details: Any = None


_LOOKED_AT = tuple(name for name in Seen.__struct_fields__ if name not in ("output", "model"))


class Lifecycle(Struct):
    """The members read of a lifecycle event."""

    type: Any = None
    sequence_number: Any = None
    response: Seen | None = None


class _Opened(Struct, forbid_unknown_fields=True):
    """A lifecycle event without other members, decoded in one pass: it repeats the client's tools,
    which may be long."""

    type: Raw = ABSENT
    sequence_number: Raw = ABSENT
    response: dict[str, Raw] | None = None


_lifecycle = jsontext.decoder(Lifecycle)
_opened = jsontext.decoder(_Opened)


def showing(data: bytes, shown: Mapping[str, Any]) -> tuple[bytes, Lifecycle]:
    """A lifecycle event with replaced members of its response object, the same bytes if none
    differs; and its members that are read.

    Raises:
        JsonError: it is none.
    """
    if not shown:
        return data, _lifecycle(data)
    try:
        members, response = _members(data)
    except JsonMismatch:
        members = jsontext.members(data)
        response = split_object(members.get("response"))
    number = members.get("sequence_number")
    kind, place = text_of(members.get("type")), None if number is None else jsontext.strict(number)
    if response is None:
        return data, Lifecycle(kind, place)
    seen = Seen(
        **{name: jsontext.strict(response[name]) for name in _LOOKED_AT if name in response}
    )
    seen.output, seen.model = response.get("output", ABSENT), response.get("model", ABSENT)
    changed = changed_in(response, shown)
    if changed:
        data = _replaced(data, response, changed) or to_json(
            {**members, "response": Raw(to_json({**response, **changed}))}
        )
    return data, Lifecycle(kind, place, seen)


def changed_in(members: Mapping[str, Raw], shown: Mapping[str, Any]) -> dict[str, Raw]:
    """The values to show that differ from the present members."""
    return {
        name: Raw(encoded)
        for name, value in shown.items()
        if name in members and bytes(members[name]) != (encoded := to_json(value))
    }


def _members(data: bytes) -> tuple[dict[str, Raw], dict[str, Raw] | None]:
    """The members of a lifecycle event, with an empty one for its response, and the members of its
    response object.

    Raises:
        JsonMismatch: its encoding differs from that of the services.
        JsonError: it is none.
    """
    if not data.startswith(b'{"type"'):
        raise JsonMismatch("it does not begin with its type")
    event = _opened(data)
    number = {"sequence_number": event.sequence_number} if event.sequence_number else {}
    response = {"response": ABSENT}
    ordered = number | response if data.endswith(b"}}") else response | number
    return {"type": event.type} | ordered, event.response


_COMPACT = re.compile(
    rb'\{"type":"[a-z._]+",(?:"sequence_number":[0-9]+,)?"response":\{"[a-z_]+":[^ \t]'
)
"""A pattern for the beginning of an event without white space between its tokens."""


def _replaced(data: bytes, response: Mapping[str, Raw], changed: Mapping[str, Raw]) -> bytes:
    """A lifecycle event with members of its response object replaced in place, so that the client's
    tools in it are not encoded again. Empty if the members cannot be located."""
    if _COMPACT.match(data) is None:
        return b""
    for name, raw in changed.items():
        before = b'"%b":%b' % (name.encode(), response[name])
        # In a text its quotes would be escaped.
        if data.count(before) != 1:
            return b""
        data = data.replace(before, b'"%b":%b' % (name.encode(), raw))
    return data


def of_next(shown: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The members shown of a follow-up response, the one of that `number` in its stream: if the
    first response has a gateway id, this one's is derived from it."""
    of_next = {name: value for name, value in shown.items() if name != "previous_response_id"}
    if "id" in shown:
        first = shown["id"] if number == 1 else shown["id"][:-_NUMBER]
        of_next["id"] = f"{first}{number:0{_NUMBER}x}"
        of_next["previous_response_id"] = shown["id"]
    return of_next


_NUMBER = 4
"""Hexadecimal digits of the number of a response in its stream."""
