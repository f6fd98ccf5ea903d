"""Callers of operations over HTTP, and answers that are not plain JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from msgspec import Struct

from dragoman.keys.admins import Role
from dragoman.storage.sessions import Session

EVENTS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
"""Headers of an answer that is server-sent events."""

Write = Callable[[bytes], Awaitable[None]]


class Operator(Struct, frozen=True):
    """Who calls: the name of a key of the administration, and its role. `session` is the one that
    the cookie names, None for callers with a key; `digest` is that of the cookie or the key."""

    name: str
    role: Role
    session: Session | None = None
    digest: bytes = b""


class EventStream(Struct, frozen=True):
    """An output that is server-sent events. `run` writes them until the last; it is cancelled when
    the client leaves. `close` is called at the end, whether it ran or not."""

    run: Callable[[Write], Coroutine[Any, Any, None]]
    close: Callable[[], object] = lambda: None


class Reply(Struct, frozen=True):
    """An output with its own status or headers."""

    data: bytes
    media: bytes = b"application/json"
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Refusal(Exception):
    """A call that is refused. `param` names what is at fault, if it is one thing; `more` are
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
