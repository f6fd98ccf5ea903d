"""Managed settings: merged, made of models, and the form that their checksum is computed of."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.claude_code import BUILT_IN, canonical, checksum, merged, settings_of
from dragoman.agents.models import ShownModel
from dragoman.prices.rates import Price
from tests.clients.installed import node

CODER = ShownModel(name="coder", label="House coder", behaves_as="claude-sonnet-4-5")
OPUS = ShownModel(
    name="opus",
    label="opus",
    price=Price(0, "", 0, 0, 0, 5_000_000, 500_000, 6_250_000, 10_000_000, 25_000_000, 0),
    is_claude=True,
)
BUILT_IN_HERE = [ShownModel(name=name, label=name, is_claude=True) for name in BUILT_IN]


@pytest.mark.parametrize(
    ("base", "over", "found"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        (
            {"a": {"deny": ["x", "y"]}},
            {"a": {"deny": ["y", "z"]}},
            {"a": {"deny": ["x", "y", "z"]}},
        ),
        ({"a": {"allow": ["x"]}}, {"a": {"allow": []}}, {"a": {"allow": []}}),
        ({"a": {"b": 1}}, {"a": "text"}, {"a": "text"}),
        ({"deny": ["x"]}, {"deny": {}}, {"deny": {}}),
    ],
    ids=["objects", "arrays", "deny", "allow", "a value over an object", "deny that is no array"],
)
def test_settings_are_merged(base: Any, over: Any, found: Any) -> None:
    assert merged(base, over) == found


def test_the_picker_has_the_models_and_the_built_in_ones_only_where_they_can_be_used() -> None:
    made = settings_of([], [CODER, OPUS], BUILT_IN_HERE[:1])
    assert made["modelPicker"] == {
        "options": [
            {"model": "coder", "label": "House coder", "behavesAs": "claude-sonnet-4-5"},
            {"model": "opus", "label": "opus"},
        ],
        "replaceBuiltInOptions": True,
    }
    assert made["model"] == "coder"
    assert made["availableModels"] == ["coder", "opus"]
    assert made["modelPricing"] == {
        "overrides": {"opus": {"input": 5, "output": 25, "cacheRead": 0.5, "cacheWrite": 6.25}}
    }
    made = settings_of([], [CODER], BUILT_IN_HERE)
    assert made["modelPicker"]["replaceBuiltInOptions"] is False
    assert made.keys() == {"modelPicker"}
    assert settings_of([], [], []) == {}


def test_what_is_written_is_not_made() -> None:
    layers = [{"model": "opus", "env": {"A": "1"}}, {"availableModels": [], "env": {"B": "2"}}]
    made = settings_of(layers, [CODER], [])
    assert (made["model"], made["availableModels"]) == ("opus", [])
    assert made["env"] == {"A": "1", "B": "2"}
    assert made["modelPicker"]["options"][0]["model"] == "coder"


def test_the_checksum_is_that_of_sorted_json() -> None:
    settings = {"b": [1, {"z": None, "a": True}], "a": 'ü\n"\\'}
    assert canonical(settings) == json.dumps(
        settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    assert checksum(canonical({})) == (
        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )


_NUMBERS = [0.0, -0.0, 1.0, 0.5, 1e-6, 1.5e-7, 1e20, 1e21, 1.5e300, 0.1, 2**53 + 1, 123456789.125]


def test_numbers_are_written_as_javascript_writes_them() -> None:
    written = subprocess.run(
        [node(), "-p", "JSON.stringify(JSON.parse(process.argv[1]))", json.dumps(_NUMBERS)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert canonical(_NUMBERS) == written.strip()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_stays_the_same(number: float) -> None:
    assert float(json.loads(canonical(number))) == number
