"""Between a pool and a store: what happened here goes there, what others decided comes back.

The pool decides in memory. A few times a second, and at once after an account fell out or was
brought back, `AccountSync` takes a batch from the pool and exchanges it with the store in a thread
of its own, so that neither the event loop nor any request waits for a disk. While the store cannot
be used the pool goes on from memory, and all is written once it can.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.cipher import AccountCipher, SealError
from dragoman.accounts.decide.states import (
    AccountState,
    Disabled,
    Enabled,
    Failed,
    KeyChanged,
    Transition,
)
from dragoman.accounts.pool import AccountPool, log_change
from dragoman.accounts.store import (
    LOST_AFTER_S,
    SWEPT_AT_ONCE,
    Batch,
    Changes,
    CommitUnknown,
    Definition,
    NewerStore,
    Store,
    StoreError,
)
from dragoman.accounts.usage import Meter
from dragoman.config import Account
from dragoman.failing import Verdict
from dragoman.keys.people import People
from dragoman.keys.ring import KeyRing

_log = logging.getLogger("dragoman.accounts")

T = TypeVar("T")

_EARLY_S = 0.01
"""Seconds between an account's failure and the exchange that reports it: more may fail soon."""
_RETRY_MOST_S = 2.0
_SWEEP_S = 30.0
_SWEEP = "sweep"
"""What whoever drops what is too old claims."""
_USES_S = 60.0
"""Seconds between two times that the uses of keys are written."""
_SWEEP_AGAIN_S = 1.0
_AT_ONCE = 200
"""Accounts that are taken over before requests have their turn again."""
_LONGEST_WAIT_S = 2.0
"""Seconds for which whoever changed something waits until it is taken over."""
_MOST_PINS = 50_000
"""Pins that are held for a store that cannot be used."""


class Settled(Protocol):
    """Whoever counts what goes into rows of usage, and must know when it is in them."""

    def writing(self, writer: str, mark: float) -> None:
        """What was counted so far is about to be written by a worker of this name, whose latest
        batch has this mark."""

    def written(self, *, done: bool) -> None:
        """It is in rows; or is not, and is written another time."""


class _Received(Struct, frozen=True):
    """What an exchange brought, with the secrets of new accounts opened."""

    changes: Changes
    accounts: Sequence[Account]


class AccountSync:
    """Synchronises `pool` with `store`, every `sync_s` seconds.

    `fixed` are the accounts of the configuration: they win over stored ones of the same name.
    `meter` counts what goes into the store as usage, `keys` gets the client keys in it. `failures`
    counts exchanges that failed. All methods are for the event loop. `settled` is called when usage
    was written (None: nothing is), `on_exchanged` with the seconds of each exchange.
    `gateway` is a name that the workers of this gateway have in common, empty if there is one.
    """

    def __init__(
        self,
        pool: AccountPool,
        store: Store,
        cipher: AccountCipher,
        fixed: Iterable[Account],
        *,
        sync_s: float,
        meter: Meter | None = None,
        keys: KeyRing | None = None,
        gateway: str = "",
    ) -> None:
        self._keys = KeyRing() if keys is None else keys
        self.people = People()
        """Those who sign in, who are keys of the ring as well."""
        self.settled: Settled | None = None
        self.logs_operators = False
        """Whether this worker logs, for all of its gateway, what operators do to accounts."""
        self.on_exchanged: Callable[[float], object] = lambda seconds: None
        self._next_uses = time.monotonic() + _USES_S
        self.failures = 0
        token = secrets.token_hex(6)
        self.worker = f"{gateway or token}.{os.getpid()}-{token}"
        self._pool = pool
        self._store = store
        self._cipher = cipher
        self._meter = meter
        self._sync_s = sync_s
        self._fixed = {account.name: account for account in fixed}
        self._balances = _balances(self._fixed)
        self._clashes: set[str] = set()
        self._key_clashes: set[str] = set()
        self._keys_unusable: set[str] = set()
        self._version = 0
        self._loaded = False
        self._tells_balances = False
        self._taking_over = True
        self._failing_since: float | None = None
        self._saw_newer = False
        self._doubtful: Batch | None = None
        """What may have been written, when the store was lost."""
        self._next_sweep = time.monotonic() + _SWEEP_S * random.random()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dragoman-store")
        self._early = asyncio.Event()
        self._awaited: list[asyncio.Future[None]] = []
        """Whoever waits for the end of an exchange that has not begun."""
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def working(self) -> bool:
        """Whether the last exchange went well."""
        return self._loaded and self._failing_since is None

    async def start(self) -> None:
        """Load what is in the store, and go on exchanging. A store that cannot be used is logged,
        and what is in it is loaded once it can."""
        self._pool.on_transition = self._happened
        await self._exchange()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Write the rest to the store, and close it."""
        self._stopping = True
        self._pool.on_transition = None
        if self._task is not None:
            self._early.set()
            await self._task
        done = await self._exchange()
        if not done and self._failing_since is None:
            done = await self._exchange()
        if not done:
            _log.error("what happened since the store failed is lost")
        await self._call(self._store.close)
        self._thread.shutdown()

    def stored(self) -> list[Account]:
        """The accounts of the pool that are not of the configuration."""
        return [one for one in self._pool.accounts() if one.name not in self._fixed]

    def follow(self, pool: AccountPool, fixed: Iterable[Account]) -> None:
        """Synchronise `pool` from now on, which has taken the place of the former one; `fixed` are
        the accounts of its configuration. What the former one did not have, because it was in the
        configuration or because there was no such upstream, is asked for again."""
        before, upstreams = self._fixed, self._pool.upstreams()
        self._pool = pool
        self._fixed = {account.name: account for account in fixed}
        self._balances = _balances(self._fixed)
        self._clashes &= self._fixed.keys()
        pool.on_transition = self._happened
        if before.keys() - self._fixed.keys() or set(pool.upstreams()) - set(upstreams):
            self._version = 0
        if any(one.balance != _balance_of(before.get(one.name)) for one in self._fixed.values()):
            self._tells_balances = True
        self._early.set()

    async def ask(self, question: Callable[[Store], T]) -> T:
        """Call `question` with the store, in the thread that uses it; what it changes is taken over
        soon afterwards.

        Raises:
            StoreError: the store cannot be used.
        """
        answer = await self._call(lambda: question(self._store))
        self._early.set()
        return answer

    async def exchanged(self) -> None:
        """Wait until all that is in the store by now is taken over here, unless that takes long."""
        awaited = asyncio.get_running_loop().create_future()
        self._awaited.append(awaited)
        self._early.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_WAIT_S):
                await awaited

    async def claim(self, claims: Mapping[str, float], now: float) -> set[str]:
        """As `Store.claim`; all of them if the store cannot be asked: that something is done twice
        is better than that nobody does it."""
        try:
            return await self._call(lambda: self._store.claim(claims, now))
        except StoreError:
            return set(claims)

    async def mark_of(self, worker: str) -> float:
        """The mark of the latest batch that a worker, which may be gone, has written.

        Raises:
            StoreError: the store cannot be used.
        """
        return await self._call(lambda: self._store.mark_of(worker))

    def _happened(self, transition: Transition) -> None:
        match transition.outcome:
            case Failed(decision=decision):
                if decision.verdict in (Verdict.DISABLE, Verdict.EXHAUST):
                    self._early.set()
            case Disabled() | Enabled() | KeyChanged():
                self._early.set()

    async def _run(self) -> None:
        wait = self._sync_s
        while not self._stopping:
            try:
                async with asyncio.timeout(wait):
                    await self._early.wait()
                if self._failing_since is None:
                    if not self._awaited:
                        await asyncio.sleep(_EARLY_S)
                elif not self._stopping:
                    # Haste is of no use.
                    await asyncio.sleep(self._sync_s)
            except TimeoutError:
                pass
            self._early.clear()
            if self._stopping:
                return
            if await self._exchange():
                wait = self._sync_s
                await self._sweep()
            else:
                wait = min(2 * wait, _RETRY_MOST_S)

    async def _exchange(self) -> bool:
        """One exchange; whether it went well."""
        awaited, self._awaited = self._awaited, []
        try:
            return await self._try_exchange()
        finally:
            for one in awaited:
                if not one.done():
                    one.set_result(None)

    async def _try_exchange(self) -> bool:
        if not await self._resolve():
            return False
        pool = self._pool
        batch = pool.take_batch()
        if self._meter is not None:
            batch.usage = self._meter.take()
            batch.errors, batch.last_errors = self._meter.take_errors()
            batch.charges = self._meter.take_charges()
        if self.settled is not None:
            self.settled.writing(self.worker, self._store.mark)
        if self._stopping or time.monotonic() >= self._next_uses:
            self._next_uses = time.monotonic() + _USES_S
            batch.key_uses = self._keys.take_uses()
        if self._stopping:
            batch.leases = {}
        if not self._loaded or self._tells_balances:
            batch.balances, self._tells_balances = self._balances, False
        began = time.perf_counter()
        try:
            received = await self._call(lambda: self._receive(batch))
        except StoreError as error:
            self._failed(error)
            self._tells_balances = bool(batch.balances)
            if isinstance(error, CommitUnknown):
                self._doubtful = batch
            else:
                self._undo(batch)
            return False
        except Exception:
            self._drop(batch)
            self._written()  # it never will be
            return False
        self.on_exchanged(time.perf_counter() - began)
        self._written()
        self._recovered()
        first = not self._loaded
        self._loaded = True
        try:
            await self._apply(received, first)
        except Exception:
            # The next exchange asks for all of it again; this is logged once.
            self._version = 0
            if self._taking_over:
                _log.exception("changes from the store could not be applied")
            self._taking_over = False
        else:
            # Another pool that came meanwhile may have missed some of it.
            self._version = received.changes.version if pool is self._pool else 0
            self._taking_over = True
        return True

    async def _resolve(self) -> bool:
        """Find out whether what may have been written was, so that nothing is written twice. False:
        the store does not know yet."""
        if self._doubtful is None:
            return True
        batch = self._doubtful
        try:
            was_written = await self._call(lambda: self._store.was_written(self.worker))
        except StoreError as error:
            self._failed(error)
            self._restore(self._pool.take_batch())  # within its bounds
            return False
        self._doubtful = None
        if not was_written:
            self._undo(batch)
        else:
            self._written()
        return True

    def _undo(self, batch: Batch) -> None:
        """What was taken was not written: it is reported another time."""
        self._restore(batch)
        self._written(done=False)

    def _written(self, *, done: bool = True) -> None:
        if self.settled is not None:
            self.settled.written(done=done)

    def _receive(self, batch: Batch) -> _Received:
        """In the thread."""
        changes = self._store.exchange(self.worker, batch, self._version)
        return _Received(changes, self._opened(changes.definitions))

    def _opened(self, definitions: Iterable[Definition]) -> list[Account]:
        """In the thread: the accounts that `definitions` are of."""
        accounts: list[Account] = []
        sealed: list[str] = []
        for definition in definitions:
            name = definition.name
            if name in self._fixed:
                if name not in self._clashes:
                    self._clashes.add(name)
                    _log.warning(
                        "account %s: that of the configuration is used, not the stored", name
                    )
                continue
            try:
                accounts.append(self._cipher.open(definition))
            except SealError as error:
                sealed.append(str(error))
        if sealed:
            _log.error("%d stored accounts cannot be used: %s", len(sealed), sealed[0])
        return accounts

    async def _apply(self, received: _Received, first: bool) -> None:
        changes = received.changes
        client_keys = [
            *changes.client_keys,
            *self.people.update(changes.people, whole=changes.whole),
        ]
        if changes.whole:
            self._keys.retain(
                (key.name for key in client_keys), (team.name for team in changes.teams)
            )
        self._keys.update(teams=changes.teams, resets=changes.limit_resets)
        for keys in _parts(client_keys):
            for name in self._keys.update(keys):
                if name not in self._key_clashes:
                    self._key_clashes.add(name)
                    _log.warning("key %s: that of the configuration is used, not the stored", name)
            await asyncio.sleep(0)
        self._keys.is_loaded = True
        for name in self._keys.unusable.keys() - self._keys_unusable:
            reason = self._keys.unusable[name]
            _log.error("key %s is refused, its rules cannot be followed: %s", name, reason)
        self._keys_unusable = set(self._keys.unusable)
        for some in _parts(received.accounts):
            self._pool.define(one for one in some if one.name not in self._fixed)
            await asyncio.sleep(0)
        if self.logs_operators and not first:
            self._log_operators(changes.states.values())
        for part in _slices(changes):
            self._pool.apply(part)
            await asyncio.sleep(0)
        # Last: meanwhile requests are served, perhaps by an account that has just been enabled.
        gone = [name for name in changes.removed if name not in self._fixed]
        for names in _parts(gone):
            self._pool.withdraw(names)
            await asyncio.sleep(0)
        there = [*self._fixed.values(), *received.accounts] if first else received.accounts
        self._note_new_keys(there)

    def _log_operators(self, states: Iterable[AccountState]) -> None:
        """Log accounts that an operator has disabled or enabled; what traffic did is logged by the
        worker that saw it."""
        now = time.time()
        for after in states:
            with suppress(KeyError):
                before = self._pool.state(after.name)
                if after.by_hand != before.by_hand or (before.disabled and not after.disabled):
                    log_change(before, after, "", now)

    def _note_new_keys(self, accounts: Iterable[Account]) -> None:
        """Report accounts that have another key than the one with which they were taken out, or
        than the one they were last known to have."""
        for account in accounts:
            try:
                state = self._pool.state(account.name)
            except KeyError:
                continue
            key = account.fingerprint
            if any(known not in ("", key) for known in (state.refused_key, state.key)):
                self._pool.observe(Transition(account.name, KeyChanged(key), time.time()))

    def _restore(self, batch: Batch) -> None:
        if self._meter is not None:
            self._meter.restore(batch.usage)
            batch.usage = {}
            self._meter.restore_errors(batch.errors, batch.last_errors)
            batch.errors, batch.last_errors = {}, {}
            self._meter.restore_charges(batch.charges)
            batch.charges = {}
        self._keys.restore_uses(batch.key_uses)
        batch.key_uses = {}
        if len(batch.pins) > _MOST_PINS:
            batch.pins = dict(islice(batch.pins.items(), len(batch.pins) - _MOST_PINS, None))
        self._pool.restore(batch)

    def _drop(self, batch: Batch) -> None:
        """The store is well, but something in `batch` can never be written. Better to lose its sums
        than to fail for good; what happened to accounts is tried once more by itself."""
        _log.exception("something could not be kept, and is dropped")
        if batch.usage or batch.charges or batch.used or batch.spent or batch.pins or batch.errors:
            self._pool.restore(Batch(transitions=batch.transitions))

    async def _sweep(self) -> None:
        if time.monotonic() < self._next_sweep:
            return
        try:
            is_more = await self._call(self._swept)
        except StoreError as error:
            self._failed(error)
            return
        wait = _SWEEP_AGAIN_S if is_more else _SWEEP_S * (0.5 + random.random())
        self._next_sweep = time.monotonic() + wait

    def _swept(self) -> bool:
        """In the thread: sweep, unless another worker did or does. Returns whether there is more
        to sweep."""
        now = time.time()
        if not self._store.claim({_SWEEP: now + _SWEEP_S / 2}, now):
            return False
        if self._store.sweep(now) < SWEPT_AT_ONCE:
            return False
        self._store.release([_SWEEP])
        return True

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        if (
            self._failing_since is not None
            and time.monotonic() - self._failing_since > LOST_AFTER_S
        ):
            self._pool.forget_others()
        # The first failure after an upgrade is that of a statement, which does not show it.
        is_news = isinstance(error, NewerStore) and not self._saw_newer
        self._saw_newer = isinstance(error, NewerStore)
        if self._failing_since is not None and not is_news:
            return
        self._failing_since = self._failing_since or time.monotonic()
        reason = str(error) if isinstance(error, StoreError) else repr(error)
        _log.error("the store cannot be used, so accounts are kept in memory only: %s", reason)

    def _recovered(self) -> None:
        if self._failing_since is not None:
            seconds = time.monotonic() - self._failing_since
            self._failing_since = None
            _log.warning("the store can be used again, after %.1f s", seconds)

    async def _call(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _balances(fixed: Mapping[str, Account]) -> dict[str, float]:
    """The balances that the configuration sets."""
    return {one.name: one.balance for one in fixed.values() if one.balance is not None}


def _balance_of(account: Account | None) -> float | None:
    return None if account is None else account.balance


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def _slices(changes: Changes) -> Iterator[Changes]:
    """`changes` in pieces small enough to be taken over between two requests."""
    many = max(
        len(changes.states),
        len(changes.used),
        len(changes.balances),
        len(changes.pins),
        len(changes.quotas),
    )
    if many <= _AT_ONCE:
        yield changes
        return
    states, used = iter(changes.states.items()), iter(changes.used.items())
    balances, pins = iter(changes.balances.items()), iter(changes.pins.items())
    quotas = iter(changes.quotas.items())
    for _ in range(0, many, _AT_ONCE):
        yield replace(
            changes,
            states=dict(islice(states, _AT_ONCE)),
            used=dict(islice(used, _AT_ONCE)),
            balances=dict(islice(balances, _AT_ONCE)),
            pins=dict(islice(pins, _AT_ONCE)),
            quotas=dict(islice(quotas, _AT_ONCE)),
        )
