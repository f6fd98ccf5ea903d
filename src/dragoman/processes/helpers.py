"""Processes of its own to which an event loop gives long pieces of work.

Whatever holds Python's lock keeps a loop from running, in whichever thread it is: decoding one body
takes a tenth of a second, collecting the garbage of another as long. Only another process does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar, TypeVarTuple

from dragoman.processes.helper import Unfinished, receive, send

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

MOST = 2
"""Processes at once: one long piece of work does not keep all others waiting."""

_IDLE_S = 30.0
"""Seconds without work after which the processes are ended."""

_NICENESS = 14
"""Where processors are few, the loops that answer others go first. Linux lets a process of little
weight give way at once, one of more only when its turn is over (3 ms here); this one still gets a
twentieth of a processor that others want wholly."""

_PROGRAM = (
    "import os, sys; os.nice({niceness}); sys.path[:] = {path!r}; "
    "from dragoman.processes.helper import main; main()"
)
"""It gives way before it imports anything, which takes a fifth of a second."""


class Helpers:
    """Does work in other processes. They are started when they are needed, and end when there is
    nothing to do, and with this process.

    A piece of work takes at most `most_s` seconds and `memory` bytes.
    """

    def __init__(self, most_s: float, memory: int) -> None:
        self._most_s = most_s
        self._memory = memory
        self._threads = ThreadPoolExecutor(MOST, thread_name_prefix="helper")
        """One waits for each process; what waits for a process waits for its thread."""
        self._room = asyncio.Semaphore(MOST)
        self._idle: list[_Helper] = []
        self._waiting = 0
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self.started = 0
        """Processes that were started so far."""

    async def run(
        self,
        function: Callable[[bytes, *Arguments], tuple[T, bytes]],
        body: bytes,
        *arguments: *Arguments,
    ) -> tuple[T, bytes]:
        """What `function(body, *arguments)` gives. It and all but the bodies are pickled. Work for
        who is cancelled is not begun, and not waited for.

        Raises:
            DragomanError: that of the function.
            Unfinished: the work failed, or took too much time or memory.
        """
        loop = asyncio.get_running_loop()
        self._waiting += 1
        try:
            # Not in the executor's queue, which keeps what is cancelled until its turn.
            await self._room.acquire()
            outcome = await asyncio.wrap_future(self._submitted(loop, function, body, arguments))
            done, result, given = outcome
            # The futures refer to themselves: they would keep an error, and it this frame.
            outcome.clear()
        finally:
            self._waiting -= 1
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_later(_IDLE_S, self._retire)
        if done:
            return result, given
        try:
            raise result
        finally:
            del result  # else this frame, and with it the body, would be kept by its own error

    def _submitted(
        self, loop: asyncio.AbstractEventLoop, function: object, body: bytes, arguments: object
    ) -> Future[list[Any]]:
        """Have a thread do what there is room for; the room is free when the thread is, though
        nobody may wait for it any more."""

        def ended(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(self._room.release)

        try:
            submitted = self._threads.submit(self._do, function, body, arguments)
        except BaseException:
            self._room.release()
            raise
        submitted.add_done_callback(ended)
        return submitted

    def close(self) -> None:
        """End the processes. One that works ends when it is done."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._end_idle()

    def _retire(self) -> None:
        if not self._waiting:
            self._threads.submit(self._end_idle)

    def _end_idle(self) -> None:
        while self._idle:
            self._idle.pop().end()

    def _do(self, function: object, body: bytes, arguments: object) -> list[Any]:
        """In a thread: have one of the processes do a piece of work. Returns whether it was done,
        its result or error, and the body that it gave."""
        try:
            helper = self._idle.pop()
        except IndexError:
            helper = self._started()
        try:
            (done, result, usable), given = helper.ask((function, arguments), body)
        except BlockingIOError:
            helper.kill()
            raise Unfinished("there is not enough time for it", True) from None
        except (EOFError, OSError):
            helper.kill()
            raise Unfinished("its process has ended") from None
        except BaseException:
            helper.kill()
            raise
        if usable and not self._closed:
            self._idle.append(helper)
        else:
            helper.end()
        return [done, result, given]

    def _started(self) -> _Helper:
        try:
            helper = _Helper(self._most_s, self._memory)
        except OSError as error:
            raise Unfinished(f"no process can be started: {error.strerror}") from None
        self.started += 1
        return helper


class _Helper:
    """One process, and the socket to it."""

    def __init__(self, most_s: float, memory: int) -> None:
        self._sock, theirs = socket.socketpair()
        try:
            self._process = self._start(theirs, most_s, memory)
        except OSError:
            self._sock.close()
            raise
        finally:
            theirs.close()

    def _start(self, theirs: socket.socket, most_s: float, memory: int) -> subprocess.Popen[bytes]:
        # The kernel's own limits of time: Python's would have reads come in pieces.
        limit = struct.pack("ll", int(most_s), int(most_s % 1 * 1_000_000))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._sock.setsockopt(socket.SOL_SOCKET, option, limit)
        program = _PROGRAM.format(niceness=_NICENESS, path=sys.path)
        return subprocess.Popen(
            [sys.executable, "-c", program, str(memory)],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
        )

    def ask(self, work: object, body: bytes) -> tuple[Any, bytes]:
        """Have it do a piece of work, and wait.

        Raises:
            BlockingIOError: it is not done in time.
            EOFError, OSError: the process has ended.
        """
        send(self._sock, work, body)
        return receive(self._sock)

    def end(self) -> None:
        """Let it end."""
        self._sock.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it now."""
        self._sock.close()
        self._process.kill()
        self._process.wait()
