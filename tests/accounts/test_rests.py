"""How long accounts rest, what brings them back, and what their history says of it."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.accounts.decide.decisions import (
    active_rest,
    apply,
    classify,
    entry_of,
    observe,
    on_trial,
)
from dragoman.accounts.decide.states import (
    AccountState,
    Decision,
    Disabled,
    Enabled,
    Failed,
    KeyChanged,
    Outcome,
    Rest,
    Source,
    Succeeded,
    Transition,
)
from dragoman.accounts.decide.symptoms import Symptom, symptom_of_answer
from dragoman.failing import Rule, Verdict

NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86400.0
FRESH = AccountState("a")


def cool(rest: float | None = None, soft: bool = False, every_model: bool = False) -> Failed:
    return Failed(Decision(Verdict.COOL, "rate limited", soft, rest, every_model), status=429)


def exhaust(rest: float | None = None, key: str = "k", source: Source = "traffic") -> Failed:
    return Failed(Decision(Verdict.EXHAUST, "out of quota", rest=rest), source, 429, key)


def renewed(at: float, key: str = "") -> AccountState:
    """An account against which nothing is held, as of a person's word or another key."""
    return AccountState("a", renewed=at, key=key)


def refuse(key: str = "k") -> Failed:
    return Failed(Decision(Verdict.DISABLE, "refused"), "traffic", 401, key)


def length(state: AccountState, model: str = "m", now: float = NOW) -> float | None:
    """Seconds for which the account cannot be used."""
    rest = active_rest(state, model, now)
    return None if rest is None else rest.until - now


def test_rests_of_our_own_choosing_vary_by_a_quarter() -> None:
    found = [length(observe(FRESH, cool(), "m", NOW, spread)) for spread in (0.0, 0.5, 0.999)]
    assert found == [1.5, 2.0, pytest.approx(2.5, rel=0.01)]
    told = {length(observe(FRESH, cool(20.0), "m", NOW, spread)) for spread in (0.0, 0.9)}
    assert told == {20.0}


def test_an_upstream_that_always_asks_for_a_moment_is_given_more() -> None:
    state, now, found = FRESH, NOW, []
    for _ in range(8):
        state = observe(state, cool(0.1), "m", now)
        found.append(length(state, now=now))
        now = state.cooling["m"].until
    assert found == pytest.approx([0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0], abs=1e-6)


def test_failures_in_a_row_are_forgotten_with_time() -> None:
    state, now = FRESH, NOW
    for _ in range(4):
        state = observe(state, cool(), "m", now)
        now = state.cooling["m"].until
    assert state.cooling["m"].streak == 4
    soon = observe(state, cool(), "m", now + 599)
    assert soon.cooling["m"].streak == 5
    later = observe(state, cool(), "m", now + 1201)
    assert later.cooling["m"].streak == 3
    long_after = observe(state, cool(), "m", now + DAY)
    assert long_after.cooling["m"].streak == 1


def test_a_passing_limit_lasts_an_hour_at_most() -> None:
    assert length(observe(FRESH, cool(7 * DAY), "m", NOW)) == HOUR


def test_a_rest_for_every_model() -> None:
    state = observe(FRESH, cool(20.0, every_model=True), "m", NOW)
    assert length(state, "m") == length(state, "other") == length(state, "") == 20.0
    longer = observe(state, cool(60.0), "m", NOW)
    assert length(longer, "m") == 60.0
    assert length(longer, "other") == 20.0
    assert length(observe(longer, Succeeded(), "other", NOW + 30), "m", NOW + 30) == 30.0


def test_a_hard_rest_hides_a_soft_one() -> None:
    state = observe(FRESH, cool(soft=True), "m", NOW)
    rest = active_rest(state, "m", NOW)
    assert rest is not None
    assert rest.soft
    both = observe(state, cool(0.5, every_model=True), "m", NOW)
    rest = active_rest(both, "m", NOW)
    assert rest is not None
    assert not rest.soft


def test_spent_quota_is_tried_again_later_and_later() -> None:
    state, now, found = FRESH, NOW, []
    for _ in range(7):
        state = observe(state, exhaust(), "m", now)
        assert state.exhausted is not None
        found.append(state.exhausted.until - now)
        now = state.exhausted.until
        assert on_trial(state, "m", now)
        assert on_trial(state, "other", now)
    assert found == [HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 16 * HOUR, DAY, DAY]
    assert observe(state, Succeeded(), "m", now) == FRESH


def test_a_reset_that_proves_wrong_is_believed_less() -> None:
    """An upstream that says `retry-after: 1` with every quota error."""
    state, now, found = FRESH, NOW, []
    for _ in range(8):
        state = observe(state, exhaust(1.0), "m", now)
        assert state.exhausted is not None
        found.append(state.exhausted.until - now)
        now = state.exhausted.until
    assert found == [15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 900.0]


def test_who_rested_several_times_comes_back_on_trial() -> None:
    once = observe(FRESH, cool(), "m", NOW)
    assert not on_trial(once, "m", NOW + 2)
    twice = observe(once, cool(), "m", NOW + 2)
    assert not on_trial(twice, "m", NOW + 5)
    assert on_trial(twice, "m", NOW + 6)
    assert not on_trial(twice, "other", NOW + 6)
    assert not on_trial(twice, "m", NOW + 6 + 600)
    assert not on_trial(observe(twice, Succeeded(), "m", NOW + 6), "m", NOW + 6)


def test_a_service_that_fails_puts_nobody_on_trial() -> None:
    state, now = FRESH, NOW
    for _ in range(5):
        state = observe(state, cool(soft=True), "m", now)
        now = state.cooling["m"].until
    assert not on_trial(state, "m", now)
    assert not on_trial(observe(FRESH, refuse(), "m", NOW), "m", NOW)


def test_failures_of_the_service_make_no_limit_of_the_account_longer() -> None:
    state, now = FRESH, NOW
    for _ in range(5):
        state = observe(state, cool(soft=True), "m", now)
        now = state.cooling["m"].until
    assert length(observe(state, cool(), "m", now), now=now) == 2.0
    assert length(observe(state, cool(), "m", now - 10), now=now - 10) == 2.0


def test_trial_goes_on_while_the_account_is_used_last() -> None:
    state = observe(FRESH, exhaust(60.0), "m", NOW)
    state = observe(state, cool(soft=True), "m", NOW + 60)
    assert on_trial(state, "m", NOW + 60)


def test_a_failure_that_comes_late_changes_nothing_of_a_newer_rest() -> None:
    state = observe(FRESH, cool(), "m", NOW)
    assert observe(state, cool(), "m", NOW - 5) is state
    assert observe(state, cool(1.0), "m", NOW - 5) is state
    out = observe(FRESH, exhaust(600.0), "m", NOW)
    assert observe(out, exhaust(HOUR), "m", NOW - 5) is out


def test_a_good_answer_that_comes_late_changes_nothing_of_a_newer_rest() -> None:
    state = observe(FRESH, cool(soft=True), "m", NOW)
    assert observe(state, Succeeded(), "m", NOW - 0.1) is state
    out = observe(FRESH, exhaust(600.0), "m", NOW)
    assert observe(out, Succeeded("probe"), "m", NOW - 0.1) is out


def test_a_clock_that_is_set_back_keeps_nobody_out() -> None:
    state = observe(FRESH, exhaust(), "m", NOW)
    yesterday = NOW - DAY
    assert active_rest(state, "m", yesterday) is None
    assert on_trial(state, "m", yesterday)
    assert length(observe(state, cool(), "m", yesterday), now=yesterday) == 2.0


def test_another_key_voids_what_is_held_against_the_old_one() -> None:
    for held in (refuse(), exhaust()):
        state = observe(observe(FRESH, cool(), "m", NOW), held, "m", NOW)
        assert observe(state, KeyChanged("k"), "", NOW) is state
        assert observe(state, KeyChanged("new"), "", NOW) == renewed(NOW, "new")
    restored = observe(observe(FRESH, exhaust(), "m", NOW), Succeeded("probe"), "m", NOW)
    assert restored == FRESH
    by_hand = observe(FRESH, Disabled("maintenance"), "", NOW)
    assert observe(by_hand, KeyChanged("new"), "", NOW).by_hand


def test_a_failure_with_a_key_that_was_replaced_is_no_news() -> None:
    """Another worker may have used it a moment longer, and may tell so later."""
    for before in (FRESH, observe(FRESH, refuse("old"), "m", NOW)):
        state = observe(before, KeyChanged("new"), "", NOW)
        assert not state.disabled
        for outcome in (exhaust(key="old"), refuse("old")):
            assert observe(state, outcome, "m", NOW + 1) is state
        out = observe(state, exhaust(key="new"), "m", NOW + 1)
        assert observe(out, refuse("old"), "m", NOW + 2) is out
        assert observe(out, refuse("new"), "m", NOW + 2).disabled


@pytest.mark.parametrize("outcome", [cool(), exhaust(), refuse()])
def test_a_failure_of_a_request_sent_before_a_person_enabled_the_account_is_no_news(
    outcome: Failed,
) -> None:
    """It may be told later: by another worker, or at the end of a long request."""
    for before in (FRESH, observe(FRESH, refuse(), "m", NOW - 5)):
        state = observe(before, Enabled(), "", NOW)
        assert observe(state, outcome, "m", NOW - 1) is state
        late = msgspec.structs.replace(outcome, began=NOW - 1)
        assert observe(state, late, "m", NOW + 60) is state
        assert observe(state, outcome, "m", NOW + 1) != state
        anew = msgspec.structs.replace(outcome, began=NOW + 1)
        assert observe(state, anew, "m", NOW + 2) != state
    # A clock that was set back must not shield the account for good.
    assert observe(renewed(NOW + HOUR), outcome, "m", NOW) != renewed(NOW + HOUR)


def test_only_a_person_enables_what_a_person_disabled() -> None:
    state = observe(FRESH, Disabled(""), "", NOW)
    assert state.disabled
    for outcome in (Succeeded(), Succeeded("probe"), Succeeded("operator"), refuse(), exhaust()):
        assert observe(state, outcome, "m", NOW + 1) is state
    assert observe(state, Enabled(), "", NOW + 1) == renewed(NOW + 1)


def test_a_refused_account_that_a_person_disables_stays_out_with_a_new_key() -> None:
    state = observe(observe(FRESH, refuse(), "m", NOW), Disabled("sold"), "", NOW)
    assert state.disabled == "sold"
    assert observe(state, KeyChanged("new"), "", NOW).disabled == "sold"


def test_reasons_are_kept_short() -> None:
    state = observe(FRESH, Disabled("x" * 10_000), "", NOW)
    assert len(state.disabled) == 200


@pytest.mark.parametrize(
    ("headers", "fits"),
    [
        ({"x-budget": "spent"}, True),
        ({"x-budget": "Spent "}, True),
        ({"x-budget": "fine"}, False),
        ({"x-blocked": ""}, True),
        ({}, False),
    ],
)
def test_rules_may_name_headers(headers: dict[str, str], fits: bool) -> None:
    rule = Rule(Verdict.DISABLE, "told so", headers=("x-budget: spent", "x-blocked"))
    symptom = symptom_of_answer(200, headers, None, NOW)
    assert (classify(symptom, (rule,)).verdict is Verdict.DISABLE) is fits


def test_a_row_fits_when_all_that_it_names_does() -> None:
    rule = Rule(Verdict.COOL, "all", (429,), ("w",), ("t",), ("h",), every_model=True)
    whole = Symptom(429, frozenset({"w", "v"}), "a text", 5.0, {"h": ""})
    assert classify(whole, (rule,)) == Decision(Verdict.COOL, "all", False, 5.0, True)
    for part in (
        Symptom(430, whole.words, whole.text, headers=whole.headers),
        Symptom(429, frozenset({"v"}), whole.text, headers=whole.headers),
        Symptom(429, whole.words, "a word", headers=whole.headers),
        Symptom(429, whole.words, whole.text),
    ):
        assert classify(part, (rule,)).verdict is Verdict.RETURN_TO_CLIENT


def test_the_first_row_that_fits_decides() -> None:
    first, second = Rule(Verdict.TRY_NEXT, "first"), Rule(Verdict.DISABLE, "second")
    assert classify(Symptom(500), (first, second)).why == "first"


def history(state: AccountState, outcome: Outcome, model: str = "m") -> tuple[object, ...]:
    """The line that an outcome at `NOW` adds: change, reason, model, status, until, source."""
    transition = Transition("a", outcome, NOW, model)
    entry = entry_of(state, apply(state, transition), transition)
    if entry is None:
        return ()
    assert (entry.account, entry.at) == ("a", NOW)
    return entry.change, entry.why, entry.model, entry.status, entry.until, entry.source


def test_history_tells_what_changed() -> None:
    out = observe(FRESH, exhaust(), "m", NOW - 2 * HOUR)
    rested = AccountState("a", cooling={"m": Rest(NOW - 1, "slow", streak=2, since=NOW - 9)})
    refused = observe(FRESH, refuse(), "m", NOW - 1)
    told = history(FRESH, cool(20.0))
    assert told == ("cooled", "rate limited", "m", 429, NOW + 20, "traffic")
    told = history(FRESH, exhaust(60.0, source="probe"))
    assert told == ("exhausted", "out of quota", "", 429, NOW + 60, "probe")
    assert history(FRESH, refuse()) == ("disabled", "refused", "", 401, None, "traffic")
    by_hand = ("disabled", "sold", "", 0, None, "operator")
    assert history(FRESH, Disabled("sold")) == by_hand
    assert history(refused, Disabled("sold")) == by_hand
    assert history(refused, Enabled()) == ("enabled", "", "", 0, None, "operator")
    assert history(out, Enabled()) == ("enabled", "", "", 0, None, "operator")
    changed = ("enabled", "its key changed", "", 0, None, "configuration")
    assert history(refused, KeyChanged("new")) == changed
    assert history(refused, Succeeded("operator"))[0] == "enabled"
    assert history(out, Succeeded()) == ("restored", "out of quota", "", 0, None, "traffic")
    assert history(rested, Succeeded()) == ("restored", "slow", "m", 0, None, "traffic")


def test_history_is_silent_where_nothing_is_worth_telling() -> None:
    over = observe(FRESH, cool(), "m", NOW - 100)
    assert over.cooling
    assert history(FRESH, Succeeded()) == ()
    assert history(over, Succeeded()) == ()
    assert history(FRESH, Enabled()) == ()
    assert history(FRESH, Failed(Decision(Verdict.TRY_NEXT, "unreachable"))) == ()


def test_stored_states_keep_their_form() -> None:
    """A store that an earlier version wrote can be read, and the other way round."""
    written = b'{"name":"a","cooling":{"m":{"until":9.0,"why":"rate limited","told":true}}}'
    state = AccountState("a", cooling={"m": Rest(9.0, "rate limited", by_upstream=True)})
    assert msgspec.json.decode(written, type=AccountState) == state
    assert msgspec.json.encode(state) == written
