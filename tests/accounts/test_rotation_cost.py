"""A choice does not look at accounts that it could not choose, however many there are."""

from __future__ import annotations

import pytest

from dragoman.accounts.decide import availability, decisions
from dragoman.accounts.decide import rotation as rotation_module
from dragoman.accounts.decide.allow_lists import AllowLists
from dragoman.accounts.decide.decisions import observe
from dragoman.accounts.decide.members import Member, MemberSettings
from dragoman.accounts.decide.ordering import ORDERS, Order
from dragoman.accounts.decide.rotation import Rotation
from dragoman.accounts.decide.states import AccountState, Decision, Failed, Outcome, Rest
from dragoman.failing import Verdict

pytestmark = pytest.mark.slow

ACCOUNTS = 2_000
CHOICES = 500
LOOKS = 8
"""Accounts that a choice may look at on average: those whose place has changed since, the one
before and the one after."""

SITUATIONS: dict[str, Outcome | None] = {
    "ready": None,
    "capped": None,
    "new models": None,
    "resting": Failed(Decision(Verdict.COOL, "rate limited", rest=1000.0)),
    "avoided": Failed(Decision(Verdict.COOL, "it failed", soft=True)),
    "exhausted": Failed(Decision(Verdict.EXHAUST, "out of quota", rest=1000.0)),
    "disabled": Failed(Decision(Verdict.DISABLE, "key refused")),
}


class Counting(Order):
    """An order that counts how often it is asked for a place."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.improves, self.counts = order.improves, order.counts
        self.chosen, self.joined = order.chosen, order.joined  # type: ignore[method-assign]
        self.asked = 0

    def key(self, member: Member) -> object:
        self.asked += 1
        return self.order.key(member)


def tell(rotation: Rotation, name: str, outcome: Outcome, model: str = "m") -> None:
    rotation.put(name, observe(rotation.member(name).state, outcome, model, 1.0), 1.0)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("order", ORDERS)
def test_a_choice_looks_at_a_handful_of_accounts(order: str, situation: str) -> None:
    """All accounts but the first few are in the situation. req: 140"""
    counting = Counting(ORDERS[order]())
    most = 1 if situation == "capped" else None
    names = [f"a{number}" for number in range(ACCOUNTS)]
    free = set(names[:3])
    terms = (MemberSettings(name, max_concurrent=None if name in free else most) for name in names)
    rotation = Rotation(terms, counting)
    for name in names[3:]:
        outcome = SITUATIONS[situation]
        if outcome is not None:
            tell(rotation, name, outcome)
        elif most is not None:
            assert rotation.choose("m", free, 1.0) is not None
    # What fell out since is looked at once.
    for _ in range(10):
        chosen = rotation.choose("m", (), 1.0)
        assert chosen is not None
        rotation.returned(chosen)
    counting.asked = 0
    for number in range(CHOICES):
        model = f"m{number}" if situation == "new models" else "m"
        chosen = rotation.choose(model, (), 1.0)
        assert chosen is not None
        rotation.returned(chosen)
        assert (outcome is None and most is None) or chosen.member.name in free
    assert counting.asked <= CHOICES * LOOKS


def test_a_storm_of_refusals_looks_at_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while states go on changing."""
    rotation = Rotation(MemberSettings(f"a{number}") for number in range(ACCOUNTS))
    rest = SITUATIONS["resting"]
    assert rest is not None
    for number in range(ACCOUNTS):
        tell(rotation, f"a{number}", rest)
    assert rotation.choose("m", (), 1.0) is None
    looks = 0
    plain = decisions.active_rest

    def counted(*arguments: object) -> object:
        nonlocal looks
        looks += 1
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(availability, "active_rest", counted)
    for number in range(CHOICES):
        tell(rotation, f"a{number}", rest, "x")
        assert rotation.choose("m", (), 1.0) is None
        assert rotation.shortage("m").reasons == (("rate limited", ACCOUNTS),)
    assert looks <= CHOICES * LOOKS


def test_rests_that_end_together_are_not_the_burden_of_one_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Quotas of many accounts end at the same moment; whoever asks then is served all the same."""
    monkeypatch.setattr(rotation_module, "_AT_ONCE", 10)
    rotation = Rotation(MemberSettings(f"a{number}") for number in range(1000))
    for number in range(1000):
        # Of those that come back first, none can serve.
        rest = Rest(1000.0 + number / 1e6, "rate limited", since=1.0)
        long = Rest(1e6, "rate limited", since=1.0)
        cooling = {"x": rest, "m": long} if number < 500 else {"m": rest}
        rotation.put(f"a{number}", AccountState(f"a{number}", cooling=cooling), 1.0)
    assert rotation.choose("m", (), 999.0) is None
    for pinned, expected in (("", "a500"), ("a900", "a900"), ("", "a501")):
        choice = rotation.choose("m", (), 1001.0, pinned)
        assert choice is not None
        assert choice.member.name == expected
    assert rotation.next_wake() == pytest.approx(1000.0, abs=1.0)
    for _ in range(500):
        assert rotation.choose("m", (), 1001.0) is not None
    assert rotation.next_wake() == 1e6
    assert rotation.usable(1001.0)


def test_what_is_kept_for_models_is_bounded() -> None:
    """Clients choose the names of models, and may choose a new one each time."""
    lists = [(f"{letter}*", "x-*") for letter in "abcdefgh"] + [("x-*",)]
    terms = (MemberSettings(f"a{n}", models=lists[n % len(lists)]) for n in range(100))
    rotation = Rotation(terms)
    avoid = SITUATIONS["avoided"]
    assert avoid is not None
    for number in range(20_000):
        model = f"{'abcdefghx'[number % 9]}-{number}"
        choice = rotation.choose(model, (), 1.0)
        assert choice is not None
        rotation.returned(choice)
        if number % 100 == 0:
            for member in range(20):
                tell(rotation, f"a{member}", avoid, model)
            rotation.choose(model, (), 1.0)
    assert len(rotation._queues) <= rotation_module._MOST_QUEUES
    assert len(rotation._allow_lists._known) <= 4096
    # The rests of all these models are over one day, and then nothing of them is left.
    assert rotation.choose("x-1", (), 1e6) is not None
    assert not rotation._availability.by_model


def test_allow_lists_say_which_models_are_served() -> None:
    allow_lists = AllowLists()
    lists = [None, ("*",), ("gpt-*",), ("gpt-5", "o*-mini"), ("gpt-5", "gpt-5"), ("*-mini",)]
    numbers = [allow_lists.add(models)[0] for models in lists]
    assert numbers[0] == numbers[1]
    everything, gpt, two, one, mini = numbers[0], *numbers[2:]
    for model, classes in {
        "": {everything, gpt, two, one, mini},
        "gpt-5": {everything, gpt, two, one},
        "gpt-5-mini": {everything, gpt, mini},
        "o4-mini": {everything, two, mini},
        "o": {everything},
        "claude": {everything},
    }.items():
        assert allow_lists.serving(model).lists == classes
    assert allow_lists.serving("claude") is allow_lists.serving("other")
    assert not allow_lists.remove(everything)
    assert allow_lists.remove(everything)
    for number in (gpt, two, one, mini):
        assert allow_lists.remove(number)
    assert allow_lists.serving("gpt-5").lists == frozenset()
    assert not allow_lists._exact
    assert not allow_lists._wild


def test_many_lists_of_names_are_not_gone_through_for_a_model() -> None:
    """Each account may have a list of its own."""
    allow_lists = AllowLists()
    for number in range(5000):
        allow_lists.add((f"ft-{number}", f"own-{number}-*"))
    assert len(allow_lists.serving("ft-77").lists) == 1
    assert len(allow_lists.serving("own-77-x").lists) == 1
    assert len(allow_lists._starting("own-77-x")) == 1
