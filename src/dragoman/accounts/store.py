"""The port of a store: one exchange for traffic, and a few calls for administration.

A worker decides in memory and writes what happened to the store a few times a second; the same
exchange returns what others decided. No request waits for a store, so all methods may block:
they are called from one thread that is not the event loop's.

`dragoman.storage` implements it. The secrets of accounts reach a store only encrypted: see
`dragoman.accounts.cipher`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import Protocol

from msgspec import Struct, field

from dragoman.accounts.decide.quota import Windows
from dragoman.accounts.decide.states import AccountState, Entry, Transition
from dragoman.audit import AuditLog
from dragoman.keys.admins import AdminStore
from dragoman.keys.people import PeopleChanges, PeopleStore
from dragoman.keys.records import KeyStore, StoredKey, StoredTeam, Uses

LOST_AFTER_S = 3.0
"""Seconds of silence after which a worker's leases are dropped."""

MOST_PINS = 100_000
"""Pins that a worker gets at once when it starts."""

SWEPT_AT_ONCE = 1000
"""Rows of one kind that a sweep drops at most."""

HISTORY_KEPT = 200
"""Lines of history that are kept of one account at most."""

REMOVED_KEPT_S = 7 * 24 * 3600.0
"""Seconds for which the removal of an account is kept, for workers to hear of."""


def gateway_of(worker: str) -> str:
    """The gateway of a worker, by the name that it has in the store."""
    return worker.rpartition(".")[0]


class StoreError(Exception):
    """The store cannot be used now: gone, full, locked for too long, or of another program.

    The message names no secret.
    """


class NewerStore(StoreError):
    """A newer version of the program has upgraded the store: it cannot be used until that is
    started."""


class CommitUnknown(StoreError):
    """The store was lost while it wrote: whether it has is known once it is back."""


class Definition(Struct, frozen=True, kw_only=True):
    """An account that is kept in the store rather than in the configuration file.

    `sealed` is its key, headers and proxy, encrypted (see `dragoman.accounts.cipher`); everything
    else is as in `dragoman.config.Account`.
    """

    name: str
    upstream: str
    sealed: bytes = b""
    models: tuple[str, ...] | None = None
    priority: int = 0
    weight: float = 1.0
    max_concurrent: int | None = None
    balance: float | None = None


class UsageKey(Struct, frozen=True, order=True):
    """What usage is counted by. `hour` is Unix seconds of its beginning; names are those of the
    configuration, empty where there was none (no account could be leased, say)."""

    hour: int
    account: str
    client: str
    model: str
    route: str
    """Path the client called, such as `/v1/messages`."""
    upstream: str = ""
    team: str = ""
    user: str = ""
    """The end user that the request named."""
    tags: str = ""
    """Its tags, in order, with commas between them."""


class UsageCount(Struct):
    """Sums of one `UsageKey`. Tokens as in `dragoman.canonical.usage`: `input` includes cached and
    cache writes, `output` includes reasoning. `unmetered` are answers of unknown usage, `estimated`
    those whose usage the upstream did not report, or only in part.

    `requests` and `errors` count a request once, with the account that was asked last. `attempts`
    count with each account that was asked, `failed` those that failed, and `retries` those of them
    that another attempt followed.
    """

    requests: int = 0
    errors: int = 0
    unmetered: int = 0
    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    milliseconds: float = 0.0
    attempts: int = 0
    failed: int = 0
    retries: int = 0
    estimated: int = 0

    def add(self, other: UsageCount) -> None:
        """Add the sums of `other` to these."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class ErrorKey(Struct, frozen=True, order=True):
    """What failed attempts are counted by: the hour, the account, and the kind of error."""

    hour: int
    account: str
    kind: str


class LastError(Struct, frozen=True, omit_defaults=True):
    """The last attempt of an account that failed: when (Unix seconds), the kind of error, the
    upstream's status (0: there was no answer), and the upstream's name of the model."""

    at: float
    kind: str
    status: int = 0
    model: str = ""


class ChargeKey(Struct, frozen=True, order=True):
    """What charges are counted by: as `UsageKey`, and by what they were priced (as
    `dragoman.prices.lookup.Basis`; `priced_as` is the upstream's model)."""

    hour: int
    account: str
    client: str
    model: str
    route: str
    upstream: str
    priced_as: str
    tier: str
    above: int
    prices: str
    team: str = ""
    user: str = ""
    tags: str = ""


class ChargeCount(Struct):
    """Sums of one `ChargeKey`: answers whose usage is known, and all counts that a price is for, so
    that they can be priced anew. `unpriced` are answers that no price was known for, `cost` is in
    pico-dollars."""

    requests: int = 0
    unpriced: int = 0
    input: int = 0
    cached: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0
    searches: int = 0
    cost: int = 0

    def add(self, other: ChargeCount) -> None:
        """Add the sums of `other` to these."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Sums(Struct):
    """What one group has used, and what it was charged."""

    usage: UsageCount = field(default_factory=UsageCount)
    charged: ChargeCount = field(default_factory=ChargeCount)


class Attempts(Struct, frozen=True):
    """What was asked of one account; as the sums of the same names in `UsageCount`, and in
    `ChargeCount` what its answers cost and how many have no price."""

    attempts: int = 0
    failed: int = 0
    retries: int = 0
    cost: int = 0
    unpriced: int = 0


DIMENSIONS = (
    *("key", "client", "team", "user", "tag", "model", "account", "upstream", "route"),
    *("hour", "day"),
)
"""What usage can be grouped by: names as in `UsageKey`, of which `key` is the client; `tag` is each
of the tags. Hours and days (UTC) are given as their first Unix second."""

Reprice = Callable[[ChargeKey, ChargeCount], tuple[ChargeKey, ChargeCount] | None]
"""What to put in place of the sums of a key; None to leave them."""


class Batch(Struct, kw_only=True):
    """What one worker reports: everything since its last exchange, except `leases`, which are all
    accounts it has requests in flight with now, and how many.

    `used` is when accounts were last chosen, `spent` the tokens to subtract from balances, `pins`
    which account a conversation (by its digest) belongs to since when. `charges` are what `usage`
    cost. `errors` are the attempts that failed, `last_errors` the last of each account, `quotas`
    what upstreams reported of accounts' quotas, which is merged with what the store has, `key_uses`
    which secrets of client keys were used. `balances` are those that
    the configuration sets: one that is not what it set before replaces what is left.
    """

    transitions: list[Transition] = field(default_factory=list)
    usage: dict[UsageKey, UsageCount] = field(default_factory=dict)
    leases: Mapping[str, int] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    pins: dict[bytes, tuple[str, float]] = field(default_factory=dict)
    balances: dict[str, float] = field(default_factory=dict)
    errors: dict[ErrorKey, int] = field(default_factory=dict)
    last_errors: dict[str, LastError] = field(default_factory=dict)
    quotas: dict[str, Windows] = field(default_factory=dict)
    charges: dict[ChargeKey, ChargeCount] = field(default_factory=dict)
    key_uses: Uses = field(default_factory=dict)

    def take(self) -> Batch:
        """All of it; nothing is left in this one."""
        taken, empty = copy(self), Batch()
        for name in self.__struct_fields__:
            setattr(self, name, getattr(empty, name))
        return taken

    def prepend(self, older: Batch) -> None:
        """Put `older`, whose exchange failed, before this batch. The leases remain those of this
        batch."""
        self.transitions[:0] = older.transitions
        for key, count in older.usage.items():
            if key in self.usage:
                self.usage[key].add(count)
            else:
                self.usage[key] = count
        self.quotas = {**older.quotas, **self.quotas}
        for charged, sums in older.charges.items():
            if charged in self.charges:
                self.charges[charged].add(sums)
            else:
                self.charges[charged] = sums
        self.used = {**older.used, **self.used}
        self.pins = {**older.pins, **self.pins}
        for error, number in older.errors.items():
            self.errors[error] = self.errors.get(error, 0) + number
        self.last_errors = {**older.last_errors, **self.last_errors}
        for name, tokens in older.spent.items():
            self.spent[name] = self.spent.get(name, 0.0) + tokens


class Changes(Struct, frozen=True, kw_only=True):
    """What a worker gets: what changed since `version` of its last exchange, by whomever, except
    `leases`, which are those of all other living workers now.

    A state or balance that the worker itself has changed comes back as the store has it:
    transitions of several workers were applied one after another there. `apart` are those of the
    leases that workers of other gateways have, to which other owners lend slots. The `used`
    and `pins` that it reported in this exchange do not come back. `whole`: these are all the data,
    so anything else that a worker knows was deleted.
    """

    version: int
    whole: bool = False
    states: Mapping[str, AccountState] = {}
    definitions: Sequence[Definition] = ()
    removed: Sequence[str] = ()
    leases: Mapping[str, int] = {}
    apart: Mapping[str, int] = {}
    used: Mapping[str, float] = {}
    balances: Mapping[str, float] = {}
    pins: Mapping[bytes, tuple[str, float]] = {}
    quotas: Mapping[str, Windows] = {}
    client_keys: Sequence[StoredKey] = ()
    teams: Sequence[StoredTeam] = ()
    limit_resets: Mapping[str, float] = {}
    people: PeopleChanges = PeopleChanges()


class Store(AuditLog, Protocol):
    """A store. Every method raises `StoreError` when the store cannot be used, and has then
    changed nothing."""

    @property
    def client_keys(self) -> KeyStore:
        """The client keys and teams that are kept here."""

    @property
    def admins(self) -> AdminStore:
        """The keys of the administration that are kept here."""

    @property
    def people(self) -> PeopleStore:
        """The people who sign in, and their sessions."""

    def upgrade(self) -> str:
        """Bring its tables up to date; every other method refuses older ones. Returns what was
        done, for operators; empty if nothing had to be."""

    def deciding(self) -> AbstractContextManager[None]:
        """One transaction for all calls made inside: what is changed is decided on a state that
        nobody else changes meanwhile. What raises inside undoes all of it. Not to be nested."""

    def exchange(self, worker: str, batch: Batch, since: int) -> Changes:
        """Apply `batch` and return what changed after `since` (0: everything there is).

        Transitions are applied by `dragoman.accounts.decide.decisions.apply` to the states in the
        store, in one transaction, so that no worker's view overwrites another's. Leases of
        workers that have not called for `LOST_AFTER_S` are dropped. With `since` 0 only the latest
        `MOST_PINS` pins are returned. A store that was replaced by another, as by a backup, returns
        everything whatever `since` is.

        Raises:
            CommitUnknown: ask `was_written` later whether the batch was.
        """

    @property
    def mark(self) -> float:
        """The mark of the latest batch that was written here; 0 before there was one."""

    def mark_of(self, worker: str) -> float:
        """The mark of the latest batch that a worker has written; 0 if there was none."""

    def was_written(self, worker: str) -> bool:
        """Whether the batch of the last exchange was written."""

    def define(self, definitions: Iterable[Definition]) -> None:
        """Add accounts, or replace those of the same name; all or none of them. An account keeps
        its state, and its balance unless another is set. Nothing is held against one that was
        removed before."""

    def remove(self, names: Iterable[str]) -> int:
        """Remove accounts with their states and history. Returns how many there were."""

    def definitions(self) -> list[Definition]:
        """All accounts kept here, by name."""

    def states(self) -> dict[str, AccountState]:
        """The states of all accounts that have one, also of those in the configuration file."""

    def apply(self, transitions: Iterable[Transition]) -> None:
        """Apply transitions made by a person, as `exchange` does those of traffic."""

    def history(self, account: str, limit: int = 100) -> list[Entry]:
        """The last changes of an account, the latest first."""

    def usage(self, since: float, until: float) -> dict[UsageKey, UsageCount]:
        """Usage of the hours that begin in [since, until), in Unix seconds. Older hours were added
        to the beginning of their day, and older days to the hour 0, with less of a key."""

    def sums(
        self, since: float, until: float, by: Sequence[str] = (), only: Mapping[str, str] = {}
    ) -> dict[tuple[str, ...], Sums]:
        """Usage of the hours that begin in [since, until) for each combination of the dimensions
        `by` (of `DIMENSIONS`), in order; with none all of it under `()`, if there is any. Of those
        in `only` it has these values. What has several tags counts for each of them."""

    def attempts(self, since: float, until: float) -> dict[str, Attempts]:
        """What was asked of each account in the hours that begin in [since, until), in Unix
        seconds: of `sums` what a list of accounts shows, in a tenth of the memory."""

    def errors(self, since: float, until: float) -> dict[ErrorKey, int]:
        """Failed attempts of the hours that begin in [since, until), in Unix seconds."""

    def last_errors(self) -> dict[str, LastError]:
        """The last failed attempt of every account that has had one."""

    def claim(self, claims: Mapping[str, float], now: float) -> set[str]:
        """Make those of the claims, each a name and when it expires in Unix seconds, that nobody
        has at `now`, and return them: of several workers that saw the same, one reports it."""

    def release(self, claims: Iterable[str]) -> None:
        """Give these claims up: what they were made for was not done."""

    def credential(self, name: str) -> bytes | None:
        """The stored login of an account, sealed; None if there is none."""

    def swap_credential(self, name: str, before: bytes | None, after: bytes) -> bool:
        """Store `after` as the login of an account if `before` is what is stored. Returns whether
        it was: of several that do so at once, one does."""

    def charges(self, since: float, until: float) -> dict[ChargeKey, ChargeCount]:
        """What was charged in the hours that begin in [since, until), in Unix seconds."""

    def reprice(self, since: float, until: float, reprice: Reprice) -> int:
        """Replace charges of the hours that begin in [since, until) as `reprice` says, in one
        transaction. Returns how many rows changed."""

    def sweep(self, now: float) -> int:
        """Drop what is too old to keep at `now` (Unix seconds), at most `SWEPT_AT_ONCE` of a kind.
        Returns how much that was of the kind with the most: as many as that, and there is more."""

    def close(self) -> None:
        """Close the store. Harmless when it was closed before."""
