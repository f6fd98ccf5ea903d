"""How a request is authorised by an account with credentials: last, over what is sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from dragoman.accounts.credentials.decide.signing import (
    AwsKeys,
    Headers,
    Scope,
    Signable,
    Signer,
    signed_headers,
)
from dragoman.config.aws_hosts import region_and_name
from dragoman.config.credentials import AwsCredentials, Credentials


class Outgoing(NamedTuple):
    """A request that is ready to be sent. `host` is the value of its header, `path` the request
    target, query included."""

    method: str
    host: str
    path: str
    headers: Headers
    body: bytes


class Authoriser(Protocol):
    """What authorises the requests of one account."""

    def headers(self, request: Outgoing) -> tuple[tuple[str, str], ...]:
        """The headers to add to a request."""


class AwsAuthoriser:
    """Signs requests with keys of AWS. `clock` is Unix time, in seconds."""

    def __init__(self, keys: AwsKeys, scope: Scope, clock: Callable[[], float] = time.time) -> None:
        self._signer = Signer(keys, scope)
        self._clock = clock

    def headers(self, request: Outgoing) -> tuple[tuple[str, str], ...]:
        """See `Authoriser.headers`."""
        signed = signed_headers(request.host, request.headers)
        signable = Signable(request.method, request.path, signed, request.body)
        return self._signer.headers(signable, self._clock())


def fixed_authoriser(settings: Credentials, host: str, region: str) -> Authoriser:
    """What authorises requests to `host` by settings that never expire."""
    return AwsAuthoriser(_static_keys(settings), scope_of(settings, host, region))


def scope_of(settings: AwsCredentials, host: str, region: str) -> Scope:
    """What signatures of requests to `host` are valid for; `region` is the account's own."""
    of_host, name = region_and_name(host)
    return Scope(region or of_host, settings.signing_name or name)


def _static_keys(settings: AwsCredentials) -> AwsKeys:
    token = settings.session_token
    return AwsKeys(
        settings.access_key_id,
        settings.secret_access_key.reveal(),
        "" if token is None else token.reveal(),
    )
