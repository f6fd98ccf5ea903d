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
    Operation,
    Removed,
    SeveralNamed,
    Upload,
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


def _list(context: StoreContext, asked: ListAccounts) -> Page:
    return context.queries.page(
        upstream=asked.upstream,
        state=asked.state,
        after=asked.after,
        limit=asked.limit,
        with_usage=asked.usage,
    )


def _table(context: StoreContext, _: Nothing) -> Iterator[AccountView]:
    return context.queries.each()


def _show(context: StoreContext, asked: ShowAccount) -> AccountDetails:
    return context.queries.show(asked.name, asked.history)


def _add(context: StoreContext, asked: Any) -> AccountView:
    return context.accounts.add(asked)


def _change(context: StoreContext, asked: Any) -> AccountView:
    return context.accounts.change(asked, context.check)


def _read_list(resolve: Resolve, asked: ImportAccounts) -> _ReadList:
    media = asked.file.media.partition(";")[0].strip().lower()
    kind = asked.format or _MEDIA.get(media)
    rows = rows_of(BytesIO(asked.file.data), resolve, kind=kind, name=asked.file.name)
    return _ReadList(asked, list(rows))


def _import(context: StoreContext, read: _ReadList) -> ImportResult:
    asked = read.asked
    done = context.accounts.import_rows(
        read.rows, replace=asked.replace, skip_bad=asked.skip_bad, dry_run=asked.dry_run
    )
    return replace(done, bad=done.bad[:MOST_BAD_ROWS])


def _enable(context: StoreContext, asked: SeveralNamed) -> tuple[AccountView, ...]:
    context.accounts.enable(asked.names)
    return context.queries.views(asked.names)


def _disable(context: StoreContext, asked: DisableAccounts) -> tuple[AccountView, ...]:
    context.accounts.disable(asked.names, asked.reason)
    return context.queries.views(asked.names)


def _remove(context: StoreContext, asked: SeveralNamed) -> Removed:
    return Removed(context.accounts.remove(asked.names))


def _do(context: StoreContext, asked: ManyAccounts) -> ManyDone:
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


OPERATIONS = (
    Operation(
        name="accounts.list",
        summary="List accounts with their states.",
        details="Of those that cannot be used, when they come back and why; and what each did.",
        input=ListAccounts,
        output=Page,
        role="viewer",
        run=_list,
        http=(Http("GET", "accounts", defaults={"limit": PAGE}),),
        command=Command("accounts list", options={"upstream": "--upstream", "state": "--state"}),
    ),
    Operation(
        name="accounts.table",
        summary="List all accounts by columns.",
        input=Nothing,
        output=AccountTable,
        role="viewer",
        run=_table,
        finish=lambda _, accounts: columns(accounts),
        http=(Http("GET", "accounts/table"),),
    ),
    Operation(
        name="accounts.show",
        summary="Show one account and what led to its state.",
        input=ShowAccount,
        output=AccountDetails,
        role="viewer",
        run=_show,
        version=settings_of,
        http=(Http("GET", "accounts/{name}"),),
        command=Command("accounts show", ("name",), {"history": "--history"}, {"history": 20}),
    ),
    Operation(
        name="accounts.add",
        summary="Add an account.",
        details="Without --key its key is asked for, or read from standard input.",
        input=AccountChanges,
        output=AccountView,
        role="admin",
        run=_add,
        audit=("add account",),
        http=(Http("POST", "accounts", status=201),),
        command=Command("accounts add", ("name",), _OPTIONS),
    ),
    Operation(
        name="accounts.change",
        summary="Change an account.",
        details="What is not given stays. A new key brings back an account whose old one was "
        "refused.",
        input=AccountChanges,
        output=AccountView,
        role="admin",
        run=_change,
        audit=("change account",),
        http=(Http("PATCH", "accounts/{name}"),),
        command=Command("accounts set", ("name",), _OPTIONS),
    ),
    Operation(
        name="accounts.import",
        summary="Add the accounts of a file.",
        details="FILE is - for standard input. All of them are added, or none if a row is bad.\n\n"
        "CSV whose first line names the columns, a JSON list of objects, or JSON lines; columns "
        "and members are the fields of [[accounts]]. Keys are given in full or as env:NAME or "
        "file:PATH. Each bad row is named with its line and field, and then the exit status is 1.",
        input=ImportAccounts,
        output=ImportResult,
        role="admin",
        run=_import,
        prepare=_read_list,
        audit=("add account", "change account"),
        http=(
            Http(
                "POST",
                "accounts/import",
                query=("format", "replace", "skip_bad", "dry_run"),
                file="file",
            ),
        ),
        command=Command(
            "accounts import",
            ("file",),
            {"format": "--format", "replace": "--replace", "skip_bad": "--skip-bad"},
        ),
    ),
    Operation(
        name="accounts.enable",
        summary="Enable accounts, whatever made them unusable.",
        details="They are used again at once.",
        input=SeveralNamed,
        output=tuple[AccountView, ...],
        role="admin",
        run=_enable,
        audit=("enable account",),
        http=(Http("POST", "accounts/{name}/enable", only=True),),
        command=Command("accounts enable", ("names",)),
    ),
    Operation(
        name="accounts.disable",
        summary="Disable accounts until somebody enables them.",
        details="Requests in flight end as usual.",
        input=DisableAccounts,
        output=tuple[AccountView, ...],
        role="admin",
        run=_disable,
        audit=("disable account",),
        http=(Http("POST", "accounts/{name}/disable", only=True),),
        command=Command("accounts disable", ("names",), {"reason": "--reason"}),
    ),
    Operation(
        name="accounts.remove",
        summary="Remove accounts from the store, with their history.",
        details="Their usage stays.",
        input=SeveralNamed,
        output=Removed,
        role="admin",
        run=_remove,
        audit=("remove account",),
        http=(Http("DELETE", "accounts/{name}"),),
        command=Command("accounts remove", ("names",), confirm="account"),
    ),
    Operation(
        name="accounts.do",
        summary="Enable, disable or remove several accounts, each by itself.",
        input=ManyAccounts,
        output=ManyDone,
        role="admin",
        run=_do,
        audit=("enable account", "disable account", "remove account"),
        http=(Http("POST", "accounts/do"),),
    ),
)
