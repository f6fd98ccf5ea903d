"""Whatever happens, a rotation does what a plain look at all accounts would."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from dragoman.accounts.decide import rotation as rotation_module
from dragoman.accounts.decide.decisions import observe
from dragoman.accounts.decide.members import Choice, MemberSettings
from dragoman.accounts.decide.ordering import ORDERS
from dragoman.accounts.decide.rotation import Rotation
from dragoman.accounts.decide.states import (
    Decision,
    Disabled,
    Enabled,
    Failed,
    Outcome,
    Rest,
    Succeeded,
)
from dragoman.failing import Verdict
from tests.accounts.oracle import Known, Oracle

pytestmark = pytest.mark.slow

NAMES = [f"a{number}" for number in range(14)]
MODELS = ["", "x", "y", "gpt-1", "gpt-2"]
LISTS = [None, None, None, ("x",), ("x", "gpt-*"), ("*",), ("gpt-*", "y")]

names = st.sampled_from(NAMES)
models = st.one_of(st.sampled_from(MODELS), st.integers(0, 99).map(lambda n: f"new-{n}"))
terms = st.builds(
    MemberSettings,
    name=names,
    models=st.sampled_from(LISTS),
    priority=st.sampled_from([0, 0, 0, 1, 2]),
    weight=st.sampled_from([1.0, 1.0, 2.0, 0.5, 3.0]),
    max_concurrent=st.sampled_from([None, None, 1, 2]),
    balance=st.sampled_from([None, 10.0, 20.0]),
)
decisions = st.sampled_from(
    [
        Decision(Verdict.COOL, "rate limited", rest=10.0),
        Decision(Verdict.COOL, "rate limited"),
        Decision(Verdict.COOL, "busy day", every_model=True),
        Decision(Verdict.COOL, "the upstream failed", soft=True),
        Decision(Verdict.COOL, "the site failed", soft=True, every_model=True),
        Decision(Verdict.EXHAUST, "out of quota", rest=30.0),
        Decision(Verdict.EXHAUST, "out of quota"),
        Decision(Verdict.DISABLE, "the upstream refused its key"),
        Decision(Verdict.TRY_NEXT, "not permitted"),
        Decision(Verdict.RETURN_TO_CLIENT),
    ]
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    decisions.map(lambda decision: Failed(decision)),
    st.builds(Succeeded),
    st.builds(Enabled),
    st.just(Disabled("a person said so")),
)


@dataclass
class Held:
    choice: Choice
    model: str
    known: Known
    trial: str | None
    number: int


class Comparison(RuleBasedStateMachine):
    """Drives a rotation and its oracle alike. Few accounts must reach every kind of lane, so lanes
    of their own come early and few are kept."""

    order = "least_recently_used"

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.rotation = Rotation(order=ORDERS[self.order]())
        self.oracle = Oracle(self.order)
        self.held: list[Held] = []
        self.oracle.advance(self.now)

    @initialize(count=st.integers(1, len(NAMES)), same=terms)
    def fill(self, count: int, same: MemberSettings) -> None:
        for name in NAMES[:count]:
            self.define(MemberSettings(name, same.models, same.priority, 1.0, same.max_concurrent))

    @rule(entry=terms)
    def define(self, entry: MemberSettings) -> None:
        self.rotation.define(entry, self.now)
        self.oracle.define(entry)
        known = self.oracle.accounts[entry.name]
        known.was_apart = frozenset()
        known.was_out = False
        background = known.background
        self.oracle.note(known)
        if not known.was_out:
            known.background = background

    @rule(name=names)
    def withdraw(self, name: str) -> None:
        if name in self.oracle.accounts:
            self.rotation.withdraw(name)
            del self.oracle.accounts[name]

    @rule(
        model=models,
        tried=st.lists(names, max_size=3),
        pinned=st.one_of(st.just(""), st.just(""), names),
    )
    def choose(self, model: str, tried: list[str], pinned: str) -> None:
        shortage = self.oracle.shortage(model, tried)
        expected = self.oracle.choose(model, tried, pinned)
        choice = self.rotation.choose(model, tried, self.now, pinned)
        if expected is None:
            assert choice is None, choice
            found = self.rotation.shortage(model, tried)
            assert (dict(found.reasons), found.soonest) == shortage
            return
        name, trial, number = expected
        assert choice is not None
        assert (choice.member.name, choice.trial) == (name, trial)
        assert choice.member.used == self.oracle.accounts[name].used
        self.held.append(Held(choice, model, self.oracle.accounts[name], trial, number))

    @rule(model=models, repeat=st.integers(2, 30), keep=st.booleans())
    def choose_often(self, model: str, repeat: int, keep: bool) -> None:
        for _ in range(repeat):
            before = len(self.held)
            self.choose(model, [], "")
            if not keep and len(self.held) > before:
                self.give_back(before)

    @rule(index=st.integers(0, 1000))
    def give_back(self, index: int) -> None:
        if self.held:
            held = self.held.pop(index % len(self.held))
            self.rotation.returned(held.choice)
            held.known.in_flight -= 1
            self.oracle.end_trial(held.known, held.trial, held.number)

    @rule(index=st.integers(0, 1000), outcome=outcomes)
    def end(self, index: int, outcome: Outcome) -> None:
        if self.held:
            held = self.held[index % len(self.held)]
            if self.oracle.accounts.get(held.known.terms.name) is held.known:
                self.tell(held.known.terms.name, outcome, held.model)
            self.give_back(index)

    @rule(index=st.integers(0, 1000))
    def end_trial(self, index: int) -> None:
        if self.held:
            held = self.held[index % len(self.held)]
            self.rotation.end_trial(held.choice)
            self.oracle.end_trial(held.known, held.trial, held.number)

    @rule(name=names, outcome=outcomes, model=models)
    def tell(self, name: str, outcome: Outcome, model: str) -> None:
        known = self.oracle.accounts.get(name)
        if known is not None:
            known.state = observe(known.state, outcome, model, self.now)
            self.rotation.put(name, known.state, self.now)
            self.oracle.note(known)

    @rule(decision=decisions, model=models, first=st.integers(0, 13))
    def tell_many(self, decision: Decision, model: str, first: int) -> None:
        for name in NAMES[first:]:
            self.tell(name, Failed(decision), model)

    @rule(name=names, count=st.integers(0, 3))
    def elsewhere(self, name: str, count: int) -> None:
        known = self.oracle.accounts.get(name)
        if known is not None:
            self.rotation.in_flight_elsewhere(name, count)
            known.elsewhere = count
            known.background = min(known.background, count)

    @rule(name=names, ago=st.floats(-5.0, 5.0))
    def used_elsewhere(self, name: str, ago: float) -> None:
        known = self.oracle.accounts.get(name)
        if known is not None:
            self.rotation.used_elsewhere(name, self.now - ago)
            known.used = max(known.used, self.now - ago)

    @rule(name=names, balance=st.sampled_from([None, 0.0, 15.0, 25.0, -5.0]))
    def balance(self, name: str, balance: float | None) -> None:
        if name in self.oracle.accounts:
            self.rotation.balance(name, balance)
            self.oracle.accounts[name].balance = balance

    @rule(name=names, used=st.sampled_from([0.0, 0.011, 0.5, 0.51, 0.99, 1.2]))
    def quota(self, name: str, used: float) -> None:
        if name in self.oracle.accounts:
            self.rotation.quota(name, used)
            self.oracle.accounts[name].quota = used

    @rule(name=names, seconds=st.sampled_from([-1.0, 1.0, 20.0]))
    def hold(self, name: str, seconds: float) -> None:
        known = self.oracle.accounts.get(name)
        if known is not None:
            rest = Rest(self.now + seconds, "its proxy failed", True) if seconds > 0 else None
            self.rotation.avoid(name, rest, self.now)
            known.held = rest
            self.oracle.note(known)

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0, 5.0, 20.0, 100.0, 1000.0, 5000.0]))
    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.oracle.advance(self.now)
        assert self.rotation.usable(self.now) == any(
            not known.was_out for known in self.oracle.accounts.values()
        )

    def teardown(self) -> None:
        while self.held:
            self.give_back(0)
        for name, known in self.oracle.accounts.items():
            assert self.rotation.member(name).in_flight == known.in_flight == 0
            assert not self.rotation.member(name).trials


@pytest.mark.parametrize("order", ORDERS)
def test_against_a_plain_look_at_all_accounts(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """req: 138, 140"""
    monkeypatch.setattr(rotation_module, "_FEW", 2)
    monkeypatch.setattr(rotation_module, "_MOST_QUEUES", 3)
    case: type[Comparison] = type("Case", (Comparison,), {"order": order})
    case.TestCase.settings = settings(
        max_examples=60,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    case.TestCase("runTest").runTest()
