"""``python -m bench.choices``: what choosing an account costs, by the number of accounts.

Each row is one order of selection in one situation: CPU microseconds to choose an account and give
it back. All accounts but one are in that situation. Takes some seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time, time

from dragoman.accounts.decide.decisions import observe
from dragoman.accounts.decide.members import MemberSettings
from dragoman.accounts.decide.ordering import ORDERS
from dragoman.accounts.decide.rotation import Rotation
from dragoman.accounts.decide.states import (
    Decision,
    Disabled,
    Enabled,
    Failed,
    Outcome,
    Transition,
)
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import AccountPool, LeaseRequest, NoAccount
from dragoman.config import Account, Config, Upstream
from dragoman.failing import Verdict

SIZES = (100, 1_000, 10_000)
ROUNDS = 5_000
LONG = 1e7

OUTCOMES: dict[str, Outcome] = {
    "resting for this model": Failed(Decision(Verdict.COOL, "rate limited", rest=3000.0)),
    "avoided for this model": Failed(Decision(Verdict.COOL, "it failed", soft=True)),
    "out of quota": Failed(Decision(Verdict.EXHAUST, "out of quota", rest=LONG)),
    "disabled": Failed(Decision(Verdict.DISABLE, "key refused")),
}
SITUATIONS = ("ready", "at their cap", "each time a new model", *OUTCOMES)


def made(order: str, size: int, situation: str) -> Rotation:
    """A rotation in which all accounts but the first are in the situation."""
    capped = situation == "at their cap"
    terms = [
        MemberSettings(f"a{n}", max_concurrent=1 if capped and n else None) for n in range(size)
    ]
    rotation = Rotation(terms, ORDERS[order]())
    for entry in terms[1:]:
        if situation in OUTCOMES:
            state = rotation.member(entry.name).state
            rotation.put(entry.name, observe(state, OUTCOMES[situation], "m", 1.0), 1.0)
        elif capped:
            rotation.choose("m", ["a0"], 1.0)
    return rotation


def per_call(call: Callable[[int], None]) -> float:
    """CPU microseconds of a call, after as many to warm up."""
    for number in range(ROUNDS):
        call(number)
    began = process_time()
    for number in range(ROUNDS, 2 * ROUNDS):
        call(number)
    return (process_time() - began) / ROUNDS * 1e6


def choice(order: str, size: int, situation: str) -> float:
    """Of one choice."""
    rotation = made(order, size, situation)
    new = situation == "each time a new model"

    def call(number: int) -> None:
        chosen = rotation.choose(f"m{number}" if new else "m", (), 1.0 + number * 1e-6)
        assert chosen is not None
        rotation.returned(chosen)

    return per_call(call)


def pool_of(size: int) -> AccountPool:
    upstream = Upstream(name="u", protocol="openai_chat", base_url="http://127.0.0.1:1")
    accounts = tuple(Account(name=f"a{number}", upstream="u") for number in range(size))
    return AccountPool(Config(upstreams=(upstream,), accounts=accounts))


def lease(size: int) -> float:
    """Of a lease from a pool: taken, told of a success that pins a conversation, given back."""
    pool = pool_of(size)

    def call(number: int) -> None:
        with pool.lease(LeaseRequest("u", "m", b"%d" % (number % 1000))) as lease:
            lease.succeeded()

    return per_call(call)


def refusal(size: int) -> float:
    """Of a request for which no account is left, and of a change of an account before each."""
    pool = pool_of(size)
    for number in range(size):
        with pool.lease(LeaseRequest("u", "m")) as lease:
            lease.failed(Symptom(429, retry_after=1000.0 + number % 100))
    changes = (Disabled("taken out"), Enabled())
    rest = Decision(Verdict.COOL, "rate limited", rest=1000.0)

    def call(number: int) -> None:
        now = time()
        pool.observe(Transition("a0", changes[number % 2], now))
        pool.observe(Transition("a0", Failed(rest, began=now + 1e-3), now, "m"))
        try:
            pool.lease(LeaseRequest("u", "m"))
        except NoAccount:
            return
        raise AssertionError("an account was left")

    return per_call(call)


def slowest(size: int) -> float:
    """Of the one choice that finds that all accounts but one fell out since the choice before."""
    rotation = made("least_recently_used", size, "ready")
    assert rotation.choose("m", (), 1.0) is not None
    state = OUTCOMES["resting for this model"]
    for number in range(1, size):
        member = rotation.member(f"a{number}")
        rotation.put(member.name, observe(member.state, state, "m", 1.0), 1.0)
    began = process_time()
    rotation.choose("m", (), 2.0)
    return (process_time() - began) * 1e6


def row(name: str, costs: list[float]) -> str:
    return f"{name:<50}" + "".join(f"{cost:>10.2f}" for cost in costs)


def main() -> None:
    """Measure and print."""
    print = sys.stdout.write
    print(f"{'microseconds at':<50}" + "".join(f"{size:>10,}" for size in SIZES) + "\n")
    for order in ORDERS:
        for situation in SITUATIONS:
            costs = [choice(order, size, situation) for size in SIZES]
            print(row(f"{order}, {situation}", costs) + "\n")
    print(row("lease, succeed, give back", [lease(size) for size in SIZES]) + "\n")
    print(row("refusal, and two changes of an account", [refusal(size) for size in SIZES]) + "\n")
    print(
        row("the slowest: all but one fell out at once", [slowest(size) for size in SIZES]) + "\n"
    )


if __name__ == "__main__":
    main()
