"""The conversation of a client of the same protocol: its signatures, and how it began."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Raw

from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols import google_wire
from dragoman.protocols.base import Beginning, to_json
from dragoman.protocols.google_generate_content.spelling import member, snake
from dragoman.protocols.google_signatures import ENVELOPE, opened
from dragoman.protocols.raw import (
    join_list,
    join_object,
    settled,
    split_list,
    split_object,
    text_of,
)

_LOST: Final = "reasoning of another upstream is not sent"
_BOUND: Final = "reasoning that is bound to another account is not sent"
_SIGNATURE: Final = "thoughtSignature"
_NAMES: Final = (_SIGNATURE, snake(_SIGNATURE))
_CALLS: Final = ("functionCall", "function_call")

Members = Mapping[str, Raw]


def without_envelopes(members: Members, checked: object, ledger: Ledger) -> Members:
    """The members without the signatures that the gateway wrote in place of another upstream's. All
    other values keep their bytes."""
    changed, paths = _without(members, ENVELOPE, lambda signature: bool(opened(signature)))
    for path in paths:
        ledger.add(path, LossKind.KNOB, _LOST)
    return changed


def without_reasoning(members: Members, ledger: Ledger, most: int) -> tuple[Members, int]:
    """The members without the first `most` signatures, and the number removed."""
    changed, paths = _without(
        members, b"hought", lambda signature: signature not in google_wire.DUMMIES, most
    )
    for path in paths:
        ledger.add(path, LossKind.KNOB, _BOUND)
    return changed, len(paths)


def _without(
    members: Members, sign: bytes, is_meant: Callable[[str], bool], most: int | None = None
) -> tuple[Members, list[str]]:
    """The members without the first `most` signatures (None: all) that are meant, and the paths of
    these. A signed part of nothing else is left out, and so is a content of nothing else."""
    raw = members.get("contents")
    paths: list[str] = []
    if raw is None or sign not in bytes(raw):
        return members, paths
    after: list[Raw] = []
    for number, content in enumerate(split_list(raw) or ()):
        fields = split_object(content) if sign in bytes(content) else None
        parts = split_list(fields.get("parts")) if fields is not None else None
        if fields is None or parts is None:
            after.append(content)
            continue
        remaining: list[Raw] = []
        before = len(paths)
        for place, part in enumerate(parts):
            inside = split_object(part) if sign in bytes(part) else None
            name = next((one for one in _NAMES if one in (inside or {})), None)
            if (
                inside is None
                or name is None
                or len(paths) == most
                or not is_meant(text_of(inside[name]))
            ):
                remaining.append(part)
                continue
            paths.append(f"contents[{number}].parts[{place}].{_SIGNATURE}")
            del inside[name]
            if not _is_nothing(inside):
                remaining.append(join_object(inside))
        if len(paths) == before:
            after.append(content)
        elif remaining:
            after.append(join_object({**fields, "parts": join_list(remaining)}))
    return ({**members, "contents": join_list(after)} if paths else members), paths


def _is_nothing(part: Mapping[str, Raw]) -> bool:
    """Whether a part without its signature says nothing: empty text, which the service refuses."""
    return all(
        name == "thought" or (name == "text" and not text_of(value)) for name, value in part.items()
    )


def with_placeholders(members: Members, ledger: Ledger, detail: str) -> Members:
    """The members with the placeholder of a signature on the first call of each of the model's
    turns, if that has none. Neighbouring contents of the model are one turn."""
    raw = members.get("contents")
    text = b"" if raw is None else bytes(raw)
    if not any(name.encode() in text for name in _CALLS):
        return members
    after: list[Raw] = []
    first = ""
    calls = False
    """Whether the turn has had a call."""
    for number, content in enumerate(split_list(raw) or ()):
        fields = split_object(content) or {}
        parts = split_list(fields.get("parts")) or []
        place = None
        if text_of(fields.get("role")) != "model":
            calls = False
        elif not calls:
            place = _first_call(parts)
            calls = place is not None
        inside = {} if place is None else split_object(parts[place]) or {}
        if place is None or any(name in inside for name in _NAMES):
            after.append(content)
            continue
        first = first or f"contents[{number}].parts[{place}]"
        parts[place] = join_object({**inside, _SIGNATURE: Raw(to_json(google_wire.DUMMY))})
        after.append(join_object({**fields, "parts": join_list(parts)}))
    if not first:
        return members
    ledger.add(first, LossKind.REPAIRED, detail)
    return {**members, "contents": join_list(after)}


def _first_call(parts: list[Raw]) -> int | None:
    """Where the first call among the parts is."""
    for place, part in enumerate(parts):
        fields = split_object(part) or {}
        if any(name in fields for name in _CALLS):
            return place
    return None


def beginning(members: Members) -> Beginning:
    """The system instructions, and the contents up to the model's first one."""
    within = member(members, "generateContentRequest")
    if within is not None:
        members = split_object(within) or members
    pieces: list[bytes] = []
    instruction = member(members, "systemInstruction")
    if instruction is not None:
        pieces.append(settled((split_object(instruction) or {}).get("parts")))
    for content in split_list(member(members, "contents")) or ():
        fields = split_object(content) or {}
        if text_of(fields.get("role")) == "model":
            return Beginning(b"\0".join(pieces), False)
        pieces.append(settled(fields.get("parts")))
    return Beginning(b"\0".join(pieces), True)
