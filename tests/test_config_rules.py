"""Rules of an upstream in the configuration."""

from __future__ import annotations

import pytest

from dragoman.config import ConfigError, parse_config
from dragoman.failing import Rule, Verdict

BASE = """[[upstreams]]
name = "up"
protocol = "openai_chat"
base_url = "http://127.0.0.1:9"
[[accounts]]
name = "one"
upstream = "up"
[[upstreams.rules]]
"""


def faults(rules: str) -> list[str]:
    """What is told about a configuration that cannot be used."""
    with pytest.raises(ConfigError) as caught:
        parse_config(BASE + rules, environ={})
    return [problem.located("") for problem in caught.value.problems]


def warned(rules: str) -> list[str]:
    """What is told about a configuration that can be used."""
    return [warning.located("") for warning in parse_config(BASE + rules, environ={}).warnings]


def test_a_rule_in_full() -> None:
    config = parse_config(
        BASE
        + """verdict = "cool"
why = "slow down"
statuses = [429, 0]
words = ["w"]
texts = ["a text"]
headers = ["x-a", "x-b: c"]
soft = true
every_model = true
""",
        environ={},
    )
    assert config.warnings == ()
    assert config.config.upstreams[0].rules == (
        Rule(
            Verdict.COOL, "slow down", (429, 0), ("w",), ("a text",), ("x-a", "x-b: c"), True, True
        ),
    )


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("verdict = 'cool'\nwhy = 'w'\nstatuses = [1000]", "statuses: 1000 is no HTTP status"),
        (
            "verdict = 'cool'\nwhy = 'w'\nwords = ['Quota']",
            "words: would never match: write it as",
        ),
        (
            "verdict = 'cool'\nwhy = 'w'\ntexts = ['A b']",
            "texts: would never match: write it as",
        ),
        ("verdict = 'cool'\nwhy = 'w'\nheaders = ['X-A']", "headers: would never match: write it"),
        ("verdict = 'cool'\nwhy = 'w'\ntexts = ['']", "texts: would match anything: remove it"),
        ("verdict = 'cool'\nwhy = ''", "why: required"),
        ("verdict = 'cool'", "why: required, but not set"),
        ("verdict = 'ban'\nwhy = 'w'", "verdict: "),
        ("verdict = 'cool'\nwhy = 'w'\nstatus = 429", "status: unknown key"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_an_error(rule: str, told: str) -> None:
    (fault,) = faults(rule)
    assert f"upstreams[0].rules[0].{told}" in fault


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("verdict = 'disable'\nwhy = 'w'\nsoft = true", "[0].soft: has an effect with the"),
        ("verdict = 'disable'\nwhy = 'w'\nevery_model = true", "[0].every_model: has an effect"),
        (
            "verdict = 'cool'\nwhy = 'w'\nstatuses = [200]",
            "[0].statuses: never matches: rules apply",
        ),
        (
            "verdict = 'cool'\nwhy = 'w'\n[[upstreams.rules]]\nverdict = 'cool'\nwhy = 'v'",
            "[1].verdict: never reached: rules[0] matches every failure",
        ),
    ],
)
def test_a_rule_that_is_odd_is_a_warning(rule: str, told: str) -> None:
    (warning,) = warned(rule)
    assert f"upstreams[0].rules{told}" in warning
