"""Pooled connections to a host that vanishes, in a network of this process's own: it prints what
became of the next calls. The argument is the time limit in milliseconds.

    unshare --user --map-root-user --net python -m tests.upstream.vanishing 1000
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress

from dragoman.upstream import CallError, UpstreamClient, UpstreamRequest, dial

HOST = "10.9.9.9"
CALLS = 10
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.CancelledError):
        while await reader.readuntil(b"\r\n\r\n"):
            await asyncio.sleep(0.2)
            writer.write(OK)


async def call(client: UpstreamClient, port: int) -> str:
    url = f"http://{HOST}:{port}/"
    try:
        async with await client.send(UpstreamRequest(method="GET", url=url)) as answer:
            return str(answer.status)
    except CallError as error:
        return error.cause


async def main() -> None:
    ip("link", "set", "lo", "up")
    ip("address", "add", f"{HOST}/32", "dev", "lo")
    dial.VANISHED_MS["TCP_USER_TIMEOUT"] = int(sys.argv[1])
    server = await asyncio.start_server(answer, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    async with UpstreamClient() as client:
        calls = [call(client, port) for _ in range(CALLS)]
        assert await asyncio.gather(*calls) == ["200"] * CALLS
        ip("address", "del", f"{HOST}/32", "dev", "lo")
        ip("route", "add", "blackhole", f"{HOST}/32")
        calls = [call(client, port) for _ in range(CALLS)]
        sys.stdout.write(" ".join(await asyncio.gather(*calls)) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
