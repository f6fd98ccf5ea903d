"""Accounts below `/admin`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from io import BytesIO
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from dragoman.accounts.decide.states import AccountState
from dragoman.accounts.pool import AccountPool
from dragoman.accounts.store import StoreError
from dragoman.admin.account_columns import columns
from dragoman.admin.calls import (
    MOST_BAD_ROWS,
    MOST_ON_PAGE,
    PAGE,
    STREAMED,
    AdminRoute,
    Call,
    Refusal,
    Reply,
    bad,
    choice,
    faults_of_rows_told,
    first,
    flag,
    number,
    only,
    read_object,
)
from dragoman.config import Config
from dragoman.edge.incoming import while_connected
from dragoman.http import ClientGone
from dragoman.operations.drafts import Draft, literal_secret, read_draft
from dragoman.operations.errors import Conflict, NoModel, UnknownAccount
from dragoman.operations.rows import rows_of
from dragoman.operations.service import Administration
from dragoman.operations.views import STATES
from dragoman.serving.probe import Finding, probe
from dragoman.upstream.client import UpstreamClient

T = TypeVar("T")

_HISTORY = 100
_TESTS_AT_ONCE = 8
_BETWEEN_TESTS_S = 0.1
_DEEDS = ("enable", "disable", "remove")
_KINDS = {
    "text/csv": "csv",
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
}
_SETTINGS = ("upstream", "secrets", "models", "priority", "weight", "max_concurrent")
"""What PATCH changes of an account, of what is shown. What is left of a balance changes with each
request."""


class AskAccounts(Protocol):
    """Calls a function with the administration of accounts, in the thread of the store."""

    def __call__(self, work: Callable[[Administration], T], /) -> Awaitable[T]: ...


class AccountRoutes:
    """What serves the paths below `/admin/accounts`."""

    def __init__(
        self, config: Config, pool: AccountPool, client: UpstreamClient, ask: AskAccounts
    ) -> None:
        self._config = config
        self._pool = pool
        self._client = client
        self._ask = ask

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [
            AdminRoute("accounts", {"GET": self._list, "POST": self._add}),
            AdminRoute("accounts/table", {"GET": self._table}),
            AdminRoute("accounts/do", {"POST": self._do}),
            AdminRoute("accounts/import", {"POST": self._import}),
            AdminRoute("accounts/test", {"POST": self._test_many}),
            AdminRoute(
                "accounts/*",
                {"GET": self._show, "PATCH": self._change, "DELETE": self._remove},
                settings=_settings,
            ),
            AdminRoute("accounts/*/enable", {"POST": self._enable}),
            AdminRoute("accounts/*/disable", {"POST": self._disable}),
            AdminRoute("accounts/*/test", {"POST": self._test}),
            AdminRoute("accounts/*/rotate", {"POST": self._rotate}),
        ]

    async def _list(self, call: Call) -> Reply:
        query = call.query
        only(query, "upstream", "state", "after", "limit", "usage")
        state = choice(query, "state", STATES)
        limit = number(query, "limit", PAGE, MOST_ON_PAGE)
        usage = flag(query, "usage", default=True)
        return 200, await self._ask(
            lambda administration: administration.page(
                upstream=query.get("upstream"),
                state=state,
                after=query.get("after"),
                limit=limit,
                with_usage=usage,
            )
        )

    async def _table(self, call: Call) -> Reply:
        only(call.query)
        accounts = await self._ask(lambda administration: administration.each())
        # Not in the thread of the store, nor in that of the loop, which others wait for.
        return 200, await asyncio.to_thread(columns, accounts)

    async def _do(self, call: Call) -> Reply:
        only(call.query)
        asked = await read_object(call.incoming)
        what, names, reason = asked.pop("do", None), _names(asked), asked.pop("reason", "")
        if asked:
            bad("There is no such field.", first(asked))
        if what not in _DEEDS:
            bad(f"Expected one of {', '.join(_DEEDS)}.", "do")
        if not isinstance(reason, str):
            bad("A text is expected.", "reason")
        return 200, await self._ask(
            lambda administration: _done(administration, what, names, reason)
        )

    async def _show(self, call: Call) -> Reply:
        only(call.query, "history")
        history = number(call.query, "history", _HISTORY, MOST_ON_PAGE)
        (name,) = call.names
        return 200, await self._ask(lambda administration: administration.show(name, history))

    async def _add(self, call: Call) -> Reply:
        only(call.query)
        made = read_draft(await read_object(call.incoming), literal_secret)
        return 201, await self._ask(lambda administration: administration.add(made))

    async def _change(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        values = await read_object(call.incoming)
        if values.setdefault("name", name) != name:
            bad("An account keeps its name.", "name")
        made: Draft = read_draft(values, literal_secret)
        return 200, await self._ask(lambda administration: administration.change(made, call.check))

    async def _remove(self, call: Call) -> Reply:
        only(call.query)
        names = list(call.names)
        removed = await self._ask(lambda administration: administration.remove(names))
        return 200, {"removed": removed}

    async def _enable(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names

        def work(administration: Administration) -> object:
            administration.enable([name])
            return administration.show(name, 1).account

        return 200, await self._ask(work)

    async def _disable(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        reason = await _one_text(call, "reason") or ""

        def work(administration: Administration) -> object:
            administration.disable([name], reason)
            return administration.show(name, 1).account

        return 200, await self._ask(work)

    async def _test(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        model = await _one_text(call, "model")
        try:
            return 200, await self._probed(name, model)
        except NoModel as error:
            raise Refusal(400, "invalid_request", str(error), "model") from None

    async def _probed(self, name: str, model: str | None) -> Finding:
        """Ask an account of that name for a short answer, and record what that says of it.

        Raises:
            UnknownAccount: there is none.
            Conflict: its secrets cannot be read.
            NoModel: no model is given, and none is known.
        """
        account = await self._ask(lambda administration: administration.account(name))
        try:
            state = self._pool.state(name)
        except KeyError:
            state = AccountState(name)
        finding, transition = await probe(
            self._client, self._config, account, state, who="operator", model=model
        )
        if transition is not None:
            seen = transition
            # Through the store: the account may be so new that this worker does not know it yet.
            await self._ask(lambda administration: administration.observe(seen))
        return finding

    async def _test_many(self, call: Call) -> Reply:
        only(call.query)
        asked = await read_object(call.incoming)
        names, model = _names(asked), asked.pop("model", None)
        if asked:
            bad("There is no such field.", first(asked))
        if model is not None and not isinstance(model, str):
            bad("A text is expected.", "model")
        call.incoming.start(200, STREAMED)
        with suppress(ClientGone):  # as pages do: no further account is asked
            await while_connected(call.incoming, self._tell_tests(call, names, model))
            call.incoming.end()
        return None

    async def _tell_tests(self, call: Call, names: list[str], model: str | None) -> None:
        """Test accounts, some at a time, and tell each outcome as it comes."""
        turns = asyncio.Semaphore(_TESTS_AT_ONCE)

        async def test(name: str) -> None:
            try:
                told: object = await self._probed(name, model)
            except (UnknownAccount, Conflict, NoModel, StoreError) as error:
                told = Undone(name, str(error))
            finally:
                turns.release()
            with suppress(ClientGone):
                await call.incoming.write(b"data: %b\n\n" % msgspec.json.encode(told))

        async with asyncio.TaskGroup() as tests:
            for name in names:
                await turns.acquire()
                tests.create_task(test(name))
                # An upstream is not to see all of them at one moment.
                await asyncio.sleep(_BETWEEN_TESTS_S)

    async def _rotate(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        asked = await read_object(call.incoming)
        test, model = asked.pop("test", True), asked.pop("model", None)
        if not isinstance(asked.get("key"), str) or not asked["key"]:
            bad("The new key is expected.", "key")
        if not isinstance(test, bool):
            bad("Expected true or false.", "test")
        if model is not None and not isinstance(model, str):
            bad("A text is expected.", "model")
        made = read_draft({"name": name, "key": asked.pop("key")}, literal_secret)
        if asked:
            bad("There is no such field.", first(asked))
        account = await self._ask(lambda administration: administration.changeable(name))
        finding: Finding | None = None
        if test:
            changed, state = made.changed(account), AccountState(name)
            try:
                finding, _ = await probe(
                    self._client, self._config, changed, state, who="operator", model=model
                )
            except NoModel as error:
                raise Refusal(400, "invalid_request", str(error), "model") from None
            if not finding.passed:
                told = f"The new key does not work, and the old one stays: {finding.told}"
                raise Refusal(409, "conflict", told, "key", {"finding": finding})
        view = await self._ask(lambda administration: administration.change(made))
        return 200, {"account": view, "finding": finding}

    async def _import(self, call: Call) -> Reply:
        query, incoming = call.query, call.incoming
        only(query, "format", "replace", "skip_bad", "dry_run")
        kind = choice(query, "format", ("csv", "json", "jsonl"))
        replace, skip_bad = flag(query, "replace"), flag(query, "skip_bad")
        dry_run = flag(query, "dry_run")
        if kind is None:
            media = incoming.headers.get(b"content-type", b"").decode("latin-1").partition(";")[0]
            kind = _KINDS.get(media.strip().lower())
        body = await incoming.body(self._config.server.body_limit_bytes)
        with faults_of_rows_told():
            # In another thread than the store's, whose work must not wait for it.
            rows = await asyncio.to_thread(
                lambda: list(rows_of(BytesIO(body), literal_secret, kind=kind))
            )
            done = await self._ask(
                lambda administration: administration.import_rows(
                    rows, replace=replace, skip_bad=skip_bad, dry_run=dry_run
                )
            )
        return 200, msgspec.structs.replace(done, bad=done.bad[:MOST_BAD_ROWS])


class Undone(Struct, frozen=True):
    """An account that something could not be done with, and why."""

    name: str
    message: str


def _done(
    administration: Administration, what: str, names: list[str], reason: str
) -> dict[str, object]:
    """Do something with each of these accounts by itself."""
    done, refused = [], []
    for name in names:
        try:
            if what == "enable":
                administration.enable([name])
            elif what == "disable":
                administration.disable([name], reason)
            else:
                administration.remove([name])
        except (UnknownAccount, Conflict) as error:
            refused.append(Undone(name, str(error)))
        else:
            done.append(name)
    return {"done": done, "refused": refused}


def _names(asked: dict[str, Any]) -> list[str]:
    """The accounts that are named, each once.

    Raises:
        Refusal: they are no names, or too many.
    """
    names = asked.pop("names", None)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        bad("A list of names is expected.", "names")
    if not 0 < len(names) <= MOST_ON_PAGE:
        bad(f"Expected 1 to {MOST_ON_PAGE} names.", "names")
    return list(dict.fromkeys(names))


async def _one_text(call: Call, name: str) -> str | None:
    """The only field that a body may have."""
    values = await read_object(call.incoming, may_be_empty=True)
    value = values.pop(name, None)
    if values:
        bad("There is no such field.", first(values))
    if value is not None and not isinstance(value, str):
        bad("A text is expected.", name)
    return value


def _settings(shown: Any) -> object:
    return [getattr(shown.account, name) for name in _SETTINGS]
