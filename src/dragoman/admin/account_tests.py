"""Operations that call the upstream of an account."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from dragoman.accounts.decide.states import AccountState
from dragoman.accounts.store import StoreError
from dragoman.admin.call import Call
from dragoman.admin.replies import EventStream, Refusal, Write
from dragoman.http import ClientGone
from dragoman.operations.account_fields import AccountChanges
from dragoman.operations.account_views import AccountView
from dragoman.operations.accounts import MOST_ON_PAGE, NotDone
from dragoman.operations.errors import Conflict, Unknown
from dragoman.operations.inputs import literal_secret, read_input
from dragoman.operations.openapi import Events
from dragoman.operations.operation import Command, Http, Named, operation, operations_in
from dragoman.serving.probe import Finding, probe

_TESTS_AT_ONCE = 8
_BETWEEN_TESTS_S = 0.1


class TestAccount(Named, frozen=True, kw_only=True):
    """Which account to test, with which model: by default that of the probes, else one that the
    account, its upstream or a route names, else one that the upstream lists."""

    model: str | None = None


class TestAccounts(Struct, frozen=True, kw_only=True):
    """Which accounts to test, with which model."""

    names: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST_ON_PAGE)]
    model: str | None = None


class RotateAccount(Named, frozen=True, kw_only=True):
    """The new key of an account; with `test` it replaces the old one only if it works."""

    key: Annotated[str, Meta(min_length=1)]
    test: bool = True
    model: str | None = None


class Rotated(Struct, frozen=True):
    """The account with its new key, and what the test of that found; None without one."""

    account: AccountView
    finding: Finding | None


@operation(
    "accounts.test",
    "admin",
    Http("POST", "accounts/{name}/test"),
    audit=("test account",),
    command=Command("accounts test", is_own=True),
)
async def _test(call: Call, asked: TestAccount) -> Finding:
    """Ask accounts for a short answer.

    The outcome counts as that of any other request: an account that answers is used again.
    """
    return await _probed(call, asked.name, asked.model)


async def _probed(call: Call, name: str, model: str | None) -> Finding:
    """Send an account a short request, and apply the outcome to its state.

    Raises:
        Unknown: there is no account of this name.
        Conflict: its secrets cannot be read.
        NoModel: no model is given, and none is known.
    """
    account = await call.in_store(lambda context: context.queries.account(name))
    gateway = call.gateway
    try:
        state = gateway.bench.upstreams.pool.state(name)
    except KeyError:
        state = AccountState(name)
    finding, transition = await probe(
        gateway.bench.upstreams.calls, gateway.config, account, state, who="operator", model=model
    )
    if transition is not None:
        outcome = transition
        # Through the store: the account may be so new that this worker does not know it yet.
        await call.in_store(lambda context: context.accounts.observe(outcome))
    return _without_words(finding)


def _without_words(finding: Finding) -> Finding:
    """A finding without the words of an upstream that answered: the URL of a proxy may lead to any
    service of an inner network, which is not read out over HTTP."""
    return replace(finding, message="") if finding.status else finding


@operation(
    "accounts.test_many",
    "admin",
    Http("POST", "accounts/test"),
    output=Events,
    audit=("test account",),
)
async def _test_many(call: Call, asked: TestAccounts) -> EventStream:
    """Test several accounts, and report each outcome as it comes."""

    async def run(write: Write) -> None:
        turns = asyncio.Semaphore(_TESTS_AT_ONCE)

        async def test(name: str) -> None:
            try:
                outcome: object = await _probed(call, name, asked.model)
            except (Unknown, Conflict, StoreError) as error:
                outcome = NotDone(name, str(error))
            finally:
                turns.release()
            with suppress(ClientGone):
                await write(b"data: %b\n\n" % msgspec.json.encode(outcome))

        async with asyncio.TaskGroup() as tests:
            for name in dict.fromkeys(asked.names):
                await turns.acquire()
                tests.create_task(test(name))
                # An upstream is not to see all of them at one moment.
                await asyncio.sleep(_BETWEEN_TESTS_S)

    return EventStream(run)


@operation(
    "accounts.rotate", "admin", Http("POST", "accounts/{name}/rotate"), audit=("change account",)
)
async def _rotate(call: Call, asked: RotateAccount) -> Rotated:
    """Replace the key of an account if the new one works."""
    name = asked.name
    changes = read_input(AccountChanges, {"name": name, "key": asked.key}, literal_secret)
    account = await call.in_store(lambda context: context.accounts.changeable(name))
    finding: Finding | None = None
    if asked.test:
        finding, _ = await probe(
            call.gateway.bench.upstreams.calls,
            call.gateway.config,
            changes.changed(account),
            AccountState(name),
            who="operator",
            model=asked.model,
        )
        finding = _without_words(finding)
        if not finding.passed:
            cause = finding.message or f"{finding.why} (status {finding.status})"
            message = f"The new key does not work, and the old one stays: {cause}"
            raise Refusal(409, "conflict", message, "key", {"finding": finding})
    view = await call.in_store(lambda context: context.accounts.change(changes))
    return Rotated(view, finding)


OPERATIONS = operations_in(globals())
