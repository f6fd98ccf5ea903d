"""Playing the client: one request, and its answer with the time at which each piece came."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec

from dragoman.lab.doctor.answers import Answer
from dragoman.upstream import (
    CallError,
    Timeouts,
    UpstreamClient,
    UpstreamRequest,
    join_url,
)
from dragoman.upstream.request import SocketCall, SocketUse

VERSION = "2023-06-01"
"""The `anthropic-version` sent: every client's least."""

MAX_BYTES = 8 * 1024 * 1024
"""More of an answer than this is not read."""

PATIENCE_S = 60.0
"""Seconds that one call may take: what a person waits who sees nothing."""

_TIMEOUTS = Timeouts(connect=10.0, first_byte=PATIENCE_S, idle=PATIENCE_S / 2, total=PATIENCE_S)

Auth = Literal["bearer", "x-api-key", "x-goog-api-key", "none"]


class Caller:
    """Calls one instance with one key. `url` is its base URL, with or without `/v1`.

    Raises:
        ValueError: the URL is not an absolute http or https URL, or the key cannot be sent.
    """

    def __init__(self, client: UpstreamClient, url: str, key: str) -> None:
        join_url(url, "/v1/models")
        if not key.isascii() or not key.isprintable():
            raise ValueError("the key holds characters that no header can carry")
        self._client = client
        self._url = url
        self.key = key

    async def post(
        self, path: str, body: dict[str, Any], *, auth: Auth = "bearer", key: str | None = None
    ) -> Answer:
        """Send a body as JSON to a path that begins with a version and may have a query."""
        headers = [("content-type", "application/json"), ("accept", "*/*")]
        if path.startswith("/v1/messages"):
            headers.append(("anthropic-version", VERSION))
        return await self._send("POST", path, headers, msgspec.json.encode(body), auth, key)

    async def get(self, path: str, headers: list[tuple[str, str]], auth: Auth = "bearer") -> Answer:
        """Fetch a path."""
        return await self._send("GET", path, headers, b"", auth, None)

    async def preflight(self, path: str) -> Answer:
        """Ask as a browser does before it sends."""
        headers = [
            ("origin", "https://example.com"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type,x-api-key"),
        ]
        return await self._send("OPTIONS", path, headers, b"", "none", None)

    async def over_socket(self, path: str, call: SocketCall) -> str:
        """Make a call over the instance's WebSocket, if it offers one: `call` sees what comes.
        Returns what went wrong with the connection, empty if nothing did."""
        request = UpstreamRequest(
            method="POST",
            url=join_url(self._url, path),
            headers=(_key_header("bearer", self.key),) if self.key else (),
            body=b"{}",
            timeouts=_TIMEOUTS,
            socket=SocketUse(b"", lambda body: call, always=True),
        )
        try:
            async with await self._client.send(request) as response:
                await response.read(MAX_BYTES)
        except CallError as error:
            return str(error)
        return ""

    async def _send(
        self,
        method: Literal["GET", "POST", "OPTIONS"],
        path: str,
        headers: list[tuple[str, str]],
        body: bytes,
        auth: Auth,
        key: str | None,
    ) -> Answer:
        sent = self.key if key is None else key
        if auth != "none" and sent:
            headers = [*headers, _key_header(auth, sent)]
        request = UpstreamRequest(
            method=method,
            url=join_url(self._url, *path.split("?", 1)),
            headers=tuple(headers),
            body=body,
            timeouts=_TIMEOUTS,
        )
        clock = asyncio.get_running_loop().time
        began = clock()
        pieces: list[tuple[float, bytes]] = []
        size = 0
        try:
            async with await self._client.send(request) as response:
                status, found = response.status, dict(response.headers)
                failure = ""
                try:
                    async for chunk in response:
                        pieces.append((clock() - began, bytes(chunk)))
                        size += len(chunk)
                        if size > MAX_BYTES:
                            failure = "it is larger than the doctor reads"
                            break
                except CallError as error:
                    failure = str(error)
        except CallError as error:
            return Answer(0, {}, failure=str(error))
        return Answer(status, found, tuple(pieces), failure)


def _key_header(style: str, key: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {key}") if style == "bearer" else (style, key)
