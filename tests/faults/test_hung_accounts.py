"""Accounts that hang, at every place of a call, are never the last that a client hears of while
another account or a fallback is good: with limits that are scaled down, their proportions kept."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Fallback, Route, Timeouts, Upstream
from dragoman.server.testing import RunningGateway
from tests.faults.conftest import Over, leased
from tests.faults.stalling import ask, head_only, is_good, never, pings
from tests.faults.upstream import Upstream as FakeUpstream
from tests.faults.upstream import good
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import AUTH, Connection, call
from tests.gateway.load import at_once
from tests.gateway.processes import until
from tests.upstream.servers import Call, Handler

SCALE = 1.2 / 600.0
"""`first_byte_s` is 1.2 s here."""
HUNG = tuple(f"key-that-hangs-{number}" for number in range(3))
GOOD = "key-that-answers"
HANGS: dict[str, Handler] = {"no head": never, "no body": head_only, "pings": pings}
MODES = list(itertools.product(APIS, (False, True)))
CELLS = [
    (client, target, stream, hangs)
    for (client, target), stream, hangs in zip(
        itertools.product(APIS, APIS),
        itertools.cycle((False, True, True)),
        itertools.cycle(HANGS),
        strict=False,
    )
]


def scaled(base_url: str, *keys: str, **more: Any) -> Config:
    """The default limits, all of them so much shorter."""
    usual, within = Timeouts(), Upstream(name="u", protocol="openai_chat", base_url="http://u")
    limits = Timeouts(
        connect_s=usual.connect_s,
        first_byte_s=usual.first_byte_s * SCALE,
        idle_s=usual.idle_s * SCALE,
        total_s=usual.total_s * SCALE,
    )
    config = config_for(base_url, keys=keys, timeouts=limits, **more)
    upstreams = tuple(
        replace(one, attempts_within_s=within.attempts_within_s * SCALE, attempts=10)
        for one in config.upstreams
    )
    return replace(config, upstreams=upstreams)


def test_a_good_account_answers_however_many_hang(over: Over, upstream: FakeUpstream) -> None:
    """In every cell."""
    rows = []
    for number, cell in enumerate(CELLS):
        hung = tuple(f"{key}-{number}" for key in HUNG)
        upstream.behaviours.update(dict.fromkeys(hung, HANGS[cell[-1]]))
        keys = (*hung, f"{GOOD}-{number}")
        rows.append((*cell, keys, over(config=scaled(upstream.url, *keys))))

    def check(
        client: str,
        target: str,
        stream: bool,
        hangs: str,
        keys: tuple[str, ...],
        gateway: RunningGateway,
    ) -> None:
        assert is_good(client, ask(gateway, client, target, stream), stream)
        assert upstream.asked(keys) == list(keys)
        until(lambda: leased(gateway) == 0)

    at_once(rows, check)


def test_so_does_a_fallback(over: Over, upstream: FakeUpstream) -> None:
    """Also where it is the last of several, and all accounts of the others hang."""
    route = Route(
        match="m",
        upstream="chat",
        fallbacks=(Fallback(upstream="responses"), Fallback(upstream="messages")),
    )
    rows = []
    for (client, stream), hangs in zip(MODES, itertools.cycle(HANGS), strict=False):
        hung = tuple(f"{key}-{client}-{stream}" for key in HUNG[:2])
        upstream.behaviours.update(dict.fromkeys(hung, HANGS[hangs]))
        config = scaled(upstream.url, *hung, routes=(route,))
        accounts = [one for one in config.accounts if one.upstream != "messages"]
        good = replace(config.accounts[0], name="good", upstream="messages", key=None)
        gateway = over(config=replace(config, accounts=(*accounts, good)))
        rows.append((client, stream, hangs, hung, gateway))

    def check(
        client: str, stream: bool, hangs: str, hung: tuple[str, ...], gateway: RunningGateway
    ) -> None:
        answer = call(gateway.base_url, "POST", PATHS[client], body(client, "m", stream=stream))
        assert answer.headers["x-dragoman-upstream"] == "messages"
        assert is_good(client, answer, stream)
        assert upstream.asked(hung) == [*hung] * 2

    at_once(rows, check)


@pytest.mark.parametrize("client", APIS)
def test_a_stream_that_ends_with_its_head_is_no_answer_either(
    over: Over, upstream: FakeUpstream, client: str
) -> None:
    """Where pauses within an answer may be long, its beginning may not."""
    upstream.behaviours[HUNG[0]] = head_only
    timeouts = Timeouts(first_byte_s=0.3, idle_s=60.0)
    gateway = over(HUNG[0], GOOD, timeouts=timeouts)
    assert is_good(client, ask(gateway, client, "chat", True), True)
    assert upstream.asked() == [HUNG[0], GOOD]


def test_the_last_that_can_be_asked_is_given_all_its_time(
    over: Over, upstream: FakeUpstream
) -> None:
    """One that takes long to think is not cut short for want of time for nobody."""

    async def thinks(call: Call) -> None:
        await asyncio.sleep(0.7)
        await good(call)

    rows = []
    for client, stream in MODES:
        keys = tuple(f"{key}-{client}-{stream}" for key in (HUNG[0], "key-of-a-thinker"))
        upstream.behaviours |= dict(zip(keys, (never, thinks), strict=True))
        config = scaled(upstream.url, *keys)
        limits = replace(config.upstreams[0].timeouts, first_byte_s=1.1, idle_s=5.0, total_s=10.0)
        upstreams = tuple(
            replace(one, timeouts=limits, attempts_within_s=1.2) for one in config.upstreams
        )
        rows.append((client, stream, keys, over(config=replace(config, upstreams=upstreams))))

    def check(client: str, stream: bool, keys: tuple[str, ...], gateway: RunningGateway) -> None:
        assert is_good(client, ask(gateway, client, "chat", stream), stream)
        assert upstream.asked(keys) == list(keys)

    at_once(rows, check)


@pytest.mark.parametrize("stream", [False, True])
def test_clients_that_leave_a_hung_account_tell_of_it(
    over: Over,
    upstream: FakeUpstream,
    stream: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The account is avoided, and the attempt counts as failed: in the log and the metrics. Of
    clients that lose their patience soon nothing follows."""
    monkeypatch.setattr("dragoman.accounts.upstream_pool.UNKNOWN_LIMIT_S", 0.3)
    caplog.set_level("INFO", "dragoman.requests")
    upstream.behaviours[HUNG[0]] = never
    gateway = over(HUNG[0], GOOD, timeouts=Timeouts())

    def leave_after(seconds: float) -> dict[str, Any]:
        caplog.clear()
        asked = len(upstream.calls)
        with Connection(gateway.base_url) as client:
            made = body("chat", "chat/m", stream=stream)
            client.send("POST", PATHS["chat"], made, AUTH)
            until(lambda: len(upstream.calls) > asked)
            time.sleep(seconds)
        until(lambda: any("client_gone" in text for text in caplog.messages))
        line: dict[str, Any] = json.loads(caplog.messages[-1])
        assert line["error"] == "client_gone"
        return line

    assert "failed" not in leave_after(0.0)
    assert ask(gateway, "chat", "chat", stream).status == 200  # the other's turn
    (failed,) = leave_after(0.4)["failed"]
    assert (failed["account"], failed["kind"]) == ("chat-0", "silent")
    for _ in range(6):
        assert ask(gateway, "chat", "chat", stream).status == 200
    assert upstream.asked()[-6:] == [GOOD] * 6
    counts = gateway.app._scrape.own()
    assert counts.failures == {"chat chat-0 silent": 1}
    assert counts.accounts["chat chat-0"] == [2, 0]
