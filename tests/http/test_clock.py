"""Timeouts that share a timer."""

import asyncio
from functools import partial

from dragoman.http.clock import Clock, Timeout


async def test_timeouts_ring_in_the_order_of_their_start() -> None:
    """Of one length; those of another length have a timer of their own."""
    clock = Clock(asyncio.get_running_loop())
    rung: list[str] = []
    over = asyncio.Event()
    clock.after(0.03, over.set)
    for name in ("first", "second"):
        clock.after(0.01, partial(rung.append, name))
    await over.wait()
    assert rung == ["first", "second"]


async def test_a_cancelled_timeout_does_not_ring() -> None:
    """Those started before and after it do, and cancelling it again is harmless."""
    clock = Clock(asyncio.get_running_loop())
    rung: list[str] = []
    over = asyncio.Event()
    clock.after(0.01, lambda: rung.append("before"))
    cancelled = clock.after(0.01, lambda: rung.append("cancelled"))
    clock.after(0.01, lambda: rung.append("after"))
    clock.after(0.01, over.set)
    cancelled.cancel()
    await over.wait()
    cancelled.cancel()
    assert rung == ["before", "after"]


async def test_a_timeout_started_later_rings_later() -> None:
    """The shared timer is set anew for what was started while it ran."""
    loop = asyncio.get_running_loop()
    clock = Clock(loop)
    over = asyncio.Event()
    due: list[float] = []

    def begin() -> None:
        started = loop.time()

        def ring() -> None:
            due.append(loop.time() - started)
            over.set()

        clock.after(0.04, ring)

    clock.after(0.04, lambda: None).cancel()
    loop.call_later(0.02, begin)
    await over.wait()
    # A turn of the loop rounds its time to milliseconds.
    assert due[0] >= 0.04 - 0.002


async def test_a_callback_may_cancel_another_that_is_due() -> None:
    """What one stops does not ring after it, though both were due."""
    clock = Clock(asyncio.get_running_loop())
    rung: list[str] = []
    held: list[Timeout] = []

    def first() -> None:
        rung.append("first")
        held[0].cancel()

    clock.after(0.01, first)
    held.append(clock.after(0.01, lambda: rung.append("second")))
    await asyncio.sleep(0.03)
    assert rung == ["first"]
