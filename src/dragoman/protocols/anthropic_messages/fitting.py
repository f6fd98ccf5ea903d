"""Pass-through: requests that a Messages upstream would refuse, or that spoil its prompt cache."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Capabilities
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.anthropic_messages.thinking import MIN_BUDGET, room_for_thinking
from dragoman.protocols.base import to_json
from dragoman.protocols.limits import whole, within
from dragoman.protocols.raw import join_list, join_object, split_list, split_object, text_of

_BILLING = wire.BILLING_HEADER.encode()


def fitted(
    members: Mapping[str, Raw], capabilities: Capabilities, ledger: Ledger
) -> Mapping[str, Raw]:
    """The members without the billing text where it is for nobody, and with limits the upstream
    takes: what is above the model's output limit, and a thinking budget that leaves no answer."""
    if not capabilities.of(MessagesCapabilities).billing_header:
        members = _without_billing(members, ledger)
    limited = within(members, ("max_tokens",), capabilities.max_output_tokens, ledger)
    lowered = limited.get("max_tokens") is not members.get("max_tokens")
    return _with_room(limited, lowered, ledger)


def _without_billing(members: Mapping[str, Raw], ledger: Ledger) -> Mapping[str, Raw]:
    system = members.get("system")
    if system is None or _BILLING not in bytes(system):
        return members
    texts = split_list(system)
    if texts is None:
        kept, lost = [], ["system"] if text_of(system).startswith(wire.BILLING_HEADER) else []
    else:
        billing = [_is_billing(text) for text in texts]
        kept = [text for text, left_out in zip(texts, billing, strict=True) if not left_out]
        lost = [f"system[{number}]" for number, left_out in enumerate(billing) if left_out]
    if not lost:
        return members
    for path in lost:
        ledger.add(path, LossKind.KNOB, "the billing header is not for this upstream")
    if kept:
        return {**members, "system": join_list(kept)}
    return {name: raw for name, raw in members.items() if name != "system"}


def _is_billing(text: Raw) -> bool:
    fields = split_object(text) if _BILLING in bytes(text) else None
    return fields is not None and text_of(fields.get("text")).startswith(wire.BILLING_HEADER)


def _with_room(members: Mapping[str, Raw], lowered: bool, ledger: Ledger) -> Mapping[str, Raw]:
    """A budget as large as the whole output is refused. A larger one is the client's own where
    thinking between tool calls has a budget of its own, unless the output limit was lowered."""
    limit = whole(members.get("max_tokens"))
    thinking = split_object(members.get("thinking"))
    if limit is None or thinking is None:
        return members
    budget = whole(thinking.get("budget_tokens"))
    if budget is None or not (budget == limit or (lowered and budget > limit)):
        return members
    if limit <= MIN_BUDGET:
        return members
    room = room_for_thinking(limit)
    detail = f"a thinking budget of {budget} tokens became {room}"
    ledger.add("thinking.budget_tokens", LossKind.REPAIRED, detail)
    return {**members, "thinking": join_object({**thinking, "budget_tokens": Raw(to_json(room))})}
