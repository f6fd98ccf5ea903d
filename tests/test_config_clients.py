"""Clients and teams in the configuration file."""

from __future__ import annotations

import pytest

from dragoman.config import ConfigError, parse_config

UP = '[[upstreams]]\nname = "up"\nprotocol = "openai_chat"\nbase_url = "http://x"\n'


def client(more: str = "", key: str = 'key = "long-enough"') -> str:
    return f'{UP}[[clients]]\nname = "c"\n{key}\n{more}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (client(key='key = "k"'), r"clients\[0\].key: too short to be safe"),
        (client(key='key = "$CI_KEY_NOT_SET"'), r"clients\[0\].key: looks like the name of a"),
        (client(key='key = "${CI_KEY}"'), "write env:NAME"),
        (
            client().replace('"c"', '"anyone"'),
            r"clients\[0\].name: is the name of clients without",
        ),
        (client(key=""), r"clients\[0\].key: required, but not set"),
        (client(key='keys = ["first-of-two", "x"]'), r"clients\[0\].keys\[1\]: too short"),
        (
            client(key='key = "same-as-this"\nkeys = ["same-as-this"]'),
            r"keys\[0\]: clients\[0\] has",
        ),
        (client('addresses = ["10.0.0.0/40"]'), r"clients\[0\].addresses: '10.0.0.0/40' is no"),
        (client('addresses_denied = ["here"]'), r"clients\[0\].addresses_denied: 'here' is no"),
        (client('upstreams = ["upp"]'), "no upstream named upp; did you mean up"),
        (client('expires = "soon"'), r"clients\[0\].expires"),
        (client("expires = 2027-01-31T00:00:00"), r"clients\[0\].expires: .*timezone"),
        (
            client("not_before = 2027-02-01T00:00:00Z\nexpires = 2027-01-31T00:00:00Z"),
            "is not after",
        ),
        (
            client() + '[[teams]]\nname = "t"\n[[teams]]\nname = "t"\n',
            r"teams\[1\].name: t is already",
        ),
        (client() + '[[teams]]\nname = "t"\nmodel = "x"\n', "unknown key; did you mean models"),
        (
            client(key='key = "a-token-of-the-admin"') + '[admin]\nkey = "a-token-of-the-admin"\n',
            r"admin.key: clients\[0\] has the same key",
        ),
    ],
)
def test_faults(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        parse_config(text, environ={})
    assert "long-enough" not in str(error.value)


def test_a_client_with_all_of_its_rules() -> None:
    text = client(
        'note = "builds"\nteam = "t"\nexpires = 2027-01-31T00:00:00+01:00\n'
        'addresses = ["10.0.0.0/8", "::1"]\nmodels = ["gpt-*"]\nupstreams = ["up"]\n'
        'policy = "strict"\n[[teams]]\nname = "t"\nenabled = false\n'
    )
    loaded = parse_config(text, environ={})
    (found,) = loaded.config.clients
    assert found.rules.team == "t"
    assert found.rules.expires is not None
    assert found.rules.expires.timestamp() == 1_801_350_000
    assert not loaded.config.teams[0].enabled
    assert not any("team" in warning.key for warning in loaded.warnings)


def test_a_team_that_only_the_store_can_have_is_warned_of() -> None:
    warnings = parse_config(client('team = "elsewhere"'), environ={}).warnings
    assert any("unless the store has it" in warning.message for warning in warnings)


def test_keys_can_all_be_in_the_store() -> None:
    text = UP + '[server]\nhost = "0.0.0.0"\n'
    with pytest.raises(ConfigError, match="require_key"):
        parse_config(text, environ={})
    assert parse_config(text + "require_key = true\n", environ={}).config.server.require_key
