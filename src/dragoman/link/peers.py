"""The two forms of a link: over a Unix socket, and within one process.

On the socket a message is its size (4 bytes, little-endian) and a msgpack array: the kind of
message, the number of the question, the name of the message, and the message itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
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

_QUESTION, _ANSWER, _FAILURE, _NOTICE, _WITHDRAWN = range(5)
_SIZE_BYTES: Final = 4
_READ_BYTES: Final = 256 * 1024
_MOST_UNSENT: Final = 32 * 1024 * 1024
"""Bytes that may wait for a peer that reads nothing; beyond that the link is given up."""


class _Frame(Struct, array_like=True, frozen=True, gc=False):
    kind: int
    number: int
    name: str
    message: msgspec.Raw


_Asked = tuple[asyncio.Future[Any], Reader, Callable[[Any], object] | None]
"""A question that is not answered: its future, what reads the answer, and what takes one that comes
after the asker was cancelled."""

_read_frame = msgspec.msgpack.Decoder(_Frame).decode
_write = msgspec.msgpack.Encoder().encode


class SocketPeer(asyncio.Protocol):
    """A peer in another process. `handlers` are those of this end; `number` is the worker's.

    Implements `dragoman.link.messages.Peer`.
    """

    def __init__(
        self, handlers: Handlers, number: int, sock: socket.socket, copy: socket.socket
    ) -> None:
        self.number = number
        self.name = peer_name(number)
        self.is_closed = False
        self.handlers = handlers
        self._sockets = sock, copy
        self._transport: asyncio.WriteTransport | None = None
        self._received = b""
        self._last = 0
        self._asked: dict[int, _Asked] = {}
        self._answering: dict[int, asyncio.Future[Any]] = {}

    @classmethod
    async def open(cls, sock: socket.socket, handlers: Handlers, number: int) -> SocketPeer:
        """The peer at the other end of a connected socket, which is given to it."""
        # What is left in a socket that the loop has closed is read from the copy.
        peer = cls(handlers, number, sock, sock.dup())
        sock.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: peer, sock=sock)
        return peer

    async def ask(
        self,
        question: Question[Asked, Answer],
        message: Asked,
        unclaimed: Callable[[Answer], object] | None = None,
    ) -> Answer:
        """See `Peer.ask`."""
        if self.is_closed:
            raise LinkClosed
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._last = number = self._last + 1
        self._asked[number] = answer, question.read_answer, unclaimed
        self._send(_QUESTION, number, question.name, message)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled():
                if unclaimed is not None and answer.exception() is None:
                    unclaimed(answer.result())
            else:
                self._send(_WITHDRAWN, number, "", None)
            raise

    def report(self, notice: Notice[Asked], message: Asked) -> None:
        """See `Peer.report`."""
        self._send(_NOTICE, 0, notice.name, message)

    def close(self) -> None:
        """See `Peer.close`."""
        if self._transport is not None:
            self._transport.close()

    def forget(self) -> None:
        """In a process that was forked from this one: close its copies of the sockets, and leave
        the link to the parent."""
        for sock in self._sockets:
            if sock.fileno() >= 0:
                os.close(sock.detach())

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The link is open."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Handle the messages that are complete."""
        if self._received:
            data = self._received + data
        start, end = 0, len(data)
        while start + _SIZE_BYTES <= end:
            begin = start + _SIZE_BYTES
            stop = begin + int.from_bytes(data[start:begin], "little")
            if stop > end:
                break
            self._handle(_read_frame(data[begin:stop]))
            start = stop
        self._received = data[start:]

    def connection_lost(self, error: Exception | None) -> None:
        """The other process is gone, or one of them has closed the link."""
        if error is not None:
            # It was seen in writing, perhaps before all was read that the other one had sent.
            self._receive_rest()
        self.is_closed = True
        self._sockets[1].close()
        asked, self._asked = self._asked, {}
        for answer, _, _ in asked.values():
            if not answer.done():
                answer.set_exception(LinkClosed())
        for task in self._answering.values():
            task.cancel()
        for handler in self.handlers.closed:
            handler(self)

    def _receive_rest(self) -> None:
        with suppress(OSError):
            while data := self._sockets[1].recv(_READ_BYTES, socket.MSG_DONTWAIT):
                self.data_received(data)

    # Messages

    def _handle(self, frame: _Frame) -> None:
        kind = frame.kind
        if kind == _QUESTION:
            try:
                read, handler = self.handlers.questions[frame.name]
                answer = handler(self, read(frame.message))
            except Exception as error:
                self._send(_FAILURE, frame.number, str(_failed(frame.name, error)), None)
                return
            if isinstance(answer, Struct):
                self._send(_ANSWER, frame.number, "", answer)
                return
            task = self._answering[frame.number] = asyncio.ensure_future(answer)
            task.add_done_callback(partial(self._answered, frame.number, frame.name))
        elif kind == _NOTICE:
            if (receiver := self.handlers.receiver(frame.name)) is None:
                return
            read, handler = receiver
            try:
                handler(self, read(frame.message))
            except Exception:
                _log.exception("the notice %s was not handled", frame.name)
        elif kind == _WITHDRAWN:
            if (answering := self._answering.get(frame.number)) is not None:
                answering.cancel()
        elif (asked := self._asked.pop(frame.number, None)) is not None:
            future, read, unclaimed = asked
            if kind == _FAILURE:
                if not future.done():
                    future.set_exception(AnswerFailed(frame.name))
            elif not future.done():
                future.set_result(read(frame.message))
            elif unclaimed is not None:
                unclaimed(read(frame.message))

    def _answered(self, number: int, name: str, task: asyncio.Future[Any]) -> None:
        del self._answering[number]
        if task.cancelled():
            self._send(_FAILURE, number, "CancelledError", None)
        elif (error := task.exception()) is not None:
            self._send(_FAILURE, number, str(_failed(name, error)), None)
        else:
            self._send(_ANSWER, number, "", task.result())

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
    """A peer in the same process: `local_link` makes both.

    What the worker sends is handled before `ask` or `report` returns; what the owner sends, in the
    next round of the event loop, so that no handler of a worker is called while it is in the middle
    of something. Implements `dragoman.link.messages.Peer`.
    """

    __slots__ = ("_is_owner", "handlers", "is_closed", "name", "number", "other")

    def __init__(self, handlers: Handlers, number: int, *, is_owner: bool) -> None:
        self.handlers = handlers
        self.number = number
        self.name = peer_name(number)
        self.is_closed = False
        self.other: LocalPeer = self
        """This end, as the peer sees it: its messages are handled there."""
        self._is_owner = is_owner

    async def ask(
        self,
        question: Question[Asked, Answer],
        message: Asked,
        unclaimed: Callable[[Answer], object] | None = None,
    ) -> Answer:
        """See `Peer.ask`."""
        if self.is_closed:
            raise LinkClosed
        try:
            if not self._is_owner:
                await asyncio.sleep(0)
            handler = self.other.handlers.questions[question.name][1]
            found = handler(self.other, message)
            return cast(Answer, found if isinstance(found, Struct) else await found)
        except Exception as error:
            raise _failed(question.name, error) from None

    def report(self, notice: Notice[Asked], message: Asked) -> None:
        """See `Peer.report`."""
        if self.is_closed:
            return
        if (receiver := self.other.handlers.receiver(notice.name)) is None:
            return
        handler = receiver[1]
        if self._is_owner:
            handler(self.other, message)
        else:
            asyncio.get_running_loop().call_soon(handler, self.other, message)

    def close(self) -> None:
        """See `Peer.close`."""
        if not self.is_closed:
            self.is_closed = self.other.is_closed = True
            for peer in (self, self.other):
                for handler in peer.handlers.closed:
                    handler(peer)


def local_link(owner: Handlers, worker: Handlers, number: int) -> tuple[LocalPeer, LocalPeer]:
    """The owner as the worker sees it, and the worker as the owner does; given are the handlers of
    both, and the worker's number."""
    to_owner = LocalPeer(worker, number, is_owner=True)
    to_worker = LocalPeer(owner, number, is_owner=False)
    to_owner.other, to_worker.other = to_worker, to_owner
    return to_owner, to_worker


def peer_name(number: int) -> str:
    """A name for a peer of that number that no other peer of this process has."""
    return f"{number}.{next(_connections)}"


_connections = count(1)


def _failed(question: str, error: BaseException) -> AnswerFailed:
    """The answer to a question that raised `error`, which is logged here."""
    _log.error("the question %s was not answered", question, exc_info=error)
    return AnswerFailed(type(error).__name__)
