"""The credentials of one worker's accounts, as the owner reports them."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from math import inf

from msgspec.structs import replace

from dragoman.accounts.credentials.decide.refreshing import (
    Credential,
    CredentialError,
    CredentialFailure,
    next_failure,
)
from dragoman.accounts.credentials.messages import (
    KNOWN,
    LEAVE,
    OBTAIN,
    WANT,
    Known,
    Leave,
    Obtain,
    Want,
)
from dragoman.accounts.credentials.place import Place
from dragoman.config import Account
from dragoman.link.messages import LinkError, Peer

WAIT_S = 10.0
"""Seconds for which a request waits for a credential."""

Source = Callable[[Account, Place, Obtain], Awaitable[Credential]]
"""Obtains a credential of an account. Raises `CredentialError`."""

PREPARING = "its first credential is being obtained"


class NoCredential(Exception):
    """An account has no credential to authorise a request by. The message says why."""


class AccountCredential:
    """The credential of one account, in one worker. `on_change` is called when it, or why there is
    none, has changed."""

    def __init__(
        self,
        account: Account,
        place: Place,
        owner: Peer,
        on_change: Callable[[AccountCredential], None],
    ) -> None:
        self.account = account
        self.place = place
        self.id = id_of(account, place)
        self.credential: Credential | None = None
        self.failure: CredentialFailure | None = None
        self.inputs = ""
        """The print of what the last credential was obtained with."""
        self.is_of_new_inputs = False
        """Whether that is another than the time before."""
        self.was_reported = False
        """Whether it was reported to the pool that there is no usable one."""
        self.is_needed = True
        """Whether the configuration that is served has the account so."""
        self._owner = owner
        self._on_change = on_change
        self._changed = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None

    def usable(self, now: float) -> Credential | None:
        """The credential, if requests may be authorised by it."""
        credential = self.credential
        return credential if credential is not None and credential.is_usable(now) else None

    async def ready(self) -> None:
        """Wait until requests may be authorised, for as long as one may wait for that.

        Raises:
            NoCredential: they may not.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while self.usable(time.time()) is None and self.failure is None:
                    self._changed.clear()
                    await self._changed.wait()
        if self.usable(time.time()) is None:
            raise NoCredential(self.failure.why if self.failure is not None else PREPARING)

    async def renew(self, used: Credential) -> None:
        """Wait for another credential than one that was refused as expired.

        Raises:
            NoCredential: there is none.
        """
        if not self.is_needed:
            raise NoCredential("its configuration was replaced")
        if used.is_same(self.credential):
            self.credential, self.failure = None, None
            self.want(used)
        await self.ready()

    def want(self, dead: Credential | None = None) -> None:
        """Ask the owner for the credential."""
        self._asking = asyncio.get_running_loop().create_task(self._ask(dead))

    async def _ask(self, dead: Credential | None) -> None:
        # An owner that is gone takes this worker with it.
        with suppress(LinkError):
            self.learn(await self._owner.ask(WANT, Want(self.id, dead)))

    def leave(self) -> None:
        """It is not needed any more."""
        self.is_needed = False
        self._owner.report(LEAVE, Leave(self.id))

    def learn(self, known: Known) -> None:
        """The owner has reported what it knows."""
        former, self.credential, self.failure = self.inputs, known.credential, known.failure
        if known.credential is not None:
            self.inputs = known.credential.inputs
            self.is_of_new_inputs = bool(former) and former != self.inputs
        self._changed.set()
        self._on_change(self)


class Credentials:
    """All that expire of one worker. `obtain` obtains one for all workers, when the owner asks for
    that; `on_change` is called with each that has changed; `is_out` returns whether the account of
    a name is disabled."""

    def __init__(
        self,
        owner: Peer,
        obtain: Source,
        on_change: Callable[[AccountCredential], None],
        is_out: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self._is_out = is_out
        self._owner = owner
        self._obtain = obtain
        self._on_change = on_change
        self._entries: dict[str, AccountCredential] = {}
        self._runs = False
        owner.handlers.receive(KNOWN, self._known)
        owner.handlers.answer(OBTAIN, self._obtained)

    def of(self, account: Account, place: Place) -> AccountCredential:
        """The credential of an account for requests that are sent to `place`."""
        entry = self._entries.get(id_of(account, place))
        if entry is None:
            entry = AccountCredential(account, place, self._owner, self._on_change)
            self._entries[entry.id] = entry
            if self._runs:
                entry.want()
        return entry

    def ends(self) -> dict[tuple[str, str], float]:
        """When credentials end that do, in Unix seconds, by upstream and account."""
        return {
            (entry.account.upstream, entry.account.name): entry.credential.expires_at
            for entry in self._entries.values()
            if entry.credential is not None and entry.credential.expires_at < inf
        }

    def serve(self, accounts: Iterable[tuple[Account, Place]]) -> None:
        """Hold the credentials of these accounts, and of no others."""
        wanted = {id_of(account, place): (account, place) for account, place in accounts}
        for id in [id for id in self._entries if id not in wanted]:
            self._entries.pop(id).leave()
        for account, place in wanted.values():
            entry = self.of(account, place)
            if self._runs:
                self._on_change(entry)

    def start(self) -> None:
        """Ask for the credentials, in the running loop."""
        self._runs = True
        for entry in self._entries.values():
            entry.want()

    def _known(self, peer: Peer, known: Known) -> None:
        if (entry := self._entries.get(known.id)) is not None:
            entry.learn(known)

    def _forgiven(self, entry: AccountCredential, asked: Obtain) -> Obtain:
        """What is asked, without what was refused before if a person has enabled the account."""
        if entry.was_reported and not self._is_out(entry.account.name):
            return replace(asked, failure=None)
        return asked

    async def _obtained(self, peer: Peer, asked: Obtain) -> Known:
        entry = self._entries.get(asked.id)
        now = time.time()
        try:
            if entry is None:
                raise CredentialError("unavailable", "its configuration was replaced")
            credential = await self._obtain(
                entry.account, entry.place, self._forgiven(entry, asked)
            )
            if credential.is_same(asked.dead) or not credential.is_usable(time.time()):
                why = "its source has only a credential that has expired, and is asked again"
                raise CredentialError("expired", why)
        except CredentialError as error:
            return Known(asked.id, failure=next_failure(asked.failure, error, now))
        return Known(asked.id, credential)


def id_of(account: Account, place: Place) -> str:
    """A name for the credential of an account, which another configuration of it does not have."""
    proxy = "" if place.proxy is None else place.proxy.reveal()
    rest = (account.fingerprint, place.url, place.style, place.region, proxy)
    return f"{account.name} {hashlib.sha256(repr(rest).encode()).hexdigest()[:16]}"
