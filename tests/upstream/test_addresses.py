"""Names with several addresses: one that is dead keeps nobody from the others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dragoman.upstream import addresses
from dragoman.upstream.addresses import Address, reach

GOOD = "127.0.0.1"


@pytest.fixture
def port() -> Iterator[int]:
    """A port at which 127.0.0.1 accepts, 127.0.0.2 to 127.0.0.10 swallow, and others refuse."""
    with ExitStack() as stack:
        good = stack.enter_context(socket.create_server((GOOD, 0), backlog=64))
        port = good.getsockname()[1]
        for number in range(2, 11):
            address = (f"127.0.0.{number}", port)
            stack.enter_context(socket.create_server(address, backlog=0))
            for _ in range(2):  # its queue is full then
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(address)
        yield port


def named(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    async def resolve(host: str, port: int) -> list[Address]:
        return [(socket.AF_INET, (one, port)) for one in hosts]

    monkeypatch.setattr(addresses, "resolve", resolve)


DEAD = [f"127.0.0.{number}" for number in range(2, 11)]
REFUSING = [f"127.0.1.{number}" for number in range(1, 10)]


@pytest.mark.parametrize("before", [DEAD[:1], DEAD[:3], REFUSING, [DEAD[0], *REFUSING]])
async def test_a_good_address_is_reached(
    monkeypatch: pytest.MonkeyPatch, port: int, before: list[str]
) -> None:
    """Those that are dead are not waited for, which would last for minutes."""
    named(monkeypatch, *before, GOOD)
    async with asyncio.timeout(30):
        sock = await reach("a-name", port)
    with sock:
        assert sock.getpeername() == (GOOD, port)
        assert not sock.getblocking()
    await asyncio.sleep(0.01)
    assert len(asyncio.all_tasks()) == 1


async def test_where_all_are_dead_the_time_is_over_once(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    named(monkeypatch, *DEAD)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.6):
            await reach("a-name", port)
    await asyncio.sleep(0.01)
    assert len(asyncio.all_tasks()) == 1


async def test_where_all_refuse_it_is_told(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    named(monkeypatch, "255.255.255.255", *REFUSING)
    with pytest.raises(ConnectionRefusedError):
        await reach("a-name", port)


def test_versions_of_ip_take_turns() -> None:
    six, four = socket.AF_INET6, socket.AF_INET
    made: list[Address] = [(six, (1,)), (six, (2,)), (six, (3,)), (four, (1,))]
    assert addresses._in_turn(made) == [made[0], made[3], made[1], made[2]]
