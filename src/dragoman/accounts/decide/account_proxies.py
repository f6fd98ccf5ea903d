"""The health of proxies that accounts have of their own. Pure.

Accounts behind a proxy that failed are avoided, all of them, until it works or its rest is over.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.accounts.decide.proxies import rest_after, same_failure
from dragoman.accounts.decide.states import Rest


class AccountProxies:
    """Proxies by their URL. `avoid` is called for each account whose proxy begins a rest, or ends
    one early (None).
    """

    def __init__(self, avoid: Callable[[str, Rest | None, float], None]) -> None:
        self._avoid = avoid
        self._rests: dict[str, Rest | None] = {}
        self._names: dict[str, set[str]] = {}

    def take_over(self, former: AccountProxies) -> None:
        """Copy the rests of the proxies of `former`, before any account is added."""
        self._rests = former._rests.copy()

    def add(self, url: str, name: str) -> Rest | None:
        """Record that the account uses this proxy. Returns the proxy's last rest."""
        self._names.setdefault(url, set()).add(name)
        return self._rests.get(url)

    def remove(self, url: str, name: str) -> None:
        """Record that the account no longer uses this proxy."""
        names = self._names[url]
        names.discard(name)
        if not names:
            del self._names[url]
            self._rests.pop(url, None)

    def failed(self, url: str, taken: float, now: float, spread: float) -> Rest | None:
        """Record that a call that began at `taken` could not connect. Returns the rest that this
        begins; None if that failure was known."""
        before = self._rests.get(url)
        if url not in self._names or same_failure(before, taken, now):
            return None
        rest = rest_after(before, now, spread)
        self._set(url, rest, now)
        return rest

    def succeeded(self, url: str, taken: float, now: float) -> None:
        """Record that a call that began at `taken` connected."""
        rest = self._rests.get(url)
        if rest is not None and taken >= rest.since:
            self._set(url, None, now)

    def _set(self, url: str, rest: Rest | None, now: float) -> None:
        self._rests[url] = rest
        for name in self._names[url]:
            self._avoid(name, rest, now)
