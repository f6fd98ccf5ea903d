"""Routes below `/admin`, made from the operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from dragoman.operations.operation import Http, Operation


class Endpoint(Struct, frozen=True):
    """An operation, and the way it is called here."""

    operation: Operation
    http: Http


class Route(Struct, frozen=True):
    """A path: its parts, those in braces stand for any text; and what each method calls."""

    parts: tuple[str, ...]
    methods: dict[str, Endpoint]

    def values(self, given: list[str]) -> dict[str, str] | None:
        """The fields in a path, None if it is another one."""
        values: dict[str, str] = {}
        for part, text in zip(self.parts, given, strict=True):
            if part.startswith("{"):
                values[part[1:-1]] = text
            elif part != text:
                return None
        return values


class Routes:
    """All routes, found by their paths."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        routes: dict[str, Route] = {}
        for operation in operations:
            for http in operation.http:
                route = routes.setdefault(http.path, Route(tuple(http.path.split("/")), {}))
                assert http.method not in route.methods, f"{http.method} {http.path}"
                route.methods[http.method] = Endpoint(operation, http)
        self._by_length: dict[int, list[Route]] = {}
        for route in sorted(routes.values(), key=_number_of_fields):
            self._by_length.setdefault(len(route.parts), []).append(route)

    def find(self, path: str, method: str) -> tuple[Route, Mapping[str, str]] | None:
        """The route of a path below `/admin/`, and the fields in it: of several, that with the
        fewest fields that has the method, else that with the fewest fields."""
        given = path.split("/")
        found: tuple[Route, Mapping[str, str]] | None = None
        for route in self._by_length.get(len(given), ()):
            values = route.values(given)
            if values is not None:
                if method in route.methods:
                    return route, values
                found = found or (route, values)
        return found


def _number_of_fields(route: Route) -> int:
    return sum(part.startswith("{") for part in route.parts)
