"""Tool names and call ids, fitted to what the upstream allows and turned back for the client."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator

from dragoman.canonical.requests import ToolRef

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_LETTER = re.compile(r"[A-Za-z_]")


def safe_id(value: str, limit: int) -> str:
    """A call id made of `[A-Za-z0-9_-]`, at most `limit` long: `value` itself if it already is.

    Deterministic and without a table: the same value always gives the same id, and the short
    hash keeps different values apart.
    """
    if _is_legal(value, limit):
        return value
    return _hashed(_ILLEGAL.sub("_", value), value, limit)


def _is_legal(value: str, limit: int) -> bool:
    if not 0 < len(value) <= limit:
        return False
    # Most are identifiers, which is found out in half the time.
    return (value.isascii() and value.isidentifier()) or _ILLEGAL.search(value) is None


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

    __slots__ = ("_inward", "_lettered", "_limit", "_outward")

    def __init__(self, tools: Collection[ToolRef], limit: int, *, lettered: bool = False) -> None:
        self._limit, self._lettered = limit, lettered
        self._outward: dict[tuple[str | None, str], str] = {}
        self._inward: dict[str, ToolRef] = {}
        if not tools:
            return
        refs = {(ref.namespace, ref.name): ref for ref in tools}
        odd = {key for key in refs if key[0] is not None or not self._is_legal(key[1])}
        candidates = {key: _flat(*key) for key in refs} if odd else {}
        uses = Counter(candidates.values()) if odd else {}
        plain = {name for (space, name) in candidates if space is None}
        for key, ref in refs.items():
            flat = key[1]
            if key in odd:
                flat = candidates[key]
                legal = self._begun(_ILLEGAL.sub("_", flat))
                clashes = uses[flat] > 1 or (key[0] is not None and flat in plain)
                if legal != flat or len(flat) > limit or clashes or not flat:
                    flat = _hashed(legal, repr(key), limit)
            self._outward[key] = flat
            self._inward[flat] = ref

    def __iter__(self) -> Iterator[str]:
        """The upstream names of all tools."""
        return iter(self._inward)

    def __len__(self) -> int:
        """How many tools there are."""
        return len(self._inward)

    def outward(self, name: str, namespace: str | None = None) -> str:
        """The upstream's name for a tool, also for one that was never declared."""
        known = self._outward.get((namespace, name))
        if known is not None:
            return known
        flat = _flat(namespace, name)
        if self._is_legal(flat):
            return flat
        return _hashed(self._begun(_ILLEGAL.sub("_", flat)), flat, self._limit)

    def _is_legal(self, name: str) -> bool:
        return _is_legal(name, self._limit) and self._begun(name) == name

    def _begun(self, name: str) -> str:
        """The name with a legal beginning."""
        return f"_{name}" if self._lettered and not _LETTER.match(name) else name

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
