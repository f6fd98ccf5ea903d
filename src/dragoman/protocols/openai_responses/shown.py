"""Members of a response object that a client is shown in place of the upstream's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.jsontext import JsonMismatch
from dragoman.protocols.base import to_json
from dragoman.protocols.openai_responses.shapes import AnyResponse
from dragoman.protocols.raw import split_object, text_of

ABSENT = Raw()


class Seen(AnyResponse, kw_only=True):
    """A response object that passes: its model is replaced, whatever it is, and its items are
    compared first by their bytes."""

    model: Raw = ABSENT
    output: Raw = ABSENT


class Lifecycle(Struct):
    """The members read of a lifecycle event."""

    type: str = ""
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
_READ = AnyResponse.__struct_fields__


def showing(data: bytes, shown: Mapping[str, Any]) -> tuple[bytes, Lifecycle]:
    """A lifecycle event with replaced members of its response object, the same bytes if none
    differs; and its members that are read.

    Raises:
        JsonError: it is none.
    """
    if not shown:
        return data, _lifecycle(data)
    try:
        event = _opened(data)
        heads = {"type": event.type, "sequence_number": event.sequence_number}
        members, response = {name: raw for name, raw in heads.items() if raw}, event.response
    except JsonMismatch:
        members = jsontext.members(data)
        response = split_object(members.get("response"))
    place = members.get("sequence_number")
    lifecycle = Lifecycle(text_of(members.get("type")), place and jsontext.strict(place))
    if response is None:
        return data, lifecycle
    read = {name: jsontext.strict(response[name]) for name in _READ if name in response}
    try:
        lifecycle.response = msgspec.convert(read, Seen)
    except msgspec.ValidationError as error:
        raise JsonMismatch(str(error)) from None
    lifecycle.response.model = response.get("model", ABSENT)
    lifecycle.response.output = response.get("output", ABSENT)
    changed = changed_in(response, shown)
    if changed:
        data = to_json({**members, "response": {**response, **changed}})
    return data, lifecycle


def is_lifecycle(data: bytes) -> bool:
    """Whether an event is of the life of a response, whatever further members it has."""
    try:
        return _lifecycle(data).response is not None
    except jsontext.JsonError:
        return False


def changed_in(members: Mapping[str, Raw], shown: Mapping[str, Any]) -> dict[str, Raw]:
    """The values to show that differ from the present members."""
    return {
        name: Raw(encoded)
        for name, value in shown.items()
        if name in members and bytes(members[name]) != (encoded := to_json(value))
    }


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
