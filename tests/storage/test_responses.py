"""Stored responses: who sees them, what a conversation is, what is dropped and when."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.store import StoreError
from dragoman.storage.postgres.store import PostgresResponses
from dragoman.storage.responses import Item, Items, StoredEvent, StoredResponse, TooLarge
from dragoman.storage.sqlite import SqliteResponses
from dragoman.storage.tables.responses import ResponseTables

DAY = 24 * 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


Make = Callable[..., ResponseTables]


@pytest.fixture
def make(request: pytest.FixtureRequest, kind: str, tmp_path: Path, clock: Clock) -> Iterator[Make]:
    """Opens the same store once more, as another worker would."""
    opened: list[ResponseTables] = []
    url = request.getfixturevalue("url") if kind == "postgres" else ""

    def one(**limits: Any) -> ResponseTables:
        if url:
            opened.append(PostgresResponses(url, clock=clock, **limits))
        else:
            opened.append(SqliteResponses(tmp_path / "store.db", clock=clock, **limits))
        return opened[-1]

    yield one
    for store in opened:
        store.close()


def item(name: str, **more: Any) -> Item:
    return Item(name, json.dumps({"type": "message", "id": name, **more}).encode())


def items(*some: Item) -> Items:
    """Some items as a turn has them."""
    body = b"[" + b",".join([one.body for one in some]) + b"]"
    return Items(body, tuple([one.id for one in some]))


def said(number: int) -> tuple[Item, Item, Item]:
    """The items of a turn: what was given, and what was made."""
    made = item(f"rs_{number}", encrypted_content="e")
    return item(f"msg_in_{number}"), made, item(f"msg_out_{number}")


def turn(number: int, clock: Clock, **changed: Any) -> StoredResponse:
    fields: dict[str, Any] = {
        "id": f"resp_{number}",
        "owner": "me",
        "created": clock.now + number,
        "expires": clock.now + 30 * DAY,
        "status": "completed",
        "response": b'{"id":"resp_%d"}' % number,
        "previous": f"resp_{number - 1}" if number else None,
        "input": items(*said(number)[:1]),
        "output": items(*said(number)[1:]),
    }
    return StoredResponse(**{**fields, **changed})


def test_what_is_put_is_what_others_get(make: Make, clock: Clock) -> None:
    store, other = make(), make()
    stored = turn(0, clock, status="in_progress", output=Items())
    store.put(stored)
    assert other.get("resp_0", "me") == stored
    other.put(turn(0, clock))
    assert store.get("resp_0", "me") == turn(0, clock)
    store.put(turn(0, clock, status="failed", response=b"{}"))
    assert store.get("resp_0", "me") == turn(0, clock)


def test_some_are_put_together(make: Make, clock: Clock) -> None:
    """Each as if alone: one that is too large does not keep the others from being there, nor does
    room have to be made for it."""
    store = make(largest_bytes=2000)
    found = store.put_all(
        [
            (turn(0, clock), ()),
            (turn(1, clock, response=b"x" * 2001), ()),
            (turn(2, clock, previous="resp_0", background=True), [StoredEvent(0, b"data: 1")]),
            (turn(0, clock, status="failed"), ()),
        ]
    )
    assert [error is None for error in found] == [True, False, True, True]
    assert rows(store) == {"resp_0", "resp_2"}
    assert store.get("resp_0", "me") == turn(0, clock)
    assert store.item("msg_out_2", "me") == said(2)[2]
    assert store.item("msg_out_1", "me") is None
    assert store.events("resp_2", "me", -1, 10) == [StoredEvent(0, b"data: 1")]


def test_those_put_together_make_room_one_after_the_other(make: Make, clock: Clock) -> None:
    store = make(most_bytes=3000)
    some = [(turn(number, clock, previous=None, response=b"x" * 700), ()) for number in range(10)]
    some[4:4] = [(turn(20, clock, previous=None, response=b"x" * 3001), ())]
    found = store.put_all(some)
    assert [number for number, error in enumerate(found) if error is not None] == [4]
    assert rows(store) == {"resp_7", "resp_8", "resp_9"}


def test_nobody_sees_what_is_anothers(make: Make, clock: Clock) -> None:
    store = make()
    store.put(turn(0, clock))
    assert store.get("resp_0", "you") is None
    assert store.conversation("resp_0", "you") is None
    assert store.item("msg_in_0", "you") is None
    assert not store.delete("resp_0", "you")
    assert store.cancel("resp_0", "you") is None
    assert store.events("resp_0", "you", -1, 10) == []
    store.put(turn(0, clock, owner="you", response=b"stolen"))
    assert store.get("resp_0", "me") == turn(0, clock)
    assert store.get("resp_0", "you") is None


def test_a_conversation_is_its_turns_in_order(make: Make, clock: Clock) -> None:
    store = make()
    for number in range(5):
        store.put(turn(number, clock))
    turns = store.conversation("resp_4", "me")
    assert turns is not None
    assert [one.id for one in turns] == [f"resp_{number}" for number in range(5)]
    assert turns[2].input == (said(2)[0].body,)
    assert turns[2].output == tuple(one.body for one in said(2)[1:])
    fork = turn(9, clock, previous="resp_1")
    store.put(fork)
    forked = store.conversation("resp_9", "me")
    assert forked is not None
    assert [one.id for one in forked] == ["resp_0", "resp_1", "resp_9"]


def test_a_turn_whose_beginning_is_missing_is_no_conversation(make: Make, clock: Clock) -> None:
    store = make()
    store.put(turn(3, clock))
    assert store.get("resp_3", "me") is not None
    assert store.conversation("resp_3", "me") is None


def test_items_are_found_by_their_id(make: Make, clock: Clock) -> None:
    store = make()
    store.put(turn(0, clock))
    assert store.item("rs_0", "me") == said(0)[1]
    assert store.item("msg_in_0", "me") == said(0)[0]
    assert store.item("rs_1", "me") is None


def test_what_is_deleted_is_gone_but_for_those_that_build_on_it(make: Make, clock: Clock) -> None:
    store = make()
    for number in range(3):
        store.put(turn(number, clock))
    assert store.delete("resp_1", "me")
    assert not store.delete("resp_1", "me")
    assert store.get("resp_1", "me") is None
    assert store.item("msg_out_1", "me") is None
    assert store.conversation("resp_1", "me") is None
    turns = store.conversation("resp_2", "me")
    assert turns is not None
    assert [one.id for one in turns] == ["resp_0", "resp_1", "resp_2"]
    assert store.delete("resp_2", "me")
    store.sweep(clock.now)
    assert rows(store) == {"resp_0"}


def test_what_is_too_old_is_gone(make: Make, clock: Clock) -> None:
    store = make()
    for number in range(3):
        store.put(turn(number, clock, expires=clock.now + (number + 1) * DAY))
    clock.now += 2.5 * DAY
    assert store.get("resp_1", "me") is None
    assert store.get("resp_2", "me") is not None
    while store.sweep(clock.now):
        pass
    assert rows(store) == {"resp_0", "resp_1", "resp_2"}
    clock.now += DAY
    while store.sweep(clock.now):
        pass
    assert rows(store) == set()


def rows(store: ResponseTables) -> set[str]:
    with store._database.reading() as connection:
        return {name for (name,) in connection.execute("SELECT id FROM responses")}


def test_the_oldest_make_room(make: Make, clock: Clock) -> None:
    store = make(most_bytes=3000)
    for number in range(10):
        store.put(turn(number, clock, previous=None, response=b"x" * 700))
    assert rows(store) == {"resp_7", "resp_8", "resp_9"}
    with pytest.raises(TooLarge):
        store.put(turn(11, clock, previous=None, response=b"x" * 3001))
    assert "resp_9" in rows(make(most_bytes=3000))


def test_whoever_stores_most_makes_room(make: Make, clock: Clock) -> None:
    """Not whoever stored first: nobody drops another's responses by storing more than they do."""
    store = make(most_bytes=10_000)
    for number in range(3):
        store.put(turn(number, clock, previous=None, response=b"x" * 700))
    for number in range(10, 40):
        theirs = turn(number, clock, owner="you", previous=None, response=b"x" * 700)
        store.put(theirs)
    mine = {f"resp_{number}" for number in range(3)}
    assert rows(store) >= mine
    assert store.get("resp_39", "you") is not None
    assert store.get("resp_10", "you") is None
    # Up to as much as they have, whoever has less is made room for.
    for number in range(3, 5):
        store.put(turn(number, clock, previous=None, response=b"x" * 700))
    assert rows(store) >= mine | {"resp_3", "resp_4"}


def test_one_may_be_too_large(make: Make, clock: Clock) -> None:
    store = make(largest_bytes=100)
    with pytest.raises(TooLarge):
        store.put(turn(0, clock, response=b"x" * 101))
    assert rows(store) == set()


def test_a_background_response_is_followed_and_cancelled_from_elsewhere(
    make: Make, clock: Clock
) -> None:
    runner, other = make(), make()
    runner.put(turn(0, clock, status="queued", background=True))
    events = [StoredEvent(number, b"frame %d" % number) for number in range(5)]
    assert runner.append("resp_0", events[:3])
    assert other.events("resp_0", "me", -1, 2) == events[:2]
    assert runner.append("resp_0", events[2:])
    assert other.events("resp_0", "me", 1, 10) == events[2:]
    found = other.cancel("resp_0", "me")
    assert found is not None
    assert found.status == "queued"
    assert not runner.append("resp_0", [StoredEvent(5, b"late")])
    assert other.events("resp_0", "me", 4, 10) == []


def test_calls_are_answered_once(make: Make, clock: Clock) -> None:
    store, other = make(), make()
    store.put(turn(0, clock))
    assert store.claim("resp_0", "me", True)
    assert not other.claim("resp_0", "me", True)
    assert not other.claim("resp_0", "you", False)
    assert other.claim("resp_0", "me", False)
    assert store.claim("resp_0", "me", True)
    assert not store.claim("resp_1", "me", True)
    # Who claimed it died; but not if there is an answer.
    clock.now += 3000
    assert not other.claim("resp_0", "me", True)
    clock.now += 3000
    assert other.claim("resp_0", "me", True)
    store.put(turn(1, clock))
    clock.now += 9000
    assert not other.claim("resp_0", "me", True)


def test_a_finished_response_cannot_be_cancelled(make: Make, clock: Clock) -> None:
    store = make()
    store.put(turn(0, clock, background=True))
    found = store.cancel("resp_0", "me")
    assert found is not None
    assert found.status == "completed"
    assert store.append("resp_0", [])


def test_a_deleted_background_response_stops(make: Make, clock: Clock) -> None:
    store = make()
    store.put(turn(0, clock, status="in_progress", background=True))
    store.append("resp_0", [StoredEvent(0, b"frame")])
    assert store.delete("resp_0", "me")
    assert not store.append("resp_0", [StoredEvent(1, b"frame")])
    store.put(turn(0, clock, background=True))
    assert store.get("resp_0", "me") is None


def test_the_end_comes_with_its_events(make: Make, clock: Clock) -> None:
    """Who sees that a response is over sees all that it said."""
    runner, other = make(), make()
    runner.put(turn(0, clock, status="in_progress", background=True))
    assert runner.append("resp_0", [StoredEvent(0, b"frame 0")])
    runner.put(turn(0, clock, background=True), [StoredEvent(1, b"frame 1")])
    assert other.events("resp_0", "me", -1, 10) == [
        StoredEvent(0, b"frame 0"),
        StoredEvent(1, b"frame 1"),
    ]
    assert other.last_event("resp_0", "me") == StoredEvent(1, b"frame 1")
    assert other.last_event("resp_0", "you") is None
    # One that is over is told nothing more.
    runner.put(turn(0, clock, background=True), [StoredEvent(2, b"frame 2")])
    assert other.last_event("resp_0", "me") == StoredEvent(1, b"frame 1")


def fits(store: ResponseTables, stored: StoredResponse) -> bool:
    try:
        store.put(stored)
    except TooLarge:
        return False
    return True


def test_room_is_never_made_of_what_is_built_on(make: Make, clock: Clock) -> None:
    """One long conversation in a small store ends by being told so, not by losing its turns."""
    store = make(most_bytes=4000)
    kept = -1
    while fits(store, turn(kept + 1, clock, response=b"x" * 300)):
        kept += 1
    turns = store.conversation(f"resp_{kept}", "me")
    assert turns is not None
    assert len(turns) == kept + 1 > 5


def test_room_that_was_taken_away_is_swept(make: Make, clock: Clock) -> None:
    """A bounded number at a time."""
    store = make()
    for number in range(500):
        store.put(turn(number, clock, previous=None, response=b"x" * 700))
    smaller = make(most_bytes=3000)
    swept = []
    while dropped := smaller.sweep(clock.now):
        swept.append(dropped)
    assert max(swept) < 300
    assert rows(store) == {"resp_497", "resp_498", "resp_499"}
    smaller.put(turn(501, clock, previous=None))


def test_a_long_conversation_that_is_too_old_goes_a_piece_at_a_time(
    make: Make, clock: Clock
) -> None:
    store = make()
    for number in range(1000):
        store.put(turn(number, clock))
    clock.now += 31 * DAY + 1000
    sweeps = 0
    while store.sweep(clock.now):
        sweeps += 1
    assert rows(store) == set()
    assert 4 < sweeps < 20


@pytest.mark.parametrize("kind", ["sqlite"])
def test_what_was_deleted_is_not_in_the_file(make: Make, clock: Clock, tmp_path: Path) -> None:
    """Nor in pages that are let go; the log is SQLite's to use again."""
    store = make()
    secret = "the cat is called Schnurrli"
    store.put(
        turn(0, clock, input=items(item("msg_1", text=secret * 1000)), response=b'"%b"' % b"x")
    )
    store.put(turn(1, clock, previous=None, output=items(item("msg_2", text=secret))))
    assert store.delete("resp_0", "me")
    clock.now += 40 * DAY
    while store.sweep(clock.now):
        pass
    with store._database.writing_unversioned():
        pass
    store.close()
    assert secret.encode() not in (tmp_path / "store.db").read_bytes()


def test_an_item_is_found_as_long_as_one_response_has_it(make: Make, clock: Clock) -> None:
    """Clients that send their whole history name the same items again and again."""
    store = make()
    store.put(turn(0, clock))
    store.put(turn(1, clock, previous=None, input=turn(0, clock).output))
    assert store.delete("resp_1", "me")
    assert store.item("rs_0", "me") == said(0)[1]
    store.put(turn(2, clock, previous=None, owner="you", input=turn(0, clock).output))
    assert store.delete("resp_0", "me")
    assert store.item("rs_0", "me") is None
    assert store.item("rs_0", "you") is not None


def test_who_runs_a_background_response_may_die(make: Make, clock: Clock) -> None:
    store = make()
    store.put(turn(0, clock, status="in_progress", background=True))
    store.put(turn(1, clock, status="completed", background=True, previous=None))
    clock.now += 5
    assert store.abandoned(clock.now) == []
    assert store.append("resp_0", [])
    clock.now += 9
    assert store.abandoned(clock.now) == []
    clock.now += 9
    assert [one.id for one in store.abandoned(clock.now)] == ["resp_0"]


def test_another_takes_it_over_once(make: Make, clock: Clock) -> None:
    """What the former worker says of it then does not count."""
    runner, other, third = make(), make(), make()
    mine = turn(0, clock, status="in_progress", background=True)
    runner.put(mine)
    runner.keep_request("resp_0", b"what it answers")
    runner.append("resp_0", [StoredEvent(0, b"frame 0"), StoredEvent(1, b"frame 1")])
    clock.now += 9
    assert other.take_over(clock.now, 10) == []
    clock.now += 9
    assert other.take_over(clock.now, 0) == []
    assert other.abandoned(clock.now) == []
    (left,) = other.take_over(clock.now, 10)
    assert (left.stored.id, left.stored.taken) == ("resp_0", 1)
    assert (left.request, left.last) == (b"what it answers", 1)
    assert third.take_over(clock.now, 10) == []
    assert not runner.append("resp_0", [StoredEvent(2, b"late")])
    runner.put(replace(mine, status="failed"))
    assert other.append("resp_0", [StoredEvent(2, b"frame 2")], 1)
    # Nobody is given it a second time.
    clock.now += 18
    assert third.take_over(clock.now, 10) == []
    assert [one.id for one in third.abandoned(clock.now)] == ["resp_0"]
    other.put(replace(left.stored, status="completed"))
    found = third.get("resp_0", "me")
    assert found is not None
    assert found.status == "completed"
    assert third.abandoned(clock.now) == []


def test_what_is_left_is_taken_over_at_once(make: Make, clock: Clock) -> None:
    store, other = make(), make()
    for number in range(4):
        stored = turn(number, clock, status="queued", background=True)
        store.put(stored)
        if number != 1:
            store.keep_request(stored.id, b"x" * 1000)
    store.cancel("resp_2", "me")
    clock.now += 1
    left = [store.leave(turn(n, clock, status="queued", background=True)) for n in range(4)]
    assert left == [True, False, False, True]
    clock.now += 0.1
    assert [one.stored.id for one in other.take_over(clock.now, 1)] == ["resp_0"]
    # What nobody took for an hour is not asked for again.
    clock.now += 3601
    assert other.take_over(clock.now, 10) == []
    assert {one.id for one in other.abandoned(clock.now)} == {f"resp_{n}" for n in range(4)}


def test_a_request_takes_room_until_it_is_answered(make: Make, clock: Clock) -> None:
    store = make()

    def held() -> int:
        with store._database.reading() as connection:
            return int(connection.execute("SELECT sum(bytes) FROM responses_held").fetchone()[0])

    running = turn(0, clock, status="queued", background=True)
    store.put(running)
    before = held()
    store.keep_request("resp_0", b"x" * 1000)
    assert held() == before + 1000
    store.put(replace(running, status="in_progress"))
    assert held() == before + 1000
    store.put(replace(running, status="completed"))
    assert held() == before


def test_a_store_that_cannot_be_used_says_so(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database, and long enough to be read as one" * 100)
    store = SqliteResponses(tmp_path / "store.db", clock=clock)
    with pytest.raises(StoreError):
        store.put(turn(0, clock))
    with pytest.raises(StoreError):
        store.get("resp_0", "me")
