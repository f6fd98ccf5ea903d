"""What accounts have in a window is learned from what they tell, and from what was spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from dragoman.config.access_checks import access_faults
from dragoman.config.access_rules import AccessRules
from dragoman.config.limits import UNKNOWN, Limit, limit_faults
from dragoman.limits.shares import POOL, POOL_CELLS, UNTIL, PoolLearner, ToldWindow, known_pool

HOUR = 3600
BEGIN = 1_000 * 5 * HOUR


class Look(NamedTuple):
    """At a look, so many minutes after the first: what is told of account `a`, and of `b`, as the
    share that is used and the minutes to its reset from the first look; what each has spent in all;
    and what is expected to be learned."""

    minute: float
    a: tuple[float, float | None] | None
    b: tuple[float, float | None] | None
    spent: tuple[int, int]
    learned: int | None


TABLE: dict[str, Sequence[Look]] = {
    "nothing is known of what is not told": (
        Look(0, None, None, (0, 0), None),
        Look(1, None, None, (500, 500), None),
    ),
    "what was used before is in neither, and others are taken to have as much": (
        Look(0, (0.60, 300), None, (70, 0), None),
        Look(1, (0.61, 300), None, (80, 0), None),
        Look(2, (0.70, 300), None, (170, 0), 2 * 1000),
    ),
    "each has what it has": (
        Look(0, (0.10, 300), (0.50, 200), (0, 0), None),
        Look(9, (0.20, 300), (0.60, 200), (400, 50), 4000 + 500),
    ),
    "whole percents: the more is used, the better it is known": (
        Look(0, (0.00, 300), None, (0, 0), None),
        Look(1, (0.01, 300), None, (149, 0), None),
        Look(2, (0.02, 300), None, (249, 0), 2 * 12450),
        # Known is known: not again from as little.
        Look(3, (0.04, 300), None, (449, 0), None),
        Look(4, (0.50, 300), None, (5040, 0), 2 * 10080),
    ),
    "use elsewhere makes less of it": (
        Look(0, (0.00, 300), None, (0, 0), None),
        Look(5, (0.40, 300), None, (100, 0), 2 * 250),
    ),
    "a share that grew at no cost teaches nothing": (
        Look(0, (0.00, 300), None, (0, 0), None),
        Look(5, (0.40, 300), None, (0, 0), None),
    ),
    "a window that begins anew, by its reset": (
        Look(0, (0.30, 60), None, (0, 0), None),
        Look(30, (0.50, 60.4), None, (200, 0), 2 * 1000),
        Look(70, (0.60, 360), None, (250, 0), None),
        Look(90, (0.80, 360), None, (490, 0), 2 * 1200),
    ),
    "or by its share, where no reset is told": (
        Look(0, (0.30, None), None, (0, 0), None),
        Look(30, (0.05, None), None, (200, 0), None),
        # Answers that were under way at one time tell a little less.
        Look(31, (0.04, None), None, (200, 0), None),
        Look(90, (0.15, None), None, (300, 0), 2 * 1000),
    ),
    "what was learned of one stays while another is looked at": (
        Look(0, (0.0, 300), (0.0, 300), (0, 0), None),
        Look(9, (0.1, 300), (0.0, 300), (100, 0), 2 * 1000),
        Look(19, None, (0.5, 300), (100, 1000), 1000 + 2000),
    ),
}


@pytest.mark.parametrize("looks", TABLE.values(), ids=TABLE)
def test_what_accounts_have_is_learned(looks: Sequence[Look]) -> None:
    learner, is_known = PoolLearner(5 * HOUR), False
    spent: dict[str, dict[int, int]] = {"a": {}, "b": {}}
    before = (0, 0)
    for look in looks:
        now = BEGIN + 60 * look.minute
        assert learner.since(now) <= now
        for name, old, new in zip("ab", before, look.spent, strict=True):
            hour = int(now // HOUR) * HOUR
            spent[name][hour] = spent[name].get(hour, 0) + new - old
        before = look.spent
        windows = {
            name: ToldWindow(told[0], None if told[1] is None else BEGIN + 60 * told[1], now)
            for name, told in (("a", look.a), ("b", look.b))
            if told is not None
        }
        found = learner.learn(("a", "b"), windows, spent, now, is_known=is_known)
        if look.learned is None:
            assert found is None
        else:
            assert found is not None
            assert found[0] == pytest.approx(look.learned, abs=2)
            assert found[1] == now + 5 * HOUR
            is_known = True


def test_an_account_that_is_gone_counts_for_nothing() -> None:
    learner = PoolLearner(5 * HOUR)

    def learn(accounts: str, share: float, spent: int) -> tuple[int, float] | None:
        window = ToldWindow(share, BEGIN + 9 * HOUR, BEGIN)
        hours = {name: {BEGIN: spent} for name in accounts}
        windows = dict.fromkeys(accounts, window)
        return learner.learn(accounts, windows, hours, BEGIN, is_known=True)

    assert learn("ab", 0.0, 0) is None
    assert learn("ab", 0.5, 100) == (400, BEGIN + 5 * HOUR)
    assert learn("a", 0.5, 100) == (200, BEGIN + 5 * HOUR)
    # It is looked at as a new one if it comes back.
    assert learn("b", 0.9, 500) is None


def test_what_was_learned_counts_for_a_time() -> None:
    cells = memoryview(bytearray(8 * POOL_CELLS)).cast("q")
    assert known_pool(cells, BEGIN) is None
    cells[POOL], cells[UNTIL] = 700, BEGIN * 1000
    assert known_pool(cells, BEGIN - 1) == 700
    assert known_pool(cells, BEGIN) is None


def share(text: str | None = "40%", **fields: Any) -> Limit:
    fields = {"kind": "cost", "window": "5h", "upstream": "claude", "share": text} | fields
    return Limit(**fields)


def test_a_share_is_an_amount_once_it_is_known() -> None:
    assert share().units_at(0) == share().units == UNKNOWN
    for text, units in (("40%", 4_000), ("0.25%", 25), ("100%", 10_000)):
        assert share(text).units_at(0, 10_000) == units
        assert not list(limit_faults([share(text)]))
    # Others count elsewhere, or in another way, so they have counters of their own.
    ways = share(), share(upstream="codex"), share(window="7d"), Limit(kind="cost", window="5h")
    assert len({one.counted_as for one in ways}) == 4
    assert share("10%").counted_as == share("20%").counted_as


@pytest.mark.parametrize(
    ("limit", "field", "told"),
    [
        (share("40"), "share", "expected percent"),
        (share("0%"), "share", "expected percent"),
        (share("101%"), "share", "expected percent"),
        (share("-4%"), "share", "expected percent"),
        (share("1.234%"), "share", "expected percent"),
        (share("٤٠%"), "share", "expected percent"),
        (share(None), "share", "required with upstream"),
        (share(upstream=None), "upstream", "required with share"),
        (share(upstream="claudy"), "upstream", "no upstream named claudy; did you mean claude?"),
        (share(amount="5"), "amount", "goes not with share"),
        (share(window="1h"), "window", "expected 5h or 7d"),
        (share(window="day"), "window", "expected 5h or 7d"),
        (share(window=None), "window", "required, but not set"),
        (share(kind="tokens"), "share", "means nothing for tokens"),
        (share(None, kind="requests", amount=3), "upstream", "means nothing for requests"),
        (share(subscriptions="ignore"), "subscriptions", "means nothing with share"),
        (Limit(kind="cost", window="5h"), "amount", "required, but not set"),
    ],
)
def test_what_is_wrong_is_told_where_it_is(limit: Limit, field: str, told: str) -> None:
    (fault,) = access_faults(AccessRules(limits=(limit,)), ["claude", "codex"])
    assert fault[0] == ("limits", 0, field)
    assert told in fault[1]
