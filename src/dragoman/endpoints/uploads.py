"""Bodies of requests that are passed on while they come.

Of such a body is read what is needed to know where it goes: up to a field of a form. It is held in
memory; where the field comes late, in a file. The rest goes from the client to the upstream with
back pressure, and can be sent once.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from threading import Lock

from msgspec import Struct

from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.endpoints.multipart import BadMultipart, MultipartScanner, Part, boundary_of
from dragoman.http.request import BodySink

HELD_BYTES = 1024 * 1024
"""Bodies up to this size are held, and can be sent again."""

_IN_MEMORY = 128 * 1024
"""Bytes of a larger body that are read before it is sent on."""

_PIECE = 128 * 1024
"""Bytes that are read at once of what is in a file."""

Change = tuple[int, int, bytes]
"""Where a value in a body begins and ends, and what stands there instead."""


class Uploads(Struct, frozen=True):
    """Where and up to which size bodies are taken."""

    limit_bytes: int
    directory: str | None
    """Where fields that come late have files wait; None: where temporary files are."""

    async def form(
        self, incoming: IncomingRequest, wanted: Mapping[str, int], needed: Set[str]
    ) -> Upload:
        """The body of a form, read until the fields that are `needed` have come. Those that are
        `wanted`, each with the most bytes that it may have, can be asked for once they have come.

        Raises:
            DragomanError: it is no form, too large, or malformed.
            ClientGone: the client left.
        """
        self.check_size(incoming.length)
        if b"content-encoding" in incoming.headers:
            message = "The body of a form must have no content encoding here: its fields are read."
            raise refusal(FaultKind.UNSUPPORTED_MEDIA_TYPE, message)
        try:
            boundary = boundary_of(incoming.headers.get(b"content-type", b""))
        except BadMultipart as bad:
            raise _malformed(bad) from None
        if boundary is None:
            message = "The request's content type must be multipart/form-data."
            raise refusal(FaultKind.UNSUPPORTED_MEDIA_TYPE, message)
        return await self._begun(Upload(incoming, self, MultipartScanner(boundary, wanted)), needed)

    async def raw(self, incoming: IncomingRequest, scanner: Unread) -> Upload:
        """A body that is a file, which `scanner` reads as it comes.

        Raises:
            DragomanError: it is too large.
            ClientGone: the client left.
        """
        self.check_size(incoming.length)
        return await self._begun(Upload(incoming, self, scanner), set())

    def check_size(self, size: int) -> None:
        """
        Raises:
            DragomanError: TOO_LARGE: so many bytes are not taken.
        """
        if size > self.limit_bytes:
            message = f"The request body exceeds {self.limit_bytes} bytes."
            raise refusal(FaultKind.TOO_LARGE, message)

    async def _begun(self, upload: Upload, needed: Set[str]) -> Upload:
        try:
            await upload.read_fields(needed)
        except BaseException:
            upload.close()
            raise
        return upload


class Unread:
    """Finds nothing in a body."""

    fields: Mapping[str, Part] = {}
    parts: Sequence[Part] = ()

    def feed(self, data: bytes) -> None:
        """Take some of it."""

    def finish(self) -> None:
        """It has ended."""


class Upload:
    """The body of one form or file. `read` bytes of it have come. To be closed."""

    def __init__(
        self, incoming: IncomingRequest, uploads: Uploads, scanner: MultipartScanner | Unread
    ) -> None:
        self._incoming = incoming
        self._uploads = uploads
        self._scanner = scanner
        self._pieces: list[bytes] = []
        """What came and is held in memory; nothing where there is a `_spool`."""
        self._in_memory = 0
        self._spool: Spool | None = None
        self._complete = False
        self._passes = False
        self.read = 0

    @property
    def fields(self) -> Mapping[str, Part]:
        """The wanted fields that have come."""
        return self._scanner.fields

    @property
    def parts(self) -> Sequence[Part]:
        """All parts that have begun."""
        return self._scanner.parts

    @property
    def can_repeat(self) -> bool:
        """Whether all that came of the body is held, so that it can be sent from its beginning."""
        return not self._passes

    def close(self) -> None:
        """Free what is held."""
        self._pieces.clear()
        if self._spool is not None:
            self._spool.close()

    async def read_fields(self, names: Set[str]) -> None:
        """Read until the fields of these names have come, or all of the body.

        Raises:
            DragomanError: it is malformed or too large, or there is no room for it.
            ClientGone: the client left.
        """
        length = self._incoming.length
        is_small = 0 <= length <= HELD_BYTES
        most = HELD_BYTES + 1 if is_small else _IN_MEMORY
        self._incoming.reserve(length if is_small else 2 * _IN_MEMORY)

        def keep(data: bytes) -> bool:
            self._pieces.append(data)
            self._in_memory += len(data)
            return self._in_memory < most

        while not self._complete and (self.read < most or not names <= self.fields.keys()):
            self._complete = not await self.pipe(keep)
            is_late = self._in_memory >= most and not names <= self.fields.keys()
            if self._spool is not None or (is_late and not self._complete):
                await self._write()

    async def pipe(self, sink: BodySink) -> bool:
        """As `IncomingRequest.pipe`; malformed parts are not passed."""

        def scan(data: bytes) -> bool:
            self.read += len(data)
            self._scanner.feed(data)
            return sink(data)

        try:
            goes_on = await self._incoming.pipe(scan, self._uploads.limit_bytes)
            if not goes_on:
                self._scanner.finish()
        except BadMultipart as bad:
            raise _malformed(bad) from None
        return goes_on

    async def _write(self) -> None:
        """Write what is in memory to the file."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._in_memory = 0
        with refusing_if_full():
            if self._spool is None:
                self._spool = await asyncio.to_thread(Spool, self._uploads.directory)
            await asyncio.to_thread(self._spool.write, data)

    def body(self, values: Mapping[str, bytes]) -> bytes | Passing:
        """The body to send, with these values of fields that have come: held in memory, or what
        passes it on."""
        changes = sorted(
            (self.fields[name].start, self.fields[name].end, value)
            for name, value in values.items()
        )
        if not self._complete or self._spool is not None:
            return Passing(self, self._incoming.length, changes)
        parts, at = list[bytes](), 0
        held = b"".join(self._pieces)
        for start, end, value in changes:
            parts += (held[at:start], value)
            at = end
        return b"".join([*parts, held[at:]])

    async def held(self, start: int, end: int) -> bytes:
        """Some of what is held."""
        if self._spool is not None:
            return await asyncio.to_thread(self._spool.read, start, end - start)
        return b"".join(self._pieces)[start:end]

    def held_bytes(self) -> int:
        """How much is held."""
        return self._in_memory if self._spool is None else self.read

    def pass_on(self) -> bool:
        """The rest is wanted from here on, and nothing more is held. Returns whether there is a
        rest."""
        if not self._complete and not self._passes:
            self._passes = True
            self.close()
        return not self._complete


class Passing:
    """A body with other values of some fields, sent while it comes: a `BodySource`."""

    def __init__(self, upload: Upload, length: int, changes: Sequence[Change]) -> None:
        self._upload = upload
        self.length = length
        if length >= 0:
            self.length += sum(len(value) - (end - start) for start, end, value in changes)
        self._changes = changes
        self._next: deque[bytes | tuple[int, int]] = deque()
        """What goes first: bytes, and from where to where of what is held."""
        self.anew()

    def anew(self) -> bool:
        """See `BodySource`."""
        if not self._upload.can_repeat:
            return False
        at = 0
        self._next.clear()
        for start, end, value in self._changes:
            self._next += ((at, start), value)
            at = end
        self._next.append((at, self._upload.held_bytes()))
        return True

    async def pipe(self, sink: BodySink) -> bool:
        """See `BodySource`."""
        while self._next:
            data = self._next.popleft()
            if not isinstance(data, bytes):
                start, end = data
                if end - start > _PIECE:
                    self._next.appendleft((start + _PIECE, end))
                data = await self._upload.held(start, min(end, start + _PIECE))
            if data and not sink(data):
                return True
        return self._upload.pass_on() and await self._upload.pipe(sink)

    async def whole(self, limit: int) -> bytes:
        """All of it, for those who must have it before it is sent.

        Raises:
            DragomanError: it is larger than `limit` bytes, or cannot be had.
            ClientGone: the client left.
        """
        pieces: list[bytes] = []
        left = limit

        def keep(data: bytes) -> bool:
            nonlocal left
            pieces.append(data)
            left -= len(data)
            return left >= 0

        if self.length > limit or await self.pipe(keep) or left < 0:
            message = f"The request body exceeds {limit} bytes: its upstream takes it signed."
            raise refusal(FaultKind.TOO_LARGE, message)
        return b"".join(pieces)


class Spool:
    """A file without a name, which is gone with this process. It may be closed while another thread
    uses it."""

    def __init__(self, directory: str | None) -> None:
        """
        Raises:
            OSError: it cannot be made.
        """
        self._file = tempfile.TemporaryFile(buffering=0, dir=directory)  # noqa: SIM115
        self._lock = Lock()

    def write(self, data: bytes) -> None:
        """Append.

        Raises:
            OSError: there is no room.
        """
        left = memoryview(data)
        with self._lock:
            while left and not self._file.closed:
                left = left[os.write(self._file.fileno(), left) :]

    def read(self, start: int, size: int) -> bytes:
        """So many bytes from `start` on."""
        with self._lock:
            return b"" if self._file.closed else os.pread(self._file.fileno(), size, start)

    def close(self) -> None:
        """Free its room."""
        with self._lock:
            self._file.close()


@contextmanager
def refusing_if_full() -> Iterator[None]:
    """Within it a `Spool` is made or written to.

    Raises:
        DragomanError: OVERLOADED: there is no room.
    """
    try:
        yield
    except OSError:
        message = "The gateway has no room at the moment for the file of this form."
        raise refusal(FaultKind.OVERLOADED, message) from None


def _malformed(bad: BadMultipart) -> DragomanError:
    return refusal(FaultKind.INVALID_REQUEST, f"The form in the request body is malformed: {bad}.")
