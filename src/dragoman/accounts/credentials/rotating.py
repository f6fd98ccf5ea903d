"""Credentials that instances share: refresh tokens that are replaced with each use, and roles.

No refresh token is ever redeemed twice: not by two instances, and not again after one has ended
between redeeming it and storing what came of it.

The latest is in the store, encrypted. Whoever redeems it says so there before, by replacing what it
has read: of several, one can.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.credentials.decide.refreshing import Credential, CredentialError
from dragoman.accounts.credentials.io import Environment
from dragoman.accounts.credentials.messages import Obtain
from dragoman.accounts.credentials.place import check_inputs

REDEEMING_S = 30.0
"""Seconds after which a process that redeems a token has ended."""
_LOOK_AGAIN_S = 0.25
_STORE_TRIES = 20

ENDED = "its login was being renewed when the gateway or the connection ended: sign in again"
NOT_HERE = "its login is renewed only by a gateway that serves, with a store"


class StoredLogin(Struct, frozen=True, omit_defaults=True):
    """A login of an account, as it is stored. `given` is the print of the refresh token that the
    configuration has; `token` is the one to redeem next. `redeeming` is since when a process
    redeems it, in Unix seconds, 0 if none does. `credential` is what the last one was redeemed
    for."""

    given: str
    token: str
    redeeming: float = 0.0
    credential: Credential | None = None


class LoginStore(Protocol):
    """A store of the logins of accounts, by the name of the account. A login is passed as it was
    read, and replaced only if it is still the same."""

    async def read(self, name: str) -> tuple[bytes | None, bytes]:
        """The stored login, sealed and opened; None and empty if there is none.

        Raises:
            CredentialError: it cannot be read.
        """

    async def swap(self, name: str, before: bytes | None, after: bytes) -> bytes | None:
        """Replace the login if `before`, sealed, is what is stored. Returns the new one sealed;
        None if another was stored meanwhile.

        Raises:
            CredentialError: it cannot be written.
        """


class Redeemed(Struct, frozen=True):
    """What a refresh token was redeemed for; `token` is the one that replaces it, empty if it may
    be redeemed again."""

    credential: Credential
    token: str = ""


class NotRedeemed(Exception):
    """A refresh token was not redeemed: the server refused it, or did not receive it."""

    def __init__(self, error: CredentialError) -> None:
        super().__init__(str(error))
        self.error = error


Redeem = Callable[[str], Awaitable[Redeemed]]
"""Redeems a refresh token; raises `NotRedeemed`, or `CredentialError` if that is unknown."""


async def renewed(
    logins: LoginStore,
    name: str,
    given: str,
    asked: Obtain,
    redeem: Redeem,
    environment: Environment,
) -> Credential:
    """A credential of an account whose configuration has the refresh token `given`.

    Raises:
        CredentialError: there is none.
    """
    mark = hashlib.sha256(given.encode()).hexdigest()[:16]
    while True:
        sealed, text = await logins.read(name)
        stored = msgspec.msgpack.decode(text, type=StoredLogin) if text else None
        if stored is None or stored.given != mark:
            # Nobody has signed in before, or somebody has signed in again.
            stored = StoredLogin(mark, given)
        now = environment.clock()
        if stored.credential is not None and _is_new(stored.credential, asked.dead, now):
            return stored.credential
        if stored.redeeming:
            # Clocks of instances differ.
            if abs(now - stored.redeeming) < REDEEMING_S:
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            raise CredentialError("login_needed", ENDED, mark)
        check_inputs(mark, asked.failure)
        claim = await logins.swap(name, sealed, _written(replace(stored, redeeming=now)))
        if claim is not None:
            return await _redeemed(logins, name, claim, stored, redeem)


async def _redeemed(
    logins: LoginStore, name: str, claim: bytes, stored: StoredLogin, redeem: Redeem
) -> Credential:
    """Redeem the token of `stored`, which nobody else does: `claim` says so in the store."""
    try:
        found = await redeem(stored.token)
    except NotRedeemed as refused:
        await logins.swap(name, claim, _written(stored))
        error = refused.error
        raise CredentialError(error.problem, str(error), stored.given) from None
    credential = replace(found.credential, inputs=stored.given)
    after = replace(stored, token=found.token or stored.token, credential=credential)
    for left in reversed(range(_STORE_TRIES)):
        try:
            await logins.swap(name, claim, _written(after))
            break
        except CredentialError:
            # Nothing is used of it before it is stored.
            if not left:
                raise
            await asyncio.sleep(_LOOK_AGAIN_S)
    return credential


async def shared(
    logins: LoginStore,
    name: str,
    given: str,
    asked: Obtain,
    obtain: Callable[[], Awaitable[Credential]],
    environment: Environment,
) -> Credential:
    """A credential that costs a call, obtained once for all instances that share a store. `given`
    names what it is obtained with. Each obtains its own while the store cannot be used.

    Raises:
        CredentialError: there is none.
    """
    mark = hashlib.sha256(given.encode()).hexdigest()[:16]
    try:
        while True:
            sealed, text = await logins.read(name)
            stored = msgspec.msgpack.decode(text, type=StoredLogin) if text else None
            if stored is None or stored.given != mark:
                stored = StoredLogin(mark, "")
            now = environment.clock()
            if stored.credential is not None and _is_new(stored.credential, asked.dead, now):
                return stored.credential
            if not stored.redeeming or abs(now - stored.redeeming) >= REDEEMING_S:
                claim = await logins.swap(name, sealed, _written(replace(stored, redeeming=now)))
                if claim is not None:
                    break
            await asyncio.sleep(_LOOK_AGAIN_S)
    except CredentialError:
        return await obtain()
    after = replace(stored, redeeming=0.0)
    try:
        credential = await obtain()
        after = replace(after, credential=credential)
    finally:
        with suppress(CredentialError):
            await logins.swap(name, claim, _written(after))
    return credential


def _is_new(credential: Credential, dead: Credential | None, now: float) -> bool:
    """Whether a credential that was stored needs no refresh yet."""
    return not credential.is_same(dead) and credential.expires_at - now > credential.soft_s


def _written(stored: StoredLogin) -> bytes:
    return msgspec.msgpack.encode(stored)
