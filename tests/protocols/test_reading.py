"""The reader of declared shapes."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Raw

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra
from dragoman.protocols.reading import (
    UNKNOWN,
    Lost,
    Reader,
    Shape,
    Unknown,
    carried_object,
    report_lost,
)


class Text(Shape, kw_only=True, tag_field="type", tag="text"):
    text: str
    number: int | None = None


class Group(Shape, tag_field="type", tag="group"):
    parts: list[Part]


class Other(Unknown, tag=""):
    @classmethod
    def implied(cls, value: dict[str, Any]) -> str | None:
        return "text" if "text" in value else None


Part = Text | Group | Other


class Call(Shape, tag_field="type", tag="call"):
    name: str


class Result(Shape, tag_field="type", tag="result"):
    ok: bool


class Tool(Shape):
    """Tools have no type, but for those that are carried whole."""

    name: str
    whole: dict[str, Any] | None = None

    @classmethod
    def adapted(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {"name": "", "whole": value} if "type" in value else value


class Question(Shape, kw_only=True):
    model: Annotated[str, Meta(min_length=1)]
    content: str | list[Part] | None = None
    steps: tuple[Call | Result, ...] = ()
    word: Literal["low", "high"] | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None
    heat: Annotated[float, Meta(ge=0, le=2)] | None = None
    labels: dict[str, str] | None = None
    stop: str | tuple[str, ...] = ()
    schema: Raw = Raw()
    carried: Any = None
    tools: tuple[Tool, ...] = ()
    seed: Annotated[int | None, Lost(LossKind.KNOB, "not here", neutral=(0,))] = None
    bias: Annotated[dict[str, Any] | None, Lost(LossKind.CONTENT, code="odd")] = None


QUESTION = Reader(Question)
NAMED = {"model": "m"}


def read(body: dict[str, Any]) -> tuple[Question, list[Extra]]:
    """The shape, and what it does not know."""
    extras: list[Extra] = []
    return QUESTION.read(json.dumps(body).encode(), extras), extras


def unknown(path: str, value: Any) -> Extra:
    return Extra(path, value, UNKNOWN.kind, UNKNOWN.detail)


def test_a_known_body_is_decoded() -> None:
    extras: list[Extra] = []
    given = QUESTION.read(b'{"model":"m","schema":{"a" : 1.50},"stop":["x"]}', extras)
    assert (given.model, given.stop, extras) == ("m", ("x",), [])
    assert bytes(given.schema) == b'{"a" : 1.50}'


def test_unknown_members_are_taken_out_with_their_paths() -> None:
    given, extras = read(
        {
            **NAMED,
            "top": [1],
            "content": [
                {"type": "text", "text": "a", "odd": {"x": 1}},
                {"type": "group", "parts": [{"type": "text", "text": "b", "odd": 2, "null": None}]},
            ],
            "schema": {"any": 1},
        }
    )
    assert given.content == [Text(text="a"), Group(parts=[Text(text="b")])]
    assert bytes(given.schema) == b'{"any":1}'
    assert extras == [
        unknown("top", [1]),
        unknown("content[0].odd", {"x": 1}),
        unknown("content[1].parts[0].odd", 2),
    ]


def test_the_path_of_a_decoded_value_is_kept() -> None:
    extras: list[Extra] = []
    given = Reader(Call).convert({"type": "call", "name": "f", "x": 1}, "calls[2]", extras)
    assert (given, extras) == (Call(name="f"), [unknown("calls[2].x", 1)])


def test_a_part_of_a_body_is_read_with_its_path() -> None:
    extras: list[Extra] = []
    reader = Reader(Call)
    assert reader.read(Raw(b'{"name":"f","x":1}'), extras, "calls[2]") == Call(name="f")
    assert extras == [unknown("calls[2].x", 1)]
    with pytest.raises(InvalidRequest, match=r"calls\[3\]: must be an object"):
        reader.read(Raw(b"[]"), extras, "calls[3]")


def test_an_unknown_element_is_handed_over_whole() -> None:
    given, extras = read({**NAMED, "content": [{"type": "new", "x": {"y": 1}}]})
    assert given.content == [Other("new", {"type": "new", "x": {"y": 1}})]
    assert extras == []


def test_the_type_that_an_element_implies_is_read() -> None:
    given, extras = read({**NAMED, "content": [{"text": "a"}]})
    assert (given.content, extras) == ([Text(text="a")], [])


def test_an_object_is_adapted_to_its_shape() -> None:
    given, extras = read({**NAMED, "tools": [{"name": "f"}, {"type": "new", "x": 1}]})
    assert given.tools == (Tool(name="f"), Tool(name="", whole={"type": "new", "x": 1}))
    assert extras == []


def test_an_element_of_the_type_of_unknown_ones_is_unknown() -> None:
    given, _ = read({**NAMED, "content": [{"type": "", "kind": "a"}]})
    assert given.content == [Other("", {"type": "", "kind": "a"})]


@pytest.mark.parametrize(
    ("member", "read_as"),
    [
        ({"limit": 5.0}, 5),
        ({"limit": None}, None),
    ],
)
def test_whole_floats_are_integers(member: dict[str, Any], read_as: int | None) -> None:
    assert read({**NAMED, **member})[0].limit == read_as


def test_null_is_absent() -> None:
    given, extras = read({**NAMED, "steps": None, "stop": None, "seed": None, "what": None})
    assert (given.steps, given.stop, extras) == ((), (), [])


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"model": None}, "model: is required"),
        ({"model": ""}, "model: must not be empty"),
        ({"model": 1}, "model: must be a string"),
        ({"content": 1}, "content: must be a string or an array"),
        ({"content": [1]}, "content[0]: must be an object"),
        ({"content": [{}]}, "content[0].type: is required"),
        ({"content": [{"type": 1}]}, "content[0].type: must be a string"),
        ({"content": [{"type": "text"}]}, "content[0].text: is required"),
        ({"steps": [{"type": "new"}]}, "steps[0].type: must be one of call, result"),
        ({"steps": [{"type": "result", "ok": 1}]}, "steps[0].ok: must be a boolean"),
        ({"word": "mid"}, "word: must be one of high, low"),
        ({"limit": 0}, "limit: must be at least 1"),
        ({"limit": 0.0}, "limit: must be at least 1"),
        ({"limit": 1.5}, "limit: must be a whole number"),
        ({"limit": True}, "limit: must be a whole number"),
        ({"heat": 3}, "heat: must be between 0 and 2"),
        ({"heat": "3"}, "heat: must be a number"),
        ({"labels": {"a": 1}}, "labels.a: must be a string"),
        ({"stop": ["a", 1]}, "stop[1]: must be a string"),
    ],
)
def test_what_a_shape_does_not_allow_is_refused(member: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read({**NAMED, **member})
    assert refused.value.fault.message == message
    assert refused.value.fault.param == message.partition(":")[0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "The request body must be a JSON object."),
        (b'{"model":', "The request body is not valid JSON"),
        (b"[" * 3000, "The request body is nested too deeply."),
        (b"{}", "model: is required"),
    ],
)
def test_what_is_no_such_object_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message.replace("[", r"\[")):
        QUESTION.read(body, [])


def test_numbers_beyond_a_double_are_carried() -> None:
    given = QUESTION.read(b'{"model":"m","carried":{"n":1e999}}', [])
    assert bytes(given.carried["n"]) == b"1e999"
    with pytest.raises(InvalidRequest, match="heat: must be a number"):
        QUESTION.read(b'{"model":"m","heat":1e999}', [])


def test_lost_members_are_reported_with_their_meaning() -> None:
    given, extras = read({**NAMED, "seed": 4, "bias": {"a": 1}})
    report_lost(given, "", extras)
    assert extras == [
        Extra("seed", 4, LossKind.KNOB, "not here"),
        Extra("bias", {"a": 1}, LossKind.CONTENT, code="odd"),
    ]


@pytest.mark.parametrize("seed", [0, None])
def test_what_has_no_effect_is_no_loss(seed: int | None) -> None:
    given, extras = read({**NAMED, "seed": seed})
    report_lost(given, "inner", extras)
    assert extras == []


def test_false_is_no_neutral_zero() -> None:
    given = Question(model="m", seed=False)
    extras: list[Extra] = []
    report_lost(given, "inner", extras)
    assert [extra.path for extra in extras] == ["inner.seed"]


@pytest.mark.parametrize("absent", [b'{"model":"m"}', b'{"model":"m","schema":null}'])
def test_a_carried_object_may_be_absent(absent: bytes) -> None:
    assert carried_object(QUESTION.read(absent, []).schema, "", "schema") is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [("[]", "must be an object"), ('{"a":' * 65 + "1" + "}" * 65, "nested deeper than 64 levels")],
)
def test_what_cannot_be_carried_is_refused(value: str, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=f"schema: {problem}"):
        carried_object(Raw(value.encode()), "", "schema")


def test_a_carried_object_keeps_its_bytes() -> None:
    wide = b'{"a":[' + b"[], " * 70 + b"[]]}"
    carried = carried_object(Raw(wide), "", "schema")
    assert carried is not None
    assert bytes(carried) == wide


def test_an_exact_value_differs_in_unknown_members_only() -> None:
    extras: list[Extra] = []
    exact = Reader(Group).exact(b'{"type":"group","parts":[],"new":1}', extras)
    assert exact == Group(parts=[])
    assert [extra.path for extra in extras] == ["new"]
    for other in (
        b"",
        b"[]",
        b'{"type":"group"}',
        b'{"type":"text","text":"a","number":5.0,"n":1}',
    ):
        assert Reader(Group).exact(other) is None


def test_in_an_answer_optional_members_of_a_wrong_type_are_absent() -> None:
    extras: list[Extra] = []
    value = {"type": "group", "parts": [{"type": "text", "text": "a", "number": "1", "Text": "b"}]}
    assert Reader(Group).tolerate(value, extras) == Group(parts=[Text(text="a")])
    assert [extra.path for extra in extras] == ["parts[0].Text"]
    with pytest.raises(InvalidRequest):
        Reader(Group).tolerate({"type": "group", "parts": [{"type": "text", "text": 1}]}, [])
