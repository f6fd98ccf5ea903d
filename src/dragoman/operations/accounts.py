"""Operations on accounts."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from dragoman.config.convert import Resolve
from dragoman.operations.account_columns import AccountTable, columns
from dragoman.operations.account_fields import AccountChanges
from dragoman.operations.account_lists import Format, Row, rows_of
from dragoman.operations.account_service import ImportResult
from dragoman.operations.account_views import AccountDetails, AccountView, Page, State
from dragoman.operations.context import StoreContext
from dragoman.operations.errors import BadRow, Conflict, Unknown
from dragoman.operations.operation import (
    Command,
    Http,
    Nothing,
    Removed,
    SeveralNamed,
    Upload,
    operation,
    operations_in,
)

MOST_ON_PAGE = 1000
PAGE = 100
MOST_BAD_ROWS = 1000
"""Bad rows of a list that are reported."""

_MEDIA = {
    "text/csv": "csv",
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
}

_OPTIONS = {
    "upstream": "--upstream",
    "models": "--model",
    "priority": "--priority",
    "weight": "--weight",
    "max_concurrent": "--max-concurrent",
    "balance": "--balance",
    "proxy": "--proxy",
    "headers": "--header",
    "key": "--key",
}

OfUpstream = Annotated[str | None, Meta(description="Only accounts of this upstream.")]
InState = Annotated[State | None, Meta(description="Only accounts in this state.")]
PageSize = Annotated[int, Meta(ge=1, le=MOST_ON_PAGE)]


class ListAccounts(Struct, frozen=True, kw_only=True):
    """Which accounts to list: a page of `limit`, from the one after `after` on. Without `usage` the
    counts of the last 24 hours are left out."""

    upstream: OfUpstream = None
    state: InState = None
    after: str | None = None
    limit: PageSize | None = None
    usage: bool = True


class ShowAccount(Struct, frozen=True, kw_only=True):
    """Which account to show."""

    name: str
    history: Annotated[
        int, Meta(ge=1, le=MOST_ON_PAGE, description="Changes of state to show.")
    ] = PAGE


class ImportAccounts(Struct, frozen=True, kw_only=True):
    """A list of accounts, and what to do with it."""

    file: Upload
    format: Annotated[Format | None, Meta(description="By default recognised by FILE.")] = None
    replace: Annotated[bool, Meta(description="Change accounts that are there already.")] = False
    skip_bad: Annotated[bool, Meta(description="Import the good rows of a list with bad ones.")] = (
        False
    )
    dry_run: bool = False


class _ReadList(Struct, frozen=True):
    """A list of accounts that was read."""

    asked: ImportAccounts
    rows: list[Row | BadRow]


class DisableAccounts(SeveralNamed, frozen=True, kw_only=True):
    """Which accounts to disable."""

    reason: Annotated[str, Meta(description="Why; it is shown wherever the account is.")] = ""


class ManyAccounts(Struct, frozen=True, kw_only=True):
    """What to do with each of several accounts by itself."""

    do: Literal["enable", "disable", "remove"]
    names: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST_ON_PAGE)]
    reason: str = ""


class NotDone(Struct, frozen=True):
    """An account with which something could not be done, and why."""

    name: str
    message: str


class ManyDone(Struct, frozen=True):
    """The accounts with which something was done, and the others."""

    done: list[str]
    refused: list[NotDone]


def settings_of(details: Any) -> object:
    """What PATCH changes of an account, out of what is shown of it. What is left of a balance
    changes with each request."""
    view = details.account
    return (
        view.upstream,
        view.secrets,
        view.models,
        view.priority,
        view.weight,
        view.max_concurrent,
    )


@operation(
    "accounts.list",
    "viewer",
    Http("GET", "accounts", defaults={"limit": PAGE}),
    command=Command("accounts list", options={"upstream": "--upstream", "state": "--state"}),
)
def _list(context: StoreContext, asked: ListAccounts) -> Page:
    """List accounts with their states.

    Of those that cannot be used, when they come back and why; and what each did.
    """
    return context.queries.page(
        upstream=asked.upstream,
        state=asked.state,
        after=asked.after,
        limit=asked.limit,
        with_usage=asked.usage,
    )


@operation(
    "accounts.table",
    "viewer",
    Http("GET", "accounts/table"),
    output=AccountTable,
    finish=lambda _, accounts: columns(accounts),
)
def _table(context: StoreContext, _: Nothing) -> Iterator[AccountView]:
    """List all accounts by columns."""
    return context.queries.each()


@operation(
    "accounts.show",
    "viewer",
    Http("GET", "accounts/{name}"),
    version=settings_of,
    command=Command("accounts show", ("name",), {"history": "--history"}, {"history": 20}),
)
def _show(context: StoreContext, asked: ShowAccount) -> AccountDetails:
    """Show one account and what led to its state."""
    return context.queries.show(asked.name, asked.history)


@operation(
    "accounts.add",
    "admin",
    Http("POST", "accounts", status=201),
    input=AccountChanges,
    audit=("add account",),
    command=Command("accounts add", ("name",), _OPTIONS),
)
def _add(context: StoreContext, asked: Any) -> AccountView:
    """Add an account.

    Without --key its key is asked for, or read from standard input.
    """
    return context.accounts.add(asked)


@operation(
    "accounts.change",
    "admin",
    Http("PATCH", "accounts/{name}"),
    input=AccountChanges,
    audit=("change account",),
    command=Command("accounts set", ("name",), _OPTIONS),
)
def _change(context: StoreContext, asked: Any) -> AccountView:
    """Change an account.

    What is not given stays. A new key brings back an account whose old one was refused.
    """
    return context.accounts.change(asked, context.check)


def _read_list(resolve: Resolve, asked: ImportAccounts) -> _ReadList:
    media = asked.file.media.partition(";")[0].strip().lower()
    kind = asked.format or _MEDIA.get(media)
    rows = rows_of(BytesIO(asked.file.data), resolve, kind=kind, name=asked.file.name)
    return _ReadList(asked, list(rows))


@operation(
    "accounts.import",
    "admin",
    Http(
        "POST", "accounts/import", query=("format", "replace", "skip_bad", "dry_run"), file="file"
    ),
    input=ImportAccounts,
    audit=("add account", "change account"),
    prepare=_read_list,
    command=Command(
        "accounts import",
        ("file",),
        {"format": "--format", "replace": "--replace", "skip_bad": "--skip-bad"},
    ),
)
def _import(context: StoreContext, read: _ReadList) -> ImportResult:
    """Add the accounts of a file.

    FILE is - for standard input. All of them are added, or none if a row is bad.

    CSV whose first line names the columns, a JSON list of objects, or JSON lines; columns and
    members are the fields of [[accounts]]. Keys are given in full or as env:NAME or file:PATH. Each
    bad row is named with its line and field, and then the exit status is 1.
    """
    asked = read.asked
    done = context.accounts.import_rows(
        read.rows, replace=asked.replace, skip_bad=asked.skip_bad, dry_run=asked.dry_run
    )
    return replace(done, bad=done.bad[:MOST_BAD_ROWS])


@operation(
    "accounts.enable",
    "admin",
    Http("POST", "accounts/{name}/enable", only=True),
    audit=("enable account",),
    command=Command("accounts enable", ("names",)),
)
def _enable(context: StoreContext, asked: SeveralNamed) -> tuple[AccountView, ...]:
    """Enable accounts, whatever made them unusable.

    They are used again at once.
    """
    context.accounts.enable(asked.names)
    return context.queries.views(asked.names)


@operation(
    "accounts.disable",
    "admin",
    Http("POST", "accounts/{name}/disable", only=True),
    audit=("disable account",),
    command=Command("accounts disable", ("names",), {"reason": "--reason"}),
)
def _disable(context: StoreContext, asked: DisableAccounts) -> tuple[AccountView, ...]:
    """Disable accounts until somebody enables them.

    Requests in flight end as usual.
    """
    context.accounts.disable(asked.names, asked.reason)
    return context.queries.views(asked.names)


@operation(
    "accounts.remove",
    "admin",
    Http("DELETE", "accounts/{name}"),
    audit=("remove account",),
    command=Command("accounts remove", ("names",), confirm="account"),
)
def _remove(context: StoreContext, asked: SeveralNamed) -> Removed:
    """Remove accounts from the store, with their history.

    Their usage stays.
    """
    return Removed(context.accounts.remove(asked.names))


@operation(
    "accounts.do",
    "admin",
    Http("POST", "accounts/do"),
    audit=("enable account", "disable account", "remove account"),
)
def _do(context: StoreContext, asked: ManyAccounts) -> ManyDone:
    """Enable, disable or remove several accounts, each by itself."""
    accounts = context.accounts
    done: list[str] = []
    refused: list[NotDone] = []
    for name in dict.fromkeys(asked.names):
        try:
            if asked.do == "enable":
                accounts.enable([name])
            elif asked.do == "disable":
                accounts.disable([name], asked.reason)
            else:
                accounts.remove([name])
        except (Unknown, Conflict) as error:
            refused.append(NotDone(name, str(error)))
        else:
            done.append(name)
    return ManyDone(done, refused)


OPERATIONS = operations_in(globals())
