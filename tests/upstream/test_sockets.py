"""Calls over WebSocket: what goes over a connection, when another is opened, when it is POST."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import nullcontext
from typing import Any

import pytest
from msgspec.structs import replace
from websockets.frames import Opcode

from dragoman.http.websocket import text_frame
from dragoman.http.websocket.messages import control_frame
from dragoman.protocols.openai_responses.upstream_websocket import (
    MAX_BYTES,
    streamed,
)
from dragoman.upstream import (
    ConnectionReset,
    Truncated,
    UpstreamClient,
    UpstreamResponse,
)
from tests.upstream.peers import (
    LIMIT,
    REPLY,
    USER,
    Peer,
    Server,
    asked,
    plainly,
    serving,
    until,
    whole,
)
from tests.upstream.proxies import HttpProxy, SocksProxy

ECHOED = {"role": "assistant", "content": [{"type": "output_text", "text": "ho"}]}
NOT_FOUND = {"code": "previous_response_not_found", "message": "gone", "type": "x"}


async def test_only_what_is_new_is_sent_where_the_connection_holds_the_rest(
    client: UpstreamClient,
) -> None:
    """The parent and what follows it, if fields, input and the answer are as they were, however the
    answer is repeated; else all of it."""
    async with serving(plainly) as (server, url):
        first = [USER, ECHOED, {**USER, "content": "2"}]
        second = [*first, {**REPLY, "id": "other"}, {**USER, "content": "3"}]
        status, body = await whole(client, asked(url, [USER]))
        assert status == 200
        assert body.startswith(b"event: response.created\ndata: {")
        assert body.count(b"\n\n") == 2  # one that streams do not have is left out
        for given in (first, second):
            assert (await whole(client, asked(url, given)))[0] == 200
        edited = [*second, {**ECHOED, "content": "never said"}, USER]
        await whole(client, asked(url, edited))
        await whole(client, asked(url, [*edited, ECHOED, USER], instructions="other"))
        sent = [(one.get("previous_response_id"), one["input"]) for one in server.messages]
        assert sent == [
            (None, [USER]),
            ("resp_1", [first[-1]]),
            ("resp_2", [second[-1]]),
            (None, edited),
            (None, [*edited, ECHOED, USER]),
        ]
        assert len(server.peers) == 1
        assert b"Bearer k" in server.heads[0]
        assert server.messages[0]["type"] == "response.create"
        assert "stream" not in server.messages[0]


@pytest.mark.parametrize(("status", "always"), [(426, False), (426, True), (503, False)])
async def test_a_refused_handshake_is_posted_and_remembered(
    client: UpstreamClient, status: int, always: bool
) -> None:
    async with serving(plainly, refuses=status) as (server, url):
        for _ in range(2):
            assert await whole(client, asked(url, [USER], always=always)) == (200, b"posted")
        assert sum(head.startswith(b"GET") for head in server.heads) == (2 if always else 1)
        assert server.posted == 2


@pytest.mark.parametrize("way", ["direct", "http", "socks"])
async def test_tls_and_proxies(
    way: str, client_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    """As HTTP has them: a tunnel where there is TLS, or SOCKS."""
    proxies = {"http": HttpProxy(auth="me:secret"), "socks": SocksProxy()}
    proxy = proxies.get(way)
    async with (
        UpstreamClient(tls=client_tls) as client,
        serving(plainly, tls=server_tls) as (server, url),
        proxy or nullcontext(),
    ):
        request = asked(url, [USER])
        if proxy is not None:
            scheme = "http://me:secret@" if way == "http" else "socks5://"
            request = replace(request, proxy=f"{scheme}127.0.0.1:{proxy.port}")
        for _ in range(2):
            assert (await whole(client, request))[0] == 200
        assert len(server.peers) == 1
        assert proxy is None or proxy.connections == 1


async def test_through_a_proxy_that_forwards_it_is_posted(client: UpstreamClient) -> None:
    async with HttpProxy() as proxy:
        request = replace(
            asked("http://upstream.invalid/v1/responses", [USER]),
            proxy=f"http://127.0.0.1:{proxy.port}",
        )
        assert (await whole(client, request))[0] == 200
        assert [one.method for one in proxy.calls] == ["POST"]


async def test_a_large_request_is_posted(client: UpstreamClient) -> None:
    """W21."""
    async with serving(plainly) as (server, url):
        large = asked(url, [{**USER, "content": "x" * MAX_BYTES}])
        assert await whole(client, large) == (200, b"posted")
        assert not server.peers


@pytest.mark.parametrize("error", [NOT_FOUND, LIMIT])
async def test_what_a_connection_does_not_hold_is_sent_whole_on_another(
    client: UpstreamClient, error: dict[str, Any]
) -> None:
    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        if number == 2:
            peer.fail(400, error)
        else:
            peer.answer(f"resp_{number}")

    async with serving(script) as (server, url):
        await whole(client, asked(url, [USER]))
        assert (await whole(client, asked(url, [USER, ECHOED, USER])))[0] == 200
        last = server.messages[2]
        assert last["input"] == [USER, ECHOED, USER]
        assert "previous_response_id" not in last
        assert len(server.peers) == 2


async def test_a_connection_that_always_refuses_is_given_up_for_post(
    client: UpstreamClient,
) -> None:
    async with serving(lambda peer, message, number: peer.fail(400, LIMIT)) as (server, url):
        assert await whole(client, asked(url, [USER])) == (200, b"posted")
        assert len(server.messages) == 2


async def test_an_error_before_any_event_is_its_answer_by_http(client: UpstreamClient) -> None:
    """W8: the status, whichever its name is, the headers that it tells, and the error, whether it
    has an object of its own or not. The connection is given up."""
    headers = {"Retry-After": 7, "X-List": [1], "X-Line": "a\nb", "a b": "c", "Content-Type": "x"}
    error = {"type": "rate_limit", "code": "slow", "message": "m", "headers": headers}

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        if number == 1:
            peer.fail(429, error)
        elif number == 2:
            peer.send({"type": "error", "status_code": 429, "error": error})
        else:
            peer.send({"type": "error", "status_code": 400, "code": "c", "message": "flat"})

    async with serving(script) as (server, url):
        for _ in range(2):
            async with await client.send(asked(url, [USER])) as answer:
                assert answer.status == 429
                assert answer.headers.get("retry-after") == "7"
                assert answer.headers.get("content-type") != "x"
                assert not {"x-list", "x-line", "a b"} & set(answer.headers)
                told = json.loads(await answer.read(1000))
                assert told == {
                    "error": {name: error[name] for name in ("type", "code", "message")}
                }
        assert len(server.peers) == 2
        status, body = await whole(client, asked(url, [USER]))
        told = json.loads(body)["error"]
        assert (status, told["code"], told["message"]) == (400, "c", "flat")


async def test_an_error_after_events_is_one_of_the_stream(client: UpstreamClient) -> None:
    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        peer.send({"type": "response.created", "response": {"id": "r"}})
        peer.fail(500, {"code": "server_error", "message": "broke"})

    async with serving(script) as (_, url):
        status, body = await whole(client, asked(url, [USER]))
        assert status == 200
        assert (
            b'event: error\ndata: {"type":"error","code":"server_error","message":"broke"' in body
        )


async def test_an_answer_in_one_piece_before_the_end_is_whole(client: UpstreamClient) -> None:
    """However many events it has, and though the upstream closes without a word."""

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        events: list[Any] = [{"type": "response.created", "response": {"id": "r"}}]
        events += [{"type": "response.x.delta", "n": n} for n in range(1500)]
        done = {"id": "r", "output": [REPLY]}
        events.append({"type": "response.completed", "response": done})
        peer.writer.write(b"".join(text_frame(json.dumps(event).encode()) for event in events))
        peer.writer.close()

    async with serving(script) as (_, url):
        for _ in range(5):
            status, body = await whole(client, asked(url, [USER]))
            assert status == 200
            assert body.count(b"response.x.delta") == 2 * 1500
            assert b"response.completed" in body


async def test_cut_in_the_middle(client: UpstreamClient) -> None:
    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        peer.send({"type": "response.created", "response": {"id": "r"}})
        if number == 1:
            peer.writer.close()
        else:
            peer.writer.write(control_frame(Opcode.CLOSE, (1000).to_bytes(2, "big")))

    async with serving(script) as (_, url):
        for _ in range(2):
            with pytest.raises(Truncated):
                await whole(client, asked(url, [USER]))


async def test_an_idle_connection_answers_pings_and_its_end_is_seen(client: UpstreamClient) -> None:
    """W20."""
    async with serving(plainly) as (server, url):
        await whole(client, asked(url, [USER]))
        peer = server.peers[0]
        peer.writer.write(control_frame(Opcode.PING, b"there?"))
        await until(lambda: peer.pongs == [b"there?"])
        peer.writer.close()
        await until(lambda: not client._connections)
        assert (await whole(client, asked(url, [USER])))[0] == 200
        assert len(server.peers) == 2


async def test_pings_are_answered_within_a_large_request(client: UpstreamClient) -> None:
    """W20: a large request goes in pieces, and the answer to a ping between them."""
    seen: list[tuple[int, int]] = []

    class Slow(Server):
        async def read(self, peer: Peer) -> None:
            peer.writer.write(control_frame(Opcode.PING, b"p"))
            while not peer.pongs:
                for piece in peer.frames(await peer.reader.read(65536)):
                    if piece.opcode is Opcode.PONG:
                        peer.pongs.append(bytes(piece.data))
                    seen.append((piece.opcode, piece.fin))
            peer.answer("r")
            await peer.reader.read()

    server = Slow(plainly)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1/responses"
        given = [{**USER, "content": "x" * (14 * 1024 * 1024)}]
        assert (await whole(client, asked(url, given)))[0] == 200
        assert (Opcode.PONG, True) in seen
        assert not any(ends for opcode, ends in seen if opcode is not Opcode.PONG)
        await client.aclose()


async def test_an_end_that_crosses_a_request_is_no_failure(client: UpstreamClient) -> None:
    """W26: nothing was answered, so all of it is sent once more; a fresh connection that ends so
    has failed."""

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        if number in (2, 4, 5):
            peer.writer.write(control_frame(Opcode.PING) + control_frame(Opcode.CLOSE, b"\x03\xe9"))
        else:
            peer.answer(f"resp_{number}")

    async with serving(script) as (server, url):
        await whole(client, asked(url, [USER]))
        assert (await whole(client, asked(url, [USER, ECHOED, USER])))[0] == 200
        assert [len(one["input"]) for one in server.messages] == [1, 1, 3]
        with pytest.raises(ConnectionReset):
            await whole(client, asked(url, [USER]))
        assert (len(server.messages), server.posted) == (5, 0)


async def test_a_message_too_big_for_the_upstream_is_posted(client: UpstreamClient) -> None:
    """W21: and not tried on another connection."""

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        peer.writer.write(control_frame(Opcode.CLOSE, (1009).to_bytes(2, "big")))

    async with serving(script) as (server, url):
        assert await whole(client, asked(url, [USER])) == (200, b"posted")
        assert len(server.messages) == 1


async def test_a_busy_connection_is_not_waited_for(client: UpstreamClient) -> None:
    """W27."""
    async with serving(lambda peer, message, number: None) as (server, url):
        calls = [asyncio.create_task(whole(client, asked(url, [USER]))) for _ in range(3)]
        await until(lambda: len(server.messages) == 3)
        assert len(server.peers) == 3
        for number, peer in enumerate(server.peers):
            peer.answer(f"r{number}")
        assert [status for status, _ in await asyncio.gather(*calls)] == [200] * 3


async def test_cancelling_closes_the_connection(client: UpstreamClient) -> None:
    """W25: whether its answer has begun or not."""

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        if number == 2:
            peer.send({"type": "response.created", "response": {"id": "r"}})

    async with serving(script) as (server, url):
        for number in (1, 2):
            call = asyncio.create_task(whole(client, asked(url, [USER])))
            await until(lambda: len(server.messages) == number)  # noqa: B023
            await asyncio.sleep(0.02)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            async with asyncio.timeout(30):
                await server.peers[-1].closed.wait()
        assert not client._connections


async def test_a_late_event_is_not_of_the_next_answer(client: UpstreamClient) -> None:
    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        peer.answer(f"resp_{number}")
        if number == 1:
            peer.send({"type": "response.late", "response": {"id": "resp_1"}})
        else:
            peer.fail(500, {"message": "late"})

    async with serving(script) as (server, url):
        for _ in range(3):
            status, body = await whole(client, asked(url, [USER]))
            assert status == 200
            assert b"late" not in body
            await asyncio.sleep(0.02)
        assert len(server.peers) == 2


async def test_a_slow_reader_has_the_upstream_wait_and_loses_nothing(
    client: UpstreamClient,
) -> None:
    """W24: frames that came in one read with others, while nobody took them."""
    count = 600
    deltas = [{"type": "response.x.delta", "n": n, "delta": "d" * 200} for n in range(count)]

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        peer.send({"type": "response.created", "response": {"id": "r"}})
        for delta in deltas:
            peer.send(delta)
        peer.answer("r")

    async with serving(script) as (_, url):
        async with await client.send(asked(url, [USER])) as answer:
            await asyncio.sleep(0.05)
            body = await _read_slowly(answer)
        found = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
        assert [one["n"] for one in found if "n" in one] == list(range(count))
        assert found[-1]["type"] == "response.completed"
        assert (await whole(client, asked(url, [USER])))[0] == 200


async def _read_slowly(answer: UpstreamResponse) -> bytes:
    parts = []
    async for chunk in answer:
        parts.append(chunk)
        await asyncio.sleep(0.001)
    return b"".join(parts)


def test_an_event_is_one_of_a_stream() -> None:
    assert streamed(b"a", b'{"type":"a",\n "b":1}') == b'event: a\ndata: {"type":"a",  "b":1}\n\n'
    assert streamed(b"", b"nonsense") == b""
