"""Other processes that work for a loop: what they do, and that none is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.canonical.errors import Refused
from dragoman.processes import helpers as module
from dragoman.processes.helper import Unfinished
from dragoman.processes.helpers import MOST, Helpers
from tests.gateway import pieces
from tests.gateway.processes import until

MEMORY = 1 << 30


@pytest.fixture
def helpers() -> Iterator[Helpers]:
    made = Helpers(20.0, MEMORY)
    yield made
    made.close()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("size", [0, 1, 100_000, 5_000_000])
def test_the_work_is_done_elsewhere_and_bodies_come_unchanged(helpers: Helpers, size: int) -> None:
    body = os.urandom(size)
    pid, given = asyncio.run(helpers.run(pieces.place, body))
    assert pid != os.getpid()
    assert given == body
    assert type(given) is bytes


def test_a_process_works_again_and_again(helpers: Helpers) -> None:
    async def twice() -> None:
        first, _ = await helpers.run(pieces.place, b"")
        again, _ = await helpers.run(pieces.place, b"")
        assert first == again

    asyncio.run(twice())
    assert helpers.started == 1


def test_there_are_only_so_many(helpers: Helpers) -> None:
    async def many() -> set[int]:
        works = [helpers.run(pieces.slow, b"", 0.05) for _ in range(3 * MOST)]
        return {pid for pid, _ in await asyncio.gather(*works)}

    assert len(asyncio.run(many())) == helpers.started == MOST


def test_errors_come_as_they_are(helpers: Helpers) -> None:
    with pytest.raises(Refused) as caught:
        asyncio.run(helpers.run(pieces.refused, b""))
    assert caught.value.fault.param == "top_k"
    assert caught.value.paths == ("top_k", "n")


def test_what_fails_is_told_without_what_it_was_about(helpers: Helpers) -> None:
    with pytest.raises(Unfinished) as caught:
        asyncio.run(helpers.run(pieces.broken, b"sk-secret"))
    assert "LookupError" in caught.value.cause
    assert "pieces.py" in caught.value.cause
    assert "sk-secret" not in str(caught.value)
    assert not caught.value.is_too_much


@pytest.mark.parametrize(
    ("work", "too_much"), [(pieces.hungry, True), (pieces.ended, False)], ids=["memory", "ended"]
)
def test_after_one_that_ended_there_is_another(
    helpers: Helpers, work: object, too_much: bool
) -> None:
    async def run() -> None:
        with pytest.raises(Unfinished) as caught:
            await helpers.run(work, b"")  # type: ignore[arg-type]
        assert caught.value.is_too_much is too_much
        assert (await helpers.run(pieces.place, b"x"))[1] == b"x"

    asyncio.run(run())
    assert helpers.started == 2


def test_one_that_takes_too_long_is_ended() -> None:
    helpers = Helpers(2.5, MEMORY)

    async def run() -> None:
        pid, _ = await helpers.run(pieces.place, b"")
        with pytest.raises(Unfinished) as caught:
            await helpers.run(pieces.slow, b"", 60.0)
        assert caught.value.is_too_much
        assert not is_running(pid)

    asyncio.run(run())
    helpers.close()


def test_one_that_has_grown_is_replaced(helpers: Helpers) -> None:
    async def run() -> None:
        grown, _ = await helpers.run(pieces.grown, b"")
        other, _ = await helpers.run(pieces.place, b"")
        assert grown != other
        assert not is_running(grown)

    asyncio.run(run())


def test_work_for_who_has_left_is_not_begun(helpers: Helpers) -> None:
    async def run() -> None:
        busy = [asyncio.create_task(helpers.run(pieces.slow, b"", 0.5)) for _ in range(MOST)]
        await asyncio.sleep(0)
        left = asyncio.create_task(helpers.run(pieces.ended, b""))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.gather(*busy)
        for _ in range(MOST):
            await helpers.run(pieces.place, b"")

    asyncio.run(run())
    assert helpers.started == MOST


def test_without_work_they_end(helpers: Helpers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_S", 0.05)

    async def run() -> None:
        pid, _ = await helpers.run(pieces.place, b"")
        await asyncio.to_thread(until, lambda: not is_running(pid))
        assert (await helpers.run(pieces.place, b""))[0] != pid

    asyncio.run(asyncio.wait_for(run(), 20))


def test_signals_for_all_processes_do_not_end_them(helpers: Helpers) -> None:
    async def run() -> None:
        pid, _ = await helpers.run(pieces.place, b"")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
        assert (await helpers.run(pieces.place, b""))[0] == pid

    asyncio.run(run())


def test_closing_ends_them() -> None:
    helpers = Helpers(20.0, MEMORY)
    pid, _ = asyncio.run(helpers.run(pieces.place, b""))
    helpers.close()
    assert not is_running(pid)


def test_closing_while_one_works_leaves_none(helpers: Helpers) -> None:
    async def run() -> int:
        pid, _ = await helpers.run(pieces.place, b"")
        working = asyncio.create_task(helpers.run(pieces.slow, b"", 0.3))
        await asyncio.sleep(0.1)
        helpers.close()
        await working
        return pid

    pid = asyncio.run(run())
    until(lambda: not is_running(pid))


def test_that_none_can_be_started_is_told(
    helpers: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(Unfinished) as caught:
        asyncio.run(helpers.run(pieces.place, b""))
    assert "temporarily" in caught.value.cause


PARENT = """
import asyncio, sys
from dragoman.processes.helpers import Helpers
from tests.gateway import pieces
async def run():
    helpers = Helpers(60.0, 1 << 30)
    print((await helpers.run(pieces.place, b""))[0], flush=True)
    work = asyncio.create_task(helpers.run(pieces.slow, b"", float(sys.argv[1])))
    await asyncio.sleep(60)
asyncio.run(run())
"""


@pytest.mark.parametrize("busy_s", ["0", "1"])
def test_they_end_with_their_parent(busy_s: str) -> None:
    """However it went, idle or at work."""
    command = [sys.executable, "-c", PARENT, busy_s]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    until(lambda: not is_running(pid))


def test_bodies_that_nobody_waits_for_are_not_kept(helpers: Helpers) -> None:
    """Where work takes long, many clients may come and leave before theirs is begun."""
    body = os.urandom(1000)

    async def run() -> None:
        await asyncio.gather(*(helpers.run(pieces.slow, b"", 0.0) for _ in range(MOST)))
        busy = [asyncio.create_task(helpers.run(pieces.slow, b"", 1.0)) for _ in range(MOST)]
        await asyncio.sleep(0.1)
        before = sys.getrefcount(body)
        left = [asyncio.create_task(helpers.run(pieces.place, body)) for _ in range(20)]
        await asyncio.sleep(0.1)
        assert sys.getrefcount(body) > before
        while left:
            left[-1].cancel()
            await asyncio.wait([left.pop()])
        assert not any(task.done() for task in busy)
        assert sys.getrefcount(body) == before
        await asyncio.gather(*busy)
        assert (await helpers.run(pieces.place, body))[1] == body

    asyncio.run(run())


def test_a_body_is_not_kept_by_its_error(helpers: Helpers) -> None:
    body = os.urandom(1000)

    async def run() -> None:
        before = sys.getrefcount(body)
        for _ in range(3):
            with contextlib.suppress(Refused):
                await helpers.run(pieces.refused, body)
        # The thread lets its piece of work go after it has told the outcome.
        for _ in range(100):
            if sys.getrefcount(body) == before:
                return
            await asyncio.sleep(0.02)
        pytest.fail("the body is kept")

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()
