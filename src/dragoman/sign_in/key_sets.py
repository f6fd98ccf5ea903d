"""What issuers of tokens publish: documents and keys, read over HTTP and kept for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import dragoman
from dragoman.config.checks import is_safe_url
from dragoman.jsontext import JsonError, strict
from dragoman.sign_in.jose import Key, UnknownKey, public_keys, verified
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError
from dragoman.upstream.request import Timeouts, UpstreamRequest

KEPT_S: Final = 3600.0
"""Seconds after which a document is read again."""
KEPT_IN_OUTAGES_S: Final = 24 * 3600.0
"""Seconds after which it is forgotten if it cannot be read again."""
AGAIN_S: Final = 10.0
"""Seconds between two times that an issuer is asked that failed."""
_UNKNOWN_AGAIN_S = 60.0
"""Seconds between two times that keys are read because one is not known."""
_MOST_BYTES = 1024 * 1024
_LIMIT_S = 5.0
_TIMEOUTS = Timeouts(connect=_LIMIT_S, first_byte=_LIMIT_S, idle=_LIMIT_S, total=2 * _LIMIT_S)
_HEADERS = (("accept", "application/json"), ("user-agent", f"dragoman/{dragoman.__version__}"))
_NEVER = float("-inf")


class ProviderAway(Exception):
    """An issuer cannot be asked now, or answers what is of no use. The message has no secret."""


async def call(
    client: UpstreamClient,
    method: Literal["GET", "POST"],
    url: str,
    headers: Mapping[str, str],
    body: bytes = b"",
) -> tuple[int, Any]:
    """The status of an answer, and its body as JSON, None if it is none. Redirects are not
    followed.

    Raises:
        ProviderAway: there is no answer.
    """
    request = UpstreamRequest(
        method=method,
        url=url,
        headers=_HEADERS,
        # Of this request alone, as they may have a secret.
        authorisation=tuple(headers.items()),
        body=body,
        timeouts=_TIMEOUTS,
    )
    try:
        async with await client.send(request) as answer:
            text = await answer.read(_MOST_BYTES)
            status = answer.status
    except CallError as error:
        raise ProviderAway(error.cause) from None
    except (ValueError, RuntimeError, OSError) as error:
        raise ProviderAway(type(error).__name__) from None
    try:
        return status, strict(text)
    except JsonError:
        return status, None


async def get_json(client: UpstreamClient, url: str) -> Any:
    """A document.

    Raises:
        ProviderAway: there is none.
    """
    status, found = await call(client, "GET", url, {})
    if status != 200 or found is None:
        raise ProviderAway(f"{urlsplit(url).path} answers {status}, or no JSON")
    return found


async def discovered(client: UpstreamClient, issuer: str) -> dict[str, Any]:
    """The discovery document of an issuer.

    Raises:
        ProviderAway: there is none, or it is of another.
    """
    found = await get_json(client, issuer.rstrip("/") + "/.well-known/openid-configuration")
    if not isinstance(found, dict):
        raise ProviderAway("its discovery document is no object")
    if found.get("issuer") != issuer:
        raise ProviderAway("its discovery document names another issuer")
    return found


def url_in(document: Mapping[str, Any], name: str) -> str:
    """An address in a discovery document.

    Raises:
        ProviderAway: it is missing, or could be read on the way.
    """
    url = document.get(name)
    if not isinstance(url, str) or not is_safe_url(url.partition("?")[0]):
        raise ProviderAway(f"its {name} is missing, or not https")
    return url


class KeySet:
    """The public keys of an issuer, read when they are needed, and read again when a token names
    one that is not known. `clock` is monotonic seconds."""

    def __init__(self, client: UpstreamClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._keys: dict[str, Key] = {}
        self._read_at = _NEVER
        self._tried_at = _NEVER
        self._reading = asyncio.Lock()

    @property
    def known(self) -> Mapping[str, Key] | None:
        """The keys; None if they were not read for too long."""
        is_old = self._clock() - self._read_at > KEPT_IN_OUTAGES_S
        return None if is_old else self._keys

    @property
    def is_due(self) -> bool:
        """Whether they are to be read again."""
        now = self._clock()
        return now - self._read_at >= KEPT_S and now - self._tried_at >= AGAIN_S

    @property
    def may_have_more(self) -> bool:
        """Whether they are being read, or may be read again because one is not known."""
        is_tried = self._clock() - self._tried_at < _UNKNOWN_AGAIN_S
        return self._reading.locked() or not is_tried

    async def verified(self, token: bytes, url: str, algorithms: Sequence[str]) -> dict[str, Any]:
        """The claims of a token that is signed with a key of the set at `url`.

        Raises:
            Flawed: it is not.
            ProviderAway: the keys cannot be read.
        """
        if self.is_due or (self.known is None and self._reading.locked()):
            await self.read(url)
        if self.known is None:
            raise ProviderAway("its keys cannot be read")
        try:
            return verified(token, self._keys, algorithms)
        except UnknownKey:
            if not self.may_have_more:
                raise
        await self.read(url)
        return verified(token, self._keys, algorithms)

    async def read(self, url: str) -> None:
        """Read them again, once for all who want it meanwhile. Those that are known stay if that
        fails."""
        is_asked = self._reading.locked()
        async with self._reading:
            if is_asked:
                return
            self._tried_at = self._clock()
            try:
                self._keys = public_keys(await get_json(self._client, url))
            except ProviderAway:
                return
            self._read_at = self._clock()
