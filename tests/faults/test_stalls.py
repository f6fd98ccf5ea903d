"""Every wait for an upstream has an end: the next account while nothing was shown, afterwards an
error that the client cannot take for an answer."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Server, Timeouts
from dragoman.server.testing import RunningGateway
from dragoman.serving import answer_delivery
from tests.faults.conftest import Over, leased
from tests.faults.stalling import ask, head_only, is_good, never, pings
from tests.faults.upstream import (
    LAST_CHUNK,
    SSE_HEAD,
    Upstream,
    api_of,
    event,
    events,
    is_streamed,
    streamed,
)
from tests.gateway.clients import (
    APIS,
    PATHS,
    body,
    completed,
    error_of,
    stream_error,
    streamed_text,
)
from tests.gateway.conftest import config_for
from tests.gateway.http import call
from tests.gateway.http import events as told
from tests.gateway.load import at_once
from tests.gateway.processes import until
from tests.upstream.servers import Call, Handler, chunk

CELLS = list(itertools.product(APIS, APIS))
BAD, GOOD = "key-that-stalls", "key-that-answers"
LIMIT = 0.2
TOLD_S = 2.0
"""In which a machine with other work tells all that it has to say at once."""
SERVER = Server(keepalive_s=5.0, commit_after_s=10.0, shutdown_grace_s=1.0)


def trickles(count: int) -> Handler:
    """So many texts, each soon after the other, and then silence."""

    async def handler(call: Call) -> None:
        api = api_of(call)
        if not is_streamed(call):
            await head_only(call)
            return
        parts = events(api, *["more "] * 1000)
        first = next(number for number, part in enumerate(parts) if b'"more "' in part)
        await call.send(SSE_HEAD + b"".join(map(chunk, parts[:first])))
        for part in parts[first : first + count]:
            await call.send(chunk(part))
            await asyncio.sleep(0.02)
        await call.client_left()

    return handler


LIMITS: dict[str, tuple[Timeouts, Handler]] = {
    "first byte": (Timeouts(first_byte_s=TOLD_S), never),
    "total, at the head": (Timeouts(total_s=TOLD_S), never),
    "idle": (Timeouts(idle_s=TOLD_S), head_only),
    "total, at the body": (Timeouts(total_s=TOLD_S), head_only),
}


def in_turn(over: Over, upstream: Upstream, timeouts: Timeouts, *keys: str) -> RunningGateway:
    """A gateway that asks with the first key as long as it can."""
    config = config_for(upstream.url, keys=keys, timeouts=timeouts, server=SERVER)
    accounts = tuple(
        replace(one, priority=int(one.name.rpartition("-")[2])) for one in config.accounts
    )
    return over(config=replace(config, accounts=accounts))


def test_before_the_first_event_the_next_account_answers(over: Over, upstream: Upstream) -> None:
    """In every cell, each limit with a stream in the half of them. req: 141"""
    rows = []
    for which, (limit, (timeouts, handler)) in enumerate(LIMITS.items()):
        upstream.behaviours[bad := f"{BAD}-{limit}"] = handler
        gateway = in_turn(over, upstream, timeouts, bad, GOOD)
        rows += [
            (limit, *cell, (which + number) % 2 == 0, gateway) for number, cell in enumerate(CELLS)
        ]

    def check(limit: str, client: str, target: str, stream: bool, gateway: RunningGateway) -> None:
        assert is_good(client, ask(gateway, client, target, stream), stream)
        assert not gateway.app.pool.state(f"{target}-0").disabled
        until(lambda: leased(gateway) == 0)

    at_once(rows, check)
    stalled = [f"{BAD}-{limit}" for limit in LIMITS]
    assert Counter(upstream.asked(stalled)) == dict.fromkeys(stalled, len(CELLS))


def test_with_no_other_account_it_is_a_504(over: Over, upstream: Upstream) -> None:
    rows = []
    for limit, (timeouts, handler) in LIMITS.items():
        upstream.behaviours[bad := f"{BAD}-{limit}"] = handler
        gateway = over(bad, timeouts=timeouts, server=SERVER)
        rows += [(limit, *mode, gateway) for mode in itertools.product(APIS, (False, True))]

    def check(limit: str, client: str, stream: bool, gateway: RunningGateway) -> None:
        answer = ask(gateway, client, "chat", stream)
        assert answer.status == 504
        error_of(client, answer)

    at_once(rows, check)


def test_pings_are_no_answer(over: Over, upstream: Upstream) -> None:
    """They keep a stream alive, but it must begin in time."""
    gateway = in_turn(over, upstream, Timeouts(first_byte_s=TOLD_S, idle_s=5.0), BAD, GOOD)
    upstream.behaviours[BAD] = pings

    def check(client: str, target: str) -> None:
        assert is_good(client, ask(gateway, client, target, True), True)

    at_once(CELLS, check)
    assert Counter(upstream.asked()) == {BAD: len(CELLS), GOOD: len(CELLS)}


STALLS: dict[str, tuple[Timeouts, Handler]] = {
    "idle": (Timeouts(idle_s=1.5), trickles(3)),
    "total": (Timeouts(idle_s=10.0, total_s=TOLD_S), trickles(1000)),
}


@pytest.mark.parametrize("limit", STALLS)
def test_afterwards_it_is_an_error_in_the_stream(
    over: Over, upstream: Upstream, limit: str
) -> None:
    """In every cell, all at once, since each waits; nobody else is asked. req: 156"""
    timeouts, handler = STALLS[limit]
    keys = [f"{BAD}-{number}" for number in range(2)]
    gateway = over(*keys, timeouts=timeouts, server=SERVER)
    upstream.behaviours.update(dict.fromkeys(keys, handler))
    with ThreadPoolExecutor(len(CELLS)) as clients:
        answers = list(clients.map(lambda cell: ask(gateway, cell[0], cell[1], True), CELLS))
    for cell, answer in zip(CELLS, answers, strict=True):
        client, _ = cell
        assert "more more " in streamed_text(client, answer.body), cell
        assert stream_error(client, answer.body) is not None, cell
        assert not completed(client, answer.body), cell
    assert len(upstream.asked()) == len(CELLS)


async def silent_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_that_never_stands(over: Over, upstream: Upstream, stream: bool) -> None:
    """TLS is part of it: here its handshake is not answered."""

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(silent_tls, "127.0.0.1", 0)

    server = asyncio.run_coroutine_threadsafe(listen(), upstream.loop).result(5)
    port = server.sockets[0].getsockname()[1]
    made: Config = config_for(f"https://127.0.0.1:{port}", timeouts=Timeouts(connect_s=LIMIT))
    gateway = over(config=made)
    for client in APIS:
        answer = ask(gateway, client, "chat", stream)
        assert answer.status == 504
        assert "ConnectTimeout" in error_of(client, answer)["message"]
    upstream.loop.call_soon_threadsafe(server.close)


TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "chat": [{"type": "function", "function": TOOL}],
    "messages": [{"name": "look", "input_schema": {"type": "object"}}],
    "responses": [{"type": "function", "strict": False, **TOOL}],
}


def call_events(api: str, pieces: list[str]) -> list[bytes]:
    """The events of a tool call, without its end."""
    if api == "chat":
        function = {"name": "look", "arguments": ""}
        head = {"index": 0, "id": "call_1", "type": "function", "function": function}
        start = json.loads(events(api)[0].removeprefix(b"data: "))
        deltas = [{"tool_calls": [head]}] + [
            {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces
        ]
        made = []
        for delta in deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            made.append(event({**start, "choices": [choice]}))
        return [events(api)[0], *made]
    if api == "messages":
        block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
        start = {"type": "content_block_start", "index": 0, "content_block": block}
        made = [
            event(
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": piece},
                }
            )
            for piece in pieces
        ]
        return [events(api)[0], event(start), *made]
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look"}
    item |= {"arguments": "", "status": "in_progress"}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    numbered = [
        {
            "type": "response.function_call_arguments.delta",
            "item_id": "fc_1",
            "output_index": 0,
            "delta": piece,
        }
        for piece in pieces
    ]
    values = [added, *numbered]
    made = [event({**value, "sequence_number": n + 2}) for n, value in enumerate(values)]
    return [*events(api)[:2], *made]


def flooding(pieces: list[str], pause: float) -> Handler:
    async def handler(call: Call) -> None:
        parts = call_events(api_of(call), pieces)
        start = len(parts) - len(pieces)
        await call.send(SSE_HEAD + b"".join(map(chunk, parts[:start])))
        for part in parts[start:]:
            if call.writer.is_closing():
                return
            await call.send(chunk(part))
            await asyncio.sleep(pause)
        await call.send(LAST_CHUNK)

    return handler


@pytest.mark.parametrize("target", APIS)
def test_signs_of_life_that_count_come_in_their_order(
    over: Over, upstream: Upstream, target: str
) -> None:
    """Also one that falls due in the moment in which an answer arrives."""
    server = Server(keepalive_s=5.0, commit_after_s=LIMIT, shutdown_grace_s=1.0)
    config = config_for(upstream.url, server=server, keys=(BAD,))
    counting = replace(config.options, keepalive="numbered")
    gateway = over(config=replace(config, options=counting))
    loop = gateway.app._client.clock.loop

    async def at_that_moment(call: Call) -> None:
        loop.call_soon_threadsafe(time.sleep, 2 * LIMIT)
        await asyncio.sleep(LIMIT / 2)
        await call.send(streamed(events(api_of(call), "Go", "od")))

    upstream.behaviours[BAD] = at_that_moment

    answer = ask(gateway, "responses", target, stream=True)

    assert is_good("responses", answer, stream=True)
    assert not answer.body.startswith(b"event: response.created")
    numbers = [value["sequence_number"] for _, value in told(answer.body)]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize(("client", "target"), CELLS)
def test_arguments_that_run_on_as_white_space(
    over: Over, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, client: str, target: str
) -> None:
    """Some models never stop; every piece is progress for all other limits."""
    monkeypatch.setattr(answer_delivery, "BLANK_ARGUMENTS_S", LIMIT)
    gateway = over(BAD, server=SERVER)
    upstream.behaviours[BAD] = flooding(['{"a":', *["  \n\t" * 50] * 500], 0.01)
    made = body(client, f"{target}/m", stream=True, tools=TOOLS[client])
    answer = call(gateway.base_url, "POST", PATHS[client], made)
    error = stream_error(client, answer.body)
    assert error is not None
    assert "white space" in error["message"]
    assert not completed(client, answer.body)
    assert 0 < answer.body.count(b"\\t") < 400 * 50
    until(lambda: leased(gateway) == 0)


@pytest.mark.parametrize(("client", "target"), CELLS)
def test_white_space_between_values_is_fine(
    over: Over, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, client: str, target: str
) -> None:
    monkeypatch.setattr(answer_delivery, "BLANK_ARGUMENTS_S", LIMIT)
    gateway = over(BAD, server=SERVER)
    pieces = ["{", *[" " * 60, " " * 60, '"a":1,'] * 10, '"b":2}']  # for longer than the limit
    upstream.behaviours[BAD] = flooding(pieces, 0.01)
    made = body(client, f"{target}/m", stream=True, tools=TOOLS[client])
    answer = call(gateway.base_url, "POST", PATHS[client], made)
    error = stream_error(client, answer.body)
    assert error is not None  # the stream ends without its end
    assert "white space" not in error["message"]


def test_other_accounts_are_not_asked_for_long(over: Over, upstream: Upstream) -> None:
    """Several slow ones share the time that a request may take: with all of its own for each it
    would be over after two."""
    keys = tuple(f"key-slow-{number}" for number in range(5))
    upstream.behaviours.update(dict.fromkeys(keys, never))
    made = config_for(upstream.url, keys=keys, timeouts=Timeouts(first_byte_s=0.6), server=SERVER)
    upstreams = [replace(entry, attempts_within_s=1.2) for entry in made.upstreams]
    gateway = over(config=replace(made, upstreams=tuple(upstreams)))
    answer = ask(gateway, "chat", "chat", False)
    assert answer.status == 504
    assert "5 of 5 tried" in error_of("chat", answer)["message"]
