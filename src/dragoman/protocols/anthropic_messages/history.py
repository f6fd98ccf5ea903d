"""Pass-through: what of a conversation was made for another upstream is not sent to this one."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.canonical.envelope import PREFIX
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols.raw import join_list, join_object, split_list, split_object, text_of

_SIGN = PREFIX.encode()
_STATE = {"thinking": "signature", "redacted_thinking": "data"}
_LOST = "reasoning of another upstream is not sent"


def without_envelopes(members: Mapping[str, Raw], ledger: Ledger) -> Mapping[str, Raw]:
    """The members without the thinking that this gateway signed in place of another upstream:
    the service refuses signatures that are not its own. All else keeps its bytes.
    """
    messages = members.get("messages")
    if messages is None or _SIGN not in bytes(messages):
        return members
    before = split_list(messages) or []
    after = [
        kept
        for number, message in enumerate(before)
        if (kept := _message(message, f"messages[{number}]", ledger)) is not None
    ]
    unchanged = len(after) == len(before) and all(
        new is old for new, old in zip(after, before, strict=True)
    )
    return members if unchanged else {**members, "messages": join_list(after)}


def _message(message: Raw, path: str, ledger: Ledger) -> Raw | None:
    """The message itself, or without such blocks; None if nothing is left of it."""
    if _SIGN not in bytes(message):
        return message
    fields = split_object(message) or {}
    blocks = split_list(fields.get("content")) or []
    kept = []
    for number, block in enumerate(blocks):
        if _is_sealed(block):
            ledger.add(f"{path}.content[{number}]", LossKind.KNOB, _LOST)
        else:
            kept.append(block)
    if len(kept) == len(blocks):
        return message
    return join_object({**fields, "content": join_list(kept)}) if kept else None


def _is_sealed(block: Raw) -> bool:
    fields = split_object(block) if _SIGN in bytes(block) else None
    if fields is None:
        return False
    state = _STATE.get(text_of(fields.get("type")))
    return state is not None and text_of(fields.get(state)).startswith(PREFIX)
