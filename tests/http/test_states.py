"""The table of states."""

from dragoman.http.states import TRANSITIONS, State


def test_every_state_is_reached_and_ends() -> None:
    reached: set[State] = {"idle"}
    while more := {after for state in reached for after in TRANSITIONS[state].values()} - reached:
        reached |= more
    assert reached == set(TRANSITIONS)
    for state, row in TRANSITIONS.items():
        assert row.get("lost", state) == "closed"
        assert "last" not in row or row["last"] == "closing"


def test_an_answer_comes_after_its_request() -> None:
    """And nothing is answered twice."""
    assert {state for state, row in TRANSITIONS.items() if "answered" in row} == {
        "receiving",
        "serving",
    }
    assert {state for state, row in TRANSITIONS.items() if "request" in row} == {"idle", "head"}
    assert set(TRANSITIONS["closing"]) == {"lost"}
