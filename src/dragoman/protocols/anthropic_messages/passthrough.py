"""Pass-through between a client and an upstream that both speak this protocol.

Values pass byte for byte, except the model name and members that a Messages upstream would refuse
or that defeat its prompt cache."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Capabilities
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.fitting import Checked, unfit
from dragoman.protocols.anthropic_messages.history import (
    beginning,
    without_envelopes,
    without_reasoning,
)
from dragoman.protocols.anthropic_messages.matcher import MessagesMatcher, match_response
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.anthropic_messages.thinking import (
    MIN_BUDGET,
    NO_ROOM_DETAIL,
    room_for_thinking,
)
from dragoman.protocols.anthropic_messages.threads import check_thread
from dragoman.protocols.base import Passthrough, to_json
from dragoman.protocols.bound_ids import FILES, naming
from dragoman.protocols.fields import checker
from dragoman.protocols.limits import whole, within
from dragoman.protocols.media import media_in
from dragoman.protocols.raw import (
    join_list,
    join_object,
    split_list,
    split_object,
    text_of,
)
from dragoman.protocols.reading import Names


def forward_request(members: Mapping[str, Raw], model: str, capabilities: Capabilities) -> bytes:
    """The client's body with the model replaced."""
    return to_json({**members, "model": model})


_BILLING = wire.BILLING_HEADER.encode()


def fitted(
    members: Mapping[str, Raw],
    checked: Checked,
    capabilities: Capabilities,
    ledger: Ledger,
    is_lowered: bool,
) -> Mapping[str, Raw]:
    """The members without what is for the vendor's own service alone, if this is another, and with
    limits that the upstream accepts: lowered to the model's output limit, and a thinking budget
    that leaves room for the answer. `is_lowered`: the output limit is below the client's own."""
    if not capabilities.of(MessagesCapabilities).is_vendors:
        members = _without_vendors(_without_billing(members, ledger), ledger)
    limited = within(members, ("max_tokens",), capabilities.max_output_tokens, ledger)
    is_lowered = is_lowered or limited.get("max_tokens") is not members.get("max_tokens")
    return _with_room(limited, is_lowered, ledger)


def _without_vendors(members: Mapping[str, Raw], ledger: Ledger) -> Mapping[str, Raw]:
    if wire.OF_VENDOR.keys().isdisjoint(members):
        return members
    for name, (kind, detail) in wire.OF_VENDOR.items():
        if name in members:
            ledger.add(name, kind, detail)
    return {name: raw for name, raw in members.items() if name not in wire.OF_VENDOR}


def _without_billing(members: Mapping[str, Raw], ledger: Ledger) -> Mapping[str, Raw]:
    system = members.get("system")
    if system is None or _BILLING not in bytes(system):
        return members
    texts = split_list(system)
    if texts is None:
        remaining, lost = [], ["system"] if text_of(system).startswith(wire.BILLING_HEADER) else []
    else:
        billing = [_is_billing(text) for text in texts]
        remaining = [text for text, left_out in zip(texts, billing, strict=True) if not left_out]
        lost = [f"system[{number}]" for number, left_out in enumerate(billing) if left_out]
    if not lost:
        return members
    for path in lost:
        ledger.add(path, LossKind.KNOB, "the billing header is not for this upstream")
    if remaining:
        return {**members, "system": join_list(remaining)}
    return {name: raw for name, raw in members.items() if name != "system"}


def _is_billing(text: Raw) -> bool:
    fields = split_object(text) if _BILLING in bytes(text) else None
    return fields is not None and text_of(fields.get("text")).startswith(wire.BILLING_HEADER)


def _with_room(members: Mapping[str, Raw], is_lowered: bool, ledger: Ledger) -> Mapping[str, Raw]:
    """A budget as large as the whole output is refused. A larger one is the client's own where
    thinking between tool calls has a budget of its own, unless the output limit was lowered."""
    thinking = split_object(members.get("thinking"))
    if thinking is None:
        return members
    limit, budget = whole(members.get("max_tokens")), whole(thinking.get("budget_tokens"))
    if limit is None or budget is None or not (budget == limit or (is_lowered and budget > limit)):
        return members
    if limit <= MIN_BUDGET:
        if not is_lowered:
            return members
        ledger.add("thinking", LossKind.KNOB, NO_ROOM_DETAIL)
        return {**members, "thinking": Raw(b'{"type":"disabled"}')}
    room = room_for_thinking(limit)
    detail = f"a thinking budget of {budget} tokens became {room}"
    ledger.add("thinking.budget_tokens", LossKind.REPAIRED, detail)
    return {**members, "thinking": join_object({**thinking, "budget_tokens": Raw(to_json(room))})}


_NAMES = Names(
    {
        "cache_control": ("ttl", "type"),
        "container": (),
        "context_management": (),
        "fallbacks": (),
        "max_tokens": (),
        "mcp_servers": (),
        "messages": (),
        "model": (),
        "models": (),
        "output_config": ("effort", "format"),
        "service_tier": (),
        "speed": (),
        "stop_sequences": (),
        "stream": (),
        "system": (),
        "thinking": ("budget_tokens", "display", "type"),
        "tools": (),
    }
)


PASSTHROUGH = Passthrough(
    check_names=_NAMES.check,
    bound_ids=naming({"messages": FILES}, ("container",)),
    has_media=media_in("messages", "image", "document"),
    check=checker(Checked),
    without_envelopes=without_envelopes,
    without_reasoning=without_reasoning,
    fitted=fitted,
    unfit=unfit,
    check_conversation=check_thread,
    beginning=beginning,
    forward_request=forward_request,
    match_response=match_response,
    least={"messages": [{"role": "user", "content": "."}]},
    matcher=MessagesMatcher,
)
