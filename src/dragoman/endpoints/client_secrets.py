"""Client secrets of realtime: short-lived, opaque, and good at this gateway only.

The vendor's own secret, which would let its holder spend outside of all limits, stays here: it is
stored, encrypted, under the hash of the gateway's, with whose it is.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.accounts.cipher import SealError
from dragoman.accounts.store import StoreError
from dragoman.accounts.sync import AccountSync
from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.edge.auth import SECRET_PREFIX
from dragoman.edge.errors import refusal
from dragoman.edge.rates import PerMinute
from dragoman.jsontext import JsonError, decoder
from dragoman.keys.people import Pending, PeopleStore
from dragoman.storage.encryption import AesGcmCipher

LIFE_S: Final = 600.0
"""Seconds for which a secret is good at most."""
_MOST_OF_A_CLIENT = 600
"""Secrets that a worker gives one client within `LIFE_S`."""
_MOST = 10_000
"""Secrets and sign-ins that may have begun: as many again are left for sign-ins."""
_MOST_CLIENTS = 10_000


class ClientSecret(Struct, frozen=True):
    """What a secret is for: sessions of a client with `model`, by an account and that of the
    upstream's own secret, `value`, which has the session's configuration. It ends at `expires`, in
    Unix seconds, and with the secret of the gateway with which it was made, of this `digest`."""

    client: str
    model: str
    account: str
    value: str
    expires: float
    digest: bytes | None = None


_read = decoder(ClientSecret)


class ClientSecrets:
    """Makes secrets, and finds what each is for, at whichever worker or instance."""

    def __init__(
        self,
        sync: AccountSync | None,
        cipher: AesGcmCipher,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`sync` asks the store; None if nothing is stored."""
        self._sync = sync
        self._cipher = cipher
        self._clock = clock
        self._given = PerMinute(_MOST_CLIENTS, window_s=LIFE_S)

    def check(self, client: str) -> None:
        """Make sure that a client may be given a secret.

        Raises:
            DragomanError: there are too many, or secrets cannot be kept.
        """
        if self._sync is None:
            raise refusal(FaultKind.NOT_FOUND, _NO_STORE, code="unsupported_endpoint")
        if wait := self._given.count(client, _MOST_OF_A_CLIENT):
            message = "Too many client secrets were made with this key."
            raise refusal(FaultKind.RATE_LIMITED, message, retry_after=wait)

    async def keep(self, secret: ClientSecret) -> str:
        """The gateway's secret for this.

        Raises:
            DragomanError: it cannot be kept.
        """
        value = SECRET_PREFIX + secrets.token_urlsafe(32).encode()
        await self._save(value, secret)
        return value.decode()

    async def keep_call(self, name: str, secret: ClientSecret) -> None:
        """Remember whose a call is, and which account has it.

        Raises:
            DragomanError: it cannot be kept.
        """
        if self._sync is not None:
            await self._save(_CALL + name.encode(), secret)

    async def find_call(self, name: str, client: str) -> ClientSecret | None:
        """Which account has a call of a client's; None if there is no such call.

        Raises:
            DragomanError: the store cannot be asked.
        """
        found = await self.find(_CALL + name.encode())
        return None if found is None or found.client != client else found

    async def find(self, value: bytes) -> ClientSecret | None:
        """What a secret is for; None if there is none, or it has ended.

        Raises:
            DragomanError: the store cannot be asked.
        """
        if self._sync is None:
            return None
        id = _digest(value)
        try:
            found = await self._sync.ask(lambda store: store.people.pending(id))
            if found is None:
                return None
            secret = _read(self._cipher.open_sign_in(found.sealed, _bound(id)))
        except (JsonError, SealError):
            return None
        except StoreError:
            raise _away() from None
        return secret if self._clock() < secret.expires else None

    async def _save(self, value: bytes, secret: ClientSecret) -> None:
        assert self._sync is not None, "it was checked"
        id = _digest(value)
        try:
            sealed = self._cipher.seal_sign_in(msgspec.json.encode(secret), _bound(id))
            pending = Pending(id=id, alias="", expires=secret.expires, sealed=sealed)
            is_kept = await self._sync.ask(lambda store: _save(store.people, pending))
        except SealError:
            raise refusal(FaultKind.NOT_FOUND, _NO_STORE, code="unsupported_endpoint") from None
        except StoreError:
            raise _away() from None
        if not is_kept:
            message = "There are too many client secrets at the moment."
            raise refusal(FaultKind.OVERLOADED, message, retry_after=60.0)


_CALL = b"call "
_NO_STORE = "Client secrets need a [storage] with a key, which this gateway does not have."


def _save(store: PeopleStore, pending: Pending) -> bool:
    with store.deciding():
        if store.count_pending() >= _MOST:
            return False
        store.save_pending(pending)
        return True


def _digest(value: bytes) -> str:
    return sha256(value).hexdigest()


def _bound(id: str) -> str:
    """What the encrypted text is bound to: it opens as nothing of a sign-in."""
    return f"realtime {id}"


def _away() -> DragomanError:
    message = "Client secrets cannot be used at the moment."
    return refusal(FaultKind.OVERLOADED, message, code="server_error", retry_after=5.0)


def unknown_call(name: str) -> DragomanError:
    """The error for a call that is not known here as the client's."""
    message = (
        f"No session found for call_id: {name[:100]}. It was begun neither through this gateway nor"
        " where there is one client and one account alone, so it is not known whose it is."
    )
    return refusal(FaultKind.NOT_FOUND, message, code="call_id_not_found")
