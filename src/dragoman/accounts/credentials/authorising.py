"""How a request is authorised by an account with credentials: last, over what is sent."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from dragoman.accounts.credentials.account_credentials import (
    PREPARING,
    AccountCredential,
    Credentials,
    NoCredential,
)
from dragoman.accounts.credentials.decide.refreshing import Credential
from dragoman.accounts.credentials.decide.refusals import clock_of, is_of_clock, says_expired
from dragoman.accounts.credentials.decide.signing import (
    AwsKeys,
    Scope,
    Signable,
    Signer,
)
from dragoman.accounts.credentials.place import Place, place_of
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.config import Account, Config
from dragoman.config.credentials import AwsCredentials
from dragoman.config.mcp import McpServer

_log = logging.getLogger("dragoman.accounts")

Outcome = TypeVar("Outcome")


class Authoriser:
    """Authorises the requests of one account, by its fixed keys or by what is obtained for it.
    `scope` is what signatures are valid for; `clock` is Unix time, in seconds."""

    __slots__ = ("_clock", "_fixed", "_obtained", "_offset", "_scope", "_signer")

    def __init__(
        self,
        obtained: AccountCredential | None,
        fixed: Credential | None = None,
        scope: Scope | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._obtained = obtained
        self._fixed = fixed
        self._scope = scope
        self._clock = clock
        self._signer: Signer | None = None
        self._offset = 0.0
        """Seconds by which the service's clock is ahead of this machine's."""

    @property
    def signs(self) -> bool:
        """Whether requests are signed, with their bodies."""
        return self._scope is not None

    @property
    def current(self) -> Credential | None:
        """What requests are authorised by now; None if they cannot be."""
        return self._fixed if self._obtained is None else self._obtained.usable(self._clock())

    def usable(self) -> Credential:
        """What requests are authorised by now: its headers, or `sign`.

        Raises:
            NoCredential: they cannot be.
        """
        credential = self.current
        if credential is None:
            raise NoCredential(PREPARING)
        return credential

    def sign(self, keys: AwsKeys, request: Signable) -> tuple[tuple[str, str], ...]:
        """The headers to add to a request that is ready to be sent."""
        signer = self._signer
        if signer is None or signer.keys is not keys:
            assert self._scope is not None
            signer = self._signer = Signer(keys, self._scope)
        return signer.headers(request, self._clock() + self._offset)

    async def ready(self) -> None:
        """Wait until requests can be authorised.

        Raises:
            NoCredential: they cannot be.
        """
        if self._obtained is not None and self.current is None:
            await self._obtained.ready()

    async def renewed(self, used: Credential | None, status: int, symptom: Symptom) -> bool:
        """Whether a request that was refused may be repeated, authorised by something else: the
        service says that what was `used` has expired, or that the clocks differ.

        Raises:
            NoCredential: there is nothing else.
        """
        codes, text = symptom.words, symptom.text
        if used is not None and used.keys is not None and is_of_clock(status, codes, text):
            theirs = clock_of(symptom.headers, text)
            if theirs is None:
                return False
            self._offset = theirs - self._clock()
            _log.warning("this machine's clock is off by %.0f s: set it", -self._offset)
            return True
        is_token = used is None or used.keys is None
        if self._obtained is None or used is None:
            return False
        if not says_expired(status, codes, text, is_token=is_token):
            return False
        await self._obtained.renew(used)
        return True

    async def carry_out(
        self,
        call: Callable[[], Awaitable[Outcome]],
        refusal: Callable[[Outcome], Symptom | None],
    ) -> Outcome:
        """Make a call once it can be authorised, and once more, with another credential, where
        `refusal` finds in its outcome that the service refused the first as expired.

        Raises:
            NoCredential: there is none.
            Exception: `call`'s own.
        """
        await self.ready()
        used = self.current
        outcome = await call()
        refused = refusal(outcome)
        if refused is None or not await self.renewed(used, refused.status, refused):
            return outcome
        del outcome  # An answer that nobody holds is closed.
        return await call()

    def secrets(self) -> Iterator[str]:
        """What must not be shown of what requests are authorised by now."""
        credential = self._fixed if self._obtained is None else self._obtained.credential
        if credential is None:
            return
        for _, value in credential.headers:
            yield value
            yield value.partition(" ")[2] or value
        if credential.keys is not None:
            yield credential.keys.secret
            if credential.keys.token:
                yield credential.keys.token


def fixed_credential(account: Account) -> Credential | None:
    """The credential of an account whose settings are all there is to it; None if it has to be
    obtained."""
    settings = account.credentials
    if not isinstance(settings, AwsCredentials) or settings.form != "signature":
        return None
    id, secret, token = settings.access_key_id, settings.secret_access_key, settings.session_token
    if id is None or secret is None or settings.role_arn is not None:
        return None
    keys = AwsKeys(id, secret.reveal(), "" if token is None else token.reveal())
    return Credential(0.0, keys=keys)


def expiring(config: Config) -> Iterator[tuple[Account, Place]]:
    """The accounts of a configuration whose credentials have to be obtained, and for what."""
    upstreams = {upstream.name: upstream for upstream in config.upstreams}
    for account in config.accounts:
        if account.credentials is not None and fixed_credential(account) is None:
            yield account, place_of(account, upstreams[account.upstream])
    for server in config.mcp_servers:
        if server.credentials is not None:
            yield account_of(server)


def account_of(server: McpServer) -> tuple[Account, Place]:
    """The account that an MCP server is called by, and for what its credentials are obtained."""
    name, credentials = server.account, server.credentials
    return Account(name=name, upstream=name, credentials=credentials), Place(server.url)


def authoriser_of(
    account: Account, place: Place, credentials: Credentials | None
) -> Authoriser | None:
    """What authorises the requests of an account; None if it has a key, or nothing. `credentials`
    are those that expire; None: they cannot be obtained."""
    settings = account.credentials
    if settings is None:
        return None
    scope = place.scope(settings)
    fixed = fixed_credential(account)
    if fixed is not None:
        return Authoriser(None, fixed, scope)
    return Authoriser(None if credentials is None else credentials.of(account, place), None, scope)
