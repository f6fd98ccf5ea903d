"""Small pools to try things on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import AccountPool, LeaseRequest
from dragoman.config import Account, Config, Upstream

ONE = Upstream(name="one", protocol="openai_chat", base_url="http://127.0.0.1:1")
CONFIG = Config(
    upstreams=(ONE, replace(ONE, name="two")),
    accounts=(
        Account(name="a", upstream="one"),
        Account(name="b", upstream="one", models=("gpt-*",)),
        Account(name="c", upstream="two"),
    ),
)
M = LeaseRequest("one", "m")
REFUSED = Symptom(401)
THROTTLED = Symptom(429, retry_after=20.0)
OVERLOADED = Symptom(503)
OUT_OF_QUOTA = Symptom(429, frozenset({"insufficient_quota"}))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def pool_of(names: Iterable[str] = "ab", clock: Any = None, **upstream: Any) -> AccountPool:
    """A pool of one upstream, `one`; an account's own settings follow its name."""
    of_accounts = ("max_concurrent", "models", "proxy", "balance")
    own = {name: upstream.pop(name) for name in of_accounts if name in upstream}
    accounts = tuple(Account(name=name, upstream="one", **own) for name in names)
    config = Config(upstreams=(replace(ONE, **upstream),), accounts=accounts)
    return AccountPool(config, clock=clock or Clock(), spread=lambda: 0.5)


def name_of(pool: AccountPool, wanted: LeaseRequest = M, tried: Iterable[str] = ()) -> str:
    with pool.lease(wanted, tuple(tried)) as lease:
        return lease.account.name


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
