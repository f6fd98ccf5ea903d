"""Pass-through between a client and an upstream that both speak this protocol.

Values pass byte for byte, except the model name, and what this upstream would refuse."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from msgspec import Raw, Struct

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Capabilities
from dragoman.protocols.base import Beginning, Passthrough, to_json
from dragoman.protocols.bound_ids import naming
from dragoman.protocols.fields import checker
from dragoman.protocols.google_conversation import ends_with_model
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.google_interactions.matcher import InteractionsMatcher, match_response
from dragoman.protocols.google_interactions.request_reader import unimplemented
from dragoman.protocols.google_signatures import ENVELOPE, opened
from dragoman.protocols.limits import whole
from dragoman.protocols.raw import (
    holds,
    is_text,
    join_list,
    join_object,
    settled,
    split_list,
    split_object,
    text_of,
)
from dragoman.protocols.reading import Names
from dragoman.protocols.request_settings import fitted as fitted_detail

_CONFIG: Final = "generation_config"
_LOST: Final = "reasoning of another upstream is not sent"
_BOUND: Final = "reasoning that is bound to another account is not sent"

Members = Mapping[str, Raw]


class Checked(Struct):
    """The validated part of a body that is passed through. Vocabularies that grow (steps, tools,
    models' limits) are the upstream's to judge."""

    input: Raw = Raw()
    system_instruction: str | None = None
    tools: list[dict[str, Any]] | None = None
    generation_config: dict[str, Any] | None = None


# --- thoughts -------------------------------------------------------------------------------------


def without_envelopes(members: Members, checked: Checked, ledger: Ledger) -> Members:
    """The members without the thoughts whose signature the gateway wrote in place of another
    upstream's. All other values keep their bytes."""
    return _without(members, ENVELOPE, lambda signature: bool(opened(signature)), ledger, _LOST)[0]


def without_reasoning(members: Members, ledger: Ledger, most: int) -> tuple[Members, int]:
    """The members without the first `most` signed thoughts, and the number removed."""
    return _without(members, b"thought", bool, ledger, _BOUND, most)


def _without(
    members: Members,
    sign: bytes,
    is_meant: Callable[[str], bool],
    ledger: Ledger,
    detail: str,
    most: int | None = None,
) -> tuple[Members, int]:
    given = members.get("input")
    if given is None or sign not in bytes(given):
        return members, 0
    remaining: list[Raw] = []
    count = 0
    for number, step in enumerate(split_list(given) or ()):
        fields = split_object(step) if sign in bytes(step) and count != most else None
        if fields is not None and text_of(fields.get("type")) == "thought":
            signature = text_of(fields.get("signature"))
            if signature and is_meant(signature):
                ledger.add(f"input[{number}]", LossKind.KNOB, detail)
                count += 1
                continue
        remaining.append(step)
    return ({**members, "input": join_list(remaining)} if count else members), count


# --- what this upstream takes ---------------------------------------------------------------------


def unfit(members: Members, checked: Checked, capabilities: Capabilities) -> Collection[str]:
    """The names of the members to be written anew for an upstream of these capabilities."""
    given = members.get("input")
    if not capabilities.images and holds(given, b'"image"'):
        return ("input",)
    if not ends_with_model(capabilities) and _ends_with_model(given):
        return ("input",)
    return ()


def _ends_with_model(given: Raw | None) -> bool:
    steps = split_list(given) or []
    kind = text_of((split_object(steps[-1]) or {}).get("type")) if steps else ""
    return kind == "model_output"


def fitted(
    members: Members,
    checked: Checked,
    capabilities: Capabilities,
    ledger: Ledger,
    is_lowered: bool,
) -> Members:
    """The members with an output limit within the model's."""
    most, config = capabilities.max_output_tokens, split_object(members.get(_CONFIG)) or {}
    asked = whole(config.get("max_output_tokens"))
    if most is None or asked is None or asked <= most:
        return members
    ledger.add(f"{_CONFIG}.max_output_tokens", LossKind.REPAIRED, fitted_detail(most))
    lowered = {**config, "max_output_tokens": Raw(b"%d" % most)}
    return {**members, _CONFIG: join_object(lowered)}


def forward_request(members: Members, model: str, capabilities: Capabilities) -> bytes:
    """The client's body for a service that is not to keep the answer."""
    return to_json({**members, "model": model, "store": False})


# --- the conversation -----------------------------------------------------------------------------


def has_media(members: Members) -> bool:
    """Whether there may be pictures, files or recordings in the conversation."""
    given = bytes(members.get("input", b""))
    return any(b'"%b"' % kind.encode() in given for kind in wire.MEDIA)


def beginning(members: Members) -> Beginning:
    """The system instruction, and the input up to the model's first step."""
    pieces = [settled(members.get("system_instruction"))]
    given = members.get("input")
    if given is None or is_text(given):
        return Beginning(b"\0".join([*pieces, settled(given)]), True)
    for step in split_list(given) or [given]:
        fields = split_object(step) or {}
        kind = text_of(fields.get("type"))
        if kind not in wire.USERS_STEPS and kind not in wire.CONTENTS:
            return Beginning(b"\0".join(pieces), False)
        pieces.append(settled(fields.get("content") or fields.get("text")))
    return Beginning(b"\0".join(pieces), True)


_NAMES = Names(
    {
        **dict.fromkeys(("model", "agent", "input", "tools", "service_tier", "background"), ()),
        **dict.fromkeys(("stream", "store", "previous_interaction_id", "cached_content"), ()),
        _CONFIG: ("max_output_tokens", "thinking_level"),
    }
)


def check_names(members: Members) -> None:
    """The check of the names of a client's members, and of what is asked for.

    Raises:
        InvalidRequest: naming the member.
    """
    _NAMES.check(members)
    if text_of(members.get("agent")):
        for name in ("model", _CONFIG, "cached_content"):
            if name in members:
                raise InvalidRequest.at(name, "cannot stand beside agent")
        raise unimplemented("agent")


PASSTHROUGH = Passthrough(
    check_names=check_names,
    has_media=has_media,
    check=checker(Checked),
    without_envelopes=without_envelopes,
    without_reasoning=without_reasoning,
    fitted=fitted,
    unfit=unfit,
    beginning=beginning,
    forward_request=forward_request,
    match_response=match_response,
    bound_ids=naming({"input": (b'"uri"',)}, ("cached_content",)),
    least={"input": "."},
    matcher=InteractionsMatcher,
)
