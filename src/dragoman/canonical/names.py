"""Tool names and call ids, fitted to what the upstream allows and turned back for the client."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from dragoman.canonical.requests import ToolRef

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_legal = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_legal_and_lettered = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*").fullmatch


def safe_id(value: str, limit: int) -> str:
    """A call id made of `[A-Za-z0-9_-]`, at most `limit` long: `value` itself if it already is.

    Deterministic and without a table: the same value always gives the same id, and the short
    hash keeps different values apart.
    """
    if len(value) <= limit and _legal(value):
        return value
    return _hashed(_ILLEGAL.sub("_", value), value, limit)


def _hashed(legal: str, value: str, limit: int) -> str:
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{legal[: limit - 9]}_{digest}"


class ToolNames:
    """A collision-free, reversible map between the client's tools and upstream tool names, which
    have at most `limit` characters and, where `lettered`, begin with a letter or an underscore.

    Ordinary legal names stay as they are. A tool in a namespace becomes `namespace__name`,
    illegal characters become `_`, and a name that is too long, was changed, or would clash
    gets a hash of its full name: the result never depends on the order of tools.
    """

    __slots__ = ("_inward", "_legal", "_lettered", "_limit", "_outward")

    def __init__(self, tools: Iterable[ToolRef], limit: int, *, lettered: bool = False) -> None:
        self._limit, self._lettered = limit, lettered
        self._legal = _legal_and_lettered if lettered else _legal
        self._outward: dict[tuple[str | None, str], str] = {}
        """The upstream's names of tools that have another one there."""
        self._inward: dict[str, ToolRef] = {}
        odd: dict[tuple[str | None, str], ToolRef] = {}
        for ref in tools:
            name = ref.name
            if ref.namespace is None and len(name) <= limit and self._legal(name):
                self._inward[name] = ref
            else:
                odd[ref.namespace, name] = ref
        if not odd:
            return
        flats = {key: _flat(*key) for key in odd}
        uses = Counter((*self._inward, *flats.values()))
        for key, flat in flats.items():
            name = flat
            if len(flat) > limit or uses[flat] > 1 or not self._legal(flat):
                name = _hashed(self._made_legal(flat), repr(key), limit)
            self._outward[key] = name
            self._inward[name] = odd[key]

    def __iter__(self) -> Iterator[str]:
        """The upstream names of all tools."""
        return iter(self._inward)

    def __len__(self) -> int:
        """How many tools there are."""
        return len(self._inward)

    def outward(self, name: str, namespace: str | None = None) -> str:
        """The upstream's name for a tool, also for one that was never declared."""
        if namespace is None and name in self._inward:
            return name
        known = self._outward.get((namespace, name))
        if known is not None:
            return known
        flat = _flat(namespace, name)
        if len(flat) <= self._limit and self._legal(flat):
            return flat
        return _hashed(self._made_legal(flat), flat, self._limit)

    def _made_legal(self, name: str) -> str:
        """The name in legal characters, with a legal beginning; of any length."""
        made = _ILLEGAL.sub("_", name)
        return f"_{made}" if self._lettered and not self._legal(made) else made

    def inward(self, name: str) -> ToolRef | None:
        """The client's tool behind an upstream name; None if no such tool was declared."""
        return self._inward.get(name)

    def may_go_on(self, name: str) -> bool:
        """Whether an upstream name may be only the beginning of one: it is that of no tool, or
        that of another one begins with it."""
        known = self._inward
        return name not in known or any(other.startswith(name) for other in known if other != name)

    def goes_on(self, name: str, further: str) -> bool:
        """Whether `further`, which follows the upstream name `name`, is more of it, not the name
        of another tool."""
        if not self.may_go_on(name):
            return False
        joined = joined_name(name, further)
        return further not in self._inward or any(
            known.startswith(joined) for known in self._inward
        )


def joined_name(name: str, further: str) -> str:
    """A name that came in two fragments; some repeat it as far as it goes."""
    return further if further.startswith(name) else name + further


def _flat(namespace: str | None, name: str) -> str:
    return f"{namespace}__{name}" if namespace else name
