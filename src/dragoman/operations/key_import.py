"""Keys of another gateway that are added to the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.audit import Change
from dragoman.config import KeyRules
from dragoman.config.access_rules import ANYONE
from dragoman.keys.records import StoredKey, StoredSecret
from dragoman.keys.secrets import digest_of
from dragoman.operations.errors import BadRow, ImportRejected
from dragoman.operations.foreign_keys import ForeignKey, fitting_name
from dragoman.operations.inputs import InvalidInput, given, read_input
from dragoman.operations.key_fields import (
    KeyChanges,
    check_name,
    set_rules,
    unknown_team,
    with_fields,
)
from dragoman.operations.key_service import KeyService, new_secret


class NewSecret(Struct, frozen=True, kw_only=True):
    """The secret of a key, which is shown this once."""

    name: str
    secret: str


class ImportedKeys(Struct, frozen=True, kw_only=True):
    """The outcome of an import: rows read, and the names that keys got. `made` are those whose
    secret nobody knew, with the new one; `left_out` is what an export has of a key and is not taken
    over, by its name."""

    rows: int
    added: tuple[str, ...]
    made: tuple[NewSecret, ...] = ()
    left_out: Mapping[str, tuple[str, ...]] = {}


class _NewKey(Struct, frozen=True):
    """A key to be added, of `row`, with its first secret; `text` is that of a new one, else
    empty."""

    row: ForeignKey
    rules: KeyRules
    secret: StoredSecret
    text: str
    left_out: tuple[str, ...]


def import_keys(
    service: KeyService,
    rows: Sequence[ForeignKey | BadRow],
    *,
    team: str | None = None,
    limits: bool = True,
    dry_run: bool = False,
) -> ImportedKeys:
    """Add the keys of another gateway, all or none. Those whose secret is not known get a new one.
    All are of `team`; without one, those are of a team whose own has the name of one here. Without
    `limits`, theirs are left out. With `dry_run` nothing is changed.

    Raises:
        ImportRejected: with every row that cannot be used.
        StoreError: the store cannot be used.
    """
    new, bad = _new_keys(service, rows, limits=limits)
    keys: list[StoredKey] = []
    left_out: dict[str, tuple[str, ...]] = {}
    with service.store.deciding():
        there, taken = _there(service)
        teams = service.teams.names()
        for name, one in new.items():
            rules, missed = one.rules, one.left_out
            try:
                if name in there:
                    raise InvalidInput.of("name", there[name])
                _check_free(one.secret.digest, taken)
                if team is not None:
                    if team not in teams:
                        raise unknown_team(team, sorted(teams))
                    rules = replace(rules, team=team)
                elif one.row.team in teams:
                    rules = replace(rules, team=one.row.team)
                elif one.row.team:
                    missed = (*missed, "team")
            except InvalidInput as error:
                bad.append(BadRow(one.row.at, name, error.faults))
                continue
            created = one.secret.created
            keys.append(StoredKey(name=name, created=created, rules=rules, secrets=(one.secret,)))
            if missed:
                left_out[name] = missed
        if bad:
            raise ImportRejected(tuple(sorted(bad, key=lambda row: row.at)), len(rows))
        if not dry_run:
            service.store.save(keys)
            service.record(
                *(
                    Change(action="import", kind="key", name=key.name, after=set_rules(key.rules))
                    for key in keys
                )
            )
    made = tuple(NewSecret(name=name, secret=one.text) for name, one in new.items() if one.text)
    return ImportedKeys(
        rows=len(rows), added=tuple(new), made=() if dry_run else made, left_out=left_out
    )


def _new_keys(
    service: KeyService, rows: Sequence[ForeignKey | BadRow], *, limits: bool
) -> tuple[dict[str, _NewKey], list[BadRow]]:
    """The keys of rows by the names that they get, as far as that is known without the store, for
    which others wait during a transaction; and the rows that make none."""
    found: dict[str, _NewKey] = {}
    bad: list[BadRow] = []
    digests: set[bytes] = set()
    now = service.clock()
    for row in rows:
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        name = fitting_name(row, found)
        fields, left_out = dict(row.fields), row.left_out
        if not limits and fields.pop("limits", None):
            left_out = (*left_out, "limits")
        if name != row.name:
            fields["note"] = row.name
        try:
            if name in found:
                raise InvalidInput.of("name", "is there twice")
            check_name(name)
            if name == ANYONE:
                raise InvalidInput.of("name", "is the name of clients without a key")
            _check_free(row.digest, digests)
            read = read_input(KeyChanges, {"name": name, **fields})
            rules = with_fields(KeyRules(), given(read), service.config)
        except InvalidInput as error:
            bad.append(BadRow(row.at, name, error.faults))
            continue
        text = ""
        if row.digest is None:
            text, secret = new_secret(now)
        else:
            secret = StoredSecret(digest=row.digest, ending=row.ending, created=now)
            digests.add(row.digest)
        found[name] = _NewKey(row, rules, secret, text, left_out)
    return found, bad


def _there(service: KeyService) -> tuple[dict[str, str], set[bytes]]:
    """The names that are taken, with what takes them, and the digests of all secrets."""
    clients = service.config.clients
    there = {client.name: "is a client of the configuration file" for client in clients}
    taken = {digest_of(one.reveal().encode()) for client in clients for one in client.secrets}
    for key in service.store.all_keys():
        there[key.name] = "is, or was, the name of a key"
        if key.removed is None:
            taken.update(one.digest for one in key.secrets)
    return there, taken


def _check_free(digest: bytes | None, taken: Collection[bytes]) -> None:
    """
    Raises:
        InvalidInput: a secret is another key's.
    """
    if digest in taken:
        raise InvalidInput.of("key", "is another's key already")
