"""What became of the parts of a request in its translation, found by leaving each out.

A loss is known by its path in the request of the client; where it is in the other protocol's the
translation does not keep, as no request is in need of it. Here the request is translated again
without that part: what is otherwise then is what it became. That costs a translation for each,
which is for a person who looks, never for a request that is served.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

Key = str | int
Leaf = tuple[str, object]
Translate = Callable[[bytes], bytes | None]
"""Translates a request; gives None where there is no translation."""

MOST_PROBES = 64
MOST_BYTES = 4_000_000
"""Bytes that are translated to find out, of all probes together."""
_MOST_PLACES = 8

_NAME = re.compile(r"[A-Za-z_$][\w$-]*\Z")
_PART = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')
_MADE_OF_MANY = ("model", "messages", "input", "system", "instructions")
"""What no single setting of the client's makes: a request without it is none."""


class Becoming(Struct, frozen=True):
    """`became` has the paths in the translation by the path of the client's; nothing of what left
    no trace. `added` are paths in the translation that come of nothing that the client sent."""

    became: Mapping[str, tuple[str, ...]]
    added: tuple[str, ...]


def becoming(body: bytes, made: bytes, paths: Iterable[str], translate: Translate) -> Becoming:
    """Where the parts at `paths` of the request `body` are in its translation `made`."""
    value, before = json.loads(body), json.loads(made)
    if not isinstance(value, dict) or not isinstance(before, dict):
        return Becoming({}, ())
    left = min(MOST_PROBES, MOST_BYTES // max(1, len(body)))
    leaves = list(_leaves(before))

    def translated(request: dict[str, Any] | None) -> list[Leaf] | None:
        nonlocal left
        if left <= 0 or request is None:
            return None
        left -= 1
        found = translate(json.dumps(request).encode())
        return None if found is None else list(_leaves(json.loads(found)))

    became = {}
    for path in dict.fromkeys(paths):
        keys = keys_of(path)
        after = translated(_left_out(value, keys)) if keys else None
        if after is not None:
            if isinstance(keys[-1], int):
                places = _between(leaves, after)
            else:
                remaining = dict(after)
                places = [at for at, told in leaves if remaining.get(at, ...) != told]
            if places:
                became[path] = tuple(places[:_MOST_PLACES])
    candidates = [name for name in before if name not in _MADE_OF_MANY]
    if left < len(value):
        return Becoming(became, ())
    made_of: set[str] = set()
    for name in value:
        after = translated(_left_out(value, [name]))
        if after is None and type(value[name]) is int:  # of those that no request may lack
            after = translated(value | {name: value[name] + 1})
        if after is not None:
            remaining = dict(after)
            made_of |= {_first(at) for at, told in leaves if remaining.get(at, ...) != told}
    return Becoming(became, tuple(name for name in candidates if name not in made_of))


def keys_of(path: str) -> list[Key]:
    """The keys and indexes that a path of a ledger names; none where it is none of them."""
    keys: list[Key] = []
    at = 0
    while at < len(path):
        found = _PART.match(path, at)
        if found is None:
            return []
        name, index, quoted = found.groups()
        keys.append(name if name else int(index) if index else json.loads(quoted))
        at = found.end()
    return keys


def _first(path: str) -> str:
    keys = keys_of(path)
    return str(keys[0]) if keys else path


def _left_out(value: dict[str, Any], keys: list[Key]) -> dict[str, Any] | None:
    """A copy without what is at `keys`; None where nothing is."""
    made: Any = copy.deepcopy(value)
    at = made
    try:
        for key in keys[:-1]:
            at = at[key]
        del at[keys[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return made  # type: ignore[no-any-return]


def _leaves(value: object, path: str = "") -> Iterator[Leaf]:
    if isinstance(value, dict) and value:
        for name, one in value.items():
            plain = f"{path}.{name}" if path else name
            yield from _leaves(one, plain if _NAME.match(name) else f"{path}[{json.dumps(name)}]")
    elif isinstance(value, list) and value:
        for index, one in enumerate(value):
            yield from _leaves(one, f"{path}[{index}]")
    else:
        yield path, value


def _between(before: list[Leaf], after: list[Leaf]) -> list[str]:
    """The paths of what is between the beginning and the end that both have: what follows an
    element that was left out has other indexes."""

    def alike(one: Leaf, other: Leaf) -> bool:
        return one[1] == other[1] and _folded(one[0]) == _folded(other[0])

    # From the end first: elements begin alike, with their types.
    most = min(len(before), len(after))
    last = 0
    while last < most and alike(before[-1 - last], after[-1 - last]):
        last += 1
    first = 0
    while first < most - last and alike(before[first], after[first]):
        first += 1
    return [path for path, _ in before[first : len(before) - last]]


def _folded(path: str) -> str:
    return re.sub(r"\[\d+\]", "[]", path)
