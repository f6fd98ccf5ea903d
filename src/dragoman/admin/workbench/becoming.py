"""What became of the parts of a request in its translation, found by leaving each out.

A loss is known by its path in the request of the client; where it is in the other protocol's the
translation does not keep, as no request is in need of it. Here the request is translated again
without that part: what is otherwise then is what it became. That costs a translation for each,
which is for a person who looks, never for a request that is served.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

Key = str | int
Leaf = tuple[str, object]
Translate = Callable[[bytes], bytes | None]
"""Translates a request; gives None where there is no translation."""

MOST_PROBES = 64
MOST_BYTES = 1_000_000
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
    value, before = msgspec.json.decode(body), msgspec.json.decode(made)
    if not isinstance(value, dict) or not isinstance(before, dict):
        return Becoming({}, ())
    left = min(MOST_PROBES, MOST_BYTES // max(1, len(body)))
    leaves = list(_leaves(before))

    def translated(request: object) -> list[Leaf] | None:
        nonlocal left
        left -= 1
        found = translate(msgspec.json.encode(request))
        return None if found is None else list(_leaves(msgspec.json.decode(found)))

    added: tuple[str, ...] = ()
    if len(value) * 2 <= left:
        made_of: set[str] = set()
        for name in value:
            after = translated(_without(value, [name]))
            if after is None and type(value[name]) is int:  # of those that no request may lack
                after = translated(value | {name: value[name] + 1})
            if after is not None:
                remaining = dict(after)
                made_of |= {_first(at) for at, told in leaves if remaining.get(at, ...) != told}
        added = tuple(name for name in before if name not in {*_MADE_OF_MANY, *made_of})
    became = {}
    for path in dict.fromkeys(paths):
        if left <= 0:
            break
        keys = keys_of(path)
        try:
            rest = _without(value, keys)
        except (KeyError, IndexError, TypeError):
            continue  # it names nothing that is there
        after = translated(rest)
        if after is None:
            continue
        if isinstance(keys[-1], int):
            places = _between(leaves, after)
        else:
            remaining = dict(after)
            places = [at for at, told in leaves if remaining.get(at, ...) != told]
        if places:
            became[path] = tuple(places[:_MOST_PLACES])
    return Becoming(became, added)


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


def _without(value: Any, keys: list[Key]) -> Any:
    """A copy without what is at `keys`.

    Raises:
        KeyError, IndexError, TypeError: nothing is there.
    """
    key = keys[0]
    made: Any = value.copy() if isinstance(value, dict | list) else None
    if made is None or isinstance(made, dict) == isinstance(key, int):
        raise TypeError(key)
    if len(keys) == 1:
        del made[key]
    else:
        made[key] = _without(made[key], keys[1:])
    return made


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
