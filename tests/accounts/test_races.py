"""Races of administration and traffic: four workers on one store, and people among them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from msgspec import Struct

from dragoman.accounts.decide.decisions import active_rest
from dragoman.accounts.decide.states import AccountState, Decision, Failed, Transition
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import AccountPool, LeaseRequest, NoAccount
from dragoman.accounts.store import REMOVED_KEPT_S
from dragoman.accounts.sync import AccountSync
from dragoman.accounts.upstream_pool import Lease
from dragoman.config import Config, Secret, Upstream
from dragoman.config.secret import fingerprint
from dragoman.failing import Rule, Verdict
from dragoman.operations.account_fields import AccountChanges
from dragoman.operations.account_lists import Row
from dragoman.operations.account_queries import AccountQueries
from dragoman.operations.account_service import AccountService
from dragoman.operations.errors import Conflict, Unknown
from dragoman.operations.inputs import InvalidInput
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.sqlite import SqliteStore

pytestmark = pytest.mark.slow

T = TypeVar("T")

INTERLEAVINGS = 2_000
AT_ONCE = 20
"""Of them, which share the exchanges of the workers."""
WORKERS = 4
UPSTREAM = Upstream(
    name="up",
    protocol="openai_chat",
    base_url="http://127.0.0.1:1",
    # Rules by which each account that is refused is at fault itself, however many are.
    account_rules="sop",
    rules=(Rule(Verdict.EXHAUST, "out of quota", statuses=(429,)),),
)
CONFIG = Config(upstreams=(UPSTREAM,))
CIPHER = AesGcmCipher(Secret("a store key for tests"))
REFUSED = Symptom(401)
SPENT = Symptom(429, frozenset({"insufficient_quota"}), retry_after=3600.0)


class Act(Struct, frozen=True):
    """Something that was done to the account, and the ticks between which it was."""

    kind: str
    began: int
    ended: int
    key: int = 0


class SlowSync(AccountSync):
    """Things happen between the taking of a batch and its exchange, and between that and what
    follows from it here. `chance` says how many."""

    chance: Random

    async def _call(self, work: Callable[[], T]) -> T:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        answer = work()
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        return answer


class Worker:
    """One worker process, as far as accounts go."""

    def __init__(self, path: Path, chance: Random) -> None:
        self.pool = AccountPool(CONFIG)
        self.store = SqliteStore(path)
        self.sync = SlowSync(self.pool, self.store, CIPHER, (), sync_s=0.5)
        self.sync.chance = chance
        self._exchange: asyncio.Task[None] | None = None
        # What people do comes to any worker, on the one thread that uses its store.
        self.people = AccountService(AccountQueries(CONFIG, self.store, CIPHER))

    async def exchange(self) -> None:
        assert await self.sync._exchange()

    def begin_exchange(self) -> None:
        """One at a time, as a worker does."""
        if self._exchange is None or self._exchange.done():
            self._exchange = asyncio.create_task(self.exchange())

    async def end_exchange(self) -> None:
        if self._exchange is not None:
            await self._exchange


class Story:
    """What happens to one account, in which order, at which worker: one interleaving."""

    def __init__(self, name: str, workers: Sequence[Worker], chance: Random) -> None:
        self.name = name
        self.workers = workers
        self.chance = chance
        self.others: list[str] = []
        self.tick = 0
        self.key = 0
        self.acts: list[Act] = []
        self.leases: list[tuple[Lease, int, int]] = []

    def added(self) -> None:
        fields = {"upstream": "up", "key": Secret(self._secret())}
        self.chance.choice(self.workers).people.add(self._draft(fields))

    def step(self) -> None:
        self.tick += 1
        worker, what = self.chance.choice(self.workers), self.chance.random()
        if what < 0.4:
            self._begin(worker)
        elif what < 0.75:
            self.end()
        else:
            self._decide(worker)

    def end(self) -> bool:
        """The end of a request; whether there was one."""
        if not self.leases:
            return False
        self.tick += 1
        lease, began, key = self.leases.pop(self.chance.randrange(len(self.leases)))
        kind = self.chance.choice(("refused", "spent", "served"))
        with lease:
            if kind == "served":
                lease.succeeded()
            else:
                lease.failed(REFUSED if kind == "refused" else SPENT)
        self.acts.append(Act(kind, began, self.tick, key))
        return True

    def _draft(self, fields: dict[str, object]) -> Any:
        return AccountChanges(name=self.name, **fields)

    def _secret(self) -> str:
        return f"sk-{self.name}-{self.key}"

    def _begin(self, worker: Worker) -> None:
        try:
            lease = worker.pool.lease(LeaseRequest("up", "m"), self.others)
        except NoAccount:
            return
        key = lease.account.key
        assert key is not None
        self.leases.append((lease, self.tick, int(key.reveal().rpartition("-")[2])))

    def _decide(self, worker: Worker) -> None:
        kind = self.chance.choice(("enable", "enable", "disable", "key"))
        if kind == "enable":
            worker.people.enable([self.name])
        elif kind == "disable":
            worker.people.disable([self.name])
        else:
            self.key += 1
            worker.people.change(self._draft({"key": Secret(self._secret())}))
        self.acts.append(Act(kind, self.tick, self.tick, self.key))

    # Judging

    def verdict(self, states: Mapping[str, AccountState]) -> str:
        """How the account ended, which must be the same for all."""
        stored = states.get(self.name, AccountState(self.name))
        for worker in self.workers:
            assert worker.pool.state(self.name) == stored, "a worker knows otherwise"
        return standing(stored)

    def is_explained(self, ended: str) -> bool:
        """Whether some order of what was done leads there, in which nothing that ended before
        another began comes after it."""
        return any(after(order) == ended for order in orders(self.acts))


def standing(state: AccountState) -> str:
    if state.disabled:
        return "by hand" if state.by_hand else "refused"
    return "active" if active_rest(state, "m", time.time()) is None else "spent"


def orders(acts: Sequence[Act]) -> Iterator[list[Act]]:
    if not acts:
        yield []
        return
    for place, first in enumerate(acts):
        others = [*acts[:place], *acts[place + 1 :]]
        if not any(other.ended < first.began for other in others):
            for rest in orders(others):
                yield [first, *rest]


def after(order: Sequence[Act]) -> str:
    """What an account is after these acts, one at a time."""
    now, key = "active", 0
    for act in order:
        match act.kind:
            case "enable":
                now = "active"
            case "disable":
                now = "by hand"
            case "key":
                key = act.key
                now = "by hand" if now == "by hand" else "active"
            case "refused" | "spent" if act.key == key:
                if now == "active" or (now == "spent" and act.kind == "refused"):
                    now = act.kind
    return now


async def test_every_end_is_one_that_some_order_explains(tmp_path: Path) -> None:
    """A person's word is not lost to a failure that was told late, nor is a later failure lost to
    it, whichever worker saw what, and whenever it told the others."""
    chance = Random(20261122)
    path = tmp_path / "store.db"
    ends: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        workers = [Worker(path, chance) for _ in range(WORKERS)]
        for worker in workers:
            stack.push_async_callback(worker.sync.close)
        for first in range(0, INTERLEAVINGS, AT_ONCE):
            names = [f"a{number}" for number in range(first, first + AT_ONCE)]
            stories = [Story(name, workers, chance) for name in names]
            for story in stories:
                story.others = [name for name in names if name != story.name]
                story.added()
            for worker in workers:
                await worker.exchange()
            for _ in range(chance.randrange(4, 9)):
                for story in stories:
                    story.step()
                    if chance.random() < 0.1:
                        chance.choice(workers).begin_exchange()
                    if chance.random() < 0.3:
                        await asyncio.sleep(0)
            for story in stories:
                while story.end():
                    pass
            for worker in workers:
                await worker.end_exchange()
            # What one has told the others hear, and tell what follows from it, which all hear.
            for _ in range(3):
                for worker in workers:
                    await worker.exchange()
            states = workers[0].store.states()
            for story in stories:
                ended = story.verdict(states)
                assert story.is_explained(ended), (story.name, ended, story.acts)
                ends[ended] = ends.get(ended, 0) + 1
            workers[0].people.remove(names)
            for worker in workers:
                await worker.exchange()
            # So that what is gone does not slow down what comes.
            workers[0].store.sweep(time.time() + 2 * REMOVED_KEPT_S)
    assert ends.keys() == {"active", "refused", "spent", "by hand"}
    assert min(ends.values()) > INTERLEAVINGS // 100


def at_once(path: Path, work: Callable[[AccountService, int], str], count: int) -> list[str]:
    """What `work` says where so many do it at the same time, each at a store of its own."""
    said: list[str] = []
    line = threading.Barrier(count)

    def one(number: int) -> None:
        with closing(SqliteStore(path, lock_s=60.0)) as store:
            people = AccountService(AccountQueries(CONFIG, store, CIPHER))
            line.wait()
            try:
                said.append(work(people, number))
            except (Conflict, Unknown, InvalidInput) as error:
                said.append(type(error).__name__)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(said)


def test_one_name_is_added_once_however_many_add_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    def add(people: AccountService, number: int) -> str:
        fields = {"upstream": "up", "key": Secret(f"sk-{number}")}
        if number % 2:
            people.add(AccountChanges(name="new", **fields))
        else:
            done = people.import_rows([Row(1, AccountChanges(name="new", **fields))], skip_bad=True)
            if not done.added:
                raise Conflict("left out")
        return "added"

    for _ in range(5):
        assert at_once(path, add, 40) == ["Conflict"] * 39 + ["added"]
        assert at_once(path, lambda people, _: str(people.remove(["new"])), 8) == (
            ["1"] + ["Unknown"] * 7
        )


def test_changes_of_one_account_at_once_are_all_made(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    fields = {"upstream": "up", "key": Secret("sk-old")}
    changes: list[dict[str, object]] = [
        {"priority": 7},
        {"weight": 2.5},
        {"models": ("gpt-*",)},
        {"max_concurrent": 3},
        {"key": Secret("sk-new")},
        {"balance": 5.0},
    ]

    def change(people: AccountService, number: int) -> str:
        people.change(AccountChanges(name="a", **changes[number]))
        return "changed"

    for _ in range(5):
        with closing(SqliteStore(path)) as store:
            people = AccountService(AccountQueries(CONFIG, store, CIPHER))
            people.add(AccountChanges(name="a", **fields))
            assert at_once(path, change, len(changes)) == ["changed"] * len(changes)
            account = people.changeable("a")
            assert account.key is not None
            assert account.key.reveal() == "sk-new"
            assert (account.priority, account.weight, account.models) == (7, 2.5, ("gpt-*",))
            assert (account.max_concurrent, account.balance) == (3, 5.0)
            people.remove(["a"])


def test_the_outcome_of_a_test_of_what_is_gone_changes_nothing(tmp_path: Path) -> None:
    def refused(key: str) -> Transition:
        outcome = Failed(
            Decision(Verdict.DISABLE, "refused"), "operator", 401, fingerprint(Secret(key))
        )
        return Transition("a", outcome, time.time())

    with closing(SqliteStore(tmp_path / "store.db")) as store:
        people = AccountService(AccountQueries(CONFIG, store, CIPHER))
        people.observe(refused("sk-1"))
        assert not store.states()
        people.add(AccountChanges(name="a", upstream="up", key=Secret("sk-1")))
        people.observe(refused("sk-0"))
        assert not store.states()
        people.observe(refused("sk-1"))
        assert store.states()["a"].disabled
