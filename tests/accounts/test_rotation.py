"""Whose turn it is."""

from __future__ import annotations

import random

from dragoman.accounts.rotation import Rotation
from dragoman.accounts.states import Decision
from dragoman.failing import Verdict

COOL = Decision(Verdict.COOL, "rate limited", rest=10.0)
AVOID = Decision(Verdict.COOL, "the upstream failed", soft=True)
EXHAUST = Decision(Verdict.EXHAUST, "out of quota", rest=100.0)
DISABLE = Decision(Verdict.DISABLE, "the upstream refused its key")


def take(rotation: Rotation, count: int, model: str = "m", now: float = 0.0) -> list[str | None]:
    return [rotation.choose(model, (), now) for _ in range(count)]


def test_least_recently_used_comes_first_and_choice_marks_use() -> None:
    """req: 140"""
    assert take(Rotation("abc"), 6) == ["a", "b", "c", "a", "b", "c"]


def test_use_for_one_model_counts_for_all() -> None:
    rotation = Rotation("abc")
    assert rotation.choose("x", (), 0.0) == "a"
    assert rotation.choose("y", (), 0.0) == "b"
    assert rotation.choose("x", (), 0.0) == "c"
    assert rotation.choose("y", (), 0.0) == "a"


def test_an_account_is_not_tried_twice() -> None:
    """req: 138"""
    rotation = Rotation("abc")
    tried: list[str] = []
    while (name := rotation.choose("m", tried, 0.0)) is not None:
        tried.append(name)
    assert tried == ["a", "b", "c"]
    assert rotation.choose("m", (), 0.0) == "a"


def test_cooling_accounts_come_back_when_their_rest_ends() -> None:
    rotation = Rotation("ab")
    rotation.observe("a", COOL, "m", 0.0)
    assert take(rotation, 2, now=9.9) == ["b", "b"]
    assert take(rotation, 2, "other", 9.9) == ["a", "b"]
    assert "a" in take(rotation, 2, now=10.0)


def test_exhausted_accounts_are_out_for_every_model() -> None:
    rotation = Rotation("ab")
    rotation.observe("a", EXHAUST, "m", 0.0)
    assert take(rotation, 2, "other", 99.0) == ["b", "b"]
    assert "a" in take(rotation, 2, "other", 100.0)


def test_avoided_accounts_serve_when_no_other_is_left() -> None:
    rotation = Rotation("ab")
    rotation.observe("a", AVOID, "m", 0.0)
    assert take(rotation, 2, now=0.5) == ["b", "b"]
    rotation.observe("b", AVOID, "m", 0.5)
    assert rotation.choose("m", (), 0.6) == "a"
    assert rotation.choose("m", ("a",), 0.6) == "b"
    assert rotation.choose("m", ("a", "b"), 0.6) is None
    rotation.succeeded("a", "m", 0.7)
    assert rotation.choose("m", (), 0.7) == "a"


def test_a_disabled_account_comes_back_when_enabled() -> None:
    rotation = Rotation("a")
    rotation.observe("a", DISABLE, "m", 0.0)
    assert rotation.choose("m", (), 1e9) is None
    assert not rotation.usable(1e9)
    rotation.enable("a")
    assert rotation.choose("m", (), 1e9) == "a"


def test_shortage_tells_reasons_and_the_soonest_return() -> None:
    rotation = Rotation("abcd")
    rotation.observe("a", COOL, "m", 0.0)
    rotation.observe("b", EXHAUST, "m", 0.0)
    rotation.observe("c", DISABLE, "m", 0.0)
    rotation.observe("d", AVOID, "m", 0.0)
    assert rotation.choose("m", ("d",), 0.5) is None
    shortage = rotation.shortage("m")
    assert shortage.soonest == 10.0
    assert dict(shortage.reasons) == {
        "rate limited": 1,
        "out of quota": 1,
        "the upstream refused its key": 1,
        "the upstream failed": 1,
    }
    assert rotation.choose("m", ("d",), 10.0) == "a"
    assert rotation.choose("m", ("d", "a"), 10.0) is None
    assert "rate limited" not in dict(rotation.shortage("m").reasons)


def test_only_accounts_that_serve_the_model() -> None:
    rotation = Rotation("ab", lambda name, model: name == model)
    assert take(rotation, 2, "b") == ["b", "b"]
    assert rotation.choose("c", (), 0.0) is None
    assert rotation.shortage("c").reasons == ()


def test_against_a_plain_scan() -> None:
    """Whatever happens, the choice is that of a scan over all accounts."""
    chance = random.Random(7)
    names = "abcdefgh"
    rotation, used, now = Rotation(names), dict.fromkeys(names, -1), 0.0
    used = {name: index - len(names) for index, name in enumerate(names)}
    hard: dict[tuple[str, str], float] = {}
    for turn in range(3000):
        now += chance.random()
        model = chance.choice("xyz")
        tried = set(chance.sample(names, chance.randrange(4)))
        free = [n for n in names if hard.get((n, model), 0.0) <= now and n not in tried]
        expected = min(free, key=used.__getitem__) if free else None
        assert rotation.choose(model, tried, now) == expected
        if expected is not None:
            used[expected] = turn
            if chance.random() < 0.4:
                rotation.observe(expected, COOL, model, now)
                hard[expected, model] = now + 10.0


def test_choosing_does_not_scan() -> None:
    """With 5,000 accounts, nearly all at rest, a choice looks at a handful of them."""
    looks = 0

    def serves(name: str, model: str) -> bool:
        nonlocal looks
        looks += 1
        return True

    names = [f"a{number}" for number in range(5000)]
    rotation = Rotation(names, serves)
    for name in names[:-3]:
        rotation.observe(name, EXHAUST, "m", 0.0)
    take(rotation, 1, now=1.0)
    lane = rotation._lanes["m"]
    assert len(lane.ready) == 3
    assert take(rotation, 3000, now=1.0) == names[-2:-1] + names[-1:] + names[-3:-2] + [
        *(names[-2:] + names[-3:-2]) * 999
    ]
    assert looks == len(names)
