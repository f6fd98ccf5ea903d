"""`dragoman classify`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman import cli

QUOTA = '{"error": {"message": "No", "type": "insufficient_quota", "code": "insufficient_quota"}}'
CONFIG = """
[[upstreams]]
name = "relay"
protocol = "openai_chat"
base_url = "http://127.0.0.1:9"
account_rules = "sop"

[[upstreams.rules]]
verdict = "try_next"
why = "another account may have the model"
statuses = [404]
words = ["model_not_found"]

[[upstreams.rules]]
verdict = "cool"
why = "its hour is over"
headers = ["x-budget: spent"]
every_model = true

[[accounts]]
name = "relay-1"
upstream = "relay"
"""


def said(*arguments: str) -> list[str]:
    """The lines of a call that went well."""
    result = CliRunner().invoke(cli.main, ["classify", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def refused(*arguments: str) -> str:
    """What a call that could not be understood was told."""
    result = CliRunner().invoke(cli.main, ["classify", *arguments], catch_exceptions=False)
    assert result.exit_code == 2
    return result.stderr


def test_as_json() -> None:
    told = json.loads("".join(said("--status", "429", "--body", QUOTA, "--json")))
    assert told["rule"]["verdict"] == "exhaust"
    assert told["rule"]["table"] == "default"
    assert told["words"] == ["insufficient_quota"]
    assert (told["request"], told["account"]) == ("next account", "out for 1 h, then on trial")
    assert json.loads("".join(said("--status", "418", "--rules", "none", "--json")))["rule"] is None


def test_a_quota_error_takes_the_account_out() -> None:
    lines = said("--status", "429", "--body", QUOTA)
    assert lines[0].endswith('of default: exhaust, "out of quota"')
    assert lines[1:] == [
        "words: insufficient_quota",
        "request: next account",
        "account: out for 1 h, then on trial",
    ]


def test_the_example_in_the_documentation() -> None:
    page = (Path(__file__).parent.parent / "docs/accounts.md").read_text()
    _, _, example = page.partition("```console\n$ dragoman classify ")
    asked, _, answer = example.partition("```")[0].partition("\n")
    assert said(*shlex.split(asked)) == answer.splitlines()


def test_the_procedure_disables() -> None:
    """req: 135"""
    lines = said("--status", "429", "--rules", "sop")
    assert lines == [
        'row 3 of sop: disable, "out of quota"',
        "request: next account",
        "account: disabled",
    ]


def test_headers_are_read_in_any_case() -> None:
    lines = said("--status", "429", "--header", "X-Other: 1", "--header", "Retry-After: 3")
    assert lines[1:] == [
        "the upstream asks for: 3 s",
        "request: next account",
        "account: rests 3 s, for this model",
    ]


def test_what_no_row_names_goes_to_the_client() -> None:
    """req: 137"""
    lines = said("--status", "418", "--body", "teapot")
    assert lines == [
        "no row of default fits",
        "request: back to the client",
        "account: stays active",
    ]


def test_no_answer_at_all() -> None:
    """req: 141"""
    for rules in ("default", "sop", "none"):
        assert said("--status", "0", "--rules", rules)[1:] == [
            "request: next account",
            "account: stays active",
        ]


def test_rules_of_an_upstream_come_first(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(CONFIG)
    of_relay = ("--config", str(path), "--upstream", "relay")
    missing = said(*of_relay, "--status", "404", "--body", '{"error":{"code":"model_not_found"}}')
    own = "of the rules of relay:"
    assert missing[0] == f'row 1 {own} try_next, "another account may have the model"'
    assert missing[-2:] == ["request: next account", "account: stays active"]
    assert said(*of_relay, "--status", "404")[0] == "no row of sop fits"
    spent = said(*of_relay, "--status", "200", "--header", "x-budget: Spent")
    assert spent[0] == f'row 2 {own} cool, "its hour is over"'
    assert spent[-1] == "account: rests 2 s, for every model"
    refusal = 'row 4 of sop: disable, "the upstream refused its key"'
    assert said(*of_relay, "--status", "401")[0] == refusal
    chosen = said(*of_relay, "--status", "429", "--rules", "default")
    assert chosen[0].endswith('of default: cool, "rate limited"')


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--status", "1000"), "0<=x<=999"),
        (("--status", "429", "--header", "retry-after"), "is not 'NAME: VALUE'"),
    ],
)
def test_what_cannot_be_understood(arguments: tuple[str, ...], told: str) -> None:
    assert told in refused(*arguments)


def test_an_upstream_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(CONFIG)
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(path))
    assert "no upstream other" in refused("--status", "429", "--upstream", "other")
    assert said("--status", "418", "--upstream", "relay")[0] == "no row of sop fits"
    assert "no upstream other" in refused(
        "--status", "429", "--config", str(path), "--upstream", "other"
    )
