"""What is known of accounts and of usage, as operators are shown it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from dragoman.accounts.cipher import AccountCipher, SealError
from dragoman.accounts.decide.states import AccountState
from dragoman.accounts.store import (
    DIMENSIONS,
    Attempts,
    Batch,
    Changes,
    Definition,
    LastError,
    Store,
    Sums,
)
from dragoman.config import Account, Config
from dragoman.config.convert import suggestion
from dragoman.config.credentials import source_of
from dragoman.config.windows import knows_zone
from dragoman.operations.account_fields import SECRETS
from dragoman.operations.account_views import (
    AccountDetails,
    AccountView,
    AuditPage,
    Page,
    QuotaView,
    Status,
    UsageReport,
    UsageRow,
    status_of,
)
from dragoman.operations.errors import Conflict, Unknown
from dragoman.operations.inputs import InvalidInput, shortened
from dragoman.operations.pricing import hours_since
from dragoman.prices.rates import dollars

_DAY_S = 24 * 3600.0
_HOUR_S = 3600.0
_HISTORY = 100
_UTC = "UTC"


class AccountQueries:
    """Reads the accounts of one configuration and one store.

    Methods block, and are not for several threads at once. All of them may raise `StoreError`.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        cipher: AccountCipher,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.cipher = cipher
        self.clock = clock
        self.fixed = {account.name: account for account in config.accounts}
        """The accounts of the configuration file, by name."""
        self._upstreams = {upstream.name: upstream for upstream in config.upstreams}

    def page(
        self,
        *,
        upstream: str | None = None,
        state: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        with_usage: bool = True,
    ) -> Page:
        """Accounts in order of name: those of `upstream` that are in `state`, from the one after
        `after` on, at most `limit`.

        Raises:
            InvalidInput: no upstream of this name is configured, nor has an account.
        """
        snapshot = self._snapshot(with_usage=with_usage, with_kinds=with_usage)
        found = [
            (name, status_of(snapshot.changes.states.get(name), snapshot.now))
            for name, one in snapshot.accounts.items()
            if upstream is None or one.upstream == upstream
        ]
        if not found and upstream is not None:
            self.check_upstream(upstream)
        if state is not None:
            found = [(name, now) for name, now in found if now.state == state]
        rest = found if after is None else [(name, now) for name, now in found if name > after]
        shown = rest if limit is None else rest[:limit]
        return Page(
            accounts=tuple(self._view(name, now, snapshot) for name, now in shown),
            next=shown[-1][0] if shown and len(shown) < len(rest) else None,
            total=len(found),
        )

    def each(self) -> Iterator[AccountView]:
        """All accounts in order of name, without the kinds of their errors, as they are at the
        call. Each view is made when it is asked for, in any one thread, so that they are never all
        in memory."""
        snapshot = self._snapshot(with_kinds=False)
        return (
            self._view(name, status_of(snapshot.changes.states.get(name), snapshot.now), snapshot)
            for name in snapshot.accounts
        )

    def views(self, names: Sequence[str]) -> tuple[AccountView, ...]:
        """Some accounts, in the order of their names as given.

        Raises:
            Unknown: there is none of one of these names.
        """
        snapshot = self._snapshot()
        for name in names:
            if name not in snapshot.accounts:
                raise Unknown("account", name, snapshot.accounts)
        states = snapshot.changes.states
        return tuple(
            self._view(name, status_of(states.get(name), snapshot.now), snapshot) for name in names
        )

    def show(self, name: str, history: int = _HISTORY) -> AccountDetails:
        """One account and the last `history` changes of its state.

        Raises:
            Unknown: there is none of this name.
        """
        (view,) = self.views([name])
        return AccountDetails(account=view, history=tuple(self.store.history(name, history)))

    def audit(
        self,
        limit: int,
        before: int | None = None,
        since: float = 0.0,
        only: Mapping[str, str] = {},
    ) -> AuditPage:
        """The latest changes, the last first; see `AuditLog.audit`."""
        found = self.store.audit(limit + 1, before=before, since=since, only=only)
        lines = tuple(found[:limit])
        return AuditPage(changes=lines, next=lines[-1].id if len(found) > limit else None)

    def account(self, name: str) -> Account:
        """The account with its secrets, for calls of its upstream.

        Raises:
            Unknown: there is none of this name.
            Conflict: its secrets cannot be read, or its upstream is not configured.
        """
        account = self.fixed.get(name)
        if account is None:
            account = self.opened(self.definition(name))
        if account.upstream not in self._upstreams:
            raise Conflict(self._no_upstream(account.upstream), "upstream")
        return account

    def states(self) -> dict[str, AccountState]:
        """The states of all accounts that have one."""
        return self.store.states()

    def _snapshot(self, *, with_usage: bool = True, with_kinds: bool = True) -> _Snapshot:
        now = self.clock()
        since, until = now // _HOUR_S * _HOUR_S - _DAY_S + _HOUR_S, now + _HOUR_S
        changes = self.store.exchange("", Batch(), 0)
        attempts = self.store.attempts(since, until) if with_usage else {}
        errors: dict[str, dict[str, int]] = {}
        if with_kinds:
            for key, number in sorted(self.store.errors(since, until).items()):
                kinds = errors.setdefault(key.account, {})
                kinds[key.kind] = kinds.get(key.kind, 0) + number
        last = self.store.last_errors() if with_usage else {}
        accounts = {one.name: one for one in changes.definitions} | self.fixed
        return _Snapshot(now, dict(sorted(accounts.items())), changes, attempts, errors, last)

    def _view(self, name: str, found: Status, snapshot: _Snapshot) -> AccountView:
        account, problem = self._readable(snapshot.accounts[name])
        changes = snapshot.changes
        attempts = snapshot.attempts.get(name, Attempts())
        return AccountView(
            name=name,
            upstream=account.upstream,
            origin="configuration" if name in self.fixed else "store",
            secrets=tuple(field for field in SECRETS if getattr(account, field)),
            credentials="" if account.credentials is None else source_of(account.credentials),
            models=account.models,
            priority=account.priority,
            weight=account.weight,
            max_concurrent=account.max_concurrent,
            balance=changes.balances.get(name, account.balance),
            state=found.state,
            reasons=found.reasons,
            back_at=found.back_at,
            trial=found.trial,
            in_flight=changes.leases.get(name, 0),
            last_used=changes.used.get(name),
            requests=attempts.attempts,
            errors=attempts.failed,
            retries=attempts.retries,
            errors_by_kind=snapshot.errors.get(name, {}),
            last_error=snapshot.last_errors.get(name),
            cost_usd=dollars(attempts.cost),
            unpriced=attempts.unpriced,
            quotas=tuple(
                QuotaView.of(window, snapshot.now) for window in changes.quotas.get(name, ())
            ),
            problem=problem,
        )

    def _readable(self, one: Account | Definition) -> tuple[Account, str]:
        """The account as far as it can be read, and why it cannot serve."""
        if isinstance(one, Account):
            return one, ""
        problem = "" if one.upstream in self._upstreams else self._no_upstream(one.upstream)
        try:
            return self.cipher.open(one), problem
        except SealError as error:
            return without_secrets(one), problem or str(error)

    def opened(self, definition: Definition) -> Account:
        """A stored account with its secrets.

        Raises:
            Conflict: these cannot be read.
        """
        try:
            return self.cipher.open(definition)
        except SealError as error:
            raise Conflict(f"{definition.name}: {error}", "key") from None

    def definition(self, name: str) -> Definition:
        """A stored account.

        Raises:
            Unknown: there is none of this name.
        """
        for one in self.store.definitions():
            if one.name == name:
                return one
        raise Unknown("account", name, self.names())

    def names(self) -> list[str]:
        """The names of all accounts."""
        return [*self.fixed, *(one.name for one in self.store.definitions())]

    def check_upstream(self, name: str) -> None:
        """
        Raises:
            InvalidInput: no upstream of this name is configured, or its accounts need what those in
                the store do not have.
        """
        if name not in self._upstreams:
            raise InvalidInput.of("upstream", self._no_upstream(name))
        if "{" in self._upstreams[name].base_url:
            message = f"{name} has a base_url with names of places: its accounts are in the file"
            raise InvalidInput.of("upstream", message)

    def _no_upstream(self, name: str) -> str:
        return f"no upstream named {shortened(name)}{suggestion(name[:64], self._upstreams)}"


class _Snapshot(NamedTuple):
    """All that is known at one time: accounts by name, in order; the attempts of each, its failed
    attempts by kind, and the last of them."""

    now: float
    accounts: Mapping[str, Account | Definition]
    changes: Changes
    attempts: Mapping[str, Attempts]
    errors: Mapping[str, dict[str, int]]
    last_errors: Mapping[str, LastError]


def usage_report(
    store: Store,
    since: float,
    until: float,
    by: Sequence[str],
    only: Mapping[str, str] = {},
    zone: str = _UTC,
) -> UsageReport:
    """Usage of the hours that begin in [since, until) by the dimensions `by`, of which those in
    `only` have these values. Days are those of the time zone, in which each hour belongs to the day
    that it begins in, as long as usage is stored by the hour.

    Raises:
        InvalidInput: there is no such dimension, or it is given twice, or no such zone.
        StoreError: the store cannot be used.
    """
    for place, name in enumerate(by):
        if name not in DIMENSIONS:
            raise InvalidInput.of("by", f"expected one of {', '.join(DIMENSIONS)}")
        if name in by[:place]:
            raise InvalidInput.of("by", f"{name} is given twice")
    if not knows_zone(zone):
        raise InvalidInput.of("zone", f"no time zone named {zone[:64]!r}")
    days = "day" if zone == _UTC else "hour"
    columns = [days if name == "day" else name for name in by]
    found: dict[tuple[str, ...], Sums] = {}
    for group, sums in store.sums(since, until, columns, only).items():
        shown = zip(by, group, strict=True)
        dated = (_date(int(value), zone) if name == "day" else value for name, value in shown)
        into = found.setdefault(tuple(dated), Sums())
        into.usage.add(sums.usage)
        into.charged.add(sums.charged)
    rows = tuple(
        UsageRow.of(dict(zip(by, group, strict=True)), sums) for group, sums in found.items()
    )
    total = store.sums(since, until, (), only).get((), Sums())
    return UsageReport(since=since, until=until, rows=rows, total=UsageRow.of({}, total))


def _date(hour: int, zone: str) -> str:
    """The day of the zone in which an hour begins; a day (UTC) of those that are stored so."""
    is_day = hour < hours_since() // _DAY_S * _DAY_S
    return f"{datetime.fromtimestamp(hour, UTC if is_day else ZoneInfo(zone)):%Y-%m-%d}"


def without_secrets(definition: Definition) -> Account:
    """A stored account without its secrets."""
    return Account(
        name=definition.name,
        upstream=definition.upstream,
        models=definition.models,
        priority=definition.priority,
        weight=definition.weight,
        max_concurrent=definition.max_concurrent,
        balance=definition.balance,
    )
