"""Causes for which accounts are avoided without being at fault, or not for sure. Pure."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.accounts.decide.states import Rest


class AvoidanceCauses:
    """Rests of accounts by cause: of several, the one that ends last counts. `avoid` is called with
    that one (None: there is none) whenever one of an account's rests changes.
    """

    __slots__ = ("_avoid", "_rests")

    def __init__(self, avoid: Callable[[str, Rest | None, float], None]) -> None:
        self._avoid = avoid
        self._rests: dict[str, dict[str, Rest]] = {}

    def rest(self, name: str, cause: str) -> Rest | None:
        """The account's rest for this cause; it may be over."""
        return self._rests.get(name, {}).get(cause)

    def set(self, name: str, cause: str, rest: Rest | None, now: float) -> None:
        """Set the account's rest for this cause; None ends it."""
        rests = self._rests.setdefault(name, {})
        if rest is None:
            rests.pop(cause, None)
        else:
            rests[cause] = rest
        if not rests:
            del self._rests[name]
        self._avoid(name, max(rests.values(), key=_end, default=None), now)

    def forget(self, name: str) -> None:
        """Drop the rests of an account that was removed."""
        self._rests.pop(name, None)


def _end(rest: Rest) -> float:
    return rest.until
