"""Both forms of a link do the same."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest
import uvloop
from msgspec import Struct

from dragoman.link.messages import AnswerFailed, Handlers, LinkClosed, Notice, Peer, Question
from dragoman.link.owner import Owner
from dragoman.link.peers import LocalPeer, SocketPeer


class Double(Struct, frozen=True):
    number: int


class Doubled(Struct, frozen=True):
    number: int


class Event(Struct, frozen=True):
    text: str


DOUBLE = Question("double", Double, Doubled)
LATER = Question("later", Double, Doubled)
EVENT = Notice("event", Event)

pytestmark = pytest.mark.parametrize("kind", ["socket", "local"])


@asynccontextmanager
async def linked(
    kind: str, owner: Owner, worker: Handlers
) -> AsyncIterator[LocalPeer | SocketPeer]:
    """The owner as the worker sees it."""
    if kind == "local":
        yield owner.join(worker)
        return
    here, there = socket.socketpair()
    await owner.accept(here, 3)
    (accepted,) = owner.peers
    peer = await SocketPeer.open(there, worker, 3)
    try:
        yield peer
    finally:
        peer.close()
        accepted.close()
        await asyncio.sleep(0.01)


def double(peer: Peer, asked: Double) -> Doubled:
    return Doubled(2 * asked.number)


async def test_questions_are_answered_in_both_directions(kind: str) -> None:
    owner, worker = Owner(), Handlers()
    owner.handlers.answer(DOUBLE, double)
    worker.answer(DOUBLE, double)
    async with linked(kind, owner, worker) as link:
        assert await link.ask(DOUBLE, Double(4)) == Doubled(8)
        (peer,) = owner.peers
        assert await peer.ask(DOUBLE, Double(5)) == Doubled(10)


async def test_an_answer_may_come_later_and_out_of_order(kind: str) -> None:
    owner, worker = Owner(), Handlers()
    first = asyncio.get_running_loop().create_future()

    async def later(asked: Double) -> Doubled:
        await first
        return double(link, asked)

    owner.handlers.answer(LATER, lambda peer, asked: later(asked))
    owner.handlers.answer(DOUBLE, double)
    async with linked(kind, owner, worker) as link:
        waiting = asyncio.create_task(link.ask(LATER, Double(1)))
        assert await link.ask(DOUBLE, Double(2)) == Doubled(4)
        assert not waiting.done()
        first.set_result(None)
        assert await waiting == Doubled(2)


async def test_messages_keep_their_order(kind: str) -> None:
    owner, worker = Owner(), Handlers()
    seen: list[object] = []
    owner.handlers.receive(EVENT, lambda peer, event: seen.append(event.text))

    def answered(peer: Peer, asked: Double) -> Doubled:
        seen.append(asked.number)
        return double(peer, asked)

    owner.handlers.answer(DOUBLE, answered)
    async with linked(kind, owner, worker) as link:
        for number in range(100):
            link.report(EVENT, Event(f"{number}" * 5000))
        await link.ask(DOUBLE, Double(7))
    assert seen == [f"{number}" * 5000 for number in range(100)] + [7]


async def test_the_owner_reports_to_workers(kind: str) -> None:
    owner, worker = Owner(), Handlers()
    seen: list[str] = []
    worker.receive(EVENT, lambda peer, event: seen.append(event.text))
    async with linked(kind, owner, worker):
        for peer in owner.peers:
            peer.report(EVENT, Event("room"))
        assert not seen  # never in the middle of what the worker does
        await asyncio.sleep(0.01)
    assert seen == ["room"]


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_handler_that_fails_is_told_by_the_name_of_its_error(
    kind: str, is_late: bool
) -> None:
    owner = Owner()

    async def later() -> Doubled:
        raise ValueError("with a secret")

    def fail(peer: Peer, asked: Double) -> Doubled | Awaitable[Doubled]:
        if is_late:
            return later()
        raise ValueError("with a secret")

    owner.handlers.answer(DOUBLE, fail)
    async with linked(kind, owner, Handlers()) as link:
        with pytest.raises(AnswerFailed, match=r"^ValueError$"):
            await link.ask(DOUBLE, Double(4))


async def test_the_end_of_a_worker_is_seen_by_the_owner(kind: str) -> None:
    owner = Owner()
    gone: list[Peer] = []
    owner.handlers.on_closed(gone.append)
    async with linked(kind, owner, Handlers()) as link:
        (peer,) = owner.peers
        link.close()
        await asyncio.sleep(0.01)
    assert gone == [peer]
    assert not owner.peers
    assert peer.is_closed
    with pytest.raises(LinkClosed):
        await peer.ask(DOUBLE, Double(1))


async def test_the_end_of_the_owner_fails_what_is_asked(kind: str) -> None:
    owner, worker = Owner(), Handlers()
    gone: list[Peer] = []
    worker.on_closed(gone.append)
    never: asyncio.Future[Doubled] = asyncio.get_running_loop().create_future()
    owner.handlers.answer(LATER, lambda peer, asked: never)
    async with linked(kind, owner, worker) as link:
        (peer,) = owner.peers
        if kind == "socket":
            waiting = asyncio.create_task(link.ask(LATER, Double(1)))
            await asyncio.sleep(0.01)
            peer.close()
            with pytest.raises(LinkClosed):
                await waiting
        else:
            peer.close()
        link.report(EVENT, Event("nobody gets it"))
        with pytest.raises(LinkClosed):
            await link.ask(DOUBLE, Double(1))
        assert gone == [link]


async def test_a_question_that_is_withdrawn_is_answered_no_more(kind: str) -> None:
    owner = Owner()
    never: asyncio.Future[Doubled] = asyncio.get_running_loop().create_future()
    owner.handlers.answer(LATER, lambda peer, asked: never)
    async with linked(kind, owner, Handlers()) as link:
        waiting = asyncio.create_task(link.ask(LATER, Double(1)))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.sleep(0.01)
        assert never.cancelled()


async def test_an_answer_that_nobody_waits_for_any_more_is_handed_on(kind: str) -> None:
    owner = Owner()
    owner.handlers.answer(DOUBLE, double)
    async with linked(kind, owner, Handlers()) as link:
        unclaimed: list[Doubled] = []
        waiting = asyncio.create_task(link.ask(DOUBLE, Double(1), unclaimed.append))
        await asyncio.sleep(0)
        if waiting.cancel():
            await asyncio.sleep(0.01)
            assert unclaimed == [Doubled(2)]
        else:
            assert await waiting == Doubled(2)


async def test_what_a_worker_sent_is_handled_before_its_end(kind: str) -> None:
    owner = Owner()
    seen: list[str] = []
    owner.handlers.receive(EVENT, lambda peer, event: seen.append(event.text))
    owner.handlers.on_closed(lambda peer: seen.append("gone"))
    async with linked(kind, owner, Handlers()) as link:
        (peer,) = owner.peers
        for number in range(50):
            link.report(EVENT, Event(str(number)))
        link.close()
        peer.report(EVENT, Event("to nobody"))
        await asyncio.sleep(0.05)
    assert seen == [*map(str, range(50)), "gone"]


def test_a_killed_process_is_seen_at_once(kind: str) -> None:
    """The child runs another kind of event loop, as workers do."""
    if kind == "local":
        return
    here, there = socket.socketpair()
    pid = os.fork()
    if not pid:
        here.close()

        async def child() -> None:
            link = await SocketPeer.open(there, Handlers(), 1)
            link.report(EVENT, Event("alive"))
            await asyncio.sleep(60)

        try:
            uvloop.run(child())
        finally:
            os._exit(1)
    there.close()

    async def parent() -> list[str]:
        owner = Owner()
        seen: list[str] = []
        ended = asyncio.Event()

        def alive(peer: Peer, event: Event) -> None:
            seen.append(event.text)
            os.kill(pid, 9)

        owner.handlers.receive(EVENT, alive)
        owner.handlers.on_closed(lambda peer: ended.set())
        await owner.accept(here, 1)
        async with asyncio.timeout(10):
            await ended.wait()
        return seen

    assert asyncio.run(parent()) == ["alive"]
    os.waitpid(pid, 0)


async def test_a_notice_without_a_handler_is_dropped(kind: str) -> None:
    owner, worker = Owner(), Handlers()
    owner.handlers.answer(DOUBLE, double)
    worker.answer(DOUBLE, double)
    async with linked(kind, owner, worker) as link:
        (peer,) = owner.peers
        link.report(EVENT, Event("of the worker"))
        peer.report(EVENT, Event("of the owner"))
        assert await link.ask(DOUBLE, Double(4)) == Doubled(8)
        assert await peer.ask(DOUBLE, Double(5)) == Doubled(10)


async def test_a_question_without_a_handler_is_not_answered(kind: str) -> None:
    """As between two versions; the link goes on."""
    owner, worker = Owner(), Handlers()
    owner.handlers.answer(DOUBLE, double)
    async with linked(kind, owner, worker) as link:
        with pytest.raises(AnswerFailed):
            await link.ask(LATER, Double(1))
        assert await link.ask(DOUBLE, Double(4)) == Doubled(8)
