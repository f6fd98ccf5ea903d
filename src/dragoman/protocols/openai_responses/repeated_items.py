"""Items of earlier answers as a request may have them: the service refuses members there that it
gives in answers alone (types/responses: `*_item.py` beside `*_item_param.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols.raw import join_list, join_object, split_list, split_object, text_of

GIVEN_ALONE: Final = frozenset({"created_by"})
"""Members of items, and of the entries of their `output`, that no request has."""
GIVEN_BY_TYPE: Final[Mapping[str, frozenset[str]]] = {
    "custom_tool_call_output": frozenset({"status"}),
    "shell_call_output": frozenset(),
}
"""The further ones of items of a type; types that have such members in their `output` are here."""

_PLAIN = ("", "message")


def as_input(given: Raw | None, ledger: Ledger) -> Raw | None:
    """The input of a request without what its items may not have there; all other values keep their
    bytes. The same object if there is nothing of it."""
    items = split_list(given)
    if items is None:
        return given
    written = [_as_input(item, f"input[{place}]", ledger) for place, item in enumerate(items)]
    if all(map(_is_same, written, items)):
        return given
    return join_list(written)


def _is_same(one: Raw, other: Raw) -> bool:
    return one is other


def _as_input(item: Raw, path: str, ledger: Ledger) -> Raw:
    fields = split_object(item)
    kind = text_of((fields or {}).get("type"))
    if fields is None or kind in _PLAIN:
        return item
    given = GIVEN_ALONE | GIVEN_BY_TYPE.get(kind, frozenset())
    kept = {name: raw for name, raw in fields.items() if name not in given}
    output = split_list(fields.get("output")) if b"created_by" in bytes(item) else None
    if output is not None:
        kept["output"] = join_list([_entry(entry) for entry in output])
    for name in sorted(fields.keys() & given):
        ledger.add(f"{path}.{name}", LossKind.KNOB, "it is given in answers alone")
    return item if kept == fields else join_object(kept)


def _entry(entry: Raw) -> Raw:
    fields = split_object(entry)
    if fields is None or fields.keys().isdisjoint(GIVEN_ALONE):
        return entry
    return join_object({name: raw for name, raw in fields.items() if name not in GIVEN_ALONE})
