"""Changes of accounts: everything that is done with them but for testing.

All of it goes through the port of a store, so that it is the same whether a gateway runs or not;
workers take it over with their next exchange. Nothing here knows of a terminal or of HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dragoman.accounts.cipher import SealError
from dragoman.accounts.decide.states import (
    Disabled,
    Enabled,
    Failed,
    KeyChanged,
    Outcome,
    Transition,
)
from dragoman.accounts.store import Definition
from dragoman.audit import Actor, Change, Fields, changed
from dragoman.config import Account
from dragoman.config.secret import fingerprint
from dragoman.operations.account_fields import FIELDS, SECRETS
from dragoman.operations.account_lists import Row
from dragoman.operations.account_queries import AccountQueries, without_secrets
from dragoman.operations.account_views import AccountDetails, AccountView, status_of
from dragoman.operations.errors import BadRow, Conflict, ImportRejected, Unknown
from dragoman.operations.inputs import FieldError, InvalidInput
from dragoman.operations.terminal import this_user

_LONGEST_REASON = 200


class ImportResult(Struct, frozen=True, kw_only=True):
    """The outcome of an import: rows read, accounts that are new or were replaced, rows left out.
    `same_keys` are pairs of accounts of one upstream that have the same key and headers."""

    rows: int
    added: int
    replaced: int
    bad: tuple[BadRow, ...] = ()
    same_keys: tuple[tuple[str, str], ...] = ()


class AccountService:
    """Changes accounts. `queries` reads the same store.

    Methods block, and are not for several threads at once. All of them may raise `StoreError`.
    """

    def __init__(self, queries: AccountQueries, actor: Actor | None = None) -> None:
        self._queries = queries
        self._actor = actor or this_user()
        self._store = queries.store
        self._cipher = queries.cipher
        self._clock = queries.clock

    def add(self, changes: Any) -> AccountView:
        """Add one account, of `AccountChanges`.

        Raises:
            Conflict: there is one of this name already, or no key to encrypt its secrets with.
            InvalidInput: its upstream is not set, or not configured.
        """
        with self._store.deciding():
            self._check_new(changes, {one.name for one in self._store.definitions()})
            account = changes.account()
            self._store.define([self._sealed(account)])
            self._record(_added(account))
            return self._queries.show(account.name, 0).account

    def change(
        self, changes: Any, check: Callable[[AccountDetails], object] | None = None
    ) -> AccountView:
        """Apply `AccountChanges` to an account, unless `check` raises, which is called with the
        account as it is.

        Raises:
            Unknown: there is none of this name.
            Conflict: it is one of the configuration file, or its secrets cannot be read.
            InvalidInput: the upstream is not configured, or secrets are missing that would be sent
                elsewhere.
        """
        self._check_stored(changes.name)
        self._check_upstream(changes)
        with self._store.deciding():
            if check is not None:
                check(self._queries.show(changes.name, 0))
            before = self._queries.definition(changes.name)
            definition, transitions, change = self._applied(changes, before)
            self._store.define([definition])
            self._store.apply(transitions)
            self._record(change)
            return self._queries.show(changes.name, 0).account

    def changeable(self, name: str) -> Account:
        """An account that may be changed, with its secrets.

        Raises:
            Unknown: there is none of this name.
            Conflict: it is one of the configuration file, or its secrets cannot be read.
        """
        self._check_stored(name)
        return self._queries.account(name)

    def remove(self, names: Sequence[str]) -> int:
        """Remove accounts with their states and history: all or none. Returns how many.

        Raises:
            Unknown: there is none of one of the names.
            Conflict: one is of the configuration file.
        """
        with self._store.deciding():
            stored = {one.name: one for one in self._store.definitions()}
            for name in names:
                self._check_stored(name)
                if name not in stored:
                    raise Unknown("account", name, self._queries.names())
            for name in dict.fromkeys(names):
                before = described(without_secrets(stored[name]))
                self._record(Change(action="remove", kind="account", name=name, before=before))
            return self._store.remove(names)

    def enable(self, names: Sequence[str]) -> None:
        """Forget everything that keeps accounts from being used.

        Raises:
            Unknown: there is none of one of the names.
        """
        self._apply(names, "enable", Enabled(), {"state": "active"})

    def disable(self, names: Sequence[str], why: str = "") -> None:
        """Take accounts out of use until somebody enables them.

        Raises:
            Unknown: there is none of one of the names.
        """
        reason = " ".join(why.split())[:_LONGEST_REASON] or "disabled by hand"
        self._apply(names, "disable", Disabled(reason), {"state": "disabled", "why": reason})

    def record(self, change: Change) -> None:
        """Record something that an operator does and the store is no part of."""
        with self._store.deciding():
            self._record(change)

    def observe(self, transition: Transition) -> None:
        """Apply the outcome of a test of an account; nothing if the account is gone, or has another
        key than the one that was tested."""
        with self._store.deciding():
            try:
                account = self._queries.account(transition.account)
            except (Unknown, Conflict):
                return
            outcome = transition.outcome
            if isinstance(outcome, Failed) and outcome.key != account.fingerprint:
                return
            self._store.apply([transition])
            after = {"outcome": type(outcome).__name__.lower()}
            self._record(Change(action="test", kind="account", name=account.name, after=after))

    def import_rows(
        self,
        rows: Iterable[Row | BadRow],
        *,
        replace: bool = False,
        skip_bad: bool = False,
        dry_run: bool = False,
    ) -> ImportResult:
        """Add all accounts of a list: all or none, but with `skip_bad` the good ones of it. With
        `replace` those that are there already get the fields that the list has for them. With
        `dry_run` nothing is changed, and bad rows are reported with the rest.

        Raises:
            ImportRejected: rows are bad, and are not to be skipped.
            Conflict: there is no key to encrypt secrets with.
        """
        # All are read before the transaction begins: a list may come from a pipe.
        read = list(rows)
        with self._store.deciding():
            importing = self._take_rows(read, replace=replace)
            if importing.bad and not (skip_bad or dry_run):
                raise ImportRejected(tuple(importing.bad), len(read))
            if not dry_run:
                self._store_import(importing)
        return ImportResult(
            rows=len(read),
            added=importing.added,
            replaced=len(importing.definitions) - importing.added,
            bad=tuple(importing.bad),
            same_keys=tuple(importing.same_keys()),
        )

    def _store_import(self, importing: _Import) -> None:
        if importing.definitions:
            self._store.define(importing.definitions)
        if importing.transitions:
            self._store.apply(importing.transitions)
        self._record(*importing.recorded)

    def _take_rows(self, rows: Iterable[Row | BadRow], *, replace: bool) -> _Import:
        """What an import of `rows` comes to, as the store is."""
        there = {one.name: one for one in self._store.definitions()}
        importing = _Import()
        for row in rows:
            if isinstance(row, BadRow):
                importing.bad.append(row)
            elif faults := self._take_row(row, there, importing, replace=replace):
                importing.bad.append(BadRow(row.at, row.changes.name, faults))
        return importing

    def _take_row(
        self, row: Row, there: Mapping[str, Definition], importing: _Import, *, replace: bool
    ) -> tuple[FieldError, ...]:
        """Take one row into `importing`, or return what is wrong with it."""
        changes = row.changes
        earlier = importing.rows_by_name.setdefault(changes.name, row.at)
        if earlier != row.at:
            return (FieldError("name", f"is the name of row {earlier} already"),)
        before = there.get(changes.name)
        try:
            self._check_stored(changes.name)
            if before is None:
                self._check_new(changes, ())
                account = changes.account()
                importing.definitions.append(self._sealed(account))
                importing.recorded.append(_added(account))
                importing.accounts.append(account)
                return ()
            if not replace:
                raise Conflict("there is an account of this name already", "name")
            self._check_upstream(changes)
            definition, transitions, change = self._applied(changes, before)
        except InvalidInput as error:
            return error.faults
        except _Unsealed:
            raise
        except Conflict as error:
            return (FieldError(error.field, str(error)),)
        importing.definitions.append(definition)
        importing.transitions += transitions
        importing.recorded.append(change)
        return ()

    def _applied(
        self, changes: Any, before: Definition
    ) -> tuple[Definition, list[Transition], Change]:
        """The definition of a changed account, what the change means for its state, and the line of
        it in the log of changes."""
        if changes.fields.keys() >= set(SECRETS):
            old = without_secrets(before)
        else:
            old = self._queries.opened(before)
        new = changes.changed(old)
        if self._actor.origin == "admin":
            _check_secrets_given(changes.fields, old, new)
        key = fingerprint(new.key)
        change = changed("change", "account", new.name, described(old), described(new, old))
        if "key" not in changes.fields or key == fingerprint(old.key):
            return self._sealed(new), [], change
        outcome = KeyChanged(key, source="operator")
        return self._sealed(new), [Transition(new.name, outcome, self._clock())], change

    def _sealed(self, account: Account) -> Definition:
        try:
            return self._cipher.seal(account)
        except SealError as error:
            raise _Unsealed(str(error)) from None

    def _record(self, *changes: Change) -> None:
        self._store.record(self._actor, changes)

    def _apply(self, names: Sequence[str], action: str, outcome: Outcome, after: Fields) -> None:
        with self._store.deciding():
            known = set(self._queries.names())
            for name in names:
                if name not in known:
                    raise Unknown("account", name, known)
            now, states = self._clock(), self._store.states()
            self._store.apply([Transition(name, outcome, now) for name in names])
            for name in names:
                before = {"state": status_of(states.get(name), now).state}
                self._record(
                    Change(action=action, kind="account", name=name, before=before, after=after)
                )

    def _check_new(self, changes: Any, there: Iterable[str]) -> None:
        if changes.name in self._queries.fixed or changes.name in there:
            raise Conflict(f"there is an account named {changes.name} already", "name")
        if "upstream" not in changes.fields:
            raise InvalidInput.of("upstream", "required")
        self._check_upstream(changes)

    def _check_stored(self, name: str) -> None:
        if name in self._queries.fixed:
            raise Conflict(
                f"{name} is an account of the configuration file: change it there", "name"
            )

    def _check_upstream(self, changes: Any) -> None:
        upstream = changes.fields.get("upstream")
        if upstream is not None:
            self._queries.check_upstream(upstream)


def _check_secrets_given(fields: Mapping[str, Any], old: Account, new: Account) -> None:
    """Make sure that whoever sends the secrets of an account elsewhere has them: they are stored so
    that nobody else can read them.

    Raises:
        InvalidInput: one is missing.
    """
    moves = new.upstream != old.upstream or (bool(new.proxy) and new.proxy != old.proxy)
    missing = [name for name in ("key", "headers") if getattr(old, name) and name not in fields]
    if moves and missing:
        message = "required with another proxy or upstream, which is sent it"
        raise InvalidInput.of(missing[0], message)


def described(account: Account, before: Account | None = None) -> dict[str, Any]:
    """The fields of an account for the log of changes: its settings, and of its secrets that they
    are set, or are others than `before`."""
    fields: dict[str, Any] = {}
    for name, info in FIELDS.items():
        value = getattr(account, name)
        if name not in SECRETS:
            if name != "name" and (info.required or value != info.default):
                fields[name] = value
        elif value:
            other = before is not None and value != getattr(before, name)
            fields[name] = "(changed)" if other else "(set)"
    return fields


def _added(account: Account) -> Change:
    return Change(action="add", kind="account", name=account.name, after=described(account))


class _Unsealed(Conflict):
    """Secrets cannot be encrypted."""


class _Import:
    """What an import has gathered so far."""

    def __init__(self) -> None:
        self.definitions: list[Definition] = []
        self.transitions: list[Transition] = []
        self.recorded: list[Change] = []
        self.bad: list[BadRow] = []
        self.rows_by_name: dict[str, int] = {}
        self.accounts: list[Account] = []
        """Those that are new."""

    @property
    def added(self) -> int:
        """How many accounts are new."""
        return len(self.accounts)

    def same_keys(self) -> Iterator[tuple[str, str]]:
        """Pairs of new accounts of one upstream with the same key and headers."""
        firsts: dict[tuple[str, str, frozenset[tuple[str, object]]], str] = {}
        for account in self.accounts:
            if account.key is not None:
                headers = frozenset(account.headers.items())
                key = (account.upstream, fingerprint(account.key), headers)
                first = firsts.setdefault(key, account.name)
                if first != account.name:
                    yield first, account.name
