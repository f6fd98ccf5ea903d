"""Pass-through between a Responses client and a Responses upstream. Values keep their bytes, except
the model name and state made for another upstream."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from msgspec import Raw

from dragoman.canonical.envelope import PREFIX
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Capabilities
from dragoman.protocols.base import Beginning, Passthrough, to_json
from dragoman.protocols.bound_ids import FILES, TOOLS, naming
from dragoman.protocols.fields import checker
from dragoman.protocols.limits import within
from dragoman.protocols.media import media_in
from dragoman.protocols.openai_responses.fitting import (
    Checked,
    is_given_alone,
    unfit,
)
from dragoman.protocols.openai_responses.matcher import ResponsesMatcher, match_response
from dragoman.protocols.openai_responses.repeated_items import as_input
from dragoman.protocols.openai_responses.settings import suits
from dragoman.protocols.openai_responses.shapes import BACKGROUND_DETAIL
from dragoman.protocols.raw import (
    any_holds,
    is_text,
    join_list,
    join_object,
    messages_in,
    settled,
    split_list,
    split_object,
    text_of,
)
from dragoman.protocols.reading import Names

_SIGN = PREFIX.encode()
_encrypted = attrgetter("encrypted_content")


def without_envelopes(
    members: Mapping[str, Raw], checked: Checked, ledger: Ledger
) -> Mapping[str, Raw]:
    """The members without the reasoning items that have state in the gateway's envelope: the
    service cannot decrypt it. All other values keep their bytes."""
    if not any_holds(map(_encrypted, checked.items), _SIGN):
        return members
    items = split_list(members.get("input")) or []
    remaining = []
    for number, item in enumerate(items):
        if _is_sealed(item):
            detail = "reasoning of another upstream is not sent"
            ledger.add(f"input[{number}]", LossKind.KNOB, detail)
        else:
            remaining.append(item)
    return members if len(remaining) == len(items) else {**members, "input": join_list(remaining)}


def _is_sealed(item: Raw) -> bool:
    fields = split_object(item) if _SIGN in bytes(item) else None
    if fields is None or text_of(fields.get("type")) != "reasoning":
        return False
    return text_of(fields.get("encrypted_content")).startswith(PREFIX)


_CALLS = ("function_call", "custom_tool_call")


def without_reasoning(
    members: Mapping[str, Raw], ledger: Ledger, most: int
) -> tuple[Mapping[str, Raw], int]:
    """The members without the first `most` encrypted reasoning items, and the number removed.

    The item after a removed one loses its id: the service would look for the reasoning that belongs
    to it."""
    given = bytes(members.get("input", b""))
    items = split_list(members.get("input")) if b'"encrypted_content"' in given else None
    remaining: list[Raw] = []
    left_out = 0
    orphaned = False
    for number, item in enumerate(items or ()):
        fields = split_object(item) or {}
        kind = text_of(fields.get("type"))
        if kind == "reasoning" and left_out < most and text_of(fields.get("encrypted_content")):
            ledger.add(f"input[{number}]", LossKind.KNOB, _BOUND)
            left_out += 1
            orphaned = True
            continue
        if orphaned and "id" in fields and kind in _CALLS:
            item = join_object({name: raw for name, raw in fields.items() if name != "id"})
        elif orphaned and "id" in fields and _is_model_output(fields, kind):
            # A message in this form needs an id; the position makes it unique.
            item = join_object({**fields, "id": Raw(to_json(f"msg_{number}"))})
        else:
            orphaned = False
        remaining.append(item)
    return ({**members, "input": join_list(remaining)} if left_out else members), left_out


_BOUND = "reasoning that is bound to another account is not sent"


def _is_model_output(fields: Mapping[str, Raw], kind: str) -> bool:
    return kind in ("", "message") and text_of(fields.get("role")) == "assistant"


_PROMPTING = ("user", "developer", "system")


def beginning(members: Mapping[str, Raw]) -> Beginning:
    """The instructions, and the input up to the model's first output."""
    pieces = [settled(members.get("instructions"))]
    given = members.get("input")
    if given is None or is_text(given):
        return Beginning(b"\0".join([*pieces, settled(given)]), True)
    for item in messages_in(given):
        if item.role not in _PROMPTING:
            return Beginning(b"\0".join(pieces), False)
        pieces.append(settled(item.content))
    return Beginning(b"\0".join(pieces), True)


def fitted(
    members: Mapping[str, Raw],
    checked: Checked,
    capabilities: Capabilities,
    ledger: Ledger,
    is_lowered: bool,
) -> Mapping[str, Raw]:
    """The members with output limits lowered to those of the upstream's model, and without what the
    service refuses: `background_options` if the answer is not made in the background, and members
    of items that are for answers alone."""
    if "background_options" in members and bytes(members.get("background", b"")) != b"true":
        ledger.add("background_options", LossKind.KNOB, BACKGROUND_DETAIL)
        members = {name: raw for name, raw in members.items() if name != "background_options"}
    given = members.get("input")
    repeated = as_input(given, ledger) if is_given_alone(checked) else given
    if repeated is not None and repeated is not given:
        members = {**members, "input": repeated}
    return within(members, ("max_output_tokens",), capabilities.max_output_tokens, ledger)


def forward_request(members: Mapping[str, Raw], model: str, capabilities: Capabilities) -> bytes:
    """The client's body with the upstream's name of the model, all other values unchanged."""
    return to_json({**members, "model": model})


_NAMES = Names(
    {
        "background": (),
        "conversation": ("id",),
        "fallbacks": (),
        "include": (),
        "input": (),
        "instructions": (),
        "max_output_tokens": (),
        "max_tool_calls": (),
        "model": (),
        "models": (),
        "previous_response_id": (),
        "prompt": ("id", "variables", "version"),
        "provider": (),
        "reasoning": ("effort", "summary"),
        "service_tier": (),
        "store": (),
        "stream": (),
        "stream_options": ("include_obfuscation",),
        "text": ("format", "verbosity"),
        "tools": (),
        "truncation": (),
    }
)


PASSTHROUGH = Passthrough(
    check_names=_NAMES.check,
    bound_ids=naming({"input": FILES, "tools": TOOLS, "prompt": FILES}, ("conversation",)),
    has_media=media_in("input", "input_image", "input_file", "input_audio"),
    suits=suits,
    check=checker(Checked),
    without_envelopes=without_envelopes,
    without_reasoning=without_reasoning,
    fitted=fitted,
    unfit=unfit,
    continues="previous_response_id",
    conversation="prompt_cache_key",
    beginning=beginning,
    forward_request=forward_request,
    match_response=match_response,
    least={"input": "."},
    matcher=ResponsesMatcher,
)
