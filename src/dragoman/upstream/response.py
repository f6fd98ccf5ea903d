"""An upstream's answer: status and headers at once, the body as it comes."""

from collections.abc import Awaitable, Callable, Iterator

from dragoman.http.decoding import BadCoding, CutOff, Unpacker, unpacker_for
from dragoman.upstream.errors import BadAnswer, BodyTooLarge, CallError, ProxyFailed, Truncated
from dragoman.upstream.headers import Headers
from dragoman.upstream.incoming import IncomingResponse


class UpstreamResponse:
    """The answer to one request, of any status.

    Take the body whole (`read`) or as it comes (`async for`); content codings are undone. While
    nobody asks for the next chunk, at most about 64 KB are buffered and the socket is not read, so
    the upstream feels a slow reader.

        async with await client.send(request) as response:
            async for chunk in response:
                ...

    Leaving the block before the end, or a cancelled read, closes the connection at once.
    """

    __slots__ = ("__weakref__", "_incoming", "_inflater", "_pieces", "headers", "is_good", "status")

    def __init__(self, incoming: IncomingResponse, *, forwarded: bool = False) -> None:
        """`forwarded`: a proxy was to forward the request, and may have answered it.

        Raises:
            CallError: the proxy did, or the body has a coding that cannot be undone.
        """
        self._incoming = incoming
        self.status = incoming.status
        self.is_good = self.status // 100 == 2
        """Whether its status says that the request was served."""
        self.headers = Headers(incoming.raw_headers)
        """As received: `content-length` and `content-encoding` describe the coded body."""
        self._inflater: Unpacker | None = None
        if forwarded and self.status == 407:
            self.close()
            raise ProxyFailed("the proxy wants an authentication that was not given, or refused it")
        if b"content-encoding" in incoming.raw_headers:
            try:
                self._inflater = unpacker_for(self.headers["content-encoding"])
                self._pieces: Iterator[bytes] = iter(())
            except BadCoding as error:
                self.close()
                raise BadAnswer(f"the answer has {error}") from None

    def __del__(self) -> None:
        """Close the connection of an answer that was dropped."""
        if not self._incoming.complete:
            self._incoming.drop()

    async def __aenter__(self) -> "UpstreamResponse":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._incoming.close()

    @property
    def has_arrived(self) -> bool:
        """Whether there is nothing more to wait for; some of the body may not be taken yet."""
        return self._incoming.complete

    @property
    def received(self) -> int:
        """The bytes of the answer that have arrived, as they were on the connection."""
        return self._incoming.received

    def close(self) -> None:
        """End the call. A body not read to its end closes its connection at once, and a
        task that waits for it gets `Truncated`."""
        if not self._incoming.complete:
            self._incoming.close()

    async def read(self, limit: int, reserve: Callable[[int], None] = lambda size: None) -> bytes:
        """The rest of the body.

        Args:
            limit: most bytes that are wanted, after content codings are undone.
            reserve: called with the size of each part of the body, as it comes; what it raises
                ends the call. Not called for a body that came with the head.

        Raises:
            BodyTooLarge: there are more; the connection is closed.
            CallError: the body is not complete.
        """
        if self._incoming.complete and self._inflater is None:
            data = self._incoming.take()
            if len(data) > limit:
                raise self._too_large(limit)
            return data
        declared = self.headers.get("content-length", "") if self._inflater is None else ""
        if declared.isdecimal() and int(declared) > limit:
            raise self._too_large(limit)
        size, parts = 0, []
        async for chunk in self:
            size += len(chunk)
            if size > limit:
                raise self._too_large(limit)
            reserve(len(chunk))
            parts.append(chunk)
        return b"".join(parts)

    def _too_large(self, limit: int) -> BodyTooLarge:
        self.close()
        return BodyTooLarge(f"the answer is larger than {limit} bytes")

    def __aiter__(self) -> "UpstreamResponse":
        return self

    def __anext__(self) -> Awaitable[bytes]:
        """The next bytes of the body, as many as have come. One caller at a time.

        Raises:
            StopAsyncIteration: the body is complete.
            CallError: the body will not be complete.
        """
        inflater = self._inflater
        return self._incoming.next_chunk() if inflater is None else self._inflated(inflater)

    async def pipe(self, sink: Callable[[bytes], bool], *, in_bulk: bool = False) -> bool:
        """Give the body to `sink`, piece by piece, the moment it arrives: cheaper than a loop over
        the answer, which wakes a task for each. Until `sink` returns False (then True), or has
        had all (then False). `in_bulk`: in large pieces, for a `sink` that does the same with each,
        whatever its size.

        Raises:
            CallError: the body will not be complete.
            Exception: `sink`'s own.
        """
        if self._inflater is None:
            return await self._incoming.pipe(sink, in_bulk=in_bulk)
        async for chunk in self:
            if not sink(chunk):
                return True
        return False

    async def _inflated(self, inflater: Unpacker) -> bytes:
        try:
            while True:
                for piece in self._pieces:
                    return piece
                try:
                    chunk = await self._incoming.next_chunk()
                except StopAsyncIteration:
                    inflater.finish()
                    raise
                self._pieces = inflater.feed(chunk)
        except BadCoding as error:
            self.close()
            kind = Truncated if isinstance(error, CutOff) else BadAnswer
            raise kind(f"of the answer, {error}") from error
        except CallError:
            self.close()
            raise
