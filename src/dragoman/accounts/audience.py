"""Which accounts serve a model, by their allow-lists. Pure.

Accounts of one list are one class, and a model's audience are the classes whose list names it. Many
models share an audience, so that what is kept per audience is bounded however many names clients
make up.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.config.names import matches

_MOST_MODELS = 4096
"""Models whose audience is remembered; names are the clients' to choose."""

Models = tuple[str, ...] | None


class Audience:
    """Classes of accounts that serve the same models."""

    __slots__ = ("classes",)

    def __init__(self, classes: frozenset[int]) -> None:
        self.classes = classes


class Audiences:
    """All allow-lists of a rotation."""

    def __init__(self) -> None:
        self._classes: dict[Models, int] = {}
        self._lists: dict[int, Models] = {}
        self._sizes: dict[int, int] = {}
        self._next = 0
        self._exact: dict[str, set[int]] = {}
        self._wild: dict[str, dict[str, set[int]]] = {}
        self._everything: set[int] = set()
        self._known: dict[str, Audience] = {}
        self._shared: dict[frozenset[int], Audience] = {}

    def join(self, models: Models) -> tuple[int, bool]:
        """The class of an account with this list, and whether it is a new one."""
        models = _normal(models)
        number = self._classes.get(models)
        if number is not None:
            self._sizes[number] += 1
            return number, False
        number = self._next
        self._next += 1
        self._classes[models] = number
        self._lists[number] = models
        self._sizes[number] = 1
        for index in self._places(models):
            index.add(number)
        self._forget()
        return number, True

    def leave(self, number: int) -> bool:
        """An account of the class left. Returns whether it was the last."""
        self._sizes[number] -= 1
        if self._sizes[number]:
            return False
        models = self._lists.pop(number)
        del self._sizes[number], self._classes[models]
        for index in self._places(models):
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

    def of(self, model: str) -> Audience:
        """The classes that serve `model`; empty for any model: all classes."""
        known = self._known.get(model)
        if known is None:
            if len(self._known) >= _MOST_MODELS:
                self._known.clear()
            classes = frozenset(self._lists if not model else self._find(model))
            known = self._known[model] = self._shared.setdefault(classes, Audience(classes))
        return known

    def _find(self, model: str) -> set[int]:
        found = self._everything | self._exact.get(model, _NONE)
        for prefix, patterns in self._starting(model):
            if model.startswith(prefix):
                for pattern, classes in patterns.items():
                    if not classes <= found and matches(pattern, model):
                        found |= classes
        return found

    def _starting(self, model: str) -> Sequence[tuple[str, dict[str, set[int]]]]:
        """Patterns by the text before their first `*`, where `model` may start with it."""
        if len(self._wild) <= len(model):
            return list(self._wild.items())
        starts = (model[:length] for length in range(len(model) + 1))
        return [(start, self._wild[start]) for start in starts if start in self._wild]

    def _places(self, models: Models) -> list[set[int]]:
        if models is None:
            return [self._everything]
        places = []
        for pattern in models:
            prefix, star, _ = pattern.partition("*")
            if star:
                places.append(self._wild.setdefault(prefix, {}).setdefault(pattern, set()))
            else:
                places.append(self._exact.setdefault(pattern, set()))
        return places

    def _forget(self) -> None:
        self._known.clear()
        self._shared.clear()


_NONE: frozenset[int] = frozenset()


def _normal(models: Models) -> Models:
    if models is None or "*" in models:
        return None
    return tuple(sorted(set(models)))
