"""Upstreams that speak WebSocket, and requests to them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.utils import accept_key

from dragoman.http.websocket import text_frame
from dragoman.http.websocket.messages import control_frame
from dragoman.protocols.openai_responses.upstream_websocket import (
    socket_turn,
)
from dragoman.upstream import (
    UpstreamClient,
    UpstreamRequest,
)
from dragoman.upstream.request import SocketUse

USER = {"type": "message", "role": "user", "content": "hi"}
REPLY: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "ho", "annotations": [], "logprobs": []}],
}

LIMIT = {"code": "websocket_connection_limit_reached", "message": "end", "type": "x"}


class Peer:
    """One connection of the server."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: Any) -> None:
        self.server, self.reader, self.writer = server, reader, writer
        self.protocol = ServerProtocol(state=State.OPEN, max_size=1 << 30)
        self.pongs: list[bytes] = []
        self.pings = 0
        self.is_deaf = False
        """Whether pings are not answered."""
        self.fragments = 0
        self.closed = asyncio.Event()

    def frames(self, data: bytes) -> list[Frame]:
        """The frames that are whole with these bytes."""
        self.protocol.receive_data(data)
        self.protocol.data_to_send()
        return [one for one in self.protocol.events_received() if isinstance(one, Frame)]

    def send(self, event: dict[str, Any]) -> None:
        self.writer.write(text_frame(json.dumps(event, indent=1).encode()))

    def answer(self, name: str) -> None:
        self.send({"type": "codex.rate_limits", "plan_type": "x"})
        self.send({"type": "response.created", "response": {"id": name}})
        self.send({"type": "response.completed", "response": {"id": name, "output": [REPLY]}})

    def fail(self, status: int, error: dict[str, Any], **more: Any) -> None:
        self.send({"type": "error", "status": status, "error": error, **more})


Script = Callable[[Peer, dict[str, Any], int], Awaitable[None] | None]


class Server:
    """Answers requests by a script: the connection, the message, and its number in all."""

    def __init__(self, script: Script, refuses: int = 0) -> None:
        self.script, self.refuses = script, refuses
        self.peers: list[Peer] = []
        self.messages: list[dict[str, Any]] = []
        self.heads: list[bytes] = []
        self.posted = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = None
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                lines = dict(
                    line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line
                )
                if head.startswith(b"POST"):
                    await reader.readexactly(int(lines[b"content-length"]))
                    self.posted += 1
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nposted")
                elif self.refuses:
                    writer.write(b"HTTP/1.1 %d No\r\ncontent-length: 0\r\n\r\n" % self.refuses)
                else:
                    break
            key = next(
                line[19:] for line in head.split(b"\r\n") if line[:17] == b"sec-websocket-key"
            )
            accept = accept_key(key.strip().decode()).encode()
            writer.write(
                b"HTTP/1.1 101 Go\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                b"sec-websocket-accept: %b\r\n\r\n" % accept
            )
            peer = Peer(self, reader, writer)
            self.peers.append(peer)
            await self.read(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            if peer is not None:
                peer.closed.set()
            writer.close()

    async def read(self, peer: Peer) -> None:
        parts: list[bytes] = []
        while data := await peer.reader.read(65536):
            for piece in peer.frames(data):
                if piece.opcode is Opcode.CLOSE:
                    return
                if piece.opcode is Opcode.PONG:
                    peer.pongs.append(bytes(piece.data))
                    continue
                if piece.opcode is Opcode.PING:
                    peer.pings += 1
                    if not peer.is_deaf:
                        peer.writer.write(control_frame(Opcode.PONG, bytes(piece.data)))
                    continue
                parts.append(bytes(piece.data))
                peer.fragments += 1
                if piece.fin:
                    message = json.loads(b"".join(parts))
                    parts = []
                    self.messages.append(message)
                    made = self.script(peer, message, len(self.messages))
                    if made is not None:
                        await made


@asynccontextmanager
async def serving(
    script: Script, refuses: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Server, str]]:
    server = Server(script, refuses)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 20, ssl=tls)
    try:
        port = listening.sockets[0].getsockname()[1]
        scheme = "http" if tls is None else "https"
        yield server, f"{scheme}://127.0.0.1:{port}/v1/responses"
    finally:
        listening.close()
        for peer in server.peers:
            peer.writer.close()


def asked(url: str, given: list[Any], *, always: bool = False, **more: Any) -> UpstreamRequest:
    body = {"model": "m", "input": given, "stream": True, "store": False, **more}
    return UpstreamRequest(
        method="POST",
        url=url,
        headers=(("authorization", "Bearer k"), ("content-type", "application/json")),
        body=json.dumps(body).encode(),
        socket=SocketUse(b"thread", socket_turn, always),
    )


async def whole(client: UpstreamClient, request: UpstreamRequest) -> tuple[int, bytes]:
    async with await client.send(request) as answer:
        return answer.status, await answer.read(1 << 26)


def plainly(peer: Peer, message: dict[str, Any], number: int) -> None:
    peer.answer(f"resp_{number}")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
