"""When accounts that are out are tried by a probe. Pure."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from dragoman.accounts.decide.decisions import active_rest
from dragoman.accounts.decide.states import FOREVER, AccountState


class ProbeSchedule:
    """The probes of one upstream's accounts: each about every `every_s` seconds while the account
    is out for `model`. Accounts that were disabled are not probed: a person or a new key enables
    them.
    """

    def __init__(self, model: str, every_s: float) -> None:
        self._model = model
        self._every = every_s
        self._planned: list[tuple[float, str]] = []
        self._names: set[str] = set()

    def consider(self, state: AccountState, now: float, spread: float) -> None:
        """Plan a probe if the account is out and none is planned. `spread` in [0, 1) varies
        when."""
        if state.name not in self._names and self._is_out(state, now):
            self._plan(state.name, now, spread)

    def due(
        self,
        state_of: Callable[[str], AccountState | None],
        now: float,
        spread: Callable[[], float],
    ) -> list[str]:
        """The accounts whose time has come and that are still out; their next probe is planned.

        `state_of` gives None for accounts that are there no longer.
        """
        due: list[str] = []
        while self._planned and self._planned[0][0] <= now:
            _, name = heappop(self._planned)
            self._names.discard(name)
            state = state_of(name)
            if state is not None and self._is_out(state, now):
                due.append(name)
                self._plan(name, now, spread())
        return due

    def _is_out(self, state: AccountState, now: float) -> bool:
        rest = active_rest(state, self._model, now)
        if rest is None or rest.soft or rest.until == FOREVER:
            return False
        return rest is state.exhausted or rest.until - now >= self._every

    def _plan(self, name: str, now: float, spread: float) -> None:
        self._names.add(name)
        heappush(self._planned, (now + self._every * (0.5 + spread), name))
