"""Bound ids: whose they are, how they are listed, what is due of them and who settles it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.storage.bound import MOST_DETAIL, BoundId, Page
from dragoman.storage.postgres.store import PostgresResponses
from dragoman.storage.sqlite import SqliteResponses
from dragoman.storage.tables.responses import ResponseTables

DAY = 24 * 3600.0
NOW = 1_000_000.0


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


Make = Callable[[], ResponseTables]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(request: pytest.FixtureRequest, kind: str, tmp_path: Path, clock: Clock) -> Iterator[Make]:
    """Opens the same store once more, as another worker would."""
    opened: list[ResponseTables] = []
    url = request.getfixturevalue("url") if kind == "postgres" else ""

    def one() -> ResponseTables:
        if url:
            opened.append(PostgresResponses(url, clock=clock))
        else:
            opened.append(SqliteResponses(tmp_path / "store.db", clock=clock))
        return opened[-1]

    yield one
    for store in opened:
        store.close()


def file(number: int, owner: str = "me", account: str = "a", **more: object) -> BoundId:
    details = {"kind": "file", "created": NOW + number, **more}
    return BoundId(name=f"file-{number}", owner=owner, account=account, **details)  # type: ignore[arg-type]


def names(found: list[BoundId] | None) -> list[str]:
    assert found is not None
    return [one.name for one in found]


def test_what_an_upstream_holds_is_its_owners_to_know(make: Make, clock: Clock) -> None:
    """A response id may be that of two clients of two accounts, anything else is one client's."""
    first, other = make().bound, make().bound
    ids = [BoundId(name=name, owner="me", account="a", expires=NOW + DAY) for name in ("r", "i")]
    assert first.bind(ids) == []
    assert first.bind([BoundId(name="r", owner="you", account="b", expires=NOW + DAY)]) == []
    assert {one.name: one.account for one in other.find(["r", "i", "x"], ["me"])} == {
        "r": "a",
        "i": "a",
    }
    assert [one.account for one in other.find(["r", "i"], ["you"])] == ["b"]
    both = first.find(["r"], ["me", "you", "x"])
    assert sorted(one.account for one in both) == ["a", "b"]
    other.unbind("r", "me")
    assert [one.name for one in first.find(["r", "i"], ["me"])] == ["i"]
    assert names(first.find(["r"], ["you"])) == ["r"]
    clock.now += 2 * DAY
    assert first.find(["i"], ["me"]) == first.find(["r"], ["you"]) == []


@pytest.mark.parametrize("name", ["\0", "\ud800", "é" * 1001])
def test_what_a_database_does_not_take_is_no_id(make: Make, name: str) -> None:
    ids = make().bound
    assert ids.bind([BoundId(name=name, owner="me", account="a", kind="file")]) == [name]
    assert ids.find([name], "me") == []
    for page in (Page(limit=2, after=name), Page(limit=2, before=name)):
        assert ids.page("me", "file", page) is None


def test_an_id_is_not_given_to_two(make: Make) -> None:
    """Nor is one that is too long, or has more to be noted than a row takes."""
    store = make().bound
    assert store.bind([file(1)]) == []
    assert store.bind([file(1, details='{"purpose":"batch"}')]) == []
    refused = [file(1, owner="you"), file(1, account="b"), file(2, details="x" * MOST_DETAIL * 2)]
    assert store.bind([*refused, file(3)]) == ["file-1", "file-1", "file-2"]
    assert store.find(["file-1"], ["me"]) == [file(1, details='{"purpose":"batch"}')]
    assert store.find(["file-1", "file-2"], ["you"]) == []
    assert names(store.find(["file-3"], ["me"])) == ["file-3"]


def test_what_is_only_told_of_replaces_nothing(make: Make) -> None:
    store = make().bound
    store.bind([file(1, details='{"purpose":"batch"}')])
    assert store.bind([file(1, is_only_named=True), file(2, is_only_named=True)]) == []
    assert store.find(["file-1"], ["me"]) == [file(1, details='{"purpose":"batch"}')]
    assert store.bind([file(2)]) == []
    assert store.bind([file(2, owner="you", is_only_named=True)]) == ["file-2"]


def test_lists_have_own_ids_of_one_kind_page_by_page(make: Make, clock: Clock) -> None:
    store = make().bound
    store.bind([file(number) for number in range(5)])
    store.bind([file(9, owner="you"), file(8, kind="batch"), file(7, expires=NOW + 60)])
    store.bind([file(6, details='{"purpose":"ba%ch"}')])
    clock.now += 61
    page = store.page
    assert names(page("me", "file", Page(3))) == ["file-6", "file-4", "file-3"]
    assert names(page("me", "file", Page(3, after="file-3"))) == ["file-2", "file-1", "file-0"]
    assert names(page("me", "file", Page(2, before="file-1"))) == ["file-3", "file-2"]
    assert names(page("me", "file", Page(2, oldest_first=True))) == ["file-0", "file-1"]
    assert names(page("me", "file", Page(2, after="file-1", oldest_first=True))) == [
        "file-2",
        "file-3",
    ]
    assert names(page("me", "file", Page(9, holding='"ba%ch"'))) == ["file-6"]
    assert names(page("me", "file", Page(9, holding='"b%ch"'))) == []
    for elsewhere in ("file-9", "file-8", "nothing"):
        assert page("me", "file", Page(3, after=elsewhere)) is None


def test_the_newest_account_is_found_among_those_of_an_upstream(make: Make) -> None:
    store = make().bound
    store.bind([file(1), file(2, account="b"), file(3, account="c"), file(4, owner="you")])
    assert store.newest("me", ["a", "b"]) == "b"
    assert store.newest("me", ["a"]) == "a"
    assert store.newest("me", ["d"]) is None


def test_what_is_due_is_taken_once_and_settled_once(make: Make, clock: Clock) -> None:
    """It stays beyond its expiry until then."""
    store, responses = make().bound, make()
    other = responses.bound
    batch = file(1, kind="batch", due=NOW + 300, expires=NOW + DAY)
    store.bind([batch, file(2)])
    assert store.take_due(NOW + 299, NOW + 999, 10) == []
    assert names(store.take_due(NOW + 300, NOW + 900, 10)) == ["file-1"]
    assert other.take_due(NOW + 300, NOW + 900, 10) == []
    assert store.bind([batch]) == []
    assert other.take_due(NOW + 899, NOW + 999, 10) == []
    clock.now += 2 * DAY
    assert not responses.sweep(clock.now)
    assert names(other.take_due(clock.now, clock.now + 60, 10)) == ["file-1"]
    assert other.settle("file-1", "me")
    assert not store.settle("file-1", "me")
    assert not store.settle("file-2", "me")
    assert responses.sweep(clock.now)
    assert not responses.sweep(clock.now)
