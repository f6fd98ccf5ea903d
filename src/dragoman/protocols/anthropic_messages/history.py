"""Pass-through: thinking made for another upstream is removed from a conversation."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.canonical.envelope import PREFIX
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols.base import Beginning
from dragoman.protocols.raw import (
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


def without_envelopes(members: Mapping[str, Raw], ledger: Ledger) -> Mapping[str, Raw]:
    """The members without the thinking that the gateway signed in place of another upstream: the
    service refuses foreign signatures. All other values keep their bytes."""
    messages = members.get("messages")
    if messages is None or _SIGN not in bytes(messages):
        return members
    before = split_list(messages) or []
    after = [
        remaining
        for number, message in enumerate(before)
        if (remaining := _message(message, f"messages[{number}]", ledger)) is not None
    ]
    unchanged = len(after) == len(before) and all(
        new is old for new, old in zip(after, before, strict=True)
    )
    return members if unchanged else {**members, "messages": join_list(after)}


def _message(message: Raw, path: str, ledger: Ledger) -> Raw | None:
    """The message without such blocks, or unchanged; None if nothing is left of it."""
    if _SIGN not in bytes(message):
        return message
    fields = split_object(message) or {}
    blocks = split_list(fields.get("content")) or []
    remaining = []
    for number, block in enumerate(blocks):
        if _is_sealed(block):
            ledger.add(f"{path}.content[{number}]", LossKind.KNOB, _LOST)
        else:
            remaining.append(block)
    if len(remaining) == len(blocks):
        return message
    return join_object({**fields, "content": join_list(remaining)}) if remaining else None


def _is_sealed(block: Raw) -> bool:
    fields = split_object(block) if _SIGN in bytes(block) else None
    if fields is None:
        return False
    state = _STATE.get(text_of(fields.get("type")))
    return state is not None and text_of(fields.get(state)).startswith(PREFIX)


_BOUND = "reasoning that is bound to another account is not sent"
_BILLING = b"x-anthropic-billing-header:"
"""The beginning of Claude Code's first system block, which differs from request to request."""


def without_reasoning(
    members: Mapping[str, Raw], ledger: Ledger, most: int
) -> tuple[Mapping[str, Raw], int]:
    """The members without the first `most` thinking blocks, and the number removed. A message of
    nothing else is left out."""
    messages = members.get("messages")
    if messages is None or b"thinking" not in bytes(messages):
        return members, 0
    after = []
    left_out = 0
    for number, message in enumerate(split_list(messages) or ()):
        fields = split_object(message) if b"thinking" in bytes(message) else None
        blocks = split_list(fields.get("content")) if fields is not None else None
        remaining = []
        for position, block in enumerate(blocks or ()):
            if left_out < most and _is_thinking(block):
                ledger.add(f"messages[{number}].content[{position}]", LossKind.KNOB, _BOUND)
                left_out += 1
            else:
                remaining.append(block)
        if fields is None or blocks is None or len(remaining) == len(blocks):
            after.append(message)
        elif remaining:
            after.append(join_object({**fields, "content": join_list(remaining)}))
    return ({**members, "messages": join_list(after)} if left_out else members), left_out


def _is_thinking(block: Raw) -> bool:
    fields = split_object(block) if b"thinking" in bytes(block) else None
    return fields is not None and text_of(fields.get("type")) in _STATE


def beginning(members: Mapping[str, Raw]) -> Beginning:
    """The system prompt, the named user, and the messages up to the model's first one."""
    pieces = []
    if "system" in members:
        pieces.append(settled(members["system"], _BILLING))
    if "metadata" in members:
        metadata = split_object(members["metadata"]) or {}
        pieces.append(b"\0user " + bytes(metadata.get("user_id", b"")))
    for message in messages_in(members.get("messages")):
        if message.role == "assistant":
            return Beginning(b"\0".join(pieces), False)
        pieces.append(settled(message.content))
    return Beginning(b"\0".join(pieces), True)
