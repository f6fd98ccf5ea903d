"""The comparison of two versions: what is a difference, what only differs from run to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.differential import damage
from tools.differential.compare import Expected, Normaliser, Report, differences, expected_in
from tools.differential.corpus import Translation
from tools.differential.requests import Selection

STREAM = b'event: a\ndata: {"type":"a","n":1}\n\nevent: b\ndata: {"type":"b","n":2}\n\n'


def places(old: Any, new: Any) -> list[str]:
    return [place for place, _, _ in differences(old, new)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="same"),
        pytest.param({"a": 1}, {"a": 2}, ["a"], id="value"),
        pytest.param({"a": {"b": 1}}, {"a": {}}, ["a.b"], id="missing member"),
        pytest.param({}, {"c": 1}, ["c"], id="added member"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, [" (order of members)"], id="order"),
        pytest.param({"a": 1}, {"a": True}, ["a"], id="type"),
        pytest.param('{"a":1}', '{"a":2}', ["a"], id="inside JSON text"),
        pytest.param('{"a":1}', '{"a": 1}', [" (spelling)"], id="white space of JSON text"),
        pytest.param([{"type": "x"}], [{"type": "y"}], ["[*] (kind)"], id="kind of an item"),
        pytest.param([1], [1, 2], ["[*] (added)"], id="added item"),
        pytest.param([1, 2], [1], ["[*] (missing)"], id="missing item"),
        pytest.param(
            [{"name": "a"}, {"name": "b", "n": 1}],
            [{"name": "b", "n": 2}],
            ["[a]", "[b].n"],
            id="items with names",
        ),
    ],
)
def test_places_of_differences(old: Any, new: Any, expected: list[str]) -> None:
    assert places(old, new) == expected


def test_differences_of_streams_are_placed_by_their_events() -> None:
    stream = STREAM.decode()
    assert places(stream, stream.replace('"n":2', '"n":3')) == ["[b].data.n"]
    assert places(stream, stream.partition("event: b")[0]) == ["[b] (missing)"]
    assert places(stream, stream.replace("data: ", "data:")) == [" (spelling)"]


def test_what_differs_from_run_to_run_is_the_same() -> None:
    one = {"id": f"msg_{'0a' * 12}", "again": f"msg_{'0a' * 12}", "at": "2026-01-01T00:00:00Z"}
    other = {"id": f"msg_{'1b' * 12}", "again": f"msg_{'1b' * 12}", "at": "2026-01-02T09:00:00Z"}
    mixed = {**other, "again": f"msg_{'2c' * 12}"}
    assert Normaliser()(one) == Normaliser()(other)
    assert Normaliser()(one) != Normaliser()(mixed)


def test_expected_differences_are_counted_by_their_reason(tmp_path: Path) -> None:
    file = tmp_path / "expected.toml"
    file.write_text('[[expected]]\nplace = "body.n*"\nreason = "renamed"\n')
    report = Report(expected_in(file))
    report.compare("g", "c", {"body": {"name": 1, "other": 1}}, {"body": {"other": 2}}, b"source")
    assert report.explained == {"renamed": 1}
    assert list(report.unexpected) == [("g", "body.other")]
    assert "1 x g: body.other   [c]" in report.text(80)
    assert Expected("body.*", "why", cell="d").fits(("g", "c", "body.x")) is False


def test_damage_is_made_from_the_seed_alone() -> None:
    streams = {"openai_chat": [STREAM], "anthropic_messages": [STREAM]}
    first = list(damage.damaged_translations(streams, 40, seed=1))
    assert first == list(damage.damaged_translations(streams, 40, seed=1))
    assert first != list(damage.damaged_translations(streams, 40, seed=2))
    assert {(one.client, one.upstream) for one in first} == {
        (client, upstream) for client in damage.CLIENTS for upstream in streams
    }


def test_recorded_bodies_that_are_no_requests_are_left_out() -> None:
    bodies = (b"[" * 100_000, b"{", b"[]")
    recorded = [
        Translation(client="openai_chat", upstream="openai_chat", body=body) for body in bodies
    ]
    selection = Selection(1)
    selection.add_translations(recorded, len(recorded))
    assert not selection.exchanges
