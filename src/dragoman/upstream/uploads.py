"""A request body that is sent while it comes, beside the wait for its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy

from dragoman.upstream.connection import Connection
from dragoman.upstream.errors import SendTimeout
from dragoman.upstream.incoming import IncomingResponse
from dragoman.upstream.request import BodySource


class Upload:
    """Sends one body over a connection, with back pressure: its source is asked for more as long as
    the upstream takes it."""

    def __init__(
        self,
        connection: Connection,
        incoming: IncomingResponse,
        source: BodySource,
        patience: float,
        on_sent: Callable[[], None],
    ) -> None:
        """
        Args:
            connection: on which the head was sent.
            incoming: the answer.
            source: of the body.
            patience: seconds for which the upstream may take nothing, 0 for any time.
            on_sent: called when all was sent.
        """
        self._connection = connection
        self._incoming = incoming
        self._source = source
        self._patience = patience
        self._on_sent = on_sent
        self._in_chunks = source.length < 0
        self._loop = asyncio.get_running_loop()
        self._drained: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._task = self._loop.create_task(self._send())
        connection.sender = self

    async def answered(self) -> None:
        """Wait for the head of the answer. One that comes before all was sent ends the sending,
        unless it is good: then both go on.

        Raises:
            CallError: there is no answer.
            Exception: of the source: the body will not come. The connection is closed.
        """
        try:
            error = await self._incoming.head
        except BaseException:
            self._task.cancel()
            self._incoming.close()
            raise
        if error is not None:
            self._task.cancel()
            raise self._error or copy(error)
        if not 200 <= self._incoming.status < 300:
            self._task.cancel()

    async def _send(self) -> None:
        connection = self._connection
        try:
            while await self._source.pipe(self._write):
                await self._drain()
            if self._in_chunks:
                connection.write(b"0\r\n\r\n")
        except Exception as error:
            # The caller, who waits for the answer, gets it.
            self._error = error
            connection.abort()
            return
        connection.sender = None
        self._on_sent()

    def _write(self, data: bytes) -> bool:
        return self._connection.write(
            b"%x\r\n%b\r\n" % (len(data), data) if self._in_chunks else data
        )

    async def _drain(self) -> None:
        """Wait until the upstream has taken most of what waits.

        Raises:
            SendTimeout: it took nothing for too long.
        """
        connection, patience = self._connection, self._patience
        while connection.is_full:
            unread = connection.unread()
            self._drained = self._loop.create_future()
            await asyncio.wait((self._drained,), timeout=patience or None)
            if not self._drained.done() and connection.unread() >= unread:
                raise SendTimeout(f"nothing of the request was taken for {patience:g} s")

    # What the connection does: see `BodySender`

    def on_drained(self) -> None:
        """Send on."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def on_lost(self) -> None:
        """Send nothing more."""
        self._task.cancel()
