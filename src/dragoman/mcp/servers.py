"""The servers of a configuration, and how they are called."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

import dragoman
from dragoman.accounts.credentials.account_credentials import Credentials
from dragoman.accounts.credentials.authorising import (
    Authoriser,
    account_of,
    authoriser_of,
)
from dragoman.accounts.decide.symptoms import Symptom, symptom_of_answer
from dragoman.canonical.masking import Mask
from dragoman.config.mcp import McpServer
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.request import Timeouts, UpstreamRequest
from dragoman.upstream.response import UpstreamResponse

_UNAUTHORISED = 401
_TIMEOUTS = Timeouts(connect=10.0, first_byte=600.0, idle=0.0, total=0.0)
"""Tools take minutes, and streams of notifications are silent for days: who leaves ends a call."""

Method = Literal["GET", "POST", "DELETE"]


class Server:
    """One MCP server."""

    def __init__(self, settings: McpServer, credentials: Credentials) -> None:
        self.name = settings.name
        self.account = settings.account
        self.tools_of = settings.tools_of
        self._url = settings.url
        self._settings = settings
        self._credentials = credentials
        fixed = {"user-agent": f"dragoman/{dragoman.__version__}"}
        if settings.key is not None:
            fixed["authorization"] = f"Bearer {settings.key.reveal()}"
        fixed |= {name.lower(): value.reveal() for name, value in settings.headers.items()}
        self._headers = tuple(fixed.items())
        self._secrets = [one.reveal() for one in settings.headers.values()]
        if settings.key is not None:
            self._secrets.append(settings.key.reveal())

    @cached_property
    def _authoriser(self) -> Authoriser | None:
        # Not before the configuration is served: from then on its credentials are obtained.
        return authoriser_of(*account_of(self._settings), self._credentials)

    def masked(self, body: bytes) -> bytes:
        """An error of the server without the secrets that it is sent."""
        obtained = () if self._authoriser is None else self._authoriser.secrets()
        return Mask((*self._secrets, *obtained)).secrets_in(body)

    async def send(
        self,
        client: UpstreamClient,
        method: Method,
        headers: Mapping[str, str],
        body: bytes,
        *,
        once: bool,
    ) -> UpstreamResponse:
        """Call the server. Where it refuses a token that expires, it is called once more with
        another one; `once`: never where it may have done something.

        Raises:
            NoCredential: there is nothing to authorise the call by.
            CallError: there is no answer.
        """

        async def call() -> UpstreamResponse:
            return await client.send(self._request(method, headers, body, once))

        authoriser = self._authoriser
        return await (call() if authoriser is None else authoriser.carry_out(call, _refusal))

    def _request(
        self, method: Method, headers: Mapping[str, str], body: bytes, once: bool
    ) -> UpstreamRequest:
        own = dict(self._headers)
        passed = tuple((name, value) for name, value in headers.items() if name not in own)
        if self._authoriser is not None:
            passed += self._authoriser.usable().headers
        return UpstreamRequest(
            method=method,
            url=self._url,
            headers=self._headers,
            # These differ from call to call.
            authorisation=passed,
            body=body,
            once=once,
            timeouts=_TIMEOUTS,
        )


def _refusal(answer: UpstreamResponse) -> Symptom | None:
    if answer.status != _UNAUTHORISED:
        return None
    return symptom_of_answer(answer.status, answer.headers, None, time.time())
