"""What holds of an account's state whatever happens to it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.accounts.decide.decisions import active_rest, apply, entry_of, observe, on_trial
from dragoman.accounts.decide.states import (
    FOREVER,
    AccountState,
    Decision,
    Disabled,
    Enabled,
    Failed,
    KeyChanged,
    Outcome,
    Source,
    Succeeded,
    Transition,
)
from dragoman.failing import Verdict

pytestmark = pytest.mark.slow

AT_LEISURE = settings(deadline=None)
"""Machines that are busy with other things are slow."""
START = 1_800_000_000.0
MODELS = ("", "x", "y")
SOURCES: tuple[Source, ...] = ("traffic", "probe", "operator")
SEEN: tuple[Source, ...] = ("traffic", "probe")
HOUR, MONTH = 3600.0, 31 * 24 * 3600.0

lengths = st.one_of(st.none(), st.floats(0, 1e9))
decisions = st.builds(
    Decision, st.sampled_from(Verdict), st.just("why"), st.booleans(), lengths, st.booleans()
)
failures = st.builds(
    Failed, decisions, st.sampled_from(SOURCES), st.just(429), st.sampled_from(["k1", "k2"])
)
successes = st.builds(Succeeded, st.sampled_from(SOURCES))
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    failures,
    successes,
    st.just(Enabled()),
    st.builds(Disabled, st.text(max_size=5)),
    st.builds(KeyChanged, st.sampled_from(["k1", "k2"])),
)
spreads = st.floats(0, 1, exclude_max=True)


def steps(least: float, kinds: st.SearchStrategy[Outcome]) -> st.SearchStrategy[list[Transition]]:
    """Outcomes one after another, at least `least` seconds apart: negative if clocks go back."""
    gaps = st.floats(least, 5000.0)
    one = st.tuples(gaps, kinds, st.sampled_from(MODELS), spreads)

    def timed(
        drawn: list[tuple[float, Outcome, str, float]],
    ) -> list[Transition]:
        times = itertools.accumulate((gap for gap, *_ in drawn), initial=START)
        return [
            Transition("a", outcome, at, model, spread)
            for at, (_, outcome, model, spread) in zip(times, drawn, strict=False)
        ]

    return st.lists(one, max_size=25).map(timed)


def after(transitions: list[Transition]) -> AccountState:
    state = AccountState("a")
    for transition in transitions:
        state = apply(state, transition)
    return state


def ends(state: AccountState, model: str, now: float) -> float:
    """When the account can be used for the model again; a soft rest does not keep it from that."""
    rest = active_rest(state, model, now)
    return now if rest is None or rest.soft else rest.until


def asked(state: AccountState, model: str, now: float) -> float:
    """Until when the upstream itself asked for a rest that is no matter of quota."""
    rests = (state.cooling.get(name) for name in {"", model})
    return max(
        (rest.until for rest in rests if rest and rest.by_upstream and rest.until > now), default=0
    )


@AT_LEISURE
@given(steps(-10_000.0, outcomes))
def test_states_stay_bounded_and_sane_whatever_clocks_do(transitions: list[Transition]) -> None:
    state, earliest, latest = AccountState("a"), START, START
    for transition in transitions:
        earliest, latest = min(earliest, transition.at), max(latest, transition.at)
        before, state = state, apply(state, transition)
        assert set(state.cooling) <= set(MODELS)
        for rest in state.cooling.values():
            assert earliest <= rest.until <= latest + HOUR
            assert rest.streak >= 1
        if state.exhausted is not None:
            assert earliest <= state.exhausted.until <= latest + MONTH
        entry_of(before, state, transition)


@AT_LEISURE
@given(steps(-30.0, outcomes), st.sampled_from(MODELS), st.integers(1, 9))
def test_every_rest_ends_by_itself(transitions: list[Transition], model: str, months: int) -> None:
    state = after(transitions)
    later = max((step.at for step in transitions), default=START) + months * MONTH + 1
    rest = active_rest(state, model, later)
    assert rest is None or (state.disabled and rest.until == FOREVER)


@AT_LEISURE
@given(steps(0.0, outcomes), st.sampled_from(MODELS), st.floats(0, 5000))
def test_a_good_answer_to_a_request_never_shortens_what_the_upstream_asked_for(
    transitions: list[Transition], model: str, gap: float
) -> None:
    state = after(transitions)
    now = (transitions[-1].at if transitions else START) + gap
    later = observe(state, Succeeded(), model, now)
    for name in MODELS:
        assert ends(later, name, now) == ends(state, name, now)


@AT_LEISURE
@given(steps(0.0, outcomes), st.sampled_from(SEEN), st.sampled_from(MODELS), st.floats(0, 5000))
def test_a_probe_ends_no_passing_limit_and_no_disable(
    transitions: list[Transition], source: Source, model: str, gap: float
) -> None:
    state = after(transitions)
    now = (transitions[-1].at if transitions else START) + gap
    later = observe(state, Succeeded(source), model, now)
    assert later.disabled == state.disabled
    assert asked(later, model, now) == asked(state, model, now)


@AT_LEISURE
@given(steps(0.0, outcomes), decisions, st.sampled_from(MODELS), st.floats(0, 5000), spreads)
def test_a_later_failure_never_shortens_a_rest_unless_the_upstream_says_so(
    transitions: list[Transition], decision: Decision, model: str, gap: float, spread: float
) -> None:
    state = after(transitions)
    now = (transitions[-1].at if transitions else START) + gap
    later = observe(state, Failed(decision), model, now, spread)
    for name in MODELS:
        if decision.rest is None:
            assert ends(later, name, now) >= ends(state, name, now)
        assert asked(later, name, now) >= asked(state, name, now)


@AT_LEISURE
@given(steps(0.0, outcomes), st.sampled_from(MODELS), st.floats(0, 5000), failures)
def test_a_verdict_on_the_request_changes_nothing(
    transitions: list[Transition], model: str, gap: float, failure: Failed
) -> None:
    state = after(transitions)
    now = (transitions[-1].at if transitions else START) + gap
    for verdict in (Verdict.RETURN_TO_CLIENT, Verdict.TRY_NEXT):
        decision = Decision(verdict, "why", rest=failure.decision.rest)
        assert observe(state, Failed(decision, failure.source, 400), model, now) is state


@AT_LEISURE
@given(steps(0.0, outcomes), failures, st.sampled_from(MODELS), st.floats(0, 5000), spreads)
def test_many_requests_that_run_into_one_limit_are_one_failure(
    transitions: list[Transition], failure: Failed, model: str, gap: float, spread: float
) -> None:
    """Two workers tell of the same limit: nothing counts twice."""
    state = after(transitions)
    now = (transitions[-1].at if transitions else START) + gap
    once = observe(state, failure, model, now, spread)
    again = observe(once, failure, model, now, 1 - spread / 2)
    assert again == once


@AT_LEISURE
@given(
    st.lists(
        st.tuples(
            st.builds(
                Decision,
                st.sampled_from([Verdict.COOL, Verdict.EXHAUST, Verdict.DISABLE]),
                st.just("why"),
                st.booleans(),
                st.one_of(st.none(), st.floats(5, 7200)),
            ),
            st.floats(0, 0.4),
            spreads,
        ),
        min_size=2,
        max_size=4,
    )
)
def test_the_order_in_which_workers_tell_hardly_matters(
    told: list[tuple[Decision, float, float]],
) -> None:
    """Failures of one moment, in any order: the same verdict, the same streak, and ends that
    differ by no more than the moments and a rest of our own choosing do.
    """
    found = []
    for order in itertools.permutations(told):
        state = AccountState("a")
        for decision, delay, spread in order:
            state = observe(state, Failed(decision, key="k"), "x", START + delay, spread)
        found.append(state)
    assert len({state.disabled for state in found}) == 1
    if found[0].disabled:
        return
    assert len({state.exhausted is None for state in found}) == 1
    for state in found:
        rests = [*state.cooling.values(), *([state.exhausted] if state.exhausted else [])]
        assert all(rest.streak == 1 for rest in rests)
        assert state.cooling.keys() == found[0].cooling.keys()
        for name, rest in state.cooling.items():
            assert (rest.by_upstream, rest.soft) == (
                found[0].cooling[name].by_upstream,
                found[0].cooling[name].soft,
            )
            assert abs(rest.until - found[0].cooling[name].until) <= 4.0
        if state.exhausted is not None and found[0].exhausted is not None:
            assert state.exhausted.by_upstream == found[0].exhausted.by_upstream
            if state.exhausted.by_upstream:
                assert state.exhausted.until == found[0].exhausted.until


@AT_LEISURE
@given(steps(0.0, outcomes), st.sampled_from(MODELS), st.floats(0, 5000))
def test_on_trial_means_usable(transitions: list[Transition], model: str, gap: float) -> None:
    state = after(transitions)
    now = (transitions[-1].at if transitions else START) + gap
    if on_trial(state, model, now):
        assert ends(state, model, now) == now
        assert not on_trial(observe(state, Succeeded(), model, now), model, now)


@AT_LEISURE
@given(steps(0.0, st.one_of(failures, successes)))
def test_only_a_person_or_a_key_ends_a_disable(transitions: list[Transition]) -> None:
    state = AccountState("a")
    for transition in transitions:
        before, state = state, apply(state, transition)
        if before.disabled and not state.disabled:
            assert transition.outcome == Succeeded("operator")


@AT_LEISURE
@given(steps(0.0, outcomes))
def test_history_tells_every_change_of_what_an_account_may_do(
    transitions: list[Transition],
) -> None:
    state = AccountState("a")
    for transition in transitions:
        before, state = state, apply(state, transition)
        entry = entry_of(before, state, transition)
        if bool(before.disabled) != bool(state.disabled):
            assert entry is not None
            assert entry.change == ("disabled" if state.disabled else "enabled")
        elif not state.disabled and ends(state, "x", transition.at) > ends(
            before, "x", transition.at
        ):
            assert entry is not None
            assert entry.change in ("cooled", "exhausted")
        if before == state:
            assert entry is None
