"""Proxies that record what goes through them."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode

from .servers import OK, Server, answers, read_call


async def splice(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
) -> None:
    """Carry bytes both ways until either side ends."""
    far_reader, far_writer = await asyncio.open_connection(host, port)

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()

    ways = [
        asyncio.ensure_future(carry(reader, far_writer)),
        asyncio.ensure_future(carry(far_reader, writer)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        far_writer.transport.abort()


class HttpProxy(Server):
    """Tunnels CONNECT, and answers a forwarded request itself."""

    def __init__(
        self, *, auth: str = "", refuse: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(answers(OK), tls=tls)
        self.auth = auth
        self.refuse = refuse

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = 0
        while (call := await read_call(reader, writer, number)) is not None:
            number += 1
            self.calls.append(call)
            expected = "Basic " + b64encode(self.auth.encode()).decode()
            if self.auth and dict(call.headers).get("proxy-authorization") != expected:
                await call.send(b"HTTP/1.1 407 Who\r\ncontent-length: 0\r\n\r\n")
            elif self.refuse:
                await call.send(b"HTTP/1.1 %d No\r\ncontent-length: 0\r\n\r\n" % self.refuse)
            elif call.method == "CONNECT":
                await call.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                host, _, port = call.target.rpartition(":")
                await splice(reader, writer, host, int(port))
                return
            else:
                await call.send(OK)


class SocksProxy(Server):
    """SOCKS5 with an optional user name and password, and a reply of choice."""

    def __init__(self, *, auth: tuple[str, str] | None = None, reply: int = 0) -> None:
        super().__init__(answers())
        self.auth = auth
        self.reply = reply
        self.asked: list[tuple[int, str, int]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        wanted = 2 if self.auth else 0
        if wanted not in methods:
            writer.write(b"\x05\xff")
            return
        writer.write(bytes([5, wanted]))
        if self.auth:
            user = await reader.readexactly((await reader.readexactly(2))[1])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            good = (user.decode(), password.decode()) == self.auth
            writer.write(b"\x01\x00" if good else b"\x01\x01")
            if not good:
                return
        kind = (await reader.readexactly(4))[3]
        if kind == 1:
            host = ".".join(str(byte) for byte in await reader.readexactly(4))
        else:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append((kind, host, port))
        writer.write(bytes([5, self.reply, 0, 1]) + bytes(6))
        if not self.reply:
            await splice(reader, writer, "127.0.0.1", port)
