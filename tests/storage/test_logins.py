"""Logins of accounts that are renewed: of several that replace what is kept, one can."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from dragoman.accounts.store import Store
from tests.storage.conftest import Opened


def test_what_is_kept_is_replaced_only_if_it_is_still_the_same(opened: Opened) -> None:
    one, other = opened(), opened()
    assert one.credential("a") is None
    assert one.swap_credential("a", None, b"first\0\xff")
    assert not other.swap_credential("a", None, b"another")
    assert other.credential("a") == b"first\0\xff"
    assert other.swap_credential("a", b"first\0\xff", b"second")
    assert not one.swap_credential("a", b"first\0\xff", b"third")
    assert one.credential("a") == b"second"
    assert one.credential("b") is None


def test_of_several_at_once_one_replaces_it(opened: Opened) -> None:
    stores: list[Store] = [opened() for _ in range(4)]
    assert stores[0].swap_credential("a", None, b"before")

    def swap(number: int) -> bool:
        return stores[number].swap_credential("a", b"before", b"by %d" % number)

    with ThreadPoolExecutor(len(stores)) as threads:
        assert sorted(threads.map(swap, range(len(stores)))) == [False, False, False, True]
