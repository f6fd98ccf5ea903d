"""The operator's check of requests: each one is sent to it before anything is asked of an upstream,
and is refused, passed on, or replaced by what it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal

from msgspec import Raw, Struct

from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.config import RequestCheck
from dragoman.edge.auth import query_without_keys, without_keys
from dragoman.edge.incoming import IncomingRequest, is_json
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols.base import to_json
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import BadAnswer, CallError
from dragoman.upstream.request import Timeouts, UpstreamRequest

_log = logging.getLogger("dragoman.gateway")

Result = Literal["passed", "changed", "blocked", "failed"]

MOST_REASON = 500
"""Characters of the reason that a client is given."""
_MOST_RULE = 100
_ENVELOPE_BYTES = 64 * 1024
"""Bytes of an answer besides the body in it."""
_SMALL = 64 * 1024
"""Bytes of a body whose copy is not taken from the memory budget."""
_OF_BODY = (b"content-encoding", b"content-length", b"transfer-encoding")
"""Headers of the body as it came: it is shown decoded."""
_HEADERS = (("content-type", "application/json"), ("accept", "application/json"))


class _Verdict(Struct, frozen=True):
    """An answer of the check. `body` is what the request has instead of its own."""

    block: bool
    reason: str | None = None
    rule_id: str | None = None
    body: Raw = Raw(b"null")


_read = decoder(_Verdict)


class RequestChecker:
    """Asks the check of one configuration. `count` is called with the result of each request."""

    def __init__(
        self, settings: RequestCheck, client: UpstreamClient, count: Callable[[Result], None]
    ) -> None:
        self._url = settings.url.reveal()
        self._seconds = settings.timeout_s
        self._is_open = settings.fail == "open"
        self._client = client
        self._count = count
        self._is_failing = False

    async def check(self, caller: str, incoming: IncomingRequest, body: bytes, limit: int) -> bytes:
        """The body to read of a request of `caller`, of at most `limit` bytes: its own or another.

        Raises:
            DragomanError: POLICY_BLOCKED, or OVERLOADED where there is no memory to ask.
        """
        if len(body) > _SMALL:
            incoming.reserve(len(body))
        try:
            verdict = await self._ask(caller, incoming, body, limit)
        except (CallError, TimeoutError, JsonError) as error:
            return self._unchecked(error, body)
        self._is_failing = False
        if verdict.block:
            self._count("blocked")
            raise _blocked(verdict.reason or "This request is not allowed here.", verdict.rule_id)
        if verdict.body == _NULL:
            self._count("passed")
            return body
        self._count("changed")
        return bytes(verdict.body)

    async def _ask(
        self, caller: str, incoming: IncomingRequest, body: bytes, limit: int
    ) -> _Verdict:
        """
        Raises:
            CallError: there is no answer of use.
            TimeoutError: it takes too long.
            JsonError: it is not what it should be.
        """
        is_shown = is_json(incoming.headers) and bool(body.strip())
        request = UpstreamRequest(
            method="POST",
            url=self._url,
            headers=_HEADERS,
            authorisation=(
                ("x-request-id", incoming.request_id),
                ("x-principal-sub", caller),
            ),
            body=_shown(incoming, body if is_shown else b"null"),
            timeouts=Timeouts(total=self._seconds),
        )
        async with asyncio.timeout(self._seconds):
            async with await self._client.send(request) as answer:
                if answer.status != 200:
                    raise BadAnswer(f"it answers with status {answer.status}")
                verdict = _read(await answer.read(limit + _ENVELOPE_BYTES))
        if verdict.body != _NULL:
            changed = bytes(verdict.body)
            if not is_shown or changed[:1] != b"{" or len(changed) > limit:
                raise JsonError("its body is for none, no object, or too large")
        return verdict

    def _unchecked(self, error: Exception, body: bytes) -> bytes:
        """The body of a request that could not be checked.

        Raises:
            DragomanError: POLICY_BLOCKED, unless such requests pass.
        """
        self._count("failed")
        if not self._is_failing:
            self._is_failing = True
            _log.error("requests cannot be checked: %s", _cause(error))
        if self._is_open:
            return body
        message = "This request could not be checked, so it was not sent on. Try again later."
        raise _blocked(message, None)


_NULL = Raw(b"null")


def _shown(incoming: IncomingRequest, body: bytes) -> bytes:
    """What the check is shown of a request."""
    headers = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in without_keys(incoming.headers).items()
        if name not in _OF_BODY
    }
    head = to_json(
        {
            "path": incoming.path,
            "query": query_without_keys(incoming.query).decode("latin-1"),
            "headers": headers,
        }
    )
    # The last member: a body that is no JSON text spoils the whole, and hides nothing before it.
    return b'%b,"body":%b}' % (head[:-1], body)


def _blocked(reason: str, rule: str | None) -> DragomanError:
    """The error for a request that is not sent on."""
    kind = FaultKind.POLICY_BLOCKED
    details = None if rule is None else {"rule_id": rule[:_MOST_RULE]}
    return DragomanError(Fault(kind, reason[:MOST_REASON], code=kind, details=details))


def _cause(error: Exception) -> str:
    """Why there is no verdict. Texts about JSON may quote what was answered."""
    if isinstance(error, CallError):
        return str(error)
    return "it takes too long" if isinstance(error, TimeoutError) else "its answer has another form"
