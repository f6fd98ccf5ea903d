"""Logins of accounts in the store, encrypted."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from dragoman.accounts.cipher import AccountCipher, SealError
from dragoman.accounts.credentials.decide.refreshing import CredentialError
from dragoman.accounts.store import Store, StoreError

T = TypeVar("T")

NOT_HERE = "its login is renewed only by a gateway that serves, with a store"


class AskStore(Protocol):
    """Calls something with the store, in the thread that uses it; raises `StoreError`."""

    def __call__(self, question: Callable[[Store], T], /) -> Coroutine[Any, Any, T]: ...


class StoredLogins:
    """A store of the logins of accounts, by the name of the account. A login is passed as it was
    read, and replaced only if it is still the same."""

    def __init__(self, ask: AskStore, cipher: AccountCipher) -> None:
        self._ask = ask
        self._cipher = cipher

    async def read(self, name: str) -> tuple[bytes | None, bytes]:
        """The stored login, sealed and opened; None and empty if there is none.

        Raises:
            CredentialError: it cannot be read.
        """

        def read(store: Store) -> tuple[bytes | None, bytes]:
            sealed = store.credential(name)
            return sealed, b"" if sealed is None else self._cipher.open_credential(sealed, name)

        return await self._asked(read)

    async def swap(self, name: str, before: bytes | None, after: bytes) -> bytes | None:
        """Replace the login if `before`, sealed, is what is stored. Returns the new one sealed;
        None if another was stored meanwhile.

        Raises:
            CredentialError: it cannot be written.
        """

        def swap(store: Store) -> bytes | None:
            sealed = self._cipher.seal_credential(after, name)
            return sealed if store.swap_credential(name, before, sealed) else None

        return await self._asked(swap)

    async def _asked(self, question: Callable[[Store], T]) -> T:
        try:
            return await self._ask(question)
        except (StoreError, SealError) as error:
            why = f"the store of its login cannot be used: {error}"
            raise CredentialError("unavailable", why) from None


class ReadLogins(StoredLogins):
    """The logins as programs see them that serve nothing: they redeem none."""

    def __init__(self, store: Store, cipher: AccountCipher) -> None:
        async def ask(question: Callable[[Store], T]) -> T:
            return question(store)

        super().__init__(ask, cipher)

    async def swap(self, name: str, before: bytes | None, after: bytes) -> bytes | None:
        """See `StoredLogins.swap`."""
        raise CredentialError("unavailable", NOT_HERE)
