"""Which accounts serve a model, by their allow-lists. Pure.

Accounts with the same list share it, by a number. The lists that name a model are one object for
all models that the same lists name, so the state per object is bounded, however many names of
models clients make up.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.accounts.decide.members import MemberQueue
from dragoman.config.names import matches

_MOST_MODELS = 4096
"""Models whose lists are remembered; names are the clients' to choose."""

Models = tuple[str, ...] | None


class ServingLists:
    """The numbers of the allow-lists that name a model. `queue` is that of the accounts with these
    lists, None while there is none."""

    __slots__ = ("lists", "queue")

    def __init__(self, lists: frozenset[int]) -> None:
        self.lists = lists
        self.queue: MemberQueue | None = None


class AllowLists:
    """All allow-lists of a rotation, by their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[Models, int] = {}
        self._lists: dict[int, Models] = {}
        self._sizes: dict[int, int] = {}
        self._next = 0
        self._exact: dict[str, set[int]] = {}
        self._wild: dict[str, dict[str, set[int]]] = {}
        self._everything: set[int] = set()
        self._known: dict[str, ServingLists] = {}
        self._shared: dict[frozenset[int], ServingLists] = {}

    def add(self, models: Models) -> tuple[int, bool]:
        """An account with this list is added. Returns the list's number, and whether it is new."""
        models = _normal(models)
        number = self._numbers.get(models)
        if number is not None:
            self._sizes[number] += 1
            return number, False
        number = self._next
        self._next += 1
        self._numbers[models] = number
        self._lists[number] = models
        self._sizes[number] = 1
        for index in self._indexes(models):
            index.add(number)
        self._forget()
        return number, True

    def remove(self, number: int) -> bool:
        """An account with this list is removed. Returns whether it was the last."""
        self._sizes[number] -= 1
        if self._sizes[number]:
            return False
        models = self._lists.pop(number)
        del self._sizes[number], self._numbers[models]
        for index in self._indexes(models):
            index.discard(number)
        for pattern in models or ():
            prefix, star, _ = pattern.partition("*")
            patterns = self._wild[prefix] if star else self._exact
            if not patterns[pattern]:
                del patterns[pattern]
            if star and not patterns:
                del self._wild[prefix]
        self._forget()
        return True

    def serving(self, model: str) -> ServingLists:
        """The lists that name `model`; empty for any model: all lists."""
        known = self._known.get(model)
        if known is None:
            if len(self._known) >= _MOST_MODELS:
                self._known.clear()
            lists = frozenset(self._lists if not model else self._find(model))
            known = self._known[model] = self._shared.setdefault(lists, ServingLists(lists))
        return known

    def _find(self, model: str) -> set[int]:
        found = self._everything | self._exact.get(model, _NONE)
        for prefix, patterns in self._starting(model):
            if model.startswith(prefix):
                for pattern, lists in patterns.items():
                    if not lists <= found and matches(pattern, model):
                        found |= lists
        return found

    def _starting(self, model: str) -> Sequence[tuple[str, dict[str, set[int]]]]:
        """Patterns by the text before their first `*`, where `model` may start with it."""
        if len(self._wild) <= len(model):
            return list(self._wild.items())
        starts = (model[:length] for length in range(len(model) + 1))
        return [(start, self._wild[start]) for start in starts if start in self._wild]

    def _indexes(self, models: Models) -> list[set[int]]:
        if models is None:
            return [self._everything]
        indexes = []
        for pattern in models:
            prefix, star, _ = pattern.partition("*")
            if star:
                indexes.append(self._wild.setdefault(prefix, {}).setdefault(pattern, set()))
            else:
                indexes.append(self._exact.setdefault(pattern, set()))
        return indexes

    def _forget(self) -> None:
        self._known.clear()
        self._shared.clear()


_NONE: frozenset[int] = frozenset()


def _normal(models: Models) -> Models:
    if models is None or "*" in models:
        return None
    return tuple(sorted(set(models)))
