"""Calls to upstreams by accounts: the client that sends them, and what authorises them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.accounts.credentials.account_credentials import AccountCredential, Credentials
from dragoman.accounts.credentials.decide.refreshing import Credential, CredentialError
from dragoman.accounts.credentials.io import Answer, Ask, Environment, Unanswered
from dragoman.accounts.credentials.messages import Obtain
from dragoman.accounts.credentials.owner import CredentialOwner
from dragoman.accounts.credentials.place import Place
from dragoman.accounts.credentials.stored_logins import ReadLogins, StoredLogins
from dragoman.config import Account, Upstream
from dragoman.link.messages import Handlers, Peer
from dragoman.link.owner import Owner
from dragoman.serving.upstream_requests import UpstreamDefaults, UpstreamRequestBuilder
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError
from dragoman.upstream.request import Timeouts, UpstreamRequest

if TYPE_CHECKING:
    from dragoman.operations.context import StoreContext

_CONNECT_S = 5.0
_MOST_BYTES = 256 * 1024


class Calls(Struct, frozen=True):
    """What calls an upstream by one account; `credentials` are those that expire, None for none."""

    client: UpstreamClient
    credentials: Credentials | None = None

    def builder(self, upstream: Upstream, account: Account) -> UpstreamRequestBuilder:
        """What builds the requests of an account."""
        return UpstreamRequestBuilder(UpstreamDefaults(upstream), account, self.credentials)


@asynccontextmanager
async def own_calls(context: StoreContext | None) -> AsyncIterator[Calls]:
    """Calls of a program that serves nothing. `context` has the store, if there is one."""
    logins = None if context is None else ReadLogins(context.store, context.cipher)
    link, owner = Owner(), CredentialOwner()
    owner.register(link.handlers)
    async with UpstreamClient() as client:
        credentials = credentials_of(link.join(Handlers()), client, Watch(), logins)
        credentials.start()
        try:
            yield Calls(client, credentials)
        finally:
            await owner.close()


class Watch(Struct, frozen=True):
    """Functions that follow credentials: `changed` is called with each that has changed,
    `refreshed` with the outcome of each that was asked for (`ok`, or why there is none). `is_out`
    returns whether the account of a name is disabled."""

    changed: Callable[[AccountCredential], None] = lambda entry: None
    refreshed: Callable[[Account, str], None] = lambda account, outcome: None
    is_out: Callable[[str], bool] = lambda name: True


def credentials_of(
    link: Peer, client: UpstreamClient, watch: Watch, logins: StoredLogins | None = None
) -> Credentials:
    """The credentials of a worker that has this link to the owner; its client obtains them, and
    `logins` keeps what is replaced with each use."""

    async def source(account: Account, place: Place, asked: Obtain) -> Credential:
        # Only where an account has credentials: the sources of all clouds are many modules.
        from dragoman.accounts.credentials.sources import obtain

        async def fetch(ask: Ask) -> Answer:
            return await _fetch(client, place, ask)

        try:
            found = await obtain(account, place, asked, Environment(fetch, time.time), logins)
        except CredentialError as error:
            watch.refreshed(account, error.problem)
            raise
        watch.refreshed(account, "ok")
        return found

    return Credentials(link, source, watch.changed, watch.is_out)


async def _fetch(client: UpstreamClient, place: Place, ask: Ask) -> Answer:
    """
    Raises:
        Unanswered: there is no answer.
    """
    proxy = None if ask.is_direct or place.proxy is None else place.proxy.reveal()
    request = UpstreamRequest(
        method="POST" if ask.method == "POST" else "PUT" if ask.method == "PUT" else "GET",
        url=ask.url,
        headers=(("accept", "application/json"),),
        # Of this request alone, as they may have a secret.
        authorisation=ask.headers,
        body=ask.body,
        timeouts=Timeouts(
            connect=min(_CONNECT_S, ask.total_s), first_byte=ask.total_s, total=ask.total_s
        ),
        proxy=proxy,
    )
    try:
        async with await client.send(request) as answer:
            body = await answer.read(_MOST_BYTES)
            return Answer(answer.status, dict(answer.headers), body)
    except CallError as error:
        raise Unanswered(error.cause.replace("_", " "), was_sent=error.sent) from None
    except ValueError:
        raise Unanswered("its address or a header cannot be used", was_sent=False) from None
