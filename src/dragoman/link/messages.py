"""The kinds of message that a link carries, and what handles them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, msgpack

_log = logging.getLogger("dragoman.link")

Asked = TypeVar("Asked", bound=Struct)
Answer = TypeVar("Answer", bound=Struct)


class LinkError(Exception):
    """A question was not answered."""


class LinkClosed(LinkError):
    """The other end is gone."""


class AnswerFailed(LinkError):
    """The other end failed to answer. The message is the name of the error, whose details are in
    the log of that process."""


class Question(Generic[Asked, Answer]):
    """A message that is answered: its name, which is unique, and the types of both."""

    __slots__ = ("name", "read_answer", "read_asked")

    def __init__(self, name: str, asked: type[Asked], answer: type[Answer]) -> None:
        self.name = name
        self.read_asked = msgpack.Decoder(asked).decode
        self.read_answer = msgpack.Decoder(answer).decode


class Notice(Generic[Asked]):
    """A message that is not answered: its name, which is unique, and its type."""

    __slots__ = ("name", "read")

    def __init__(self, name: str, message: type[Asked]) -> None:
        self.name = name
        self.read = msgpack.Decoder(message).decode


class Peer(Protocol):
    """The other end of a link.

    Messages arrive in the order in which they were sent. They are frozen: where both ends are in
    one process, they are passed by reference.
    """

    @property
    def number(self) -> int:
        """The number of the worker; of the owner, as workers see it, that of themselves."""

    @property
    def name(self) -> str:
        """Its name, which no other peer has that this process ever had."""

    @property
    def handlers(self) -> Handlers:
        """What its messages are handled by at this end."""

    @property
    def is_closed(self) -> bool:
        """Whether it is gone."""

    async def ask(
        self,
        question: Question[Asked, Answer],
        message: Asked,
        unclaimed: Callable[[Answer], object] | None = None,
    ) -> Answer:
        """Send a question and wait for its answer. Where both ends are in one process, and it is
        answered at once, this returns without a round of the event loop.

        If this is cancelled, what the other end awaits for its answer is cancelled too. It may have
        answered already: `unclaimed` is called with such an answer, so that what it lends is given
        back.

        Raises:
            LinkError: there is no answer.
        """

    def report(self, notice: Notice[Asked], message: Asked) -> None:
        """Send a notice. One that the other end does not get, because it is gone
        or has no handler for it, is dropped."""

    def close(self) -> None:
        """Close the link, once what was sent is on its way. Harmless if it is closed."""


Handler = Callable[[Peer, Any], Any]
Reader = Callable[[Any], Any]


class Handlers:
    """What one end of a link does with messages. Handlers are called in the event loop, in the
    order of the messages. To answer later, a handler returns an awaitable."""

    def __init__(self) -> None:
        self.questions: dict[str, tuple[Reader, Handler]] = {}
        self.notices: dict[str, tuple[Reader, Handler]] = {}
        self.closed: list[Callable[[Peer], None]] = []

    def answer(
        self,
        question: Question[Asked, Answer],
        handler: Callable[[Peer, Asked], Answer | Awaitable[Answer]],
    ) -> None:
        """Have `handler` answer a question."""
        self.questions[question.name] = question.read_asked, handler

    def receive(self, notice: Notice[Asked], handler: Callable[[Peer, Asked], None]) -> None:
        """Have `handler` receive a notice."""
        self.notices[notice.name] = notice.read, handler

    def receiver(self, name: str) -> tuple[Reader, Handler] | None:
        """What reads and receives the notice of this name; None, which is logged, if nothing
        does."""
        found = self.notices.get(name)
        if found is None:
            _log.error("the notice %s is dropped: it has no handler", name)
        return found

    def on_closed(self, handler: Callable[[Peer], None]) -> None:
        """Have `handler` called when a peer is gone."""
        self.closed.append(handler)
