"""Credentials that instances share: refresh tokens that are replaced with each use, and roles.

No refresh token is ever redeemed twice: not by two instances, and not again after one has ended
between redeeming it and storing what came of it.

The latest is in the store, encrypted. Whoever redeems it says so there before, by replacing what it
has read: of several, one can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.credentials.decide.refreshing import (
    Credential,
    CredentialError,
    check_inputs,
    inputs_of,
)
from dragoman.accounts.credentials.io import Environment
from dragoman.accounts.credentials.messages import Obtain
from dragoman.accounts.credentials.stored_logins import StoredLogins

REDEEMING_S = 30.0
"""Seconds after which a process that redeems a token has ended."""
_LOOK_AGAIN_S = 0.25
_STORE_TRIES = 20

ENDED = "its login was being renewed when the gateway or the connection ended: sign in again"


class StoredLogin(Struct, frozen=True, omit_defaults=True):
    """A login of an account, as it is stored. `given` is the print of the refresh token that the
    configuration has; `token` is the one to redeem next. `redeeming` is since when a process
    redeems it, in Unix seconds, 0 if none does. `credential` is what the last one was redeemed
    for."""

    given: str
    token: str
    redeeming: float = 0.0
    credential: Credential | None = None


class Redeemed(Struct, frozen=True):
    """What a refresh token was redeemed for; `token` is the one that replaces it, empty if it may
    be redeemed again."""

    credential: Credential
    token: str = ""


Redeem = Callable[[str], Awaitable[Redeemed | CredentialError]]
"""Redeems a refresh token. Returns the error if the server refused it, or did not receive it;
raises `CredentialError` if it is unknown whether it was redeemed."""


async def renewed(
    logins: StoredLogins,
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
    first = StoredLogin(inputs_of(given), given)
    found = await _found_or_claimed(logins, name, first, asked, environment, once=True)
    return found if isinstance(found, Credential) else await _redeemed(logins, name, *found, redeem)


async def _found_or_claimed(
    logins: StoredLogins,
    name: str,
    first: StoredLogin,
    asked: Obtain,
    environment: Environment,
    *,
    once: bool,
) -> Credential | tuple[bytes, StoredLogin]:
    """The stored credential if it needs no refresh yet, else the login, for which nobody else may
    obtain one now: it is stored so, sealed as returned. `first` is the login if none of the same
    configuration is stored; `once`: its token may be redeemed only once.

    Raises:
        CredentialError: there is none, or the store cannot be used.
    """
    while True:
        sealed, text = await logins.read(name)
        stored = msgspec.msgpack.decode(text, type=StoredLogin) if text else first
        if stored.given != first.given:
            stored = first  # Somebody has signed in again.
        now = environment.clock()
        if stored.credential is not None and _is_new(stored.credential, asked.dead, now):
            return stored.credential
        # Clocks of instances differ.
        if stored.redeeming and abs(now - stored.redeeming) < REDEEMING_S:
            await asyncio.sleep(_LOOK_AGAIN_S)
            continue
        if once and stored.redeeming:
            raise CredentialError("login_needed", ENDED, first.given)
        check_inputs(first.given, asked.failure)
        claim = await logins.swap(name, sealed, _written(replace(stored, redeeming=now)))
        if claim is not None:
            return claim, replace(stored, redeeming=0.0)


async def _redeemed(
    logins: StoredLogins, name: str, claim: bytes, stored: StoredLogin, redeem: Redeem
) -> Credential:
    """Redeem the token of `stored`, which nobody else does: `claim` says so in the store."""
    found = await redeem(stored.token)
    if isinstance(found, CredentialError):
        await logins.swap(name, claim, _written(stored))
        raise CredentialError(found.problem, str(found), stored.given)
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
    logins: StoredLogins,
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
    first = StoredLogin(inputs_of(given), "")
    try:
        found = await _found_or_claimed(logins, name, first, asked, environment, once=False)
    except CredentialError:
        return await obtain()
    if isinstance(found, Credential):
        return found
    claim, after = found
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
