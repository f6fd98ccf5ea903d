"""Refresh tokens that are replaced with each use, so that none is ever redeemed twice: not by two
instances, and not again after one has ended between redeeming it and storing what came of it.

The latest is in the store, encrypted. Whoever redeems it says so there before, by replacing what it
has read: of several, one can.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.credentials.decide.refreshing import Credential, CredentialError
from dragoman.accounts.credentials.io import Environment
from dragoman.accounts.credentials.messages import Obtain
from dragoman.accounts.credentials.place import check_inputs

REDEEMING_S = 30.0
"""Seconds after which whoever redeems a token is gone."""
_LOOK_AGAIN_S = 0.25
_STORE_TRIES = 20

ENDED = "its login was being renewed when the gateway or the connection ended: sign in again"


class StoredLogin(Struct, frozen=True, omit_defaults=True):
    """What is kept of a login. `given` is the print of the refresh token that the configuration
    has; `token` is the one to redeem next. `redeeming` is since when somebody does, in Unix
    seconds, 0 if nobody does. `credential` is what the last one was redeemed for."""

    given: str
    token: str
    redeeming: float = 0.0
    credential: Credential | None = None


class LoginStore(Protocol):
    """Where logins of accounts are kept, by the name of the account. What is kept is passed as it
    was read, to be replaced only if it is still the same."""

    async def read(self, name: str) -> tuple[bytes | None, bytes]:
        """What is kept, sealed and opened; None and nothing if nothing is.

        Raises:
            CredentialError: it cannot be read.
        """

    async def swap(self, name: str, before: bytes | None, after: bytes) -> bytes | None:
        """Keep something else if `before`, sealed, is what is kept. Returns it sealed; None if
        another is kept meanwhile.

        Raises:
            CredentialError: it cannot be written.
        """


class Redeemed(Struct, frozen=True):
    """What a refresh token was redeemed for; `token` is the one that replaces it, empty if it may
    be redeemed again."""

    credential: Credential
    token: str = ""


class NotRedeemed(Exception):
    """A refresh token was not redeemed: the server said so, or never heard of it."""

    def __init__(self, error: CredentialError) -> None:
        super().__init__(str(error))
        self.error = error


Redeem = Callable[[str], Awaitable[Redeemed]]
"""Redeems a refresh token; raises `NotRedeemed`, or `CredentialError` if nobody knows."""


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
        kept = msgspec.msgpack.decode(text, type=StoredLogin) if text else None
        if kept is None or kept.given != mark:
            # Nobody has signed in before, or somebody has signed in again.
            kept = StoredLogin(mark, given)
        now = environment.clock()
        if kept.credential is not None and _is_new(kept.credential, asked.dead, now):
            return kept.credential
        if kept.redeeming:
            # Clocks of instances differ.
            if abs(now - kept.redeeming) < REDEEMING_S:
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            raise CredentialError("login_needed", ENDED, mark)
        check_inputs(mark, asked.failure)
        claim = await logins.swap(name, sealed, _written(replace(kept, redeeming=now)))
        if claim is not None:
            return await _redeemed(logins, name, claim, kept, redeem)


async def _redeemed(
    logins: LoginStore, name: str, claim: bytes, kept: StoredLogin, redeem: Redeem
) -> Credential:
    """Redeem the token of `kept`, which nobody else does: `claim` says so in the store."""
    try:
        found = await redeem(kept.token)
    except NotRedeemed as refused:
        await logins.swap(name, claim, _written(kept))
        error = refused.error
        raise CredentialError(error.problem, str(error), kept.given) from None
    credential = replace(found.credential, inputs=kept.given)
    after = replace(kept, token=found.token or kept.token, credential=credential)
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


def _is_new(credential: Credential, dead: Credential | None, now: float) -> bool:
    """Whether a credential that was kept needs no refresh yet."""
    return not credential.is_same(dead) and credential.expires_at - now > credential.soft_s


def _written(kept: StoredLogin) -> bytes:
    return msgspec.msgpack.encode(kept)
