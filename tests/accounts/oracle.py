"""What a rotation must do, written as plainly as possible: every choice looks at every account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from math import inf, nextafter

from dragoman.accounts.decide.availability import OTHER_MODELS, TRIED
from dragoman.accounts.decide.decisions import active_rest, on_trial
from dragoman.accounts.decide.members import BUSY, MemberSettings
from dragoman.accounts.decide.states import FOREVER, AccountState, Rest
from dragoman.config import matches


@dataclass
class Known:
    """One account."""

    terms: MemberSettings
    ordinal: int
    state: AccountState
    balance: float | None
    used: float = 0.0
    quota: float = 0.0
    passed: float = 0.0
    in_flight: int = 0
    elsewhere: int = 0
    background: int = 0
    held: Rest | None = None
    trials: dict[str, int] = field(default_factory=dict)
    was_out: bool = False
    was_apart: frozenset[str] = frozenset()


class Oracle:
    """The accounts of one upstream. `order` is a name of `Selection`."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.accounts: dict[str, Known] = {}
        self.ordinal = 0
        self.stamp = 0.0
        self.turn: dict[int, tuple[int, int]] = {}
        self.reached: dict[int, float] = {}
        self.choices = 0
        self.now = 0.0

    def define(self, terms: MemberSettings) -> None:
        account = self.accounts.get(terms.name)
        if account is None:
            account = Known(terms, self.ordinal, AccountState(terms.name), terms.balance)
            self.accounts[terms.name] = account
            self.ordinal += 1
        elif terms.balance != account.terms.balance:
            account.balance = terms.balance
        account.terms = terms
        account.passed = max(account.passed, self.reached.get(terms.priority, 0.0))

    def advance(self, now: float) -> None:
        self.now = now
        for account in self.accounts.values():
            self.note(account)

    def note(self, account: Known) -> None:
        """See what has ended or begun for the account by now."""
        state, now = account.state, self.now
        rest = active_rest(state, "", now)
        out = rest is not None and not rest.soft
        apart: set[str] = set()
        for model in () if out else state.cooling:
            own = active_rest(state, model, now) if model else None
            on_its_own = own is not None and not (own.soft and self.soft_rest(account) is not None)
            if model and self.serves(account, model) and (on_its_own or self.tries(account, model)):
                apart.add(model)
        if (account.was_out and not out) or account.was_apart - apart:
            least = self.reached.get(account.terms.priority, 0.0)
            account.passed = max(account.passed, least)
        if out and not account.was_out:
            account.background = account.elsewhere
        account.was_out, account.was_apart = out, frozenset(apart)

    def serves(self, account: Known, model: str) -> bool:
        patterns = account.terms.models
        return patterns is None or not model or any(matches(entry, model) for entry in patterns)

    def soft_rest(self, account: Known) -> Rest | None:
        """For every model."""
        rests = [active_rest(account.state, "", self.now), account.held]
        running = [rest for rest in rests if rest is not None and rest.until > self.now]
        return max(running, key=lambda rest: rest.until, default=None)

    def tries(self, account: Known, model: str) -> bool:
        """Whether a request in flight is to show whether the account serves the model."""
        state, now = account.state, self.now
        if active_rest(state, model, now) is not None:
            return False
        return model in account.trials and on_trial(state, model, now)

    def busy(self, account: Known) -> bool:
        most = account.terms.max_concurrent
        if most is not None and account.in_flight + account.elsewhere >= most:
            return True
        others = account.elsewhere > account.background
        return ("" in account.trials or others) and on_trial(account.state, "", self.now)

    def reason(self, account: Known, model: str, tried: Collection[str]) -> str:
        """Why the account cannot be chosen, empty if it can."""
        if not self.serves(account, model):
            return OTHER_MODELS
        for scope in ("", model):
            rest = active_rest(account.state, scope, self.now)
            if rest is not None and not rest.soft:
                return rest.why
        if account.terms.name in tried:
            return TRIED
        if self.busy(account) or (model and self.tries(account, model)):
            return BUSY
        return ""

    def key(self, account: Known) -> object:
        if self.order == "least_recently_used":
            return account.used
        if self.order == "highest_balance":
            return (-(account.balance or 0.0), account.used)
        if self.order == "most_quota_left":
            return (int(account.quota * 50), account.used)
        if self.order == "least_in_flight":
            return (account.in_flight + account.elsewhere, account.used)
        if self.order == "weighted":
            return account.passed
        lap, ordinal = self.turn.get(account.terms.priority, (0, -1))
        return lap if account.ordinal > ordinal else lap + 1

    def choose(
        self, model: str, tried: Collection[str], pinned: str = ""
    ) -> tuple[str, str | None, int] | None:
        """The name, the scope of a trial, and a number that stands for the choice."""
        possible = [
            account for account in self.accounts.values() if not self.reason(account, model, tried)
        ]
        ready, avoided = [], []
        for account in possible:
            rest = self.soft_rest(account) or active_rest(account.state, model, self.now)
            if rest is None:
                ready.append((account.terms.priority, self.key(account), account.ordinal, account))
            else:
                avoided.append((account.terms.priority, rest.until, account.ordinal, account))
        for some in (ready, avoided):
            favourite = [entry for entry in some if entry[3].terms.name == pinned]
            if some:
                return self.take(min(favourite or some, key=lambda entry: entry[:3])[3], model)
        return None

    def take(self, account: Known, model: str) -> tuple[str, str | None, int]:
        priority = account.terms.priority
        lap = self.key(account)
        if self.order == "round_robin":
            assert isinstance(lap, int)
            self.turn[priority] = (lap, account.ordinal)
        if self.order == "weighted":
            self.reached[priority] = max(self.reached.get(priority, 0.0), account.passed)
            account.passed += 1.0 / account.terms.weight
        last = max(self.stamp, account.used)
        account.used = self.stamp = self.now if self.now > last else nextafter(last, inf)
        account.in_flight += 1
        self.choices += 1
        trial = None
        for scope in (model, ""):
            trial = scope if on_trial(account.state, scope, self.now) else trial
        if trial is not None:
            account.trials[trial] = self.choices
        self.note(account)
        return account.terms.name, trial, self.choices

    def end_trial(self, account: Known, trial: str | None, choice: int) -> None:
        if trial is not None and account.trials.get(trial) == choice:
            del account.trials[trial]
            self.note(account)

    def shortage(self, model: str, tried: Collection[str]) -> tuple[dict[str, int], float | None]:
        counts = Counter(
            self.reason(account, model, tried) or "none" for account in self.accounts.values()
        )
        ends = []
        for account in self.accounts.values():
            rests = [active_rest(account.state, scope, self.now) for scope in ("", model)]
            hard = [rest.until for rest in rests if rest is not None and not rest.soft]
            if self.serves(account, model) and hard and hard[0] < FOREVER:
                ends.append(hard[0])
        return dict(counts), min(ends, default=None)
