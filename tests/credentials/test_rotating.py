"""Refresh tokens that are replaced with each use: the simulator's authority ends the login of
whoever redeems one twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from dragoman.accounts.credentials import rotating
from dragoman.accounts.credentials.decide.refreshing import (
    Credential,
    CredentialError,
    Problem,
    next_failure,
)
from dragoman.accounts.credentials.io import Answer, Ask, Environment, Unanswered
from dragoman.accounts.credentials.messages import Obtain
from dragoman.accounts.credentials.sources import obtain
from dragoman.accounts.credentials.stored_logins import StoredLogins
from dragoman.accounts.store import Store
from dragoman.config import Account, ConfigError, Secret, parse_config
from dragoman.config.credentials import Credentials, OAuthCredentials
from dragoman.lab.simulator.authority import KEY_ID, SECRET, Failing
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.sqlite import SqliteStore
from tests.credentials.environments import BASE, PLACE, Clouds, settings_of
from tests.credentials.given import config

T = TypeVar("T")
ROLE = (
    f'kind = "aws", access_key_id = "{KEY_ID}", secret_access_key = "{SECRET}", '
    'role_arn = "arn:aws:iam::123456789012:role/gateway"'
)
STS = {"AWS_ENDPOINT_URL_STS": BASE}


class Killed(BaseException):
    """The process has ended here."""


class Instance:
    """One instance of a gateway. `steps` are left until it is killed; its clock is `ahead_s`."""

    def __init__(
        self, store: SqliteStore, clouds: Clouds, steps: int = 1_000_000, ahead_s: float = 0.0
    ) -> None:
        self._clock = lambda: time.time() + ahead_s
        self._store = store
        self._clouds = clouds
        self.steps = steps
        self._keeper = StoredLogins(self._ask, AesGcmCipher(Secret("key-of-the-store-16")))

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Killed

    async def _ask(self, question: Callable[[Store], T]) -> T:
        self.step()
        await asyncio.sleep(0)
        answer = question(self._store)
        self.step()
        return answer

    async def fetch(self, ask: Ask) -> Answer:
        self.step()
        answer = await self._clouds.fetch(ask)
        await asyncio.sleep(0)
        self.step()
        return answer

    async def obtain(self, token: str = "first", asked: Obtain | None = None) -> Credential:
        settings = OAuthCredentials(
            token_url=f"{BASE}/oauth/token",
            grant="refresh_token",
            refresh_token=Secret(token),
            client_id="gw",
        )
        return await self.obtain_by(settings, asked)

    async def assume(self, asked: Obtain | None = None) -> Credential:
        return await self.obtain_by(settings_of(ROLE), asked)

    async def obtain_by(self, settings: Credentials, asked: Obtain | None) -> Credential:
        account = Account(name="login", upstream="cloud", credentials=settings)
        environment = Environment(self.fetch, self._clock, STS)
        return await obtain(account, PLACE, asked or Obtain(""), environment, self._keeper)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "store.db")) as made:
        yield made


@pytest.fixture
def clouds() -> Clouds:
    made = Clouds()
    made.authority.refreshes["first"] = "family"
    made.authority.life_s = 0.2
    return made


async def problem_of(instance: Instance, token: str = "first") -> Problem:
    with pytest.raises(CredentialError) as raised:
        await instance.obtain(token)
    return raised.value.problem


async def test_what_replaces_a_token_is_stored_and_redeemed_next(
    store: SqliteStore, clouds: Clouds
) -> None:
    for number in range(3):
        await Instance(store, clouds).obtain()
        assert clouds.authority.issued["oauth"] == number + 1
        await asyncio.sleep(0.2)
    assert len(clouds.authority.redeemed) == 3


async def test_instances_share_what_one_has_redeemed(store: SqliteStore, clouds: Clouds) -> None:
    clouds.authority.life_s = 3600.0
    instances = [Instance(store, clouds, ahead_s=-ahead) for ahead in range(4)]
    found = await asyncio.gather(*(instance.obtain() for instance in instances))
    assert len({one.headers for one in found}) == 1
    assert clouds.authority.asked["oauth"] == 1
    dead = Obtain("", found[0])
    renewed = await asyncio.gather(*(one.obtain(asked=dead) for one in instances))
    assert len({one.headers for one in renewed}) == 1
    assert clouds.authority.asked["oauth"] == 2


async def test_instances_assume_a_role_once(store: SqliteStore, clouds: Clouds) -> None:
    """What costs a call of STS is shared, and replaced once for all when it is refused."""
    clouds.authority.life_s = 3600.0
    instances = [Instance(store, clouds) for _ in range(4)]
    found = await asyncio.gather(*(instance.assume() for instance in instances))
    assert len({one.keys for one in found}) == clouds.authority.issued["sts"] == 1
    dead = Obtain("", found[0])
    renewed = await asyncio.gather(*(one.assume(dead) for one in instances))
    assert len({one.keys for one in renewed}) == 1
    assert clouds.authority.issued["sts"] == 2


@pytest.mark.parametrize("steps", range(8))
async def test_a_role_is_assumed_whoever_is_killed(
    store: SqliteStore, clouds: Clouds, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A role may be assumed again, so nobody has to act."""
    monkeypatch.setattr(rotating, "REDEEMING_S", 0.05)
    clouds.authority.life_s = 3600.0
    with pytest.raises(Killed):
        await Instance(store, clouds, steps).assume()
    assert (await Instance(store, clouds).assume()).keys is not None


async def test_a_role_is_assumed_without_the_store(tmp_path: Path, clouds: Clouds) -> None:
    closed = SqliteStore(tmp_path / "closed.db")
    closed.close()
    clouds.authority.life_s = 3600.0
    assert (await Instance(closed, clouds).assume()).keys is not None


@pytest.mark.parametrize("steps", range(8))
async def test_no_token_is_redeemed_twice_whoever_is_killed(
    store: SqliteStore, clouds: Clouds, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotating, "REDEEMING_S", 0.05)
    with pytest.raises(Killed):
        await Instance(store, clouds, steps).obtain()
    if steps in (0, 1, 2, 7):
        # Before it said that it would redeem, or after it had stored what it was redeemed for.
        await Instance(store, clouds).obtain()
    else:
        assert await problem_of(Instance(store, clouds)) == "login_needed"
    assert clouds.authority.asked["oauth"] == len(clouds.authority.redeemed)
    # Signing in again is what helps.
    clouds.authority.refreshes["second"] = "another"
    await Instance(store, clouds).obtain("second")


async def test_a_server_that_does_not_answer_or_refuses_has_not_redeemed(
    store: SqliteStore, clouds: Clouds
) -> None:
    clouds.down = True
    assert await problem_of(Instance(store, clouds)) == "unavailable"
    clouds.down = False
    clouds.authority.failing["oauth"] = Failing(503)
    assert await problem_of(Instance(store, clouds)) == "unavailable"
    del clouds.authority.failing["oauth"]
    await Instance(store, clouds).obtain()


async def test_an_answer_that_was_lost_is_not_asked_for_again(
    store: SqliteStore, clouds: Clouds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotating, "REDEEMING_S", 0.05)
    instance = Instance(store, clouds)

    async def lose(ask: Ask) -> Answer:
        await clouds.fetch(ask)
        raise Unanswered("reset", was_sent=True)

    monkeypatch.setattr(instance, "fetch", lose)
    assert await problem_of(instance) == "login_needed"
    await asyncio.sleep(0.05)
    assert await problem_of(Instance(store, clouds)) == "login_needed"
    assert clouds.authority.asked["oauth"] == 1


async def test_a_login_that_has_ended_is_not_tried_again_until_another_is_set(
    store: SqliteStore, clouds: Clouds
) -> None:
    """The answer is `invalid_grant`."""
    clouds.authority.refreshes.clear()
    with pytest.raises(CredentialError) as raised:
        await Instance(store, clouds).obtain()
    assert raised.value.problem == "login_needed"
    asked = Obtain("", None, next_failure(None, raised.value, 0.0))
    with pytest.raises(CredentialError):
        await Instance(store, clouds).obtain(asked=asked)
    assert clouds.authority.asked["oauth"] == 1
    clouds.authority.refreshes["second"] = "another"
    await Instance(store, clouds).obtain("second", asked)


def test_nothing_in_the_store_can_be_read(
    store: SqliteStore, clouds: Clouds, tmp_path: Path
) -> None:
    found = asyncio.run(Instance(store, clouds).obtain())
    token = dict(found.headers)["authorization"].partition(" ")[2]
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in ("first", token, *clouds.authority.refreshes):
        assert secret.encode() not in kept


def test_a_store_with_a_key_is_needed() -> None:
    grant = 'grant = "refresh_token", refresh_token = "long-one"'
    text = config(f'kind = "oauth2", token_url = "{BASE}/t", {grant}')
    with pytest.raises(ConfigError, match="needs a \\[storage\\] with a key"):
        parse_config(text)
    parse_config(f'{text}\n[storage]\nkey = "key-of-the-store-16"\n')
