"""Which models an account may use, as its upstream lists them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from math import isinf
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.accounts.credentials.decide.refreshing import Credential
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.config import Account, Config, Secret, Upstream
from dragoman.printable import printable
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.model_facts import window_of
from dragoman.serving.advice import Adviser, is_own
from dragoman.serving.answers import read_error
from dragoman.serving.calls import Calls, own_calls
from dragoman.serving.failures import Failure, failed_call, refused
from dragoman.serving.upstream_requests import UpstreamRequestBuilder
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError, TotalTimeout

if TYPE_CHECKING:
    from dragoman.operations.context import StoreContext

_TIME_LIMIT_S = 20.0
_MOST_AT_ONCE = 8
_ADVICE_S = 120.0
"""For which a server may load the models that it is asked about."""
_MOST_ADVISED = 4
_LIST_BYTES = 8 * 1024 * 1024
"""Largest list of models that is read."""
_LONGEST_MESSAGE = 300

NO_LIST = frozenset({404, 405, 501})
"""Statuses of services that have no list of models: the account may be well."""


async def read_models(
    client: UpstreamClient,
    builder: UpstreamRequestBuilder,
    upstream: Upstream,
    proxy: Secret | None,
) -> list[JsonObject]:
    """The models that an upstream lists for the account of `builder`.

    Raises:
        Failure: the upstream refused.
        CallError: the call failed.
        ValueError: the answer is no list of models.
    """
    codec, form = upstream.codec, upstream.endpoint.models
    if not (upstream.endpoint.lists_models or upstream.inference_profiles):
        message = "The service has no list of models."
        raise Failure(Fault(FaultKind.NOT_FOUND, message, status=404), Symptom(404))
    await builder.ready()
    async with await client.send(builder.list_models(form, proxy)) as answer:
        if answer.status != 200:
            body = builder.mask.error(await read_error(answer))
            raise refused(codec, answer.status, answer.headers, body)
        return form.read(await answer.read(_LIST_BYTES))


class Listing(Struct, frozen=True, kw_only=True):
    """What the upstream answered for an account.

    `status` is 0 if there was no answer; `models` are the names listed, none if there is no list,
    and `windows` those of them whose context window is reported;
    `message` says what went wrong, without secrets. `advice` is what to set for a server of one's
    own. `expires_at` is when the credential ends that was obtained, in Unix seconds, None if it
    does not.
    """

    account: str
    upstream: str
    status: int
    models: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    message: str = ""
    milliseconds: float = 0.0
    advice: tuple[str, ...] = ()
    expires_at: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the account may well be used."""
        return not self.message or self.status in NO_LIST


async def listings(
    config: Config, accounts: Iterable[Account], context: StoreContext | None
) -> AsyncIterator[Listing]:
    """Ask the upstream of each account for its models, some at once; in the order of answers. Of
    servers of one's own it is also found out what to set for the models that routes name, else for
    the first one listed. `context` has the store, if there is one."""
    async with own_calls(context) as calls:
        free = asyncio.Semaphore(_MOST_AT_ONCE)

        async def ask(account: Account) -> Listing:
            upstream = config.upstream(account.upstream)
            routed = [one for one in config.routes if one.upstream == upstream.name]
            named = [one.model or one.match for one in routed]
            named = [name for name in named if "*" not in name]
            async with free:
                return await listing(calls, upstream, account, named)

        tasks = [asyncio.create_task(ask(account)) for account in accounts]
        for task in asyncio.as_completed(tasks):
            yield await task


async def listing(
    calls: Calls, upstream: Upstream, account: Account, named: Sequence[str] = ()
) -> Listing:
    """Ask for the models that this account may use, and a server of one's own about those that are
    `named`."""
    began = time.monotonic()
    listed: dict[str, JsonObject] = {}
    advice: list[str] = []
    status, message = 200, ""
    credential: Credential | None = None
    client, builder = calls.client, calls.builder(upstream, account)
    try:
        async with asyncio.timeout(_TIME_LIMIT_S):
            # Also of a service that has no list: that it can be authorised is worth knowing.
            credential = await builder.ready()
            entries = await read_models(client, builder, upstream, proxy_of(upstream, account))
        listed = {entry["id"]: entry for entry in entries}
    except Failure as failure:
        status, message = failure.symptom.status, failure.fault.message
    except (CallError, TimeoutError) as error:
        call = error if isinstance(error, CallError) else TotalTimeout("")
        status, message = 0, failed_call(call, upstream.name).fault.message
    except ValueError as error:
        message = str(error)
    milliseconds = round((time.monotonic() - began) * 1000, 1)
    if is_own(upstream) and not message:
        adviser = Adviser(client, upstream, builder)
        with suppress(TimeoutError):
            async with asyncio.timeout(_ADVICE_S):
                for model in list(dict.fromkeys(named))[:_MOST_ADVISED] or list(listed)[:1]:
                    advice += await adviser.advice(model, listed.get(model, {}))
    return Listing(
        account=account.name,
        upstream=upstream.name,
        status=status,
        models=tuple(listed),
        windows=tuple(name for name, entry in listed.items() if window_of(entry)),
        message=one_line(message),
        milliseconds=milliseconds,
        advice=tuple(map(one_line, advice)),
        expires_at=None
        if credential is None or isinf(credential.expires_at)
        else credential.expires_at,
    )


def unlisted(config: Config, found: Iterable[Listing]) -> list[tuple[str, str]]:
    """Upstreams and the models that routes ask of them, where a list names no such model."""
    listed: dict[str, set[str]] = {}
    for one in found:
        if one.models:
            listed.setdefault(one.upstream, set()).update(one.models)
    wanted: dict[tuple[str, str], None] = {}
    for route in config.routes:
        model = route.model or route.match
        wanted[route.upstream, model] = None
        for fallback in route.fallbacks:
            wanted[fallback.upstream, fallback.model or model] = None
    return [
        (upstream, model)
        for upstream, model in wanted
        if "*" not in model and upstream in listed and model not in listed[upstream]
    ]


def unknown_windows(config: Config, found: Iterable[Listing]) -> list[tuple[str, str]]:
    """Upstreams that were asked, and the models of routes whose context window neither they nor the
    configuration reports."""
    known = {(one.upstream, name) for one in found for name in one.windows}
    asked = {one.upstream for one in found}
    wanted = {
        (route.upstream, route.model or route.match): route
        for route in config.routes
        if route.upstream in asked and "*" not in (route.model or route.match)
    }
    return [
        place
        for place, route in wanted.items()
        if place not in known
        and (route.capabilities or config.upstream(route.upstream).capabilities).context_window
        is None
    ]


def proxy_of(upstream: Upstream, account: Account) -> Secret | None:
    """A proxy that is configured for calls of an account, none if there is none."""
    own = account.proxy or upstream.proxy
    return own if own or not upstream.proxies else random.choice(upstream.proxies)


def one_line(message: str) -> str:
    """An upstream's message as one printable line."""
    return printable(" ".join(message.split()), _LONGEST_MESSAGE)
