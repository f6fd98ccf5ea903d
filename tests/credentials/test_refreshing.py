"""When a credential is refreshed: the policy, and the owner and the workers that follow it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.credentials.account_credentials import (
    AccountCredential,
    Credentials,
    NoCredential,
)
from dragoman.accounts.credentials.decide.refreshing import (
    Credential,
    CredentialError,
    CredentialFailure,
    next_failure,
    refresh_at,
)
from dragoman.accounts.credentials.decide.refusals import clock_of, is_of_clock, says_expired
from dragoman.accounts.credentials.messages import OBTAIN, Known, Obtain
from dragoman.accounts.credentials.owner import CredentialOwner
from dragoman.accounts.credentials.place import Place
from dragoman.config import Account
from dragoman.link.messages import Handlers
from dragoman.link.owner import Owner
from tests.credentials.environments import settings_of

PLACE = Place("https://cloud.example")
ACCOUNT = Account(
    name="one", upstream="cloud", credentials=settings_of('kind = "command", command = ["x"]')
)


def credential(made: float, life: float, token: str = "t") -> Credential:
    return Credential(made, made + life, headers=(("authorization", f"Bearer {token}"),))


@pytest.mark.parametrize(
    ("life", "soft", "hard"),
    [(3600, 300, 30), (600, 120, 30), (300, 60, 30), (60, 12, 6), (10, 2, 1)],
)
def test_a_credential_is_refreshed_ahead_and_not_used_to_the_last(
    life: float, soft: float, hard: float
) -> None:
    one = credential(1000.0, life)
    assert refresh_at(one, None, 1000.0, 0.5) == pytest.approx(1000.0 + life - soft)
    assert one.is_usable(1000.0 + life - hard)
    assert not one.is_usable(1000.0 + life - hard + 0.01)


def test_a_source_may_say_when_and_one_without_an_end_is_used_for_good() -> None:
    assert refresh_at(Credential(0.0, inf), None, 5.0, 0.5) == inf
    assert Credential(0.0, inf).is_usable(1e12)
    assert refresh_at(Credential(0.0, 100.0, refresh_at=40.0), None, 5.0, 0.5) == 40.0
    assert refresh_at(None, None, 5.0, 0.5) == 5.0


def test_failures_are_retried_at_growing_intervals() -> None:
    failure: CredentialFailure | None = None
    waits = []
    for _ in range(7):
        failure = next_failure(failure, CredentialError("unavailable", "down"), 100.0)
        waits.append(refresh_at(None, failure, 100.0, 0.5) - 100.0)
    assert waits == pytest.approx([5, 10, 20, 40, 60, 60, 60])


@given(st.floats(1, 1e6), st.floats(0, 1, exclude_max=True))
def test_the_next_is_obtained_while_the_last_is_usable(life: float, spread: float) -> None:
    one = credential(0.0, life)
    at = refresh_at(one, None, 0.0, spread)
    assert 0.0 < at < life
    assert one.is_usable(at)


@pytest.mark.parametrize(
    ("status", "code", "text", "is_token", "expected"),
    [
        (401, "", "access token is missing, invalid, or has expired", True, True),
        (401, "", "anything", True, True),
        (403, "", "permission denied", True, False),
        (403, "", "the security token included in the request is expired", False, True),
        (403, "", "access token has expired", True, True),
        (400, "expiredtokenexception", "", False, True),
        (403, "", "the security token included in the request is invalid", False, False),
        (429, "", "token has expired", False, False),
        # What a client has written, quoted.
        (400, "", "unknown field 'expiredtoken'", False, False),
        (403, "", "not authorized to invoke model/the token has expired", True, False),
    ],
)
def test_which_refusals_mean_that_another_credential_may_do(
    status: int, code: str, text: str, is_token: bool, expected: bool
) -> None:
    assert says_expired(status, {code}, text, is_token=is_token) is expected


def test_clocks_that_differ_are_seen_in_the_refusal() -> None:
    assert is_of_clock(403, set(), "signature expired: 20260101t000000z is now earlier than x")
    assert is_of_clock(403, set(), "signature not yet current")
    assert is_of_clock(403, {"requesttimetooskewed"}, "")
    assert not is_of_clock(403, set(), "signature does not match")
    assert not is_of_clock(400, set(), "no model 'signature expired (20200101t000000z - 5 min'")
    assert clock_of({}, "signature expired (20269999t999999z - 5 min.)") is None
    said = "is now earlier than 20261129t045500z (20261129t050000z - 5 min.)"
    assert clock_of({"date": "sun, 29 nov 2026 05:00:00 gmt"}, "") == 1795928400.0
    assert clock_of({"date": "of a proxy"}, said) == 1795928400.0
    assert clock_of({}, "") is None


@dataclass
class Worker:
    """One worker: `obtains` counts what it was asked to obtain."""

    credentials: Credentials
    entry: AccountCredential
    obtains: list[CredentialFailure | None]
    changes: list[AccountCredential]


@dataclass
class House:
    """An owner and its workers; what `answer` returns is obtained."""

    owner: Owner
    answer: Callable[[], Credential]
    workers: list[Worker] = field(default_factory=list)

    @property
    def obtained(self) -> int:
        return sum(len(worker.obtains) for worker in self.workers)

    def join(self) -> Worker:
        obtains: list[CredentialFailure | None] = []
        changes: list[AccountCredential] = []

        async def obtain(account: Account, place: Place, asked: Obtain) -> Credential:
            obtains.append(asked.failure)
            await asyncio.sleep(0.01)
            return self.answer()

        peer = self.owner.join(Handlers(), len(self.workers))
        credentials = Credentials(peer, obtain, changes.append)
        entry = credentials.of(ACCOUNT, PLACE)
        credentials.start()
        worker = Worker(credentials, entry, obtains, changes)
        self.workers.append(worker)
        return worker


@asynccontextmanager
async def house(answer: Callable[[], Credential]) -> AsyncIterator[House]:
    owner, service = Owner(), CredentialOwner(spread=lambda: 0.5)
    service.register(owner.handlers)
    try:
        yield House(owner, answer)
    finally:
        await service.close()


async def test_one_worker_obtains_for_all() -> None:
    async with house(lambda: credential(time.time(), 3600)) as one:
        workers = [one.join() for _ in range(4)]
        for worker in workers:
            await worker.entry.ready()
        assert one.obtained == 1
        values = {worker.entry.credential.headers for worker in workers if worker.entry.credential}
        assert len(values) == 1


async def test_what_was_refused_as_expired_is_replaced_once_for_all() -> None:
    made = iter(range(100))
    async with house(lambda: credential(time.time(), 3600, str(next(made)))) as one:
        workers = [one.join() for _ in range(3)]
        for worker in workers:
            await worker.entry.ready()
        used = workers[0].entry.credential
        assert used is not None
        await asyncio.gather(*(worker.entry.renew(used) for worker in workers for _ in range(5)))
        assert one.obtained == 2
        for worker in workers:
            assert worker.entry.credential is not None
            assert not worker.entry.credential.is_same(used)


async def test_a_source_that_fails_is_told_to_whoever_waits() -> None:
    def fail() -> Credential:
        raise CredentialError("login_needed", "sign in again", "inputs")

    async with house(fail) as one:
        worker = one.join()
        with pytest.raises(NoCredential, match="sign in again"):
            await worker.entry.ready()
        assert worker.entry.failure is not None
        assert worker.entry.failure.inputs == "inputs"


async def test_a_source_that_is_down_costs_nothing_before_the_end() -> None:
    async with house(lambda: credential(time.time(), 3600)) as one:
        worker = one.join()
        await worker.entry.ready()
        failure = next_failure(None, CredentialError("unavailable", "down"), time.time())
        worker.entry.learn(Known(worker.entry.id, worker.entry.credential, failure))
        await worker.entry.ready()
        worker.entry.learn(Known(worker.entry.id, credential(time.time() - 3600, 3601), failure))
        with pytest.raises(NoCredential, match="down"):
            await worker.entry.ready()


async def test_the_token_that_was_refused_is_not_taken_for_a_new_one() -> None:
    async with house(lambda: credential(time.time(), 3600)) as one:
        worker = one.join()
        await worker.entry.ready()
        used = worker.entry.credential
        assert used is not None
        with pytest.raises(NoCredential, match="expired"):
            await worker.entry.renew(used)


async def test_when_a_worker_does_not_answer_another_one_is_asked() -> None:
    async with house(lambda: credential(time.time(), 3600)) as one:
        first, second = one.join(), one.join()

        async def fail(account: Account, place: Place, asked: Obtain) -> Credential:
            raise RuntimeError("a fault of this worker")

        first.credentials._obtain = fail
        await first.entry.ready()
        assert len(second.obtains) == 1


@pytest.mark.parametrize("is_out", [True, False])
async def test_what_was_refused_is_tried_again_when_a_person_has_enabled_the_account(
    is_out: bool,
) -> None:
    async with house(lambda: credential(time.time(), 3600)) as one:
        worker = one.join()
        await worker.entry.ready()
        worker.entry.was_reported = True
        worker.credentials._is_out = lambda name: is_out
        error = CredentialError("refused", "its secret is wrong", "inputs")
        asked = Obtain(worker.entry.id, None, next_failure(None, error, time.time()))
        (peer,) = one.owner.peers
        await peer.ask(OBTAIN, asked)
        assert (worker.obtains[-1] is None) is not is_out


async def test_credentials_that_nobody_needs_are_forgotten() -> None:
    async with house(lambda: credential(time.time(), 3600)) as one:
        worker = one.join()
        await worker.entry.ready()
        worker.credentials.serve(())
        again = worker.credentials.of(ACCOUNT, PLACE)
        assert again is not worker.entry
        await again.ready()
        assert one.obtained == 2
