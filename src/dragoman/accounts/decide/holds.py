"""Why accounts are avoided that are not at fault themselves, or not for sure. Pure."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.accounts.decide.states import Rest


class Holds:
    """Rests of accounts by cause: of several, the one that ends last counts. `hold` is called with
    that one (None: there is none) whenever one of an account's changes.
    """

    __slots__ = ("_hold", "_rests")

    def __init__(self, hold: Callable[[str, Rest | None, float], None]) -> None:
        self._hold = hold
        self._rests: dict[str, dict[str, Rest]] = {}

    def rest(self, name: str, cause: str) -> Rest | None:
        """The account's rest for this cause; it may be over."""
        return self._rests.get(name, {}).get(cause)

    def set(self, name: str, cause: str, rest: Rest | None, now: float) -> None:
        """The account has this rest for this cause from now on."""
        rests = self._rests.setdefault(name, {})
        if rest is None:
            rests.pop(cause, None)
        else:
            rests[cause] = rest
        if not rests:
            del self._rests[name]
        self._hold(name, max(rests.values(), key=_end, default=None), now)

    def forget(self, name: str) -> None:
        """The account is gone."""
        self._rests.pop(name, None)


def _end(rest: Rest) -> float:
    return rest.until
