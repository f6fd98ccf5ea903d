"""Names and ids fitted to the upstream; tool calls turned back as they stream."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.blocks import ToolCall
from dragoman.canonical.events import Closed, Delta, Event, Failed, Finished, Opened
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.names import ToolNames, safe_id
from dragoman.canonical.requests import ToolRef
from dragoman.canonical.tools import ToolRestorer, unwrap_custom

LEGAL = re.compile(r"[A-Za-z0-9_-]+")
NAMES = st.text(st.sampled_from("abAB01_-. é"), min_size=1, max_size=90)


def test_a_legal_id_stays() -> None:
    assert safe_id("toolu_01-abc", 64) == "toolu_01-abc"


@given(NAMES, NAMES)
def test_ids_are_legal_deterministic_and_apart(one: str, other: str) -> None:
    assert LEGAL.fullmatch(safe_id(one, 64))
    assert len(safe_id(one, 64)) <= 64
    assert (safe_id(one, 64) == safe_id(other, 64)) == (one == other)


def test_an_empty_id_becomes_a_legal_one() -> None:
    assert LEGAL.fullmatch(safe_id("", 64))


@given(
    st.lists(st.tuples(st.none() | NAMES, NAMES), unique=True, max_size=12),
    st.randoms(use_true_random=False),
)
def test_names_are_legal_distinct_reversible_and_independent_of_order(
    pairs: list[tuple[str | None, str]], random: object
) -> None:
    refs = [ToolRef(name, False, space) for space, name in pairs]
    names = ToolNames(refs, 64)
    outward = [names.outward(ref.name, ref.namespace) for ref in refs]
    assert len(set(outward)) == len(refs)
    for ref, name in zip(refs, outward, strict=True):
        assert LEGAL.fullmatch(name)
        assert len(name) <= 64
        assert names.inward(name) == ref
    reverse = ToolNames(list(reversed(refs)), 64)
    assert [reverse.outward(ref.name, ref.namespace) for ref in refs] == outward


def test_ordinary_names_stay_and_namespaces_are_flattened() -> None:
    names = ToolNames([ToolRef("read"), ToolRef("read", namespace="fs")], 64)
    assert names.outward("read") == "read"
    assert names.outward("read", "fs") == "fs__read"


@pytest.mark.parametrize("name", ["1st", "-f", "é"])
def test_names_begin_with_a_letter_where_they_have_to(name: str) -> None:
    names = ToolNames([ToolRef(name)], 64, lettered=True)
    outward = names.outward(name)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", outward)
    assert names.inward(outward) == ToolRef(name)
    assert ToolNames((), 64, lettered=True).outward(name)[0] == "_"


@pytest.mark.parametrize("lettered", [False, True])
def test_an_empty_name_becomes_a_legal_one(lettered: bool) -> None:
    names = ToolNames([ToolRef("")], 64, lettered=lettered)
    assert LEGAL.fullmatch(names.outward(""))
    assert names.inward(names.outward("")) == ToolRef("")


def test_a_flattened_name_never_takes_an_ordinary_one() -> None:
    names = ToolNames([ToolRef("fs__read"), ToolRef("read", namespace="fs")], 64)
    assert names.outward("fs__read") == "fs__read"
    assert names.outward("read", "fs") != "fs__read"


def run(names: ToolNames, events: list[Event]) -> list[Event]:
    restorer = ToolRestorer(names)
    return [changed for event in events for changed in restorer.push(event)]


def stream(name: str, *pieces: str, reason: FinishReason = FinishReason.TOOL_CALLS) -> list[Event]:
    return [
        Opened(0, ToolCall(id="c", name=name)),
        *(Delta(0, piece) for piece in pieces),
        Closed(0),
        Finished(Finish(reason)),
    ]


def test_names_and_namespaces_come_back() -> None:
    names = ToolNames([ToolRef("read", namespace="fs")], 64)
    head = run(names, stream("fs__read", "{}"))[0]
    assert head == Opened(0, ToolCall(id="c", name="read", namespace="fs"))


def test_an_emulated_custom_tool_gives_its_free_text() -> None:
    names = ToolNames([ToolRef("apply_patch", custom=True)], 64)
    events = run(names, stream("apply_patch", '{"inp', 'ut": "*** Begin"}'))
    assert events[0] == Opened(0, ToolCall(id="c", name="apply_patch", custom=True))
    assert events[1:3] == [Delta(0, "*** Begin"), Closed(0)]


def test_white_space_before_arguments_waits_for_them() -> None:
    """It may be all there is, and not what JSON calls white space."""
    opened = Opened(0, ToolCall(id="c", name="f"))
    restorer = ToolRestorer(ToolNames((), 64))
    events: list[Event] = [opened, Delta(0, " "), Delta(0, "\u2029"), Closed(0)]
    assert [made for event in events for made in restorer.push(event)] == [
        opened,
        Delta(0, "{}"),
        Closed(0),
    ]
    events = [opened, Delta(0, " \n"), Delta(0, "{"), Delta(0, " }"), Closed(0)]
    assert [made for event in events for made in restorer.push(event)] == [
        opened,
        Delta(0, " \n{"),
        Delta(0, " }"),
        Closed(0),
    ]


def test_missing_arguments_become_an_empty_object() -> None:
    assert Delta(0, "{}") in run(ToolNames((), 64), stream("f"))


@pytest.mark.parametrize("text", ['{"a":', "[]", '"x"', "nonsense", "{} {}"])
def test_arguments_that_are_no_object_fail_the_answer(text: str) -> None:
    """Invalid arguments never become {}. req: 57"""
    assert isinstance(run(ToolNames((), 64), stream("f", text))[-1], Failed)


def test_arguments_cut_by_the_output_limit_are_no_failure() -> None:
    events = run(ToolNames((), 64), stream("f", '{"a":', reason=FinishReason.LENGTH))
    assert isinstance(events[-1], Finished)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "x"}', "x"),
        *(
            (f'{{"why": "y", "{name}": "x"}}', "x")
            for name in ("input", "patch", "content", "text", "command")
        ),
        ('{"anything": "x"}', "x"),
        ('"x"', "x"),
        ("", ""),
        ("{}", ""),
        ('{"a": 1}', None),
        ("[1]", None),
        ("{", None),
    ],
)
def test_unwrapping_custom_input(arguments: str, text: str | None) -> None:
    assert unwrap_custom(arguments) == text
