"""A request to the administration, what it is answered, and which handlers there are."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, Protocol
from urllib.parse import parse_qsl

from msgspec import Struct

from dragoman import jsontext
from dragoman.audit import Actor, Change
from dragoman.edge.incoming import IncomingRequest
from dragoman.jsontext import JsonError
from dragoman.keys.admins import Role
from dragoman.operations.drafts import shortened
from dragoman.operations.errors import ImportRejected
from dragoman.operations.rows import BadFile
from dragoman.operations.times import InvalidTime, parse_time
from dragoman.storage.shared_sessions import Session

Query = Mapping[str, str]

MOST_ON_PAGE = 1000
PAGE = 100
MOST_BAD_ROWS = 1000
DAY_S = 24 * 3600.0
_LATEST = 1e11

_BODY_BYTES = 1024 * 1024


STREAMED = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
"""Headers of an answer that is server-sent events."""


class Operator(Struct, frozen=True):
    """Who asks: by the name of a key of the administration, and what it may do. `session` is the
    one that the cookie names, `digest` its own; None of who sent a key."""

    name: str
    role: Role
    session: Session | None = None
    digest: bytes = b""


class Call(Struct, frozen=True):
    """A request of an operator. `names` are what stands in the path for each `*` of its route.
    `check` raises `Refusal` unless what is to be changed, as GET tells it, is what the request
    believes it to be, and is to be called where nobody else changes it meanwhile; None where it
    believes nothing."""

    incoming: IncomingRequest
    query: Query
    names: Sequence[str]
    operator: Operator
    actor: Actor
    check: Callable[[Any], object] | None = None


class Raw(Struct, frozen=True):
    """An answer that is no JSON: its bytes, and their content type."""

    body: bytes
    media: bytes = b"text/plain; charset=utf-8"


Reply = tuple[int, object] | None
"""A status, and what is told as JSON, or `Raw`. None where it was answered already, as by a
stream."""

Handler = Callable[[Call], Awaitable[Reply]]


class Note(Protocol):
    """Writes down what an operator does, where the store itself does not."""

    def __call__(self, change: Change, /) -> Awaitable[None]: ...


class AdminRoute(Struct, frozen=True):
    """What serves a path below `/admin`: its parts, `*` for a name, and a handler for each method.

    A viewer may use GET, and the methods in `reads`; of all others, and those in `reserved`, only
    an admin may. Methods in `open` need nobody to be signed in. `settings` picks what PATCH changes
    out of what GET tells: the tag of that is what `If-Match` names.
    """

    path: str
    methods: Mapping[str, Handler]
    reads: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()
    settings: Callable[[Any], object] | None = None

    def role(self, method: str) -> Role:
        """The least role that may use a method."""
        if method in self.reserved:
            return "admin"
        return "viewer" if method == "GET" or method in self.reads else "admin"


class Table:
    """The routes by their paths: those without a `*` come first."""

    def __init__(self, routes: Sequence[AdminRoute]) -> None:
        self.routes = tuple(routes)
        self._fixed = {route.path: route for route in routes if "*" not in route.path}
        self._named: dict[int, list[tuple[list[str], AdminRoute]]] = {}
        for route in routes:
            if "*" in route.path:
                parts = route.path.split("/")
                self._named.setdefault(len(parts), []).append((parts, route))

    def find(self, path: str, method: str) -> tuple[AdminRoute, list[str]] | None:
        """The route of a path below `/admin/`, and the names in it. A name may be that of a fixed
        path, which then serves its own methods only."""
        found = self._fixed.get(path)
        if found is not None and method in found.methods:
            return found, []
        given = path.split("/")
        for parts, route in self._named.get(len(given), ()):
            if all(part in ("*", mine) for part, mine in zip(parts, given, strict=True)):
                names = [mine for part, mine in zip(parts, given, strict=True) if part == "*"]
                if found is None or method in route.methods:
                    return route, names
        return None if found is None else (found, [])


class Refusal(Exception):
    """A request that cannot be done. `param` names what is at fault, if it is one thing; `more` are
    further members of the error."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        param: str | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param
        self.more = more or {}


def nothing_kept() -> Refusal:
    """There is no store."""
    return Refusal(409, "conflict", "Nothing is kept: [storage] path is not set.")


async def read_object(incoming: IncomingRequest, *, may_be_empty: bool = False) -> dict[str, Any]:
    """The JSON object in a body; `{}` for none, where that may be.

    Raises:
        Refusal: it is none.
        DragomanError: it cannot be read.
    """
    body = await incoming.body(_BODY_BYTES)
    if may_be_empty and not body.strip():
        return {}
    try:
        value = jsontext.decode(body)
    except JsonError:
        bad("The body is not JSON.")
    if not isinstance(value, dict):
        bad("The body must be a JSON object.")
    return value


def bad(message: str, param: str | None = None) -> NoReturn:
    """Refuse a request as one that nobody can do."""
    raise Refusal(400, "invalid_request", message, param)


def read_query(raw: bytes) -> Query:
    """The parameters of a query, the last one of each name."""
    try:
        pairs = parse_qsl(
            raw.decode("latin-1"), keep_blank_values=True, errors="strict", max_num_fields=50
        )
    except ValueError:
        bad("The query cannot be read.")
    return dict(pairs)


def only(query: Query, *known: str) -> None:
    """Refuse parameters that mean nothing."""
    for name in query:
        if name not in known:
            problem = f"There is no such parameter; there is {', '.join(known) or 'none'}."
            bad(problem, shortened(name))


def times(query: Query, since: str = "since", until: str = "until") -> tuple[float, float]:
    """The time asked for: the last day if none is."""
    now = time.time()
    end = _moment(query, until, now) if until in query else now
    begin = _moment(query, since, now) if since in query else end - DAY_S
    if begin > end:
        bad(f"Expected a time that is not after `{until}`.", since)
    return begin, end


def _moment(query: Query, name: str, now: float) -> float:
    with suppress(ValueError):
        if 0 <= (seconds := float(query[name])) < _LATEST:
            return seconds
    try:
        return parse_time(query[name], now)
    except InvalidTime as error:
        raise Refusal(400, "invalid_request", str(error), name) from None


def choice(query: Query, name: str, choices: Sequence[str]) -> str | None:
    """A parameter that has one of several values."""
    value = query.get(name)
    if value is not None and value not in choices:
        bad(f"Expected one of {', '.join(choices)}.", name)
    return value


def number(query: Query, name: str, default: int, most: int, least: int = 1) -> int:
    """A parameter that is a whole number."""
    value = query.get(name)
    if value is None:
        return default
    if not (
        value.isascii() and value.isdecimal() and len(value) < 10 and least <= int(value) <= most
    ):
        bad(f"Expected a number from {least} to {most}.", name)
    return int(value)


def flag(query: Query, name: str, *, default: bool = False) -> bool:
    """A parameter that is true or false."""
    value = choice(query, name, ("true", "false"))
    return default if value is None else value == "true"


def first(values: Mapping[str, object]) -> str:
    """The name of the first of some fields that nobody knows."""
    return shortened(next(iter(values)))


@contextmanager
def faults_of_rows_told() -> Iterator[None]:
    """Tells what is wrong with an import.

    Raises:
        Refusal: the file cannot be read, or rows of it are bad.
    """
    try:
        yield
    except ImportRejected as error:
        more = {"rows": error.rows, "bad": error.bad[:MOST_BAD_ROWS]}
        raise Refusal(400, "bad_rows", str(error), more=more) from None
    except BadFile as error:
        raise Refusal(400, "invalid_request", str(error)) from None
