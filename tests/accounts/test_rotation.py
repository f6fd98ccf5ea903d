"""Whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from dragoman.accounts.decide.availability import OTHER_MODELS, TRIED
from dragoman.accounts.decide.decisions import observe
from dragoman.accounts.decide.members import BUSY, Choice, MemberSettings
from dragoman.accounts.decide.ordering import ORDERS
from dragoman.accounts.decide.rotation import Rotation
from dragoman.accounts.decide.states import Decision, Disabled, Enabled, Failed, Outcome, Succeeded
from dragoman.failing import Verdict

COOL = Failed(Decision(Verdict.COOL, "rate limited", rest=10.0))
COOL_ALL = Failed(Decision(Verdict.COOL, "rate limited", rest=10.0, every_model=True))
AVOID = Failed(Decision(Verdict.COOL, "the upstream failed", soft=True))
EXHAUST = Failed(Decision(Verdict.EXHAUST, "out of quota", rest=100.0))
DISABLE = Failed(Decision(Verdict.DISABLE, "the upstream refused its key"))


def rotation(names: Iterable[str], order: str = "least_recently_used", **same: Any) -> Rotation:
    return Rotation((MemberSettings(name, **same) for name in names), ORDERS[order]())


def tell(
    rotation: Rotation, name: str, outcome: Outcome, now: float = 0.0, model: str = "m"
) -> None:
    state = observe(rotation.member(name).state, outcome, model, now)
    rotation.put(name, state, now)


def choose(
    rotation: Rotation, model: str = "m", tried: Iterable[str] = (), now: float = 0.0
) -> str | None:
    """Choose, and give back at once."""
    choice = rotation.choose(model, tuple(tried), now)
    if choice is None:
        return None
    rotation.returned(choice)
    return choice.member.name


def take(rotation: Rotation, count: int, model: str = "m", now: float = 0.0) -> list[str | None]:
    return [choose(rotation, model, (), now) for _ in range(count)]


def hold(rotation: Rotation, model: str = "m", now: float = 0.0, pinned: str = "") -> Choice:
    choice = rotation.choose(model, (), now, pinned)
    assert choice is not None
    return choice


def test_least_recently_used_comes_first_and_choice_marks_use() -> None:
    """req: 140"""
    assert take(rotation("abc"), 6) == ["a", "b", "c", "a", "b", "c"]


def test_use_for_one_model_counts_for_all() -> None:
    accounts = rotation("abc")
    assert [choose(accounts, model) for model in "xyxy"] == ["a", "b", "c", "a"]


def test_use_by_another_worker_counts() -> None:
    """req: 140"""
    accounts = rotation("abc")
    assert take(accounts, 3, now=10.0) == ["a", "b", "c"]
    accounts.used_elsewhere("a", 11.0)
    accounts.used_elsewhere("b", 5.0)
    assert take(accounts, 3, now=12.0) == ["b", "c", "a"]


def test_the_order_of_use_outlives_a_clock_that_is_set_back() -> None:
    accounts = rotation("abc")
    assert take(accounts, 2, now=1e6) == ["a", "b"]
    assert take(accounts, 4, now=5.0) == ["c", "a", "b", "c"]


def test_an_account_is_not_tried_twice() -> None:
    """req: 138"""
    accounts = rotation("abc")
    tried: list[str] = []
    while (name := choose(accounts, tried=tried)) is not None:
        tried.append(name)
    assert tried == ["a", "b", "c"]
    assert accounts.shortage("m", tried).reasons == ((TRIED, 3),)
    assert choose(accounts) == "a"


def test_the_highest_balance_comes_first() -> None:
    """req: 140"""
    accounts = Rotation(
        [
            MemberSettings("a", balance=5.0),
            MemberSettings("b", balance=9.0),
            MemberSettings("c"),
            MemberSettings("d", balance=-1.0),
        ],
        ORDERS["highest_balance"](),
    )
    assert take(accounts, 2) == ["b", "b"]
    accounts.balance("b", 4.0)
    assert choose(accounts) == "a"
    accounts.balance("b", 6.0)
    assert choose(accounts) == "b"
    assert choose(accounts, tried="ab") == "c"
    assert choose(accounts, tried="abc") == "d"


def test_equal_balances_are_used_in_turn() -> None:
    accounts = rotation("abc", "highest_balance", balance=1.0)
    assert take(accounts, 4) == ["a", "b", "c", "a"]


def test_round_robin_passes_over_who_is_out() -> None:
    accounts = rotation("abcd", "round_robin")
    assert take(accounts, 2) == ["a", "b"]
    tell(accounts, "c", COOL)
    assert take(accounts, 2) == ["d", "a"]
    assert take(accounts, 4, now=10.0) == ["b", "c", "d", "a"]


def test_weights_are_shares() -> None:
    accounts = Rotation(
        [
            MemberSettings("a", weight=5.0),
            MemberSettings("b", weight=2.0),
            MemberSettings("c", weight=1.0),
        ],
        ORDERS["weighted"](),
    )
    chosen = take(accounts, 800)
    assert [chosen.count(name) for name in "abc"] == [500, 200, 100]
    assert [chosen[:16].count(name) for name in "abc"] == [10, 4, 2]


def test_who_comes_back_claims_no_weight_for_the_time_it_was_out() -> None:
    accounts = rotation("ab", "weighted")
    tell(accounts, "a", COOL)
    assert set(take(accounts, 1000)) == {"b"}
    assert take(accounts, 100, now=10.0).count("a") in (50, 51)


def test_fewest_in_flight_comes_first_over_all_workers() -> None:
    accounts = rotation("abc", "least_in_flight")
    first = hold(accounts)
    assert [hold(accounts).member.name for _ in range(3)] == ["b", "c", "a"]
    accounts.returned(first)
    accounts.in_flight_elsewhere("b", 3)
    accounts.in_flight_elsewhere("c", 1)
    assert [hold(accounts).member.name for _ in range(2)] == ["a", "c"]
    accounts.in_flight_elsewhere("b", 0)
    assert hold(accounts).member.name == "b"


@pytest.mark.parametrize("order", ORDERS)
def test_lower_priority_numbers_come_first_while_one_of_them_can_serve(order: str) -> None:
    accounts = Rotation(
        [
            MemberSettings("a", priority=2),
            MemberSettings("b", priority=1),
            MemberSettings("c", priority=1),
        ],
        ORDERS[order](),
    )
    assert set(take(accounts, 4)) <= {"b", "c"}
    tell(accounts, "b", COOL)
    assert set(take(accounts, 4)) == {"c"}
    tell(accounts, "c", AVOID)
    assert set(take(accounts, 4, now=0.1)) == {"a"}
    tell(accounts, "a", AVOID, 0.2)
    assert choose(accounts, now=0.3) == "c"


def test_cooling_accounts_come_back_when_their_rest_ends() -> None:
    accounts = rotation("ab")
    tell(accounts, "a", COOL)
    assert take(accounts, 2, now=9.9) == ["b", "b"]
    assert take(accounts, 2, "other", 9.9) == ["a", "b"]
    assert "a" in take(accounts, 2, now=10.0)


@pytest.mark.parametrize("outcome", [EXHAUST, COOL_ALL])
def test_some_rests_are_for_every_model(outcome: Outcome) -> None:
    accounts = rotation("ab")
    tell(accounts, "a", outcome)
    assert take(accounts, 2, "other", 9.0) == ["b", "b"]
    assert "a" in take(accounts, 2, "other", 100.0)


def test_avoided_accounts_serve_when_no_other_is_left() -> None:
    accounts = rotation("ab")
    tell(accounts, "a", AVOID)
    assert take(accounts, 2, now=0.5) == ["b", "b"]
    tell(accounts, "b", AVOID, 0.5)
    assert choose(accounts, now=0.6) == "a"
    assert choose(accounts, tried="a", now=0.6) == "b"
    assert choose(accounts, tried="ab", now=0.6) is None
    tell(accounts, "a", Succeeded(), 0.7)
    assert choose(accounts, now=0.7) == "a"


def test_a_disabled_account_comes_back_when_enabled() -> None:
    accounts = rotation("a")
    for outcome in (DISABLE, Disabled("a person said so")):
        tell(accounts, "a", outcome)
        assert choose(accounts, now=1e9) is None
        assert not accounts.usable(1e9)
        tell(accounts, "a", Enabled(), 1e9)
        assert choose(accounts, now=1e9) == "a"


def test_an_account_that_is_held_is_avoided() -> None:
    accounts = rotation("ab")
    tell(accounts, "a", COOL)
    rest = accounts.member("a").state.cooling["m"]
    accounts.avoid("b", rest, 0.0)
    assert take(accounts, 2, "x") == ["a", "a"]
    assert choose(accounts) == "b"
    accounts.avoid("b", None, 0.0)
    assert take(accounts, 2, "x") == ["a", "b"]


def test_no_account_has_more_in_flight_than_it_may() -> None:
    accounts = rotation("ab", max_concurrent=2)
    held = [hold(accounts) for _ in range(4)]
    assert accounts.choose("m", (), 0.0) is None
    shortage = accounts.shortage("m")
    assert (shortage.reasons, shortage.busy) == (((BUSY, 2),), 2)
    accounts.returned(held[1])
    assert hold(accounts).member.name == held[1].member.name
    accounts.returned(held[0])
    accounts.in_flight_elsewhere("a", 1)
    assert accounts.choose("m", (), 0.0) is None
    accounts.in_flight_elsewhere("a", 0)
    assert hold(accounts).member.name == "a"


@pytest.mark.parametrize(("outcome", "scope"), [(EXHAUST, ""), (COOL_ALL, ""), (COOL, "m")])
def test_who_comes_back_is_tried_with_one_request_first(outcome: Failed, scope: str) -> None:
    accounts = rotation("a")
    now = 0.0
    for _ in range(2):
        tell(accounts, "a", outcome, now)
        now += 200.0
    trial = hold(accounts, now=now)
    assert trial.trial == scope
    assert accounts.choose("m", (), now) is None
    assert accounts.shortage("m").busy == 1
    accounts.returned(trial)
    trial = hold(accounts, now=now)
    assert trial.trial == scope
    tell(accounts, "a", Succeeded(), now)
    assert [hold(accounts, now=now).trial for _ in range(3)] == [None] * 3


def test_a_trial_by_another_worker_counts_and_what_it_had_before_does_not() -> None:
    accounts = rotation("a")
    accounts.in_flight_elsewhere("a", 3)
    tell(accounts, "a", EXHAUST)
    accounts.returned(hold(accounts, now=100.0))
    accounts.in_flight_elsewhere("a", 4)
    assert accounts.choose("m", (), 100.0) is None
    accounts.in_flight_elsewhere("a", 2)
    assert hold(accounts, now=100.0).member.name == "a"


def test_only_accounts_that_serve_the_model() -> None:
    accounts = Rotation(
        [
            MemberSettings("a", models=("gpt-*",)),
            MemberSettings("b", models=("gpt-5", "o*-mini")),
            MemberSettings("c"),
        ]
    )
    assert set(take(accounts, 6, "gpt-5")) == {"a", "b", "c"}
    assert set(take(accounts, 6, "gpt-4")) == {"a", "c"}
    assert set(take(accounts, 6, "o4-mini")) == {"b", "c"}
    assert set(take(accounts, 6, "")) == {"a", "b", "c"}
    accounts.withdraw("c")
    assert choose(accounts, "claude") is None
    shortage = accounts.shortage("claude")
    assert (shortage.reasons, shortage.serving) == (((OTHER_MODELS, 2),), 0)


def test_a_pinned_account_is_preferred_if_it_can_be_chosen_at_all() -> None:
    accounts = Rotation(
        [
            MemberSettings("a"),
            MemberSettings("b", priority=1, max_concurrent=2),
            MemberSettings("c"),
        ]
    )
    assert {hold(accounts, pinned="b").member.name for _ in range(2)} == {"b"}
    assert hold(accounts, pinned="b").member.name == "a"
    accounts.in_flight_elsewhere("b", -2)
    tell(accounts, "b", COOL)
    assert hold(accounts, pinned="b").member.name == "c"
    assert hold(accounts, "x", pinned="b").member.name == "b"
    assert hold(accounts, pinned="gone").member.name == "a"


def test_a_pinned_account_that_is_avoided_comes_before_others_that_are() -> None:
    accounts = rotation("abc")
    for name in "abc":
        tell(accounts, name, AVOID)
    tell(accounts, "a", Succeeded())
    assert hold(accounts, now=0.1, pinned="c").member.name == "a"
    tell(accounts, "a", AVOID)
    assert hold(accounts, now=0.1, pinned="c").member.name == "c"


def test_shortage_tells_reasons_and_the_soonest_return() -> None:
    accounts = rotation("abcd")
    for name, outcome in zip("abcd", (COOL, EXHAUST, DISABLE, AVOID), strict=True):
        tell(accounts, name, outcome)
    assert choose(accounts, tried="d", now=0.5) is None
    shortage = accounts.shortage("m", "d")
    assert shortage.soonest == 10.0
    assert dict(shortage.reasons) == {
        "rate limited": 1,
        "out of quota": 1,
        "the upstream refused its key": 1,
        TRIED: 1,
    }
    assert choose(accounts, tried="d", now=10.0) == "a"
    assert choose(accounts, tried="da", now=10.0) is None
    assert "rate limited" not in dict(accounts.shortage("m", "da").reasons)


def test_accounts_come_and_go() -> None:
    accounts = rotation("ab")
    assert take(accounts, 2, now=1.0) == ["a", "b"]
    held = hold(accounts, now=2.0)
    assert held.member.name == "a"
    accounts.withdraw("a")
    assert take(accounts, 2, now=3.0) == ["b", "b"]
    accounts.define(MemberSettings("c"), 3.0)
    assert choose(accounts, now=4.0) == "c"
    accounts.define(MemberSettings("a", max_concurrent=1), 5.0, held.member)
    assert set(take(accounts, 3, now=5.0)) == {"b", "c"}
    accounts.returned(held)
    assert set(take(accounts, 3, now=6.0)) == {"a", "b", "c"}
    accounts.define(MemberSettings("b", models=("x",)), 7.0)
    assert set(take(accounts, 4, now=7.0)) == {"a", "c"}
    for name in "abc":
        accounts.withdraw(name)
    assert choose(accounts, now=8.0) is None
    assert not accounts.usable(8.0)
    assert accounts.shortage("m").reasons == ()
