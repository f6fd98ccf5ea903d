"""A world of accounts that fail in every way, on a clock of its own, for a pool to cope with.

The world knows the truth (which key is revoked, which quota is spent until when, which proxy is
dead), serves or refuses each request by it, and judges the pool by plain looks at single accounts.
"""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

from dragoman.accounts.decide.decisions import active_rest, on_trial
from dragoman.accounts.decide.states import FOREVER, Enabled, Failed, Transition
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import AccountPool, AllBusy, Lease, LeaseRequest, NoAccount
from dragoman.config import Account, Config, Secret, Selection, Upstream
from dragoman.failing import Verdict

ARRIVAL_S = 0.03
"""Simulated seconds between two requests."""
LONGEST_S = 20.0
MODELS = ("m-1", "m-2", "m-3", "m-4")
RARE = "rare"
"""A model that few accounts serve, with few requests at once each."""
RARE_ACCOUNTS = 40
RESERVES = 200
"""Accounts of a higher priority number."""
PROXIES = 40
CONVERSATIONS = 4000
TRIES = 100

CLIENTS_FAULTS = (Symptom(400), Symptom(404), Symptom(413), Symptom(422))
REVOKED = Symptom(401)
NOT_PERMITTED = Symptom(403)
BURST = Symptom(429)
FAILED = (Symptom(500), Symptom(503), Symptom(529))


class World:
    """`count` accounts of one upstream, and the pool that is judged."""

    def __init__(self, count: int, seed: int, selection: Selection = "least_recently_used") -> None:
        self.chance = Random(seed)
        self.by_use = selection == "least_recently_used"
        self.now = 1_000_000.0
        self.count = count
        proxies = tuple(Secret(f"http://u:p@proxy-{n}:8080") for n in range(PROXIES))
        upstream = Upstream(
            name="u",
            protocol="openai_chat",
            base_url="http://127.0.0.1:1",
            proxies=proxies,
            attempts=TRIES,
            selection=selection,
        )
        self.accounts = [self._account(number) for number in range(count)]
        self.index = {account.name: number for number, account in enumerate(self.accounts)}
        self.pool = AccountPool(
            Config(upstreams=(upstream,), accounts=tuple(self.accounts)),
            clock=lambda: self.now,
            spread=self.chance.random,
        )
        self.pool.on_transition = self._judge
        self.proxy_number = {id(proxy): number for number, proxy in enumerate(proxies)}
        # The truth.
        self.revoked: set[int] = set()
        self.quota: dict[int, float] = {}
        self.bursts: dict[tuple[int, str], tuple[float, bool]] = {}
        self.dead_proxies: dict[int, float] = {}
        self.spell_until = 0.0
        # What the judge remembers.
        self.uses = 0
        self.last_use = [0] * count
        self.in_flight = [0] * count
        self.with_account: dict[int, int] = {}
        self.ends: list[tuple[float, int, Lease, int, int]] = []
        self.under_way: tuple[str, Verdict | None] = ("", None)
        self.served = self.refused = self.busy = self.failures = self.proxies_failed = 0
        self.by_verdict: dict[Verdict, int] = {}

    def _account(self, number: int) -> Account:
        rare = number < RARE_ACCOUNTS
        return Account(
            name=f"a{number}",
            upstream="u",
            key=Secret(f"sk-{number}"),
            models=None if rare else ("m-*",),
            priority=1 if number >= self.count - RESERVES else 0,
            max_concurrent=(2 if rare else 3 if number % 3 == 0 else None),
        )

    # Faults

    def trouble(self) -> None:
        """Something goes wrong somewhere. Called every so many requests."""
        chance, now = self.chance, self.now
        for _ in range(chance.randrange(30)):
            number, model = chance.randrange(self.count), chance.choice(MODELS)
            until = now + chance.uniform(1.0, 60.0)
            self.bursts[number, model] = until, chance.random() < 0.5
        for _ in range(chance.randrange(8)):
            self.quota[chance.randrange(self.count)] = now + chance.uniform(60.0, 1800.0)
        if chance.random() < 0.3:
            self.revoked.add(chance.randrange(self.count))
        if chance.random() < 0.1:
            self.dead_proxies[chance.randrange(PROXIES)] = now + chance.uniform(5.0, 200.0)
        if chance.random() < 0.02:
            self.spell_until = now + chance.uniform(1.0, 10.0)
        if chance.random() < 0.1:
            for number in range(RARE_ACCOUNTS):
                self.bursts[number, RARE] = now + 20.0, True

    def heal(self) -> None:
        """All faults end; a person enables what was disabled."""
        self.bursts.clear()
        self.quota.clear()
        self.revoked.clear()
        self.dead_proxies.clear()
        self.spell_until = 0.0
        self.with_account.clear()
        self.pool.on_transition = None
        for account in self.accounts:
            if self.pool.state(account.name).disabled:
                self.pool.observe(Transition(account.name, Enabled(), self.now))

    def _answer(self, number: int, model: str) -> Symptom | None:
        """What the upstream says to a request with this account; None: a good answer."""
        if number in self.revoked:
            return REVOKED
        until = self.quota.get(number)
        if until is not None:
            if until > self.now:
                return Symptom(429, frozenset({"insufficient_quota"}), retry_after=until - self.now)
            del self.quota[number]
        burst = self.bursts.get((number, model))
        if burst is not None:
            if burst[0] > self.now:
                return Symptom(429, retry_after=burst[0] - self.now) if burst[1] else BURST
            del self.bursts[number, model]
        if self.spell_until > self.now and self.chance.random() < 0.3:
            return self.chance.choice(FAILED)
        return NOT_PERMITTED if self.chance.random() < 0.001 else None

    # Requests

    def request(self, model: str) -> None:
        """One request from its arrival to its first byte or its failure; what answers is in flight
        for a while."""
        chance = self.chance
        self._end_requests()
        conversation = chance.randrange(CONVERSATIONS) if chance.random() < 0.2 else -1
        pin = b"%d" % conversation if conversation >= 0 else b""
        clients_fault = chance.random() < 0.01
        wanted = LeaseRequest("u", model, pin)
        tried: list[str] = []
        while True:
            pinned = self.with_account.get(conversation, -1)
            expected = pinned >= 0 and self.is_ready(pinned, model, tried)
            try:
                lease = self.pool.lease(wanted, tried)
            except NoAccount as error:
                self._no_account(error, model, tried)
                return
            number = self.index[lease.account.name]
            assert number == pinned or not expected, "a conversation moved without need"
            self._judge_choice(number, model, tried, lease, number == pinned)
            if self._attempt(lease, number, model, conversation, clients_fault):
                return
            tried.append(lease.account.name)
            assert len(tried) < TRIES, "a client saw a failure while other accounts were good"

    def _attempt(
        self, lease: Lease, number: int, model: str, conversation: int, clients_fault: bool
    ) -> bool:
        """Whether the request is over."""
        name = lease.account.name
        before = self.pool.state(name)
        proxy = self.proxy_number[id(lease.proxy)]
        if self.dead_proxies.get(proxy, 0.0) > self.now:
            with lease:
                lease.proxy_failed()
            assert self.pool.state(name) is before, "an account was blamed for its proxy"
            self.proxies_failed += 1
            return False
        if clients_fault:
            with lease:
                decision = lease.failed(self.chance.choice(CLIENTS_FAULTS))
            assert not decision.tries_next
            assert self.pool.state(name) is before, "an account was blamed for its client"
            return True
        symptom = self._answer(number, model)
        if symptom is not None:
            self.failures += 1
            self.under_way = name, None
            with lease:
                decision = lease.failed(symptom)
            self.under_way = "", None
            self.by_verdict[decision.verdict] = self.by_verdict.get(decision.verdict, 0) + 1
            return False
        self.served += 1
        self.under_way = name, None
        lease.succeeded(tokens=100.0)
        self.under_way = "", None
        if conversation >= 0:
            self.with_account[conversation] = number
        self.in_flight[number] += 1
        end = self.now + self.chance.random() * LONGEST_S
        heappush(self.ends, (end, self.uses, lease, number, 0))
        return True

    def _end_requests(self) -> None:
        ends = self.ends
        while ends and ends[0][0] <= self.now:
            _, _, lease, number, _ = heappop(ends)
            lease.give_back()
            self.in_flight[number] -= 1

    def end_all(self) -> None:
        """Let all requests in flight end."""
        self.now += LONGEST_S
        self._end_requests()
        assert not self.ends

    # Judging

    def is_ready(self, number: int, model: str, tried: list[str]) -> bool:
        """Whether the account can be chosen without second thoughts, by a plain look at it. One on
        trial is left out: whether its trial is under way is the pool's to know."""
        account = self.accounts[number]
        if account.name in tried or (model == RARE and account.models is not None):
            return False
        most = account.max_concurrent
        if most is not None and self.in_flight[number] >= most:
            return False
        state = self.pool.state(account.name)
        if state.exhausted is None and not state.cooling and not state.disabled:
            return True
        return active_rest(state, model, self.now) is None and not (
            on_trial(state, "", self.now) or on_trial(state, model, self.now)
        )

    def _judge_choice(
        self, number: int, model: str, tried: list[str], lease: Lease, pinned: bool
    ) -> None:
        """The account may be chosen; none of a lower priority number may, nor, where the order is
        by use, one that was used longer ago."""
        account = self.accounts[number]
        assert account.name not in tried
        assert model != RARE or account.models is None
        assert account.max_concurrent is None or self.in_flight[number] < account.max_concurrent
        rest = None
        state = self.pool.state(account.name)
        if state.disabled or state.exhausted is not None or state.cooling:
            rest = active_rest(state, model, self.now)
            assert rest is None or rest.soft
        if not pinned:
            mine = (rest is not None, account.priority, self.by_use and self.last_use[number])
            whole = self.uses % 5000 == 0
            others = range(self.count) if whole else (self.chance.randrange(self.count),)
            for other in others:
                use = self.by_use and self.last_use[other]
                place = (False, self.accounts[other].priority, use)
                if place < mine and other != number:
                    assert not self.is_ready(other, model, tried), "another was next"
        self.uses += 1
        self.last_use[number] = self.uses

    def _no_account(self, error: NoAccount, model: str, tried: list[str]) -> None:
        """No account was found: there must be none, and the reasons must be of all accounts."""
        if isinstance(error, AllBusy):
            self.busy += 1
        self.refused += 1
        if self.refused % 20 == 1:
            assert not any(self.is_ready(number, model, tried) for number in range(self.count))
            assert sum(count for _, count in error.reasons) == self.count
        assert error.fault.retry_after is not None

    def _judge(self, transition: Transition) -> None:
        """Only the account whose request is under way changes, and only by what it said itself."""
        assert transition.account == self.under_way[0]
        number = self.index[transition.account]
        if isinstance(transition.outcome, Failed):
            verdict = transition.outcome.decision.verdict
            assert (verdict is Verdict.DISABLE) == (number in self.revoked)
            if verdict is Verdict.EXHAUST:
                assert self.quota[number] > self.now
            if verdict is Verdict.COOL and transition.outcome.status == 429:
                assert self.bursts[number, transition.model][0] > self.now

    def active_rest(self, number: int, model: str) -> bool:
        """Whether anything is still held against the account."""
        state = self.pool.state(self.accounts[number].name)
        rest = active_rest(state, model, self.now)
        assert rest is None or rest.until < FOREVER
        return rest is not None or on_trial(state, model, self.now)
