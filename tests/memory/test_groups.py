"""Answers are written in groups, each in one transaction: who waits for what, and what a store that
is slow, broken or full does to others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.accounts.store import StoreError
from dragoman.canonical.errors import DragomanError
from dragoman.responses import response_store
from dragoman.responses.response_store import ResponseStoreThread
from dragoman.storage.responses import Items, StoredEvent, StoredResponse, TooLarge
from dragoman.storage.sqlite import SqliteResponses


def answer(name: str, **changed: Any) -> StoredResponse:
    fields: dict[str, Any] = {
        "id": name,
        "owner": "me",
        "created": 1.0,
        "expires": 1e12,
        "status": "completed",
        "response": b"{}",
        "output": Items(b'[{"id":"msg_%b"}]' % name.encode(), (f"msg_{name}",)),
    }
    return StoredResponse(**{**fields, **changed})


class Watched(SqliteResponses):
    """Tells the sizes of its groups, and does as it is told before each."""

    def __init__(self, path: Path, **limits: Any) -> None:
        super().__init__(path, **limits)
        self.groups: list[int] = []
        self.before: Callable[[Sequence[StoredResponse]], None] = lambda _: None

    def put_all(
        self, some: Sequence[tuple[StoredResponse, Sequence[StoredEvent]]]
    ) -> list[TooLarge | None]:
        self.groups.append(len(some))
        self.before([stored for stored, _ in some])
        return super().put_all(some)


async def is_writing(store: Watched) -> None:
    """Wait until a group is being written."""
    for _ in range(30_000):
        if store.groups:
            return
        await asyncio.sleep(0.001)
    pytest.fail("nothing is written")


@asynccontextmanager
async def opened(store: SqliteResponses) -> AsyncIterator[ResponseStoreThread]:
    responses = ResponseStoreThread(store, 1.0)
    try:
        yield responses
    finally:
        await responses.aclose()


async def outcomes(*puts: Awaitable[None]) -> list[str]:
    """ "kept", or the name of the error, of each."""
    found = await asyncio.gather(*puts, return_exceptions=True)
    return ["kept" if error is None else type(error).__name__ for error in found]


async def test_those_that_end_together_are_written_together(tmp_path: Path) -> None:
    store, other = Watched(tmp_path / "a.db"), SqliteResponses(tmp_path / "a.db")
    async with opened(store) as responses:
        await responses.put(answer("first"))
        assert store.groups == [1]
        assert other.get("first", "me") == answer("first")
        await asyncio.gather(*[responses.put(answer(f"n{number}")) for number in range(600)])
        for number in range(600):
            assert other.get(f"n{number}", "me") is not None
    assert sum(store.groups) == 601
    assert len(store.groups) < 8
    assert max(store.groups) <= response_store._MOST_IN_GROUP
    other.close()


async def test_who_waits_knows_that_it_is_safe(tmp_path: Path) -> None:
    """Each of many that come as they like is there for others when its own wait is over."""
    store, other = Watched(tmp_path / "a.db"), SqliteResponses(tmp_path / "a.db")
    async with opened(store) as responses:

        async def put(number: int) -> None:
            await asyncio.sleep(number % 7 / 1000)
            await responses.put(answer(f"n{number}"))
            assert other.get(f"n{number}", "me") is not None

        await asyncio.gather(*[put(number) for number in range(100)])
    other.close()


async def test_a_slow_store_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    """The loop runs on, those that come meanwhile wait as one group, and not for each other."""
    store, go = Watched(tmp_path / "a.db"), threading.Event()
    store.before = lambda _: assert_true(go.wait(10))
    async with opened(store) as responses:
        first = asyncio.create_task(responses.put(answer("first")))
        await is_writing(store)
        later = [asyncio.create_task(responses.put(answer(f"n{number}"))) for number in range(50)]
        loop = asyncio.get_running_loop()
        for _ in range(50):
            begun = loop.time()
            await asyncio.sleep(0.001)
            assert loop.time() - begun < 5, "it waits for the store, which waits for 10 seconds"
        assert not first.done()
        go.set()
        await asyncio.gather(first, *later)
        assert store.groups == [1, 50]


def assert_true(holds: bool) -> None:
    assert holds


async def test_more_than_may_wait_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_store, "_MOST_WAITING", 3)
    store, go = Watched(tmp_path / "a.db"), threading.Event()
    store.before = lambda _: assert_true(go.wait(10))
    async with opened(store) as responses:
        puts = [asyncio.create_task(responses.put(answer("n0")))]
        await is_writing(store)
        more = (responses.put(answer(f"n{number}")) for number in range(1, 6))
        puts += [asyncio.create_task(one) for one in more]
        async with asyncio.timeout(30):
            await asyncio.wait(puts[4:])
        # One is being written, and three wait for it.
        assert [task.done() for task in puts] == [False] * 4 + [True] * 2
        go.set()
        assert await outcomes(*puts) == ["kept"] * 4 + ["DragomanError"] * 2
        monkeypatch.setattr(response_store, "_MOST_WAITING_BYTES", 100)
        large = answer("large", response=b"x" * 1000)
        assert await outcomes(responses.put(large), responses.put(answer("small"))) == [
            "kept",
            "DragomanError",
        ]
        await responses.put(answer("small"))


async def test_a_store_that_fails_fails_the_group(tmp_path: Path) -> None:
    store = Watched(tmp_path / "a.db")

    def fail(_: object) -> None:
        raise StoreError("gone")

    async with opened(store) as responses:
        store.before = fail
        found = await outcomes(responses.put(answer("a")), responses.put(answer("b")))
        assert found == ["DragomanError"] * 2
        # Who comes right after it does not wait for the store again.
        groups = len(store.groups)
        assert await outcomes(responses.put(answer("c"))) == ["DragomanError"]
        assert len(store.groups) == groups
        store.before = lambda _: None
        responses._again_at = 0.0
        await responses.put(answer("d"))


async def test_what_cannot_be_written_is_nobody_elses_fault(tmp_path: Path) -> None:
    store = Watched(tmp_path / "a.db", largest_bytes=5000)
    async with opened(store) as responses:
        found = await outcomes(
            responses.put(answer("a")),
            responses.put(answer("b", response=b"x" * 5001)),
            responses.put(answer("c", owner=None)),
            responses.put(answer("d")),
        )
        assert found == ["kept", "TooLarge", "IntegrityError", "kept"]


async def test_who_leaves_while_it_is_written(tmp_path: Path) -> None:
    """What was handed over is written; the others of the group notice nothing."""
    store, go = Watched(tmp_path / "a.db"), threading.Event()
    store.before = lambda _: assert_true(go.wait(10))
    async with opened(store) as responses:
        leaving, staying = (asyncio.create_task(responses.put(answer(name))) for name in "ab")
        await asyncio.sleep(0.05)
        leaving.cancel()
        go.set()
        await staying
        with pytest.raises(asyncio.CancelledError):
            await leaving
    other = SqliteResponses(tmp_path / "a.db")
    assert other.get("a", "me") is not None
    other.close()


async def test_what_waits_is_written_before_the_end(tmp_path: Path) -> None:
    store = Watched(tmp_path / "a.db")
    async with opened(store) as responses:
        await responses.put(answer("first"))
        puts = [asyncio.create_task(responses.put(answer(f"n{number}"))) for number in range(600)]
        await asyncio.sleep(0)
    assert await outcomes(*puts) == ["kept"] * 600


async def test_a_store_that_cannot_be_used_is_an_error_of_its_own(tmp_path: Path) -> None:
    store = Watched(tmp_path / "none" / "a.db")
    (tmp_path / "none").write_text("no folder")
    async with opened(store) as responses:
        with pytest.raises(DragomanError, match="cannot be used"):
            await responses.put(answer("a"))
