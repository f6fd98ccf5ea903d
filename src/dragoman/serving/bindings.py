"""Which client and which account each id belongs to that upstreams gave out.

All clients of the gateway are one to a service, which would show each what belongs to another; and
an account has no access to what another made. So a request that names an id is only sent for the
client that made it, and only by the account that has it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from dragoman.accounts.pool import AccountPool
from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.config import Account, Upstream
from dragoman.edge.auth import Caller
from dragoman.keys.ring import KeyRing
from dragoman.protocols.bound_ids import MOST_NAMED, not_held
from dragoman.serving.plan import Plan
from dragoman.storage.bound import BoundId
from dragoman.storage.responses import ResponseStore

T = TypeVar("T")

LONGEST_ID = 256
"""Characters of an id. Longer ones were never given out."""
_MOST_NAMES = 100_000
"""Ids that are remembered where there is no store, the latest ones."""


class AsksStore(Protocol):
    """A store on a thread of its own."""

    async def ask(self, what: Callable[[ResponseStore], T]) -> T:
        """What the store says.

        Raises:
            DragomanError: it cannot be used now.
        """


class Bindings:
    """The ids that upstreams gave out, with one configuration: in `store`, or without one in
    `names` for this process alone. `keys` are the clients'."""

    def __init__(
        self,
        store: AsksStore | None,
        names: OrderedDict[tuple[str, str], BoundId],
        pool: AccountPool,
        keys: KeyRing,
        upstreams: Sequence[Upstream],
    ) -> None:
        self.store = store
        self._names = names
        self._pool = pool
        self._keys = keys
        self.upstreams = upstreams

    @property
    def is_alone(self) -> bool:
        """Whether all requests are of one client."""
        return self._keys.has_one_client

    async def bind(self, ids: Sequence[BoundId]) -> list[str]:
        """Bind these ids. Returns those that belong to others.

        Raises:
            DragomanError: the store cannot be used now.
        """
        if self.store is not None:
            return await self.store.ask(lambda store: store.bound.bind(ids))
        for one in ids:
            if one.is_only_named and (one.owner, one.name) in self._names:
                continue
            self._names[one.owner, one.name] = one
            self._names.move_to_end((one.owner, one.name))
        while len(self._names) > _MOST_NAMES:
            self._names.popitem(last=False)
        return []

    async def find(self, names: Collection[str], caller: Caller) -> Mapping[str, BoundId]:
        """The caller's ids of these names.

        Raises:
            DragomanError: the store cannot be used now.
        """
        known = [name for name in names if len(name) <= LONGEST_ID]
        owners, now = {caller.name, caller.owner}, time.time()
        if self.store is None:
            remembered = [self._names.get((owner, name)) for owner in owners for name in known]
            return {one.name: one for one in remembered if one is not None and one.expires > now}
        found = await self.store.ask(lambda store: store.bound.find(known, owners))
        return {one.name: one for one in found}

    async def of_anyone(self, name: str) -> BoundId | None:
        """The id of that name, whosever it is: for who shows by knowing it that it is theirs.

        Raises:
            DragomanError: the store cannot be used now.
        """
        if self.store is None:
            return None
        found = await self.store.ask(lambda store: store.bound.find((name,), None))
        return found[0] if found else None

    async def account(self, name: str, caller: Caller) -> Account | None:
        """The account that has what is the caller's by that name; None if there is no such thing,
        or its account is gone.

        Raises:
            DragomanError: the store cannot be used now.
        """
        found = (await self.find((name,), caller)).get(name)
        return None if found is None else self.account_of(found)

    def caller(self, owner: str) -> Caller:
        """The client of that name; with nothing but the name if there is no such client any
        more."""
        return self._keys.caller(owner) or Caller(owner)

    def account_of(self, bound: BoundId) -> Account | None:
        """The account that has a thing; None if it is gone."""
        try:
            return self._pool.account(bound.account)
        except KeyError:
            return None

    async def unbind(self, name: str, owner: str) -> None:
        """Forget an id.

        Raises:
            DragomanError: the store cannot be used now.
        """
        if self.store is None:
            self._names.pop((owner, name), None)
        else:
            await self.store.ask(lambda store: store.bound.unbind(name, owner))

    async def pinned(
        self, plan: Plan, caller: Caller, named: Sequence[str], only: str = ""
    ) -> Plan:
        """The plan of a request that names these ids: by the account that has them alone. `only` is
        the account that has what else the request goes on from, if that is bound, too.

        Raises:
            DragomanError: NOT_FOUND: an id is not the caller's; NO_ACCOUNT: its account is gone.
            InvalidRequest: no one account has all of them, or not at an upstream of the plan.
        """
        if len(named) > MOST_NAMED:
            raise InvalidRequest.at("", f"The request names more than {MOST_NAMED} files.")
        bound = await self.own(named, caller)
        return self.at_account(plan, bound[0], self.one_account(bound, only))

    async def own(
        self,
        names: Sequence[str],
        caller: Caller,
        other: Callable[[str], BoundId | None] = lambda name: None,
    ) -> list[BoundId]:
        """The caller's ids of these names, each once. `other` is asked for those that are not bound
        to the caller.

        Raises:
            DragomanError: NOT_FOUND: one is not the caller's.
        """
        found = await self.find(names, caller) if names else {}
        owned = []
        for name in dict.fromkeys(names):
            bound = found.get(name) or other(name)
            if bound is None:
                raise not_held(name)
            owned.append(bound)
        return owned

    def one_account(self, bound: Sequence[BoundId], only: str = "") -> Account:
        """The account that has all of these things, which are some, and is the one named `only`.

        Raises:
            DragomanError: NO_ACCOUNT: it is gone.
            InvalidRequest: they are with several.
        """
        first = bound[0]
        account = self.account_of(first)
        if account is None:
            raise DragomanError(_gone(first.name))
        for other in bound[1:]:
            of_other = self.account_of(other)
            if of_other is None:
                raise DragomanError(_gone(other.name))
            if not self._is_same(account, of_other):
                raise InvalidRequest.at(
                    "", f"{first.name} and {other.name} are with different accounts of the service."
                )
        if only and not self._is_same(account, self._pool.account(only)):
            raise InvalidRequest.at(
                "", f"{first.name} and the response to go on from are with different accounts."
            )
        return account

    def at_account(self, plan: Plan, bound: BoundId, account: Account) -> Plan:
        """A plan, or one of its fallbacks, with the account alone that has a thing.

        Raises:
            InvalidRequest: it leads to no upstream where that is known.
        """
        for one in (plan, *plan.fallbacks):
            for other in self._pool.accounts():
                if other.upstream == one.upstream.name and self._is_same(account, other):
                    return replace(one, fallbacks=(), detour=None, only=other.name)
        raise InvalidRequest.at(
            "", f"{bound.name} is not known where {plan.target.name} is served: upload it there."
        )

    def passes_all(self, upstream: str) -> bool:
        """Whether ids in requests are left to an upstream: there is nothing to keep apart where
        there is one client and one account."""
        return self.is_alone and self._pool.size(upstream) == 1

    def _is_same(self, one: Account, other: Account) -> bool:
        """Whether two accounts are the same one to the service: upstreams of several protocols may
        be one service."""
        if one.name == other.name:
            return True
        if one.key is None or other.key is None or one.key.reveal() != other.key.reveal():
            return False
        upstreams = {upstream.name: upstream for upstream in self.upstreams}
        first, second = upstreams[one.upstream], upstreams[other.upstream]
        return service_at(one.base_url(first)) == service_at(other.base_url(second))


def service_at(base_url: str) -> str:
    """What distinguishes a service from others by its base URL."""
    return urlsplit(base_url).netloc.lower()


def _gone(name: str) -> Fault:
    return Fault(
        FaultKind.NO_ACCOUNT,
        f"The account that has {name} is not used any more.",
        code="no_account_available",
        status=503,
    )
