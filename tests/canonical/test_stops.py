"""Answers cut at stop sequences that the upstream was not told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.blocks import (
    ForeignCitation,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
)
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Metered,
    Opened,
    Started,
)
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.grammar import State, step
from dragoman.canonical.sequencer import Sequencer
from dragoman.canonical.stops import LONGEST, MOST, StopCutter, cut_whole, emulated
from dragoman.canonical.usage import Usage
from dragoman.protocols.settings import make_options
from tests.folded import Response, fold

STOP = Finished(Finish(FinishReason.STOP))
USAGE = Usage(input=3, output=9)
FAILED = Failed(Fault(FaultKind.UPSTREAM_FAILED, "gone"))


def ordered(events: list[Event]) -> list[Event]:
    """The events, one block after another."""
    sequencer = Sequencer()
    return [event for read in events for event in sequencer.push(read)]


def said(*pieces: str, index: int = 0) -> list[Event]:
    """A text block."""
    return [
        Opened(index, Text(text="")),
        *(Delta(index, piece) for piece in pieces),
        Closed(index),
    ]


def answer(*blocks: Event) -> list[Event]:
    """The events of an answer that tells its usage at its end."""
    return [Started("a", "m"), *blocks, STOP, Metered(USAGE), Ended()]


def streamed(events: list[Event], *stops: str) -> list[Event]:
    """What the client is given of a stream, its order checked."""
    sequencer, cutter = Sequencer(), StopCutter(stops)
    ordered = [one for event in events for one in sequencer.push(event)]
    given = [one for event in ordered for one in cutter.push(event)]
    state = State.NEW
    for event in given:
        state = step(state, event)
    assert state is State.OVER
    return given


def texts(answer: Response) -> list[str]:
    return [block.text for block in answer.blocks if isinstance(block, Text)]


def expected(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    """The text before the sequence that begins first, and that: tried place by place."""
    for place in range(len(text)):
        for stop in sorted(stops, key=len):
            if text.startswith(stop, place):
                return text[:place], stop
    return text, None


@pytest.mark.parametrize(
    ("text", "stops", "kept", "found"),
    [
        ("a END b", ("END",), "a ", "END"),
        ("END b", ("END",), "", "END"),
        ("a END", ("END",), "a ", "END"),
        ("END", ("END",), "", "END"),
        ("a EN", ("END",), "a EN", None),
        ("", ("END",), "", None),
        ("EENEND", ("END",), "EEN", "END"),
        ("aab", ("ab",), "a", "ab"),
        ("aabaaab", ("aaab",), "aab", "aaab"),
        # Of those that begin at the same place, the one found first.
        ("xabc", ("abc", "ab"), "x", "ab"),
        # The one that begins first, though another is whole before it.
        ("xabcd", ("abcd", "bc"), "x", "abcd"),
        ("xabce", ("abcd", "bc"), "xa", "bc"),
        ("xabc", ("abcd", "bc"), "xa", "bc"),
        ("x b a", ("a", "b"), "x ", "b"),
        ("\n\n", ("\n\n",), "", "\n\n"),
        ("grüße ✋🏽 und", ("✋🏽",), "grüße ", "✋🏽"),
        ("✋🏿 ✋🏽", ("✋🏽",), "✋🏿 ", "✋🏽"),
        ("e\u0301 é", ("é",), "e\u0301 ", "é"),
    ],
)
def test_where_a_text_is_cut(
    text: str, stops: tuple[str, ...], kept: str, found: str | None
) -> None:
    assert expected(text, stops) == (kept, found)
    for pieces in ((text,), tuple(text)):
        made = fold(streamed(answer(*said(*pieces)), *stops))
        assert texts(made) == [kept]
        assert made.finish.stop_sequence == found
        assert made.finish.reason is (
            FinishReason.STOP if found is None else FinishReason.STOP_SEQUENCE
        )


sequences = st.lists(
    st.one_of(st.text("ab", min_size=1, max_size=4), st.sampled_from(("é🙂", "🙂", "\n"))),
    min_size=1,
    max_size=4,
).map(tuple)


@st.composite
def chopped(draw: st.DrawFn, alphabet: str = "ab🙂é\n") -> tuple[str, ...]:
    """A text in pieces, some of them empty."""
    text = draw(st.text(alphabet, max_size=24))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return tuple(text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True))


@given(stops=sequences, pieces=chopped())
def test_wherever_the_text_is_chopped(stops: tuple[str, ...], pieces: tuple[str, ...]) -> None:
    made = fold(streamed(answer(*said(*pieces)), *stops))

    kept, found = expected("".join(pieces), stops)
    assert texts(made) == [kept]
    assert made.finish.stop_sequence == found


@given(stops=sequences, pieces=chopped())
def test_no_more_is_held_than_may_become_one(
    stops: tuple[str, ...], pieces: tuple[str, ...]
) -> None:
    cutter = StopCutter(stops)
    cutter.push(Opened(0, Text(text="")))
    came = given = ""
    for piece in pieces:
        came += piece
        given += "".join(e.text for e in cutter.push(Delta(0, piece)) if isinstance(e, Delta))
        if cutter.over:
            break
        held = came.removeprefix(given)
        assert came == given + held
        assert not held or any(stop != held and stop.startswith(held) for stop in stops)
        assert len(held) < max(map(len, stops))


blocks = st.one_of(
    chopped("ab").map(lambda pieces: (Text(text=""), pieces)),
    chopped("ab").map(lambda pieces: (Reasoning(), pieces)),
    chopped("ab").map(lambda pieces: (ToolCall(id="c", name="n"), pieces)),
    chopped("ab").map(lambda pieces: (Refusal(text=""), pieces)),
)


@given(stops=sequences, made=st.lists(blocks, max_size=4))
def test_a_whole_answer_is_the_fold_of_its_stream(
    stops: tuple[str, ...], made: list[tuple[Any, tuple[str, ...]]]
) -> None:
    """... but for what the upstream tells at its end, which a stream that was cut never saw."""
    apart: list[Event] = []
    joined: list[Event] = []
    for index, (head, pieces) in enumerate(made):
        apart += [Opened(index, head), *(Delta(index, piece) for piece in pieces), Closed(index)]
        joined += [Opened(index, head), Delta(index, "".join(pieces)), Closed(index)]

    stream = fold(streamed(answer(*apart), *stops))
    whole = fold(cut_whole(answer(*joined), stops))

    assert whole.blocks == stream.blocks
    assert whole.finish == stream.finish
    assert whole.usage == USAGE
    cut = stream.finish.reason is FinishReason.STOP_SEQUENCE
    assert stream.usage == (None if cut else USAGE)


def test_only_text_is_looked_at() -> None:
    events = answer(
        Opened(0, Reasoning()),
        Delta(0, "END"),
        Closed(0),
        Opened(1, ToolCall(id="c", name="n")),
        Delta(1, '"END"'),
        Closed(1),
        Opened(2, Refusal(text="")),
        Delta(2, "END"),
        Closed(2),
    )
    assert streamed(events, "END") == events


def test_a_text_that_says_none_passes_as_it_came() -> None:
    logprobs = ({"token": "Hi"},)
    events = answer(Opened(0, Text(text="")), Delta(0, "Hi", logprobs), Closed(0))
    assert streamed(events, "END") == events


def test_no_sequence_goes_over_the_end_of_a_block() -> None:
    events = answer(*said("a E"), *said("ND", index=1))
    assert texts(fold(streamed(events, "END"))) == ["a E", "ND"]


def test_what_follows_the_cut_is_swallowed() -> None:
    events = [Started("a", "m"), *said("a END b")]
    over = [Opened(0, Text(text="")), Delta(0, "a "), Closed(0)]
    over += [Finished(Finish(FinishReason.STOP_SEQUENCE, "END")), Ended()]
    for rest in ([Delta(0, "c")], said("d", index=1), [Metered(USAGE)], [FAILED], [STOP, Ended()]):
        assert streamed([*events, *rest], "END") == [events[0], *over]


def test_a_block_that_waits_for_the_one_that_is_cut_is_not_shown() -> None:
    events = answer(
        Opened(0, Text(text="")),
        Opened(1, ToolCall(id="c", name="n")),
        Delta(1, "{}"),
        Delta(0, "a END"),
        Closed(1),
        Closed(0),
    )
    for made in (fold(streamed(events, "END")), fold(cut_whole(ordered(events), ["END"]))):
        assert made.blocks == (Text(text="a "),)


def test_usage_that_was_told_before_is_kept() -> None:
    events: list[Event] = [Started("a", "m"), Metered(USAGE), *said("a END")]
    assert fold(streamed(events, "END")).usage == USAGE


def test_what_is_held_is_given_before_a_failure() -> None:
    events: list[Event] = [*answer()[:1], Opened(0, Text(text="")), Delta(0, "a EN"), FAILED]
    assert streamed(events, "END")[-2:] == [Delta(0, "EN"), FAILED]


def test_a_sequence_in_what_is_held_counts_before_a_failure() -> None:
    events: list[Event] = [*answer()[:1], Opened(0, Text(text="")), Delta(0, "xabc"), FAILED]
    made = fold(streamed(events, "abcd", "bc"))
    assert (texts(made), made.finish.stop_sequence) == (["xa"], "bc")


def test_a_whole_answer_that_failed_after_the_cut_is_as_good_as_its_stream() -> None:
    events = [Started("a", "m"), *said("a END b"), FAILED]
    assert texts(fold(cut_whole(ordered(events), ["END"]))) == ["a "]


def test_moderation_of_a_whole_answer_is_kept() -> None:
    found: dict[str, Any] = {"input": {}}
    events = [Started("a", "m"), *said("a END b"), STOP, Ended(found)]
    assert fold(cut_whole(events, ["END"])).moderation == found


def logged(*tokens: str) -> list[Event]:
    """A text block with log probabilities, a delta for each token."""
    deltas = [Delta(0, token, ({"token": token},)) for token in tokens]
    return [Opened(0, Text(text="")), *deltas, Closed(0)]


@given(stops=sequences, tokens=st.lists(st.text("ab", min_size=1, max_size=3), max_size=8))
def test_log_probabilities_stay_with_their_tokens(
    stops: tuple[str, ...], tokens: list[str]
) -> None:
    """Those of tokens that begin in the text that is left."""
    text = "".join(tokens)
    kept, _ = expected(text, stops)
    places = [len("".join(tokens[:number])) for number in range(len(tokens))]
    known = tuple(
        {"token": token} for token, place in zip(tokens, places, strict=True) if place < len(kept)
    )
    joined = Delta(0, text, tuple({"token": token} for token in tokens))
    whole = answer(Opened(0, Text(text="")), joined, Closed(0))

    for made in (
        fold(streamed(answer(*logged(*tokens)), *stops)),
        fold(cut_whole(whole, stops)),
    ):
        [block] = made.blocks
        assert isinstance(block, Text)
        assert (block.text, block.logprobs or ()) == (kept, known)


def test_parts_of_a_character_keep_their_log_probabilities() -> None:
    tokens = ({"token": "bytes:\\xf0\\x9f"}, {"token": "bytes:\\x99\\x82"}, {"token": " E"})
    events = answer(
        Opened(0, Text(text="")),
        Delta(0, "🙂 E", tokens),
        Delta(0, "x", ({"token": "x"},)),
        Closed(0),
    )
    [block] = fold(streamed(events, "END")).blocks
    assert isinstance(block, Text)
    assert block.text == "🙂 Ex"
    assert block.logprobs == (*tokens, {"token": "x"})


HERE = UrlCitation(url="https://a.test", start=0, end=3)
THERE = UrlCitation(url="https://b.test", start=4, end=7)
ANYWHERE = ForeignCitation("openai_responses", {})


def test_a_citation_stays_if_the_text_it_cites_does() -> None:
    stream = answer(
        Opened(0, Text(text="")),
        Annotated(0, THERE),
        Delta(0, "one"),
        Annotated(0, HERE),
        Delta(0, " END"),
        Annotated(0, ANYWHERE),
        Closed(0),
    )
    whole = answer(
        Opened(0, Text(text="")),
        Delta(0, "one END"),
        *[Annotated(0, citation) for citation in (HERE, THERE, ANYWHERE)],
        Closed(0),
    )
    for made in (fold(streamed(stream, "END")), fold(cut_whole(whole, ["END"]))):
        assert made.blocks == (Text(text="one ", annotations=(HERE,)),)
    for made in (fold(streamed(stream, "no")), fold(cut_whole(whole, ["no"]))):
        [block] = made.blocks
        assert isinstance(block, Text)
        assert block.annotations == (HERE, THERE, ANYWHERE)


def test_which_are_emulated() -> None:
    options = make_options(stop_on_responses="emulate")
    assert emulated(("a", "b", "a", ""), ("b",), options) == ("a",)
    assert emulated(("a",), ("a",), options) == ()
    for value in ("reject", "drop"):
        assert emulated(("a",), (), make_options(stop_on_responses=value)) == ()


def test_too_many_or_too_long_are_not_emulated() -> None:
    options = make_options(stop_on_responses="emulate")
    for most in (tuple(map(str, range(MOST))), ("a" * LONGEST,)):
        assert emulated(most, (), options) == most
    for more in (tuple(map(str, range(MOST + 1))), ("a" * (LONGEST + 1), "b")):
        assert emulated(more, (), options) == ()
