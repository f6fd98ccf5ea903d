"""The port that keeps the secrets of accounts from the store: they are encrypted on the way there,
and decrypted on the way back. `dragoman.storage.encryption` implements it."""

from __future__ import annotations

from typing import Protocol

from dragoman.accounts.store import Definition
from dragoman.config import Account


class SealError(ValueError):
    """Secrets cannot be encrypted or decrypted. The message holds none of them."""


class AccountCipher(Protocol):
    """Encrypts the secrets of accounts for the store, and decrypts them."""

    def seal(self, account: Account) -> Definition:
        """The account with its secrets encrypted.

        Raises:
            SealError: there is no key to encrypt them with.
        """

    def seal_credential(self, text: bytes, name: str) -> bytes:
        """The login of an account, encrypted.

        Raises:
            SealError: there is no key to encrypt it with.
        """

    def open_credential(self, sealed: bytes, name: str) -> bytes:
        """What `seal_credential` has encrypted.

        Raises:
            SealError: it cannot be decrypted with the keys that there are.
        """

    def open(self, definition: Definition) -> Account:
        """The account with its secrets.

        Raises:
            SealError: they cannot be decrypted with the keys that there are.
        """
