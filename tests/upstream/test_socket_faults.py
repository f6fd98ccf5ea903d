"""Upstreams that misbehave over WebSocket, and what a call and a pool may hold."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace
from websockets.frames import Opcode

from dragoman.http.websocket import text_frame
from dragoman.http.websocket.messages import control_frame
from dragoman.sse import Decoder
from dragoman.upstream import (
    ConnectionReset,
    FirstByteTimeout,
    IdleTimeout,
    Timeouts,
    Truncated,
    UpstreamClient,
    client_socket,
    socket_pool,
)
from dragoman.upstream.request import SocketUse
from tests.upstream.peers import LIMIT, USER, Peer, asked, plainly, serving, until, whole

CREATED = {"type": "response.created", "response": {"id": "r"}}


def raw(opcode: int, payload: bytes, *, first: int = 0x80) -> bytes:
    """A short frame of a server, whatever it says."""
    assert len(payload) < 126
    return bytes([first | opcode, len(payload)]) + payload


HOSTILE = {
    "masked": b"\x81\x80\0\0\0\0",
    "reserved bit": b"\xf1\x00",
    "compressed, unasked": raw(Opcode.TEXT, b"{}", first=0xC0),
    "unknown opcode": b"\x83\x00",
    "control in fragments": raw(Opcode.PING, b"", first=0),
    "large control": b"\x89\x7e\x00\x7e" + b"x" * 126,
    "continuation of nothing": raw(0, b"{}"),
    "message within a message": raw(Opcode.TEXT, b"{", first=0) + raw(Opcode.TEXT, b"{}"),
    "length beyond all": b"\x81\x7f" + b"\xff" * 8,
}


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("case", HOSTILE)
async def test_hostile_frames(client: UpstreamClient, case: str, begun: bool) -> None:
    """Each fails its own call and ends its connection; nothing is asked again."""

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        if begun:
            peer.send(CREATED)
        peer.writer.write(HOSTILE[case])

    async with serving(script) as (server, url):
        with pytest.raises(Exception, match="frames are bad"):
            await whole(client, asked(url, [USER]))
        await until(lambda: not client._connections)
        assert (len(server.messages), server.posted) == (1, 0)


async def test_legal_oddities(client: UpstreamClient) -> None:
    """Fragments with pings between, empty ones, binary that is text, bytes one by one. W29: JSON
    with line breaks, of which a stream has none; texts keep all kinds of them."""
    said = 'one\ntwo\r\n\u2028\x85 "end"'
    events = [
        CREATED,
        {"type": "response.output_text.delta", "delta": said},
        {"type": "response.completed", "response": {"id": "r", "output": []}},
    ]

    async def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        first, second, third = (
            json.dumps(one, indent=1, ensure_ascii=False).replace("\n", "\r\n").encode()
            for one in events
        )
        peer.writer.write(raw(Opcode.TEXT, first[:9], first=0) + control_frame(Opcode.PING, b"p"))
        peer.writer.write(raw(0, b"", first=0) + raw(0, first[9:]))
        for byte in text_frame(second):
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        peer.writer.write(raw(Opcode.BINARY, third))

    async with serving(script) as (_, url):
        status, body = await whole(client, asked(url, [USER]))
    assert status == 200
    assert [json.loads(frame.data) for frame in Decoder().feed(body)] == events


@pytest.mark.parametrize("begun", [False, True])
async def test_pings_are_no_answer(client: UpstreamClient, begun: bool) -> None:
    """An upstream that is there, but says nothing, has its own limit once it has begun."""
    pinging: list[asyncio.Task[None]] = []

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        async def ping() -> None:
            while True:
                peer.writer.write(control_frame(Opcode.PING, b"p"))
                await asyncio.sleep(0.02)

        if begun:
            peer.send(CREATED)
        pinging.append(asyncio.create_task(ping()))

    timeouts = Timeouts(first_byte=0.2, idle=0.1, socket_idle=0.3)
    async with serving(script) as (_, url), asyncio.timeout(30):
        with pytest.raises(IdleTimeout if begun else FirstByteTimeout):
            await whole(client, replace(asked(url, [USER]), timeouts=timeouts))
        await until(lambda: not client._connections)
    for task in pinging:
        task.cancel()


async def test_silence_of_an_upstream_that_answers_pings(client: UpstreamClient) -> None:
    """W19: it may think for longer than one may be silent of which nothing is heard, which is cut
    off within the limit for that."""

    async def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        peer.send(CREATED)
        if number == 1:
            asyncio.get_running_loop().call_later(1.0, peer.answer, "r")
        else:
            peer.is_deaf = True

    timeouts = Timeouts(first_byte=0.2, idle=0.2)
    async with serving(script) as (server, url), asyncio.timeout(30):
        request = replace(asked(url, [USER]), timeouts=timeouts)
        assert (await whole(client, request))[0] == 200
        assert server.peers[0].pings >= 3
        with pytest.raises(IdleTimeout, match="nothing came from"):
            await whole(client, request)
        await until(lambda: not client._connections)


async def test_a_call_is_made_anew_once_and_only_before_its_answer(client: UpstreamClient) -> None:
    """W23: on another connection, whole. What fails there has failed, and so has what had begun."""

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        if number == 1:
            peer.answer("resp_1")
        elif number == 4:
            peer.answer("resp_4")
        elif number == 5:
            peer.send(CREATED)
            peer.fail(400, LIMIT)
        else:
            peer.writer.close()

    async with serving(script) as (server, url):
        await whole(client, asked(url, [USER]))
        with pytest.raises(ConnectionReset):
            await whole(client, asked(url, [USER]))
        assert (len(server.messages), len(server.peers), server.posted) == (3, 2, 0)
        await whole(client, asked(url, [USER]))
        _, body = await whole(client, asked(url, [USER]))
        assert LIMIT["message"].encode() in body
        assert (len(server.messages), server.posted) == (5, 0)

    def cut(peer: Peer, message: dict[str, Any], number: int) -> None:
        if number > 1:
            peer.send(CREATED)
            peer.writer.close()
        else:
            peer.answer("resp_1")

    async with serving(cut) as (server, url):
        await whole(client, asked(url, [USER]))
        with pytest.raises(Truncated):
            await whole(client, asked(url, [USER]))
        assert (len(server.messages), server.posted) == (2, 0)


async def test_what_is_no_event_is_an_error_at_once(client: UpstreamClient) -> None:
    """No end would come of it. After events it is passed over, as every client does."""

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        if number > 1:
            peer.send(CREATED)
        peer.writer.write(text_frame(b'{"id":"chatcmpl-1"}') + text_frame(b"<html>"))
        if number > 1:
            peer.answer("r")

    async with serving(script) as (server, url):
        status, body = await whole(client, asked(url, [USER]))
        assert (status, json.loads(body)["error"]["type"]) == (502, "server_error")
        status, body = await whole(client, asked(url, [USER]))
        assert (status, b"chatcmpl" in body) == (200, False)
        assert (len(server.messages), server.posted) == (2, 0)


class NoMemory(Exception):
    pass


async def test_large_messages_take_memory(client: UpstreamClient) -> None:
    """The largest of a call, beyond what a small one has; without memory the call ends."""
    taken: list[int] = []
    sizes = (60_000, 300_000, 100_000, 400_000)

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        for size in sizes:
            peer.send({"type": "response.x.delta", "delta": "d" * size})
        peer.answer("r")

    def hold(size: int) -> None:
        if sum(taken) + size > limit:
            raise NoMemory
        taken.append(size)

    async with serving(script) as (_, url):
        request = asked(url, [USER])
        assert request.socket is not None
        use = SocketUse(b"thread", request.socket.call, reserve=hold)
        limit = 500_000
        assert (await whole(client, replace(request, socket=use)))[0] == 200
        assert 330_000 < sum(taken) < 345_000
        assert (await whole(client, request))[0] == 200, "an idle connection holds no request"
        taken.clear()
        limit = 200_000
        with pytest.raises(NoMemory):
            await whole(client, replace(request, socket=use))
        await until(lambda: not client._connections)


async def test_a_message_has_a_bound(
    client: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_socket, "MESSAGE_LIMIT", 100_000)

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        head = b"\x01\x7f" + (1 << 40).to_bytes(8, "big")
        peer.writer.write(head + b"x" * 200_000)

    async with serving(script) as (_, url):
        with pytest.raises(Exception, match="frames are bad"):
            await whole(client, asked(url, [USER]))


async def test_idle_connections_are_few_and_end(
    client: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest make room; each ends when nobody has used it for some time, or it is old."""
    monkeypatch.setattr(socket_pool, "_MAX_IDLE", 4)
    async with serving(plainly) as (server, url):
        for number in range(8):
            request = asked(url, [USER])
            assert request.socket is not None
            use = SocketUse(b"thread %d" % number, request.socket.call)
            await whole(client, replace(request, socket=use))
        await until(lambda: len(client._connections) == 4)
        assert [peer.closed.is_set() for peer in server.peers] == [True] * 4 + [False] * 4
        monkeypatch.setattr(socket_pool, "_IDLE_S", 0.1)
        await whole(client, asked(url, [USER]))
        assert not server.peers[8].closed.is_set()
        async with asyncio.timeout(30):
            await server.peers[8].closed.wait()
        monkeypatch.setattr(socket_pool, "_AGE_S", 0.0)
        await whole(client, asked(url, [USER]))
        async with asyncio.timeout(30):
            await server.peers[9].closed.wait()


async def test_two_hundred_calls_at_once(client: UpstreamClient) -> None:
    """Each on a connection of its own; most are kept."""
    count = 200

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        if number == count:
            for one in peer.server.peers:
                one.answer("r")

    async with serving(script) as (server, url):
        found = await asyncio.gather(*(whole(client, asked(url, [USER])) for _ in range(count)))
        assert [status for status, _ in found] == [200] * count
        assert len(server.peers) == len(client._connections) == count
