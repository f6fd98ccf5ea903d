"""What operations on the store are done with, and what there is without a gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct

from dragoman.accounts.cipher import AccountCipher
from dragoman.accounts.store import Store
from dragoman.audit import Actor
from dragoman.config import Config
from dragoman.config.access_rules import SignInRule
from dragoman.keys.ring import Caller
from dragoman.operations.account_queries import AccountQueries
from dragoman.operations.account_service import AccountService
from dragoman.operations.admin_service import AdminService
from dragoman.operations.errors import Conflict
from dragoman.operations.inputs import Check
from dragoman.operations.key_service import KeyService
from dragoman.operations.limit_service import LimitService
from dragoman.operations.people_service import PeopleService
from dragoman.operations.terminal import this_user
from dragoman.prices.loading import load_prices
from dragoman.prices.lookup import Prices
from dragoman.protocols.fields import JsonObject
from dragoman.storage.opening import cipher_for, store_for

Offered = Callable[[Config, Prices, Caller, SignInRule], tuple[tuple[str, ...], JsonObject | None]]
"""The names of the models that a person is offered, and the managed settings."""


class StoreContext(Struct, frozen=True, kw_only=True):
    """A configuration and its store, who does something, and what that may see. `check` is called
    with what a change is about, before it is changed. `loaded_prices` are those that a gateway
    uses; without one they are read. `offered` says which models a caller is offered, and which
    settings, None where nobody asks."""

    config: Config
    store: Store
    cipher: AccountCipher
    actor: Actor
    role: Literal["viewer", "admin"] = "admin"
    check: Check | None = None
    loaded_prices: Prices | None = None
    offered: Offered | None = None

    @property
    def queries(self) -> AccountQueries:
        """What is known of accounts and of usage."""
        return AccountQueries(self.config, self.store, self.cipher)

    @property
    def accounts(self) -> AccountService:
        """Changes of accounts."""
        return AccountService(self.queries, self.actor)

    @property
    def keys(self) -> KeyService:
        """Client keys; `teams` of it are the teams."""
        return KeyService(self.config, self.store.client_keys, self.actor)

    @property
    def limits(self) -> LimitService:
        """Limits of keys and teams."""
        return LimitService(self.keys)

    @property
    def admins(self) -> AdminService:
        """Keys of the administration."""
        return AdminService(self.store.admins, self.actor)

    @property
    def people(self) -> PeopleService:
        """The people who sign in."""
        settings = self.config.sign_in
        rules = () if settings is None else settings.rules
        return PeopleService(self.store.people, rules, self.actor)

    @property
    def prices(self) -> Prices:
        """The prices of the configuration.

        Raises:
            PriceError: the table of prices cannot be used.
        """
        return self.loaded_prices or load_prices(self.config)


@contextmanager
def open_store(config: Config, offered: Offered | None = None) -> Iterator[StoreContext]:
    """The context of a command of this machine's user, with the store open.

    Raises:
        Conflict: the configuration stores nothing.
        StoreError: the store cannot be used.
    """
    store = store_for(config)
    if store is None:
        raise Conflict('[storage] path is "" and there is no url, so nothing is stored')
    try:
        yield StoreContext(
            config=config,
            store=store,
            cipher=cipher_for(config),
            actor=this_user(),
            offered=offered,
        )
    finally:
        store.close()
