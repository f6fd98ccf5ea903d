"""A server that keeps what is posted to it, and answers as a test says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.small_servers import Handler, handling


@dataclass(frozen=True)
class Post:
    """One request; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def _ok(post: Post) -> tuple[int, bytes]:
    return 200, b"{}"


@dataclass
class Posts:
    """What was posted, in order; `answer` makes the status and the body of each answer."""

    url: str = ""
    answer: Callable[[Post], tuple[int, bytes]] = _ok
    got: list[Post] = field(default_factory=list)


@contextmanager
def posts(answer: Callable[[Post], tuple[int, bytes]] = _ok) -> Iterator[Posts]:
    """Serve on loopback."""
    found = Posts(answer=answer)

    class Own(Handler):
        def post(self) -> None:
            post = Post(self.path, self.names(), self.taken())
            found.got.append(post)
            status, body = found.answer(post)
            with suppress(OSError):  # who asked may have left
                self.reply(body, status=status)

    with handling(Own) as found.url:
        yield found
