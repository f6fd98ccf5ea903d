"""Pass-through: thinking made for another upstream is removed from a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Raw

from dragoman.canonical.envelope import PREFIX
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.fitting import Checked
from dragoman.protocols.base import Beginning
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
_STATE = {"thinking": "signature", "redacted_thinking": "data"}
_LOST = "reasoning of another upstream is not sent"
_BOUND = "reasoning that is bound to another account is not sent"


def without_envelopes(
    members: Mapping[str, Raw], checked: Checked, ledger: Ledger
) -> Mapping[str, Raw]:
    """The members without the thinking that the gateway signed in place of another upstream: the
    service refuses foreign signatures. All other values keep their bytes."""
    own = [message.content for message in checked.messages if message.role == "assistant"]
    if not any_holds(own, _SIGN):
        return members
    remaining, paths = _without(members, _SIGN, _is_sealed)
    for path in paths:
        ledger.add(path, LossKind.KNOB, _LOST)
    return remaining


def without_reasoning(
    members: Mapping[str, Raw], ledger: Ledger, most: int
) -> tuple[Mapping[str, Raw], int]:
    """The members without the first `most` thinking blocks, and the number removed."""
    remaining, paths = _without(members, b"thinking", _is_thinking, most)
    for path in paths:
        ledger.add(path, LossKind.KNOB, _BOUND)
    return remaining, len(paths)


def _without(
    members: Mapping[str, Raw],
    sign: bytes,
    is_meant: Callable[[Raw], bool],
    most: int | None = None,
) -> tuple[Mapping[str, Raw], list[str]]:
    """The members without the first `most` blocks (None: all) that are meant, and their paths. Such
    a block has `sign` in its bytes. A message of nothing else is left out."""
    messages = members.get("messages")
    paths: list[str] = []
    after = []
    if messages is None or sign not in bytes(messages):
        return members, paths
    for number, message in enumerate(split_list(messages) or ()):
        fields = split_object(message) if sign in bytes(message) else None
        blocks = split_list(fields.get("content")) if fields is not None else None
        remaining = []
        for position, block in enumerate(blocks or ()):
            if len(paths) != most and sign in bytes(block) and is_meant(block):
                paths.append(f"messages[{number}].content[{position}]")
            else:
                remaining.append(block)
        if fields is None or blocks is None or len(remaining) == len(blocks):
            after.append(message)
        elif remaining:
            after.append(join_object({**fields, "content": join_list(remaining)}))
    return ({**members, "messages": join_list(after)} if paths else members), paths


def _is_sealed(block: Raw) -> bool:
    fields = split_object(block) or {}
    state = _STATE.get(text_of(fields.get("type")))
    return state is not None and text_of(fields.get(state)).startswith(PREFIX)


def _is_thinking(block: Raw) -> bool:
    return text_of((split_object(block) or {}).get("type")) in _STATE


def beginning(members: Mapping[str, Raw]) -> Beginning:
    """The system prompt, the named user, and the messages up to the model's first one."""
    pieces = []
    if "system" in members:
        pieces.append(settled(members["system"], wire.BILLING_HEADER.encode()))
    if "metadata" in members:
        metadata = split_object(members["metadata"]) or {}
        pieces.append(b"\0user " + bytes(metadata.get("user_id", b"")))
    for message in messages_in(members.get("messages")):
        if message.role == "assistant":
            return Beginning(b"\0".join(pieces), False)
        pieces.append(settled(message.content))
    return Beginning(b"\0".join(pieces), True)
