"""Pass-through: what of a conversation was made for another upstream is not sent to this one."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.canonical.envelope import PREFIX
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols.raw import join_list, split_list, split_object, text_of

_SIGN = PREFIX.encode()


def without_envelopes(members: Mapping[str, Raw], ledger: Ledger) -> Mapping[str, Raw]:
    """The members without the reasoning items whose state this gateway gave in place of another
    upstream: the service cannot decrypt it. All else keeps its bytes.
    """
    items = split_list(members.get("input")) if _SIGN in bytes(members.get("input", b"")) else None
    if items is None:
        return members
    kept = []
    for number, item in enumerate(items):
        if _is_sealed(item):
            detail = "reasoning of another upstream is not sent"
            ledger.add(f"input[{number}]", LossKind.KNOB, detail)
        else:
            kept.append(item)
    return members if len(kept) == len(items) else {**members, "input": join_list(kept)}


def _is_sealed(item: Raw) -> bool:
    fields = split_object(item) if _SIGN in bytes(item) else None
    if fields is None or text_of(fields.get("type")) != "reasoning":
        return False
    return text_of(fields.get("encrypted_content")).startswith(PREFIX)
