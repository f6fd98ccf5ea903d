"""The file with a batch's requests on its way to the service: read whole, into a file of this
machine, since its requests are counted before anybody is asked, and its length changes."""

from __future__ import annotations

import asyncio

from dragoman.canonical.errors import InvalidRequest
from dragoman.endpoints.batch_lines import Requests, request_lines
from dragoman.endpoints.uploads import Spool, Upload, refusing_if_full
from dragoman.http.request import BodySink

_PIECE = 256 * 1024
_EVERYTHING = frozenset({"\0"})
"""The name of a field that no form has."""


class BatchFile:
    """A form with a batch's file, as it is sent: a `BodySource`, which can be sent again. To be
    closed."""

    def __init__(self, spool: Spool, length: int, requests: Requests) -> None:
        self._spool = spool
        self.length = length
        self.requests = requests
        self._at = 0

    def anew(self) -> bool:
        """See `BodySource`."""
        self._at = 0
        return True

    async def pipe(self, sink: BodySink) -> bool:
        """See `BodySource`."""
        while self._at < self.length:
            data = await asyncio.to_thread(self._spool.read, self._at, _PIECE)
            self._at += len(data)
            if not sink(data):
                return True
        return False

    def close(self) -> None:
        """Free its room."""
        self._spool.close()


async def batch_file(upload: Upload, directory: str | None, requests: Requests) -> BatchFile:
    """Read all of an upload, and the requests in its file.

    Raises:
        InvalidRequest: there is no file, or a line is no request that can be sent.
        DragomanError, ClientGone: as `Upload.read_fields`, or there is no room for it.
    """
    await upload.read_fields(_EVERYTHING)
    files = [part for part in upload.parts if part.filename is not None or part.name == "file"]
    if not files:
        raise InvalidRequest.at("file", "is required", code="missing_required_parameter")
    file = files[0]
    if len(files) > 1 or file.name != "file" or file.filename is None:
        raise InvalidRequest.at("file", "must be the only file of the form")
    with refusing_if_full():
        spool = await asyncio.to_thread(Spool, directory)
    try:
        length = await _write(upload, spool, 0, file.start)
        lines = request_lines(requests)
        for start in range(file.start, file.end, _PIECE):
            data = await upload.held(start, min(start + _PIECE, file.end))
            length += await _append(spool, lines.feed(data))
        length += await _append(spool, lines.finish())
        length += await _write(upload, spool, file.end, upload.read)
        if not requests.count:
            raise InvalidRequest.at("file", "has no requests")
    except BaseException:
        spool.close()
        raise
    return BatchFile(spool, length, requests)


async def _write(upload: Upload, spool: Spool, start: int, end: int) -> int:
    for at in range(start, end, _PIECE):
        await _append(spool, await upload.held(at, min(at + _PIECE, end)))
    return end - start


async def _append(spool: Spool, data: bytes) -> int:
    with refusing_if_full():
        await asyncio.to_thread(spool.write, data)
    return len(data)
