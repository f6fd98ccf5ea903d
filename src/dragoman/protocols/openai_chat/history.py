"""Pass-through: reasoning state made for another upstream is removed from a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from operator import attrgetter

from msgspec import Raw

from dragoman.canonical.envelope import PREFIX
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.jsontext import object_of
from dragoman.protocols.base import Beginning
from dragoman.protocols.openai_chat.call_state import CONTENT, signature_in
from dragoman.protocols.openai_chat.fitting import Checked
from dragoman.protocols.raw import (
    any_holds,
    join_list,
    join_object,
    messages_in,
    settled,
    split_list,
    split_object,
    text_of,
)

_SIGN = PREFIX.encode()
_STATE = ("signature", "data")


_reasoning_of = attrgetter("reasoning_details", "tool_calls")


def without_envelopes(
    members: Mapping[str, Raw], checked: Checked, ledger: Ledger
) -> Mapping[str, Raw]:
    """The members without the `reasoning_details`, and the members of calls, that carry another
    upstream's state in the gateway's envelope, which only the gateway can read. All other values
    keep their bytes."""
    if not any_holds(chain.from_iterable(map(_reasoning_of, checked.messages)), _SIGN):
        return members
    before = split_list(members.get("messages")) or []
    after = [
        _message(message, f"messages[{number}]", ledger) for number, message in enumerate(before)
    ]
    unchanged = all(new is old for new, old in zip(after, before, strict=True))
    return members if unchanged else {**members, "messages": join_list(after)}


def _message(message: Raw, path: str, ledger: Ledger) -> Raw:
    if _SIGN not in bytes(message):
        return message
    fields = split_object(message) or {}
    calls = _unsealed(fields.get("tool_calls"), path, ledger)
    if calls is not None:
        fields["tool_calls"] = calls
        message = join_object(fields)
    entries = split_list(fields.get("reasoning_details")) or []
    remaining = []
    for number, entry in enumerate(entries):
        if _is_sealed(entry):
            detail = "reasoning of another upstream is not sent"
            ledger.add(f"{path}.reasoning_details[{number}]", LossKind.KNOB, detail)
        else:
            remaining.append(entry)
    if len(remaining) == len(entries):
        return message
    rest = {name: raw for name, raw in fields.items() if name != "reasoning_details"}
    return join_object({**rest, "reasoning_details": join_list(remaining)} if remaining else rest)


def _unsealed(raw: Raw | None, path: str, ledger: Ledger) -> Raw | None:
    """The calls of a message without such state; None if they have none."""
    changed = False
    after = []
    for number, call in enumerate(split_list(raw) or ()):
        fields = split_object(call) if _SIGN in bytes(call) else None
        content = None if fields is None else fields.get(CONTENT)
        if fields is None or content is None:
            after.append(call)
            continue
        if not signature_in(object_of(bytes(content))).startswith(PREFIX):
            after.append(call)
            continue
        detail = "reasoning of another upstream is not sent"
        ledger.add(f"{path}.tool_calls[{number}].{CONTENT}", LossKind.KNOB, detail)
        del fields[CONTENT]
        after.append(join_object(fields))
        changed = True
    return join_list(after) if changed else None


def _is_sealed(entry: Raw) -> bool:
    fields = split_object(entry) or {}
    return any(text_of(fields.get(name)).startswith(PREFIX) for name in _STATE)


def without_reasoning(
    members: Mapping[str, Raw], ledger: Ledger, most: int
) -> tuple[Mapping[str, Raw], int]:
    """The members unchanged: the protocol has no reasoning that only its maker can read."""
    return members, 0


_ANSWERING = ("assistant", "tool", "function")


def beginning(members: Mapping[str, Raw]) -> Beginning:
    """The named user, and the messages up to the model's first one."""
    pieces = [bytes(members.get("user", b""))]
    for message in messages_in(members.get("messages")):
        if message.role in _ANSWERING:
            return Beginning(b"\0".join(pieces), False)
        pieces.append(settled(message.content))
    return Beginning(b"\0".join(pieces), True)
