"""`GET /v1/usage`: the usage of a key, for its holder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec

from dragoman.accounts.store import Store, StoreError
from dragoman.accounts.sync import AccountSync
from dragoman.canonical.errors import FaultKind, InvalidRequest
from dragoman.edge.auth import Caller
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.operations.account_views import UsageReport, UsageRow
from dragoman.times import InvalidTime, parse_time

PATH = "/v1/usage"

GROUPS = ("model", "user", "tag", "route", "day", "hour")
"""Dimensions that the holder of a key may group by: none that shows other keys or accounts."""

_PARAMETERS = ("from", "to", "group_by")
_USUAL_S = 30 * 24 * 3600.0

_Answer = TypeVar("_Answer")


class OwnUsage:
    """Reports the usage of each key, one after another, so that frequent calls block neither the
    store nor other keys."""

    def __init__(self, account_sync: AccountSync | None) -> None:
        self._account_sync = account_sync
        self._turn = asyncio.Lock()

    async def serve(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """Answer one request.

        Raises:
            DragomanError: NOT_FOUND where nothing is stored, OVERLOADED where the store cannot be
                used, INVALID_REQUEST.
        """
        if self._account_sync is None:
            raise refusal(FaultKind.NOT_FOUND, "Usage is not stored here.", code="not_found")
        query = dict(parse_qsl(incoming.query.decode("latin-1"), keep_blank_values=True))
        for name in query:
            if name not in _PARAMETERS:
                raise InvalidRequest.at(name[:64], f"expected one of {', '.join(_PARAMETERS)}")
        now = time.time()
        until = _time(query, "to", now, now)
        since = _time(query, "from", now, max(0.0, until - _USUAL_S))
        if since > until:
            raise InvalidRequest.at("from", "expected a time that is not after `to`")
        by = [name for name in query.get("group_by", "").split(",") if name]
        for place, name in enumerate(by):
            if name not in GROUPS or name in by[:place]:
                raise InvalidRequest.at("group_by", f"expected some of {', '.join(GROUPS)}")
        from dragoman.operations.account_queries import usage_report

        only = {"client": caller.name}
        report = await self._ask(lambda store: usage_report(store, since, until, by, only))
        incoming.reply(200, msgspec.json.encode(_shown(report)))

    async def cost(self, caller: Caller, since: float, until: float) -> int | None:
        """The pico-dollars that a caller has spent in a time; None where nothing is stored.

        Raises:
            DragomanError: OVERLOADED where the store cannot be used.
        """
        if self._account_sync is None:
            return None
        only = {"client": caller.name}
        found = await self._ask(lambda store: store.sums(since, until, (), only))
        return sum(sums.charged.cost for sums in found.values())

    async def _ask(self, question: Callable[[Store], _Answer]) -> _Answer:
        assert self._account_sync is not None
        try:
            async with self._turn:
                return await self._account_sync.ask(question)
        except StoreError:
            raise refusal(
                FaultKind.OVERLOADED, "The store cannot be used now.", code="server_error"
            ) from None


def _time(query: Mapping[str, str], name: str, now: float, otherwise: float) -> float:
    if name not in query:
        return otherwise
    try:
        return parse_time(query[name], now)
    except InvalidTime as error:
        raise InvalidRequest.at(name, str(error)) from None


def _shown(report: UsageReport) -> dict[str, object]:
    return {
        "object": "usage",
        "from": _moment(report.since),
        "to": _moment(report.until),
        "data": [{**row.by, **_counts(row)} for row in report.rows],
        "total": _counts(report.total),
    }


def _counts(row: UsageRow) -> dict[str, object]:
    return {
        "requests": row.requests,
        "errors": row.errors,
        "input_tokens": row.input,
        "cached_tokens": row.cached,
        "cache_write_tokens": row.cache_write,
        "output_tokens": row.output,
        "reasoning_tokens": row.reasoning,
        "estimated_requests": row.estimated,
        "unmetered_requests": row.unmetered,
        "cost_usd": row.cost_usd,
        "unpriced_requests": row.unpriced,
    }


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
