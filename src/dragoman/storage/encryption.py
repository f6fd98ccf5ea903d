"""Encryption of secrets in the store: the key, headers and proxy of an account, and stored bodies.

AES-256-GCM with the purpose and the account's name as associated data, so that a sealed value is
only valid for them. The key is derived from `storage.key` by scrypt (RFC 7914), since people choose
such keys by hand. A sealed value consists of 1 byte for the version of this format, 4 bytes of a
hash that identifies the key, a nonce of 12 bytes, and the ciphertext with its tag.

An account without secrets is stored with an empty value, and needs no key.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from dragoman.accounts.cipher import SealError
from dragoman.accounts.store import Definition
from dragoman.config import Account, Secret
from dragoman.jsontext import decoder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_FORM = b"\x01"
_ID_BYTES = 4
_NONCE_BYTES = 12
_ACCOUNT, _BODY = b"dragoman.account\0", b"dragoman.body\0"
_CREDENTIAL = b"dragoman.credential\0"
_SIGN_IN = b"dragoman.sign-in\0"
"""What something is sealed for: it opens as nothing else."""
_SALT = b"dragoman.storage.key.v1"
"""Constant, since every process must derive the same key before it reads anything."""
_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 64}


class _Secrets(Struct, omit_defaults=True):
    """The secrets of an account, encrypted as JSON."""

    key: str | None = None
    headers: dict[str, str] = {}
    proxy: str | None = None


class _Key(Struct, frozen=True):
    """A key and the hash that identifies it."""

    cipher: AESGCM
    id: bytes

    @classmethod
    @lru_cache(maxsize=4)
    def derived(cls, secret: Secret) -> _Key:
        """The key derived from `secret`, cached so that forked workers inherit it."""
        # Takes time and memory, and is only needed where accounts with secrets are stored.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        derived = hashlib.scrypt(secret.reveal().encode(), salt=_SALT, **_SCRYPT)
        return cls(AESGCM(derived[:32]), derived[32 : 32 + _ID_BYTES])


class AesGcmCipher:
    """Encrypts accounts with `key`, and decrypts values encrypted with it or one of `previous`.

    Keys are derived on first use, which takes some 50 ms each.
    """

    def __init__(self, key: Secret | None, previous: Iterable[Secret] = ()) -> None:
        self._secrets = [] if key is None else [key, *previous]
        self._keys: list[_Key] = []

    def seal(self, account: Account) -> Definition:
        """The account with its secrets encrypted.

        Raises:
            SealError: there is no key to encrypt them with.
        """
        return Definition(
            name=account.name,
            upstream=account.upstream,
            sealed=self._sealed(account),
            models=account.models,
            priority=account.priority,
            weight=account.weight,
            max_concurrent=account.max_concurrent,
            balance=account.balance,
        )

    def open(self, definition: Definition) -> Account:
        """The account with its secrets decrypted.

        Raises:
            SealError: they cannot be decrypted with these keys.
        """
        secrets = self._opened(definition)
        return Account(
            name=definition.name,
            upstream=definition.upstream,
            key=_secret(secrets.key),
            headers={name: Secret(value) for name, value in secrets.headers.items()},
            proxy=_secret(secrets.proxy),
            models=definition.models,
            priority=definition.priority,
            weight=definition.weight,
            max_concurrent=definition.max_concurrent,
            balance=definition.balance,
        )

    def resealed(self, definitions: Iterable[Definition]) -> list[Definition]:
        """Those of `definitions` that were encrypted with a previous key, encrypted with the
        present one.

        Raises:
            SealError: one of them cannot be decrypted.
        """
        return [
            self.seal(self.open(definition))
            for definition in definitions
            if definition.sealed and not self._is_current(definition.sealed)
        ]

    def _is_current(self, sealed: bytes) -> bool:
        keys = self._derived()
        return bool(keys) and sealed[:1] == _FORM and sealed[1 : 1 + _ID_BYTES] == keys[0].id

    def _sealed(self, account: Account) -> bytes:
        if account.key is None and not account.headers and account.proxy is None:
            return b""
        secrets = _Secrets(
            key=None if account.key is None else account.key.reveal(),
            headers={name: value.reveal() for name, value in account.headers.items()},
            proxy=None if account.proxy is None else account.proxy.reveal(),
        )
        why = (
            "an account with secrets is only stored encrypted: set [storage] key, "
            'commonly "env:DRAGOMAN_STORE_KEY"'
        )
        return self._encrypted(msgspec.json.encode(secrets), _ACCOUNT, account.name, why)

    def _opened(self, definition: Definition) -> _Secrets:
        sealed = definition.sealed
        if not sealed:
            return _Secrets()
        name = definition.name
        plain = self._decrypted(sealed, _ACCOUNT, name, f"the secrets of {name}")
        try:
            return _read_secrets(plain)
        except ValueError:
            # No cause: it might quote what was decrypted.
            raise SealError(f"the secrets of {name} are damaged") from None

    def seal_body(self, text: bytes, name: str) -> bytes:
        """A body of a request, encrypted for that name.

        Raises:
            SealError: there is no key to encrypt it with.
        """
        why = "bodies are only stored encrypted: set [storage] key"
        return self._encrypted(text, _BODY, name, why)

    def open_body(self, sealed: bytes, name: str) -> bytes:
        """The body that `seal_body` has encrypted for that name.

        Raises:
            SealError: it cannot be decrypted with these keys.
        """
        return self._decrypted(sealed, _BODY, name, "the bytes of a body")

    def seal_credential(self, text: bytes, name: str) -> bytes:
        """See `AccountCipher.seal_credential`."""
        why = "a login that is renewed is only kept encrypted: set [storage] key"
        return self._encrypted(text, _CREDENTIAL, name, why)

    def open_credential(self, sealed: bytes, name: str) -> bytes:
        """See `AccountCipher.open_credential`."""
        return self._decrypted(sealed, _CREDENTIAL, name, f"the login of {name}")

    def seal_sign_in(self, secret: bytes, name: str) -> bytes:
        """A secret of a sign-in, encrypted for that name.

        Raises:
            SealError: there is no key to encrypt it with.
        """
        why = "people can only sign in with a [storage] key"
        return self._encrypted(secret, _SIGN_IN, name, why)

    def open_sign_in(self, sealed: bytes, name: str) -> bytes:
        """The secret that `seal_sign_in` has encrypted for that name.

        Raises:
            SealError: it cannot be decrypted with these keys.
        """
        return self._decrypted(sealed, _SIGN_IN, name, "the secrets of a sign-in")

    def _encrypted(self, plain: bytes, purpose: bytes, name: str, why: str) -> bytes:
        """
        Raises:
            SealError: there is no key to encrypt it with; `why` one is needed.
        """
        keys = self._derived()
        if not keys:
            raise SealError(why)
        key = keys[0]
        nonce, head = os.urandom(_NONCE_BYTES), _FORM + key.id
        return head + nonce + key.cipher.encrypt(nonce, plain, _bound_to(purpose, head, name))

    def _decrypted(self, sealed: bytes, purpose: bytes, name: str, what: str) -> bytes:
        if sealed[:1] != _FORM:
            raise SealError(f"{what} are sealed in a form of a newer dragoman")
        if not self._secrets:
            raise SealError(f"{what} are encrypted, and [storage] key is not set")
        head = sealed[: 1 + _ID_BYTES]
        key = next((key for key in self._derived() if key.id == head[1:]), None)
        if key is None:
            raise SealError(f"{what} were encrypted with another [storage] key")
        from cryptography.exceptions import InvalidTag

        nonce, text = sealed[len(head) :][:_NONCE_BYTES], sealed[len(head) + _NONCE_BYTES :]
        try:
            return key.cipher.decrypt(nonce, text, _bound_to(purpose, head, name))
        except (InvalidTag, ValueError):
            raise SealError(f"{what} are damaged") from None

    def _derived(self) -> list[_Key]:
        if len(self._keys) < len(self._secrets):
            self._keys = [_Key.derived(secret) for secret in self._secrets]
        return self._keys


_read_secrets = decoder(_Secrets)


def _bound_to(purpose: bytes, head: bytes, name: str) -> bytes:
    return purpose + head + name.encode()


def _secret(value: str | None) -> Secret | None:
    return None if value is None else Secret(value)
