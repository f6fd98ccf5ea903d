"""Adding, changing, removing, showing: everything that is done with accounts but for testing them.

All of it goes through the port of a store, so that it is the same whether a gateway runs or not;
workers take it over with their next exchange. Nothing here knows of a terminal or of HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from dragoman.audit import Change, Fields, changed
from dragoman.config import Account
from dragoman.config.secret import fingerprint
from dragoman.operations.drafts import FIELDS, SECRETS, Draft, FieldError, InvalidDraft
from dragoman.operations.errors import Conflict, ImportRejected, UnknownAccount
from dragoman.operations.queries import AccountQueries, without_secrets
from dragoman.operations.rows import BadRow, Row
from dragoman.operations.views import AccountDetails, AccountView, status_of

_PROGRESS_EVERY = 500
_LONGEST_WHY = 200


class ImportResult(Struct, frozen=True, kw_only=True):
    """What became of a list: rows read, accounts that are new, were replaced, and rows left out.
    `same_keys` are pairs of accounts of one upstream that have the same key and headers."""

    rows: int
    added: int
    replaced: int
    bad: tuple[BadRow, ...] = ()
    same_keys: tuple[tuple[str, str], ...] = ()


class Progress(Struct, frozen=True):
    """How far an import has come: rows read, and how many of them are bad."""

    rows: int
    bad: int


class Administration(AccountQueries):
    """What can be done with the accounts of one configuration and one store.

    Methods block, and are not for several threads at once. All of them may raise `StoreError`.
    """

    def add(self, draft: Draft) -> AccountView:
        """Add one account.

        Raises:
            Conflict: there is one of this name already, or no key to encrypt its secrets with.
            InvalidDraft: its upstream is not set, or not configured.
        """
        with self._store.deciding():
            self._check_new(draft, {one.name for one in self._store.definitions()})
            account = draft.account()
            self._store.define([self._sealed(account)])
            self._note(
                Change(action="add", kind="account", name=account.name, after=described(account))
            )
            return self.show(draft.name, 0).account

    def change(
        self, draft: Draft, check: Callable[[AccountDetails], object] | None = None
    ) -> AccountView:
        """Change the fields of `draft` that are set, unless `check` raises, which is called with
        the account as it is.

        Raises:
            UnknownAccount: there is none of this name.
            Conflict: it is one of the configuration file, or its secrets cannot be read.
            InvalidDraft: the upstream is not configured.
        """
        self._check_fixed(draft.name)
        self._check_upstream(draft)
        with self._store.deciding():
            if check is not None:
                check(self.show(draft.name, 0))
            definition, transitions, change = self._changes_of(draft, self._definition(draft.name))
            self._store.define([definition])
            self._store.apply(transitions)
            self._note(change)
            return self.show(draft.name, 0).account

    def changeable(self, name: str) -> Account:
        """An account that may be changed, with its secrets.

        Raises:
            UnknownAccount: there is none of this name.
            Conflict: it is one of the configuration file, or its secrets cannot be read.
        """
        self._check_fixed(name)
        return self.account(name)

    def remove(self, names: Sequence[str]) -> int:
        """Remove accounts with their states and history: all or none. Returns how many.

        Raises:
            UnknownAccount: there is none of one of the names.
            Conflict: one is of the configuration file.
        """
        with self._store.deciding():
            kept = {one.name: one for one in self._store.definitions()}
            for name in names:
                self._check_fixed(name)
                if name not in kept:
                    raise UnknownAccount(name, self._names())
            self._note(
                *(
                    Change(
                        action="remove",
                        kind="account",
                        name=name,
                        before=described(without_secrets(kept[name])),
                    )
                    for name in dict.fromkeys(names)
                )
            )
            return self._store.remove(names)

    def enable(self, names: Sequence[str]) -> None:
        """Forget all that is held against accounts.

        Raises:
            UnknownAccount: there is none of one of the names.
        """
        self._apply(names, Enabled(), {"state": "active"})

    def disable(self, names: Sequence[str], why: str = "") -> None:
        """Take accounts out until somebody enables them.

        Raises:
            UnknownAccount: there is none of one of the names.
        """
        reason = " ".join(why.split())[:_LONGEST_WHY] or "disabled by hand"
        self._apply(names, Disabled(reason), {"state": "disabled", "why": reason})

    def note(self, change: Change) -> None:
        """Write down what an operator does that the store is no part of."""
        with self._store.deciding():
            self._note(change)

    def observe(self, transition: Transition) -> None:
        """Record the outcome of a test of an account; nothing of one that is gone, or has another
        key than the one that was tested."""
        with self._store.deciding():
            try:
                account = self.account(transition.account)
            except (UnknownAccount, Conflict):
                return
            outcome = transition.outcome
            if isinstance(outcome, Failed) and outcome.key != fingerprint(account.key):
                return
            self._store.apply([transition])
            tested = {"outcome": type(outcome).__name__.lower()}
            name = transition.account
            self._note(Change(action="test", kind="account", name=name, after=tested))

    def import_rows(
        self,
        rows: Iterable[Row | BadRow],
        *,
        replace: bool = False,
        skip_bad: bool = False,
        dry_run: bool = False,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> ImportResult:
        """Add all accounts of a list: all or none, but with `skip_bad` the good ones of it. With
        `replace` those that there are already get the fields that the list has for them. With
        `dry_run` nothing is changed, and what is wrong is told with the rest.

        Raises:
            ImportRejected: rows are bad, and are not to be skipped.
            Conflict: there is no key to encrypt secrets with.
        """
        # All are read before the store is held: a list may come from a pipe.
        read = list(rows)
        with self._store.deciding():
            importing = self._take_rows(read, replace=replace, progress=progress)
            if importing.bad and not (skip_bad or dry_run):
                raise ImportRejected(tuple(importing.bad), importing.rows)
            if not dry_run:
                self._store_import(importing)
        return ImportResult(
            rows=importing.rows,
            added=importing.added,
            replaced=len(importing.definitions) - importing.added,
            bad=tuple(importing.bad),
            same_keys=tuple(importing.same_keys),
        )

    def _store_import(self, importing: _Import) -> None:
        if importing.definitions:
            self._store.define(importing.definitions)
        if importing.transitions:
            self._store.apply(importing.transitions)
        self._note(*importing.changes)

    def _take_rows(
        self, rows: Iterable[Row | BadRow], *, replace: bool, progress: Callable[[Progress], None]
    ) -> _Import:
        """What an import of `rows` comes to, as the store is."""
        there = {one.name: one for one in self._store.definitions()}
        importing = _Import()
        for row in rows:
            importing.rows += 1
            faults = (
                importing.add(row)
                if isinstance(row, BadRow)
                else self._take_row(row, there, importing, replace=replace)
            )
            if faults and isinstance(row, Row):
                importing.add(BadRow(row.at, row.draft.name, faults))
            if importing.rows % _PROGRESS_EVERY == 0:
                progress(Progress(importing.rows, len(importing.bad)))
        progress(Progress(importing.rows, len(importing.bad)))
        return importing

    def _take_row(
        self, row: Row, there: Mapping[str, Definition], importing: _Import, *, replace: bool
    ) -> tuple[FieldError, ...]:
        """Take one row into `importing`, or return what is wrong with it."""
        draft = row.draft
        earlier = importing.rows_by_name.setdefault(draft.name, row.at)
        if earlier != row.at:
            return (FieldError("name", f"is the name of row {earlier} already"),)
        before = there.get(draft.name)
        try:
            self._check_fixed(draft.name)
            if before is None:
                self._check_new(draft, ())
            elif not replace:
                raise Conflict("there is an account of this name already", "name")
            else:
                self._check_upstream(draft)
        except InvalidDraft as error:
            return error.faults
        except Conflict as error:
            return (FieldError(error.field, str(error)),)
        if before is None:
            account = draft.account()
            importing.definitions.append(self._sealed(account))
            importing.changes.append(
                Change(action="add", kind="account", name=account.name, after=described(account))
            )
            importing.added += 1
            importing.note_key(account)
            return ()
        try:
            definition, transitions, change = self._changes_of(draft, before)
        except Conflict as error:
            return (FieldError(error.field, str(error)),)
        importing.definitions.append(definition)
        importing.transitions += transitions
        importing.changes.append(change)
        return ()

    def _changes_of(
        self, draft: Draft, before: Definition
    ) -> tuple[Definition, list[Transition], Change]:
        """What is stored of a changed account, what the change means for its state, and what is
        told of it."""
        if draft.fields.keys() >= set(SECRETS):
            old = without_secrets(before)
        else:
            old = self._opened(before)
        new = draft.changed(old)
        key = fingerprint(new.key)
        change = changed("change", "account", new.name, described(old), described(new, old))
        if "key" not in draft.fields or key == fingerprint(old.key):
            return self._sealed(new), [], change
        outcome = KeyChanged(key, source="operator")
        return self._sealed(new), [Transition(new.name, outcome, self._clock())], change

    def _sealed(self, account: Account) -> Definition:
        try:
            return self._cipher.seal(account)
        except SealError as error:
            raise Conflict(str(error)) from None

    def _note(self, *changes: Change) -> None:
        self._store.note(self._actor, changes)

    def _apply(self, names: Sequence[str], outcome: Outcome, after: Fields) -> None:
        with self._store.deciding():
            known = set(self._names())
            for name in names:
                if name not in known:
                    raise UnknownAccount(name, known)
            now, states = self._clock(), self._store.states()
            self._store.apply([Transition(name, outcome, now) for name in names])
            action = "enable" if isinstance(outcome, Enabled) else "disable"
            self._note(
                *(
                    Change(
                        action=action,
                        kind="account",
                        name=name,
                        before={"state": status_of(states.get(name), now).state},
                        after=after,
                    )
                    for name in names
                )
            )

    def _check_new(self, draft: Draft, there: Iterable[str]) -> None:
        if draft.name in self._fixed or draft.name in there:
            raise Conflict(f"there is an account named {draft.name} already", "name")
        if "upstream" not in draft.fields:
            raise InvalidDraft((FieldError("upstream", "required"),))
        self._check_upstream(draft)

    def _check_fixed(self, name: str) -> None:
        if name in self._fixed:
            raise Conflict(
                f"{name} is an account of the configuration file: change it there", "name"
            )

    def _check_upstream(self, draft: Draft) -> None:
        upstream = draft.fields.get("upstream")
        if upstream is not None and upstream not in self._upstreams:
            raise InvalidDraft((FieldError("upstream", self._no_upstream(upstream)),))


def described(account: Account, before: Account | None = None) -> dict[str, Any]:
    """What is told of an account: its settings, and of its secrets that they are set, or are others
    than `before`."""
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


class _Import:
    """What an import has gathered so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.added = 0
        self.definitions: list[Definition] = []
        self.transitions: list[Transition] = []
        self.changes: list[Change] = []
        self.bad: list[BadRow] = []
        self.rows_by_name: dict[str, int] = {}
        self.same_keys: list[tuple[str, str]] = []
        self._keys: dict[tuple[str, str, frozenset[tuple[str, object]]], str] = {}

    def add(self, row: BadRow) -> tuple[FieldError, ...]:
        """Note a bad row."""
        self.bad.append(row)
        return row.faults

    def note_key(self, account: Account) -> None:
        """Note which accounts have the same key."""
        if account.key is None:
            return
        same = (account.upstream, fingerprint(account.key), frozenset(account.headers.items()))
        first = self._keys.setdefault(same, account.name)
        if first != account.name:
            self.same_keys.append((first, account.name))
