"""Requests to upstreams: URL, key, version and other headers around a body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal

from msgspec.structs import replace

import dragoman
from dragoman.accounts.credentials.account_credentials import Credentials, NoCredential
from dragoman.accounts.credentials.authorising import Authoriser, Outcome, authoriser_of
from dragoman.accounts.credentials.decide.refreshing import Credential
from dragoman.accounts.credentials.decide.signing import Signable, signed_headers
from dragoman.accounts.credentials.place import place_of
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import account_tag
from dragoman.canonical.masking import Mask
from dragoman.config import Account, Secret, Upstream
from dragoman.config.credentials import secrets_of
from dragoman.protocols.base import ModelList, auth_header
from dragoman.serving.failures import Failure, Unauthorised
from dragoman.upstream.request import (
    BodySource,
    SocketUse,
    Timeouts,
    TlsSettings,
    UpstreamRequest,
    prepared,
)
from dragoman.upstream.urls import join_url, unversioned

_USER_AGENT = f"dragoman/{dragoman.__version__}"

Header = tuple[str, str]

_SOCKET_IDLE = 3.0
"""How many times `idle_s` an answer over WebSocket may be silent while pings are answered."""
_MOST_MADE = 16_384
"""Accounts whose constant request parts are cached. Where accounts take turns, a bound below their
number would build them anew for every request."""
_MOST_KINDS, _SHORT = 8, 1024
"""Requests of one account that are remembered, as they differ in more than their bodies, and the
characters that clients may have put into each. Where traces are passed on, all differ."""

Method = Literal["GET", "POST", "PATCH", "DELETE"]
_METHODS: dict[str, Method] = {
    "GET": "GET",
    "HEAD": "GET",
    "POST": "POST",
    "DELETE": "DELETE",
}

_JSON: tuple[Header, ...] = (("accept", "application/json"),)
_ANY: tuple[Header, ...] = (("accept", "application/json, text/event-stream"),)
_WHOLE: tuple[Header, ...] = (("content-type", "application/json"), *_JSON)
_STREAMED: tuple[Header, ...] = (
    ("content-type", "application/json"),
    ("accept", "text/event-stream"),
)

_SCHEMES = ("bearer", "basic", "token")


class UpstreamDefaults:
    """What the requests of all accounts of an upstream have in common."""

    __slots__ = (
        "headers",
        "names",
        "own_headers",
        "proxy",
        "secrets",
        "timeouts",
        "tls",
        "upstream",
        "version",
    )

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        endpoint = upstream.endpoint
        self.version = endpoint.version
        self.headers = {"user-agent": ("user-agent", _USER_AGENT)}
        own = endpoint.headers(upstream.capabilities)
        self.headers |= {name: (name, value) for name, value in own.items()}
        self.own_headers = _revealed(upstream.headers)
        self.names = frozenset(self.own_headers)
        self.secrets = tuple(upstream.headers.values())
        proxies = [*upstream.proxies, upstream.proxy]
        self.proxy = next((proxy.reveal() for proxy in proxies if proxy is not None), None)
        self.tls = tls_settings(upstream)
        limits = upstream.timeouts
        self.timeouts = Timeouts(
            connect=limits.connect_s,
            first_byte=limits.first_byte_s,
            idle=limits.idle_s,
            socket_idle=_SOCKET_IDLE * limits.idle_s,
            total=limits.total_s,
        )


def tls_settings(upstream: Upstream) -> TlsSettings:
    """What the configuration has for TLS with an upstream."""
    trusted, own = upstream.ca_file, upstream.client_certificate
    return TlsSettings(
        "" if trusted is None else trusted.text.decode("ascii", "replace"),
        *(("", b"") if own is None else own[:2]),
    )


class UpstreamRequestBuilder:
    """Builds the requests for one account of one upstream. Parts that never change are built once.
    Requests of an account with credentials are authorised last: await `ready` before. It `is_ready`
    from the beginning if the account has none.

    `mask` hides the secrets that are sent, in case the upstream quotes them; `tag` stands for the
    account where clients can see it.
    """

    __slots__ = (
        "_authoriser",
        "_base_url",
        "_defaults",
        "_fixed",
        "_made",
        "_masked",
        "_names",
        "_proxy",
        "_secrets",
        "account",
        "is_ready",
        "mask",
        "tag",
    )

    def __init__(
        self, common: UpstreamDefaults, account: Account, credentials: Credentials | None = None
    ) -> None:
        """`credentials` has those that expire; None: the account has none of these."""
        self._defaults = common
        self.account = account
        self.tag = account_tag(account.name)
        self._base_url = account.base_url(common.upstream)
        place = place_of(account, common.upstream)
        self._authoriser = authoriser_of(account, place, credentials)
        self.is_ready = self._authoriser is None
        headers = common.headers.copy()
        if account.key is not None:
            name, value = auth_header(common.upstream.auth_style, account.key.reveal())
            headers[name] = (name, value)
        headers |= common.own_headers
        self._names = common.names
        if account.headers:
            own = _revealed(account.headers)
            headers |= own
            self._names |= own.keys()
        self._secrets = tuple(_secrets(account, common.secrets))
        self.mask = Mask(self._secrets)
        self._masked: Credential | None = None
        self._fixed = headers
        self._proxy = common.proxy if account.proxy is None else account.proxy.reveal()
        self._made = lru_cache(_MOST_KINDS)(self._empty)

    @property
    def signs_bodies(self) -> bool:
        """Whether a request is authorised over its body, which must be there before it is sent."""
        return self._authoriser is not None and self._authoriser.signs

    async def ready(self) -> Credential | None:
        """Wait until requests can be authorised. Returns by what; None if the account has a key.

        Raises:
            Unauthorised: they cannot be.
        """
        if self._authoriser is None:
            return None
        try:
            await self._authoriser.ready()
        except NoCredential as error:
            raise Unauthorised(str(error)) from None
        return self._authoriser.current

    async def renewed(self, used: Credential | None, status: int, symptom: Symptom) -> bool:
        """Whether a request that was refused so is to be repeated once, since it was not the
        account that was refused: what it was authorised by had expired.

        Raises:
            Unauthorised: there is nothing else to authorise it by.
        """
        if self._authoriser is None:
            return False
        try:
            return await self._authoriser.renewed(used, status, symptom)
        except NoCredential as error:
            raise Unauthorised(str(error)) from None

    def carry_out(
        self, call: Callable[[], Awaitable[Outcome | Failure]]
    ) -> Awaitable[Outcome | Failure]:
        """The outcome of a call, which is made once it can be authorised: once more, with another
        credential, if the first was refused as expired.

        Raises:
            Unauthorised: it cannot be authorised.
            Exception: `call`'s own.
        """
        return call() if self._authoriser is None else self._authorised(self._authoriser, call)

    async def _authorised(
        self, authoriser: Authoriser, call: Callable[[], Awaitable[Outcome | Failure]]
    ) -> Outcome | Failure:
        try:
            return await authoriser.carry_out(call, _refusal)
        except NoCredential as error:
            raise Unauthorised(str(error)) from None

    def post(
        self,
        path: str,
        body: bytes | BodySource,
        client: Mapping[str, str] | None,
        *,
        stream: bool,
        route: Mapping[str, str] | None = None,
        proxy: Secret | None = None,
        idempotency_key: str = "",
        socket: SocketUse | None = None,
        is_root: bool = False,
        method: Method = "POST",
    ) -> UpstreamRequest:
        """A POST to `path` (below the protocol's version, or beside it if it `is_root`), or another
        `method`, with a JSON body, through `proxy` (None: the one that the account commonly uses,
        if any).

        `client` are those of the client's headers that are forwarded. `route` are headers that
        differ from the upstream's own where the route's capabilities do. Neither replaces what the
        configuration sets, and nor does `idempotency_key`, which is sent where the protocol takes
        one. `socket` is as in `UpstreamRequest`.

        Raises:
            Unauthorised: the account has credentials, and `ready` was not awaited.
        """
        passed: tuple[Header, ...] = ()
        if route or client or idempotency_key:
            name = self._defaults.upstream.endpoint.idempotency_key
            key = {name: idempotency_key} if name and idempotency_key else None
            passed = self._passed(route, client, key)
        base_url = unversioned(self._base_url) if is_root else ""
        own = _STREAMED if stream else _WHOLE
        make = self._made if _is_short(path, "", passed) else self._empty
        return self._request(make(method, path, "", own, passed, proxy, base_url), body, socket)

    def get(self, path: str, query: str = "", proxy: Secret | None = None) -> UpstreamRequest:
        """A GET of `path` (below the protocol's version); `proxy` as for `post`."""
        return self._request(self._made("GET", path, query, _JSON, (), proxy, ""), b"")

    def list_models(self, form: ModelList, proxy: Secret | None) -> UpstreamRequest:
        """A GET of the list of models that has this form."""
        base_url = "" if form.base_url is None else form.base_url(self._base_url)
        return self._request(
            self._made("GET", form.path, form.query, _JSON, (), proxy, base_url), b""
        )

    def bodyless(
        self,
        method: str,
        path: str,
        query: str,
        client: Mapping[str, str] | None = None,
        *,
        is_root: bool = False,
    ) -> UpstreamRequest:
        """A request without a body, with a query string as it is in URLs; `client` and `is_root`
        are as for `post`."""
        base_url = unversioned(self._base_url) if is_root else ""
        kind, passed = _METHODS[method], self._passed(client)
        make = self._made if _is_short(path, query, passed) else self._empty
        return self._request(make(kind, path, query, _ANY, passed, None, base_url), b"")

    def _passed(self, *given: Mapping[str, str] | None) -> tuple[Header, ...]:
        """Headers that are sent as they are given, but for what the configuration sets. Of two with
        one name the second is."""
        passed = {
            name: value
            for headers in given
            for name, value in (headers or {}).items()
            if name not in self._names
        }
        return tuple(passed.items())

    def _empty(
        self,
        method: Method,
        path: str,
        query: str,
        own: tuple[Header, ...],
        passed: tuple[Header, ...],
        proxy: Secret | None,
        base_url: str,
    ) -> UpstreamRequest:
        """A request without its body, and without what authorises it alone. `own` are headers that
        the configuration may replace, and `passed` such as it does not. `base_url` is that of a
        path that is not below the version of the protocol, empty for one that is.

        Raises:
            ValueError: URL, proxy or a header cannot be used.
        """
        if "?" in path:
            path, _, asked = path.partition("?")
            query = f"{asked}&{query}" if asked and query else asked or query
        if not base_url:
            base_url, path = self._base_url, self._defaults.version + path
        headers = {name: (name, value) for name, value in own} | self._fixed
        headers |= {header[0]: header for header in passed}
        request = UpstreamRequest(
            method=method,
            url=join_url(base_url, path, query),
            headers=tuple(headers.values()),
            timeouts=self._defaults.timeouts,
            proxy=self._proxy if proxy is None else proxy.reveal(),
            tls=self._defaults.tls,
        )
        return replace(request, ready=prepared(request))

    def _request(
        self, empty: UpstreamRequest, body: bytes | BodySource, socket: SocketUse | None = None
    ) -> UpstreamRequest:
        held, source = (body, None) if isinstance(body, bytes) else (b"", body)
        authoriser = self._authoriser
        if authoriser is None:
            return replace(empty, body=held, source=source, socket=socket)
        try:
            credential = authoriser.usable()
        except NoCredential as error:
            raise Unauthorised(str(error)) from None
        authorisation = credential.headers
        if credential.keys is not None:
            target = prepared(empty).target
            signed = signed_headers(target.authority, empty.headers)
            signable = Signable(empty.method, target.path, signed, held)
            authorisation = authoriser.sign(credential.keys, signable)
        if self._masked is not credential:
            self._masked = credential
            self.mask = Mask((*self._secrets, *authoriser.secrets()))
        # No socket: the handshake of a connection would outlast what authorised it.
        return replace(empty, body=held, source=source, authorisation=authorisation)


class UpstreamRequestBuilders:
    """The request builders of all accounts, made when they are first needed: accounts are added,
    changed and removed while the gateway runs. `credentials` are as in `UpstreamRequestBuilder`."""

    __slots__ = ("_defaults", "_made", "credentials")

    def __init__(
        self, upstreams: Iterable[Upstream], credentials: Credentials | None = None
    ) -> None:
        self.credentials = credentials
        self._defaults = {upstream.name: UpstreamDefaults(upstream) for upstream in upstreams}
        self._made: dict[str, UpstreamRequestBuilder] = {}

    def of(self, account: Account) -> UpstreamRequestBuilder:
        """The request builder of `account` as it is now."""
        made = self._made.get(account.name)
        if made is None or made.account is not account:
            common = self._defaults[account.upstream]
            made = UpstreamRequestBuilder(common, account, self.credentials)
            self._made[account.name] = made
            if len(self._made) > _MOST_MADE:
                del self._made[next(iter(self._made))]
        return made


def _is_short(path: str, query: str, passed: tuple[Header, ...]) -> bool:
    """Whether clients have put so little into a request that what it has in common with others is
    remembered."""
    size = len(path) + len(query)
    for _, value in passed:
        size += len(value)
    return size <= _SHORT


def _refusal(outcome: object) -> Symptom | None:
    return outcome.symptom if isinstance(outcome, Failure) else None


def _revealed(headers: Mapping[str, Secret]) -> dict[str, Header]:
    return {name.lower(): (name, secret.reveal()) for name, secret in headers.items()}


def _secrets(account: Account, shared: Iterable[Secret]) -> Iterator[str]:
    own: list[Secret] = [*shared, *account.headers.values()]
    if account.credentials is not None:
        own += secrets_of(account.credentials)
    for secret in own if account.key is None else [account.key, *own]:
        value = secret.reveal()
        scheme, _, token = value.partition(" ")
        yield from (value, token) if scheme.lower() in _SCHEMES else (value,)
