"""Operations on what was counted: usage, its prices, and the log of changes."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from dragoman.accounts.store import DIMENSIONS
from dragoman.operations.account_queries import usage_report
from dragoman.operations.account_views import AuditPage, UsageReport
from dragoman.operations.accounts import PAGE
from dragoman.operations.audit_sheet import audit_sheet
from dragoman.operations.context import StoreContext
from dragoman.operations.inputs import InvalidInput, Time, given
from dragoman.operations.operation import Command, Http, Text, operation, operations_in
from dragoman.operations.pricing import Repriced, hours_since, reprice

MOST_LINES = 10_000
"""Lines of a sheet, if no other number is asked for."""

_DAY_S = 24 * 3600.0

_SINCE = "24h, 7d, a date, or Unix seconds."


class TimeSpan(Struct, frozen=True, kw_only=True):
    """A time, by default the last day."""

    since: Annotated[Time | None, Meta(description=_SINCE)] = None
    until: Annotated[Time | None, Meta(description="As --since.")] = None


class _AskUsage(TimeSpan, frozen=True, kw_only=True):
    """Which usage to report, grouped by the dimensions `by`."""

    by: Annotated[
        tuple[str, ...],
        Meta(
            description="What to group by: key, team, user, tag, model, account, upstream, "
            "route, day, hour. Commas separate them; repeatable.  [default: account]"
        ),
    ] = ()
    zone: Annotated[str, Meta(description="Time zone of the days, Europe/Berlin.")] = "UTC"


_FILTERS = tuple(name for name in DIMENSIONS if name not in ("hour", "day"))

AskUsage = msgspec.defstruct(
    "AskUsage",
    [
        (name, Annotated[str | UnsetType, Meta(description="Only of this one.")], UNSET)
        for name in _FILTERS
    ],
    bases=(_AskUsage,),
    namespace={"__doc__": _AskUsage.__doc__},
    frozen=True,
    kw_only=True,
)


class Reprice(TimeSpan, frozen=True, kw_only=True):
    """What to price again."""

    dry_run: Annotated[bool, Meta(description="Only report what would change.")] = False


class AskAudit(Struct, frozen=True, kw_only=True):
    """Which changes to show: the last `limit` of them, with lower numbers than `before`."""

    format: Literal["csv", "json"] = "json"
    since: Annotated[Time, Meta(description=_SINCE)] = 0.0
    limit: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    before: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Only changes of lower numbers.")
    ] = None
    who: Annotated[
        str | UnsetType,
        Meta(description="user@host, or the name of a key of the administration."),
    ] = UNSET
    kind: Annotated[
        str | UnsetType,
        Meta(description="account, admin, key, team, prices, configuration, request or doctor."),
    ] = UNSET
    name: Annotated[str | UnsetType, Meta(description="Name of what was changed.")] = UNSET
    action: Annotated[
        str | UnsetType, Meta(description="What was done: add, change, remove and so on.")
    ] = UNSET


def span_of(asked: Any, usual_s: float = _DAY_S) -> tuple[float, float]:
    """The time that is asked for, `usual_s` seconds if its beginning is not.

    Raises:
        InvalidInput: it ends before it begins.
    """
    end = time.time() if asked.until is None else asked.until
    begin = end - usual_s if asked.since is None else asked.since
    if begin > end:
        names = {info.name: info.encode_name for info in msgspec.structs.fields(type(asked))}
        raise InvalidInput.of(
            names["since"], f"expected a time that is not after `{names['until']}`"
        )
    return begin, end


def _shown(asked: AskAudit, page: AuditPage) -> AuditPage | Text:
    if asked.format == "json":
        return page
    return Text(audit_sheet(page.changes), "text/csv; charset=utf-8")


@operation(
    "usage.report",
    "viewer",
    Http("GET", "usage"),
    input=AskUsage,
    command=Command("usage", is_own=True),
)
def report_usage(context: StoreContext, asked: Any) -> UsageReport:
    """Show requests, tokens, errors, latency and cost.

    Usage is stored by the hour: whole hours are shown that begin in the time asked for, and days
    are those of the zone. Usage of more than 60 days ago is stored by the day (UTC). A request with
    several tags counts for each of them. Input includes cached tokens and those written to a cache,
    output includes reasoning. Requests and errors count each request once, with the account that
    was asked last; attempts, failed ones and those that another followed (retries) count with every
    account that was asked. Unpriced are answers for whose model no price is known: the cost is
    without them. Estimated are those whose usage was not reported in full.
    """
    since, until = span_of(asked)
    only = given(asked, ("since", "until", "by", "zone"))
    return usage_report(context.store, since, until, asked.by, only, asked.zone)


@operation(
    "prices.reprice",
    "admin",
    Http("POST", "prices/reprice", query=("since", "until", "dry_run")),
    audit=("reprice prices",),
    command=Command(
        "prices reprice",
        options={"since": "--since", "until": "--until", "dry_run": "--dry-run"},
        defaults={"since": "24h", "until": "now"},
    ),
)
def reprice_usage(context: StoreContext, asked: Reprice) -> Repriced:
    """Price again what was counted, by the prices of the configuration.

    Whole hours are priced that begin in the time asked for, each as of its beginning. What has no
    price stays as it is.
    """
    since, until = span_of(asked)
    return reprice(
        context.store,
        context.prices,
        since,
        until,
        hours_since(),
        dry_run=asked.dry_run,
        actor=context.actor,
    )


@operation(
    "audit.list",
    "viewer",
    Http("GET", "audit"),
    finish=_shown,
    command=Command(
        "audit",
        options={
            "since": "--since",
            "limit": "--limit",
            "before": "--before",
            "who": "--who",
            "kind": "--kind",
            "name": "--name",
            "action": "--action",
        },
        defaults={"limit": 50},
    ),
)
def list_changes(context: StoreContext, asked: AskAudit) -> AuditPage:
    """Show who changed what, the last change first.

    Changes of accounts, keys, teams, prices and the configuration, on the command line and over
    /admin, with what was before and is after. Secrets are never shown.
    """
    only = given(asked, ("format", "since", "limit", "before"))
    limit = asked.limit or (MOST_LINES if asked.format == "csv" else PAGE)
    page = context.queries.audit(limit, asked.before, asked.since, only)
    if context.role == "admin":
        return page
    changes = tuple(replace(line, address="") for line in page.changes)
    return replace(page, changes=changes)


OPERATIONS = operations_in(globals())
