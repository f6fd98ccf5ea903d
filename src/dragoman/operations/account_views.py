"""Accounts and usage as operators are shown them, without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from dragoman.accounts.decide.decisions import on_trial, without_ahead
from dragoman.accounts.decide.quota import QuotaWindow
from dragoman.accounts.decide.states import AccountState, Entry, Rest
from dragoman.accounts.store import LastError, Sums
from dragoman.audit import Line
from dragoman.prices.rates import dollars

State = Literal["active", "cooling", "exhausted", "disabled"]
STATES: tuple[State, ...] = ("active", "cooling", "exhausted", "disabled")
"""The states of accounts, from the best to the worst."""

Origin = Literal["configuration", "store"]


class Reason(Struct, frozen=True, omit_defaults=True):
    """Why an account is not used: for one model, or for all (`model` empty), until when in Unix
    seconds (None: until an operator enables it). With `soft` it is used if no other is left."""

    why: str
    model: str = ""
    until: float | None = None
    soft: bool = False


class QuotaView(Struct, frozen=True, kw_only=True):
    """One window of an account's quota; fields as in
    `dragoman.accounts.decide.quota.QuotaWindow`. `used` is None where it is not known: the
    window has ended since it was reported."""

    name: str
    model: str
    used: float | None
    resets_at: float | None
    told_at: float
    seconds: float | None

    @classmethod
    def of(cls, window: QuotaWindow, now: float) -> QuotaView:
        """The window as it is at `now`."""
        return cls(
            name=window.name,
            model=window.model,
            used=window.known(now),
            resets_at=window.resets_at,
            told_at=window.told_at,
            seconds=window.seconds,
        )


class AccountView(Struct, frozen=True, kw_only=True):
    """One account.

    `origin` is the configuration file or the store; only the
    latter can be changed from here. `secrets` names which of key, headers and proxy it has;
    `credentials` says where what authorises its requests comes from, empty if that is a key.
    `back_at` is when it can be used again for every model, in Unix seconds: None if it can now, or
    if it will not by itself. `trial` says that its next request will show whether it can.
    `balance` is what is left. `requests` are those that it was asked to answer in the last 24
    hours, `errors` those of them that it failed, by their kinds in `errors_by_kind`, `retries`
    those that another account was then asked for; `last_error` is the last, whenever it was.
    `cost_usd` is what its answers of that time cost, exact, without those that are `unpriced`.
    `quotas` are the windows that its upstream has reported. `problem` says why it cannot serve at
    all, whatever its state: empty if it can.
    """

    name: str
    upstream: str
    origin: Origin
    secrets: tuple[str, ...]
    credentials: str
    models: tuple[str, ...] | None
    priority: int
    weight: float
    max_concurrent: int | None
    balance: float | None
    state: State
    reasons: tuple[Reason, ...]
    back_at: float | None
    trial: bool
    in_flight: int
    last_used: float | None
    requests: int
    errors: int
    retries: int
    errors_by_kind: dict[str, int]
    last_error: LastError | None
    cost_usd: str
    unpriced: int
    quotas: tuple[QuotaView, ...]
    problem: str


class AccountDetails(Struct, frozen=True, kw_only=True):
    """One account with the changes of its state, the latest first."""

    account: AccountView
    history: tuple[Entry, ...]


class Page(Struct, frozen=True, kw_only=True):
    """Some accounts of a list in order of name. `next` is the name to go on after, None at the end;
    `total` is how many there are on all pages."""

    accounts: tuple[AccountView, ...]
    next: str | None
    total: int


class UsageRow(Struct, frozen=True, kw_only=True):
    """Sums of one group. `by` has its dimensions; `milliseconds` is the mean of a request.

    `requests` and `errors` count each request once, with the account that was asked last;
    `attempts`, `failed` and `retries` count with every account that was asked. `cost_usd` is exact,
    as text, without the `unpriced` answers, whose price is not known.
    """

    by: dict[str, str]
    requests: int
    errors: int
    unmetered: int
    input: int
    cached: int
    cache_write: int
    output: int
    reasoning: int
    milliseconds: float
    attempts: int
    failed: int
    retries: int
    estimated: int = 0
    cost_usd: str = "0"
    unpriced: int = 0

    @classmethod
    def of(cls, by: dict[str, str], sums: Sums) -> UsageRow:
        """The row of a group with these sums."""
        used, charged = sums.usage, sums.charged
        return cls(
            by=by,
            requests=used.requests,
            errors=used.errors,
            unmetered=used.unmetered,
            input=used.input,
            cached=used.cached,
            cache_write=used.cache_write,
            output=used.output,
            reasoning=used.reasoning,
            milliseconds=round(used.milliseconds / used.requests, 1) if used.requests else 0.0,
            attempts=used.attempts,
            failed=used.failed,
            retries=used.retries,
            estimated=used.estimated,
            cost_usd=dollars(charged.cost),
            unpriced=charged.unpriced,
        )


class UsageReport(Struct, frozen=True, kw_only=True):
    """Usage of the hours that begin in [since, until), in Unix seconds."""

    since: float
    until: float
    rows: tuple[UsageRow, ...]
    total: UsageRow


class AuditPage(Struct, frozen=True, kw_only=True):
    """Some changes, the last first. `next` is the id below which to go on, None at the end."""

    changes: tuple[Line, ...]
    next: int | None


class Status(Struct, frozen=True):
    """The meaning of a state at one time; fields as in `AccountView`."""

    state: State = "active"
    reasons: tuple[Reason, ...] = ()
    back_at: float | None = None
    trial: bool = False


def status_of(state: AccountState | None, now: float) -> Status:
    """The meaning of `state` at `now`; None is the state of an account that has none stored."""
    if state is None:
        return Status()
    if state.disabled:
        return Status("disabled", (Reason(state.disabled),))
    state = without_ahead(state, now)
    reasons = tuple(_rests(state, now))
    trial = any(on_trial(state, model, now) for model in ("", *state.cooling))
    if not reasons:
        return Status(trial=trial)
    exhausted = state.exhausted is not None and state.exhausted.until > now
    back_at = max(reason.until for reason in reasons if reason.until is not None)
    return Status("exhausted" if exhausted else "cooling", reasons, back_at, trial)


def _rests(state: AccountState, now: float) -> Iterator[Reason]:
    if state.exhausted is not None:
        yield from _running("", state.exhausted, now)
    for model, rest in sorted(state.cooling.items()):
        yield from _running(model, rest, now)


def _running(model: str, rest: Rest, now: float) -> Iterator[Reason]:
    if rest.until > now:
        yield Reason(rest.why, model, rest.until, rest.soft)
