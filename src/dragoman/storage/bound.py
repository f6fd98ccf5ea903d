"""The port of bound ids: which client may name a thing that an upstream holds, and which account
made it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import Protocol

from msgspec import Struct

MOST_DETAIL = 768
"""Characters of the details of one id: a row takes 1 KiB at most."""


class BoundId(Struct, frozen=True, kw_only=True):
    """An id that an upstream gave out. `owner` is the name of the client, or that of a team whose
    keys share what they make: for all others it does not exist. `kind` is the family of the thing
    (`file`, `batch`), empty for responses and their items, which are not listed. Times are Unix
    seconds.

    `details` is a small JSON object for the gateway and for lists. `due` is when the thing is to be
    looked at next, None if it needs not be: something of it is still to be settled until then.
    `is_only_named`: something else only names it, so nothing is replaced that is known of it.
    """

    name: str
    owner: str
    account: str
    kind: str = ""
    created: float = 0.0
    expires: float = inf
    details: str = "{}"
    due: float | None = None
    is_only_named: bool = False


class Page(Struct, frozen=True):
    """A page of a client's ids of one kind: at most `limit`, the newest first unless
    `oldest_first`, beginning behind the id `after` in that order or ending before the id `before`.
    `holding` is a text that the details have."""

    limit: int
    after: str = ""
    before: str = ""
    oldest_first: bool = False
    holding: str = ""


class BoundIds(Protocol):
    """Bound ids in a store. Every method raises `StoreError` if the store cannot be used, and has
    then changed nothing. Expired ids do not exist."""

    def bind(self, ids: Sequence[BoundId]) -> list[str]:
        """Bind these ids, or renew what is known of them. Returns those that are already another
        account's, or another client's if they have a kind: these stay as they are."""

    def find(self, names: Collection[str], owners: Collection[str] | None) -> list[BoundId]:
        """The ids of these names of any of these owners, in no order; with None those that have a
        kind, of anyone."""

    def page(self, owner: str, kind: str, page: Page) -> list[BoundId] | None:
        """A page of an owner's ids. None if the id that it is to begin or end at is not there."""

    def newest(self, owner: str, accounts: Collection[str]) -> str | None:
        """The account, of these, that made the newest thing of any kind which the owner has."""

    def unbind(self, name: str, owner: str) -> None:
        """Forget an id."""

    def take_due(self, now: float, again: float, most: int) -> list[BoundId]:
        """At most `most` ids that are due, each for one caller: they are due again at `again`."""

    def postpone(self, name: str, owner: str, due: float) -> None:
        """Have an id looked at later, if anything of it is still to be settled."""

    def is_due(self, name: str, owner: str) -> bool:
        """Whether something of an id is still to be settled, now or later."""

    def settle(self, name: str, owner: str) -> bool:
        """Record that nothing is left to be settled of an id. True for the first who does."""
