"""Pass-through between a client and an upstream that both speak this protocol.

Values pass byte for byte, except the model name, and what this upstream would refuse."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.canonical.options import Capabilities
from dragoman.protocols.base import Passthrough, to_json
from dragoman.protocols.bound_ids import URIS, naming
from dragoman.protocols.fields import checker
from dragoman.protocols.google_generate_content.fitting import Checked, fitted, unfit
from dragoman.protocols.google_generate_content.history import (
    beginning,
    without_envelopes,
    without_reasoning,
)
from dragoman.protocols.google_generate_content.matcher import GoogleMatcher, match_response
from dragoman.protocols.google_generate_content.spelling import (
    both,
    check_once,
    inner,
    member,
    number,
)
from dragoman.protocols.raw import holds, split_object
from dragoman.protocols.reading import Names


def forward_request(members: Mapping[str, Raw], model: str, capabilities: Capabilities) -> bytes:
    """The client's body, with the model replaced if it has one: the path names it."""
    if "model" in members:
        members = {**members, "model": Raw(to_json(f"models/{model}"))}
    return to_json(members)


def choices(members: Mapping[str, Raw]) -> int:
    """The number of candidates that a client asked for."""
    return max(1, number(inner(members, "generationConfig", "candidateCount")) or 1)


def has_media(members: Mapping[str, Raw]) -> bool:
    """Whether there are pictures, files or recordings in the conversation."""
    raw = member(members, "contents")
    if raw is None:
        return False
    text = bytes(raw)
    return any(name in text for name in _MEDIA)


_MEDIA = (b'"inlineData"', b'"inline_data"', b'"fileData"', b'"file_data"')

_CHECKED = {
    "contents": (),
    "systemInstruction": (),
    "tools": (),
    "toolConfig": (),
    "generationConfig": ("maxOutputTokens", "candidateCount", "thinkingConfig"),
    "serviceTier": (),
    "cachedContent": (),
    "model": (),
    "generateContentRequest": (),
}
"""Members by which use and price are determined, with those in them that matter."""

_NAMES = Names(
    {spelled: both(*within) for name, within in _CHECKED.items() for spelled in both(name)}
)


def check_names(members: Mapping[str, Raw]) -> None:
    """The check of the names of a client's members: each is known or far from it, and given once.

    Raises:
        InvalidRequest: naming the member.
    """
    _NAMES.check(members)
    check_once(members, _CHECKED)
    for name, within in _CHECKED.items():
        raw = member(members, name) if within else None
        if holds(raw, b"_") and (below := split_object(raw)) is not None:
            check_once(below, within)


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
    choices=choices,
    bound_ids=naming(
        dict.fromkeys(both("contents", "systemInstruction"), URIS), both("cachedContent")
    ),
    least={"contents": [{"role": "user", "parts": [{"text": "."}]}]},
    matcher=GoogleMatcher,
)
