"""The two forms of a link: over a Unix socket, and within one process.

On the socket a message is its size (4 bytes, little-endian) and a msgpack array: the kind of
message, the number of the question, the name of the message, and the message itself.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from dragoman.link.messages import (
    Answer,
    AnswerFailed,
    Asked,
    Handlers,
    LinkClosed,
    Notice,
    Question,
    Reader,
)

_log = logging.getLogger("dragoman.link")

_QUESTION, _ANSWER, _FAILURE, _NOTICE = range(4)
_SIZE_BYTES: Final = 4
_MOST_UNSENT: Final = 32 * 1024 * 1024
"""Bytes that may wait for a peer that reads nothing; beyond that the link is given up."""


class _Frame(Struct, array_like=True, frozen=True, gc=False):
    kind: int
    number: int
    name: str
    message: msgspec.Raw


_read_frame = msgspec.msgpack.Decoder(_Frame).decode
_write = msgspec.msgpack.Encoder().encode


class SocketPeer(asyncio.Protocol):
    """A peer in another process. `handlers` are those of this end; `number` is the worker's.

    Implements `dragoman.link.messages.Peer`.
    """

    def __init__(self, handlers: Handlers, number: int) -> None:
        self.number = number
        self.is_closed = False
        self._handlers = handlers
        self._socket: socket.socket | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._received = bytearray()
        self._last = 0
        self._asked: dict[int, tuple[asyncio.Future[Any], Reader]] = {}
        self._tasks: set[asyncio.Future[Any]] = set()

    @classmethod
    async def open(cls, sock: socket.socket, handlers: Handlers, number: int) -> SocketPeer:
        """The peer at the other end of a connected socket."""
        loop = asyncio.get_running_loop()
        peer = cls(handlers, number)
        peer._socket = sock
        sock.setblocking(False)
        await loop.create_unix_connection(lambda: peer, sock=sock)
        return peer

    def ask(self, question: Question[Asked, Answer], message: Asked) -> asyncio.Future[Answer]:
        """See `Peer.ask`."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self.is_closed:
            answer.set_exception(LinkClosed())
            return answer
        self._last = number = self._last + 1
        self._asked[number] = answer, question.read_answer
        self._send(_QUESTION, number, question.name, message)
        return answer

    def report(self, notice: Notice[Asked], message: Asked) -> None:
        """See `Peer.report`."""
        self._send(_NOTICE, 0, notice.name, message)

    def close(self) -> None:
        """Close the link once what was sent is on its way. Harmless if it is closed."""
        if self._transport is not None:
            self._transport.close()

    def forget(self) -> None:
        """In a process that was forked from this one: close the copy of the socket, and leave the
        link to the parent."""
        if self._socket is not None:
            self._socket.close()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The link is open."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Handle the messages that are complete."""
        received = self._received
        if received:
            received += data
            data = bytes(received)
        start, end = 0, len(data)
        while start + _SIZE_BYTES <= end:
            begin = start + _SIZE_BYTES
            stop = begin + int.from_bytes(data[start:begin], "little")
            if stop > end:
                break
            self._handle(_read_frame(data[begin:stop]))
            start = stop
        received[:] = data[start:]

    def connection_lost(self, error: Exception | None) -> None:
        """The other process is gone, or has closed the link."""
        self.is_closed = True
        asked, self._asked = self._asked, {}
        for answer, _ in asked.values():
            if not answer.done():
                answer.set_exception(LinkClosed())
        for task in self._tasks:
            task.cancel()
        for handler in self._handlers.closed:
            handler(self)

    # Messages

    def _handle(self, frame: _Frame) -> None:
        kind = frame.kind
        if kind == _QUESTION:
            read, handler = self._handlers.questions[frame.name]
            try:
                answer = handler(self, read(frame.message))
            except Exception as error:
                self._fail(frame.number, frame.name, error)
                return
            if isinstance(answer, Struct):
                self._send(_ANSWER, frame.number, "", answer)
                return
            task = asyncio.ensure_future(answer)
            self._tasks.add(task)
            task.add_done_callback(partial(self._answered, frame.number, frame.name))
        elif kind == _NOTICE:
            read, handler = self._handlers.notices[frame.name]
            try:
                handler(self, read(frame.message))
            except Exception:
                _log.exception("the notice %s was not handled", frame.name)
        else:
            asked = self._asked.pop(frame.number, None)
            if asked is None or asked[0].done():
                return
            if kind == _ANSWER:
                asked[0].set_result(asked[1](frame.message))
            else:
                asked[0].set_exception(AnswerFailed(frame.name))

    def _answered(self, number: int, name: str, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._send(_FAILURE, number, "CancelledError", None)
        elif (error := task.exception()) is not None:
            self._fail(number, name, error)
        else:
            self._send(_ANSWER, number, "", task.result())

    def _fail(self, number: int, name: str, error: BaseException) -> None:
        self._send(_FAILURE, number, str(_failed(name, error)), None)

    def _send(self, kind: int, number: int, name: str, message: object) -> None:
        transport = self._transport
        if transport is None or self.is_closed:
            return
        frame = _write((kind, number, name, message))
        transport.write(len(frame).to_bytes(_SIZE_BYTES, "little") + frame)
        if transport.get_write_buffer_size() > _MOST_UNSENT:
            _log.error("the link to worker %d is given up: it reads nothing", self.number)
            transport.abort()


class LocalPeer:
    """A peer in the same process. `handlers` are those of the other end, `other` is what they are
    called with: this end, as the other one sees it.

    What the worker sends is handled before `ask` or `report` returns; what the owner sends, in the
    next round of the event loop, so that no handler of a worker is called while it is in the middle
    of something. Implements `dragoman.link.messages.Peer`.
    """

    __slots__ = ("_handlers", "_is_owner", "is_closed", "number", "other")

    def __init__(self, handlers: Handlers, *, is_owner: bool) -> None:
        self._handlers = handlers
        self._is_owner = is_owner
        self.number = 0
        self.is_closed = False
        self.other: LocalPeer = self

    def ask(self, question: Question[Asked, Answer], message: Asked) -> asyncio.Future[Answer]:
        """See `Peer.ask`."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        if self.is_closed:
            answer.set_exception(LinkClosed())
            return answer
        handler = self._handlers.questions[question.name][1]
        if not self._is_owner:
            return loop.create_task(_answer_later(question.name, handler, self.other, message))
        try:
            found = handler(self.other, message)
        except Exception as error:
            answer.set_exception(_failed(question.name, error))
            return answer
        if isinstance(found, Struct):
            answer.set_result(found)  # type: ignore[arg-type]
            return answer
        return loop.create_task(_awaited(question.name, found))

    def report(self, notice: Notice[Asked], message: Asked) -> None:
        """See `Peer.report`."""
        if self.is_closed:
            return
        handler = self._handlers.notices[notice.name][1]
        if self._is_owner:
            handler(self.other, message)
        else:
            asyncio.get_running_loop().call_soon(handler, self.other, message)

    def close(self) -> None:
        """Close the link. Harmless if it is closed."""
        if not self.is_closed:
            self.is_closed = self.other.is_closed = True
            for handler in self._handlers.closed:
                handler(self.other)


async def _answer_later(
    question: str, handler: Callable[[Any, Any], Any], peer: LocalPeer, message: object
) -> Any:
    try:
        answer = handler(peer, message)
    except Exception as error:
        raise _failed(question, error) from None
    return answer if isinstance(answer, Struct) else await _awaited(question, answer)


async def _awaited(question: str, answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except Exception as error:
        raise _failed(question, error) from None


def _failed(question: str, error: BaseException) -> AnswerFailed:
    """What the asker is told of an error, which is in the log of this process."""
    _log.error("the question %s was not answered", question, exc_info=error)
    return AnswerFailed(type(error).__name__)
