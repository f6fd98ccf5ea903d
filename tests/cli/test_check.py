"""`dragoman check --online`: each upstream is asked with each key."""

from __future__ import annotations

import json
import re
import socket

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.lab.simulator.authority import KEY_ID, SECRET
from tests.cli.conftest import STORE_KEY, Shop


def refused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def account(name: str, upstream: str, key: str) -> str:
    return f'[[accounts]]\nname = "{name}"\nupstream = "{upstream}"\nkey = "{key}"\n'


def rows(output: str) -> dict[str, list[str]]:
    """The table's rows, by the account."""
    lines = [line.split() for line in output.splitlines() if line]
    return {line[0]: line[1:] for line in lines}


def test_every_account_is_asked(shop: Shop) -> None:
    """Those of the configuration and those of the store."""
    shop.run(
        "accounts", "add", "--upstream", "messages", "--key", "-", "stored", given="sk-sim-9\n"
    )
    done = shop.run("check", "--online")
    found = rows(done.stdout)
    assert found["fixed"][:2] == ["chat", "200"]
    assert found["stored"][:2] == ["messages", "200"]
    assert int(found["fixed"][2]) > 0
    assert "usable (2 upstreams, 1 account and 1 in the store, 1 route" in done.stdout
    assert STORE_KEY not in done.output


def test_upstreams_without_an_account_anywhere_are_told(shop: Shop) -> None:
    missing = "upstream messages has no account, here or in the store"
    assert missing in shop.run("check").stderr  # there is no store yet
    shop.run("accounts", "add", "--upstream", "chat", "--key", "-", "one", given="sk-sim-9\n")
    assert missing in shop.run("check").stderr
    shop.run("accounts", "add", "--upstream", "messages", "--key", "-", "two", given="sk-sim-9\n")
    shop.file.write_text(shop.file.read_text().replace('key = "env:STORE_KEY"', ""))
    done = shop.run("check")
    assert (done.stderr, "1 account and 2 in the store" in done.stdout) == ("", True)


def test_a_key_that_is_refused_and_a_server_that_is_not_there(shop: Shop) -> None:
    with shop.file.open("a") as file:
        file.write(account("bad", "chat", "sk-sim-401-secret"))
        file.write(account("lost", "gone", "sk-sim-1"))
        file.write(
            '[[upstreams]]\nname = "gone"\nprotocol = "openai_responses"\n'
            f'base_url = "http://127.0.0.1:{refused_port()}"\n'
        )
    done = shop.run("check", "--online", "--json", status=1)
    found = {one["account"]: one for one in json.loads(done.stdout)["accounts"]}
    assert (found["fixed"]["status"], found["fixed"]["message"]) == (200, "")
    assert found["bad"]["status"] == 401
    assert found["bad"]["message"]
    assert found["lost"]["status"] == 0
    assert "could not be reached" in found["lost"]["message"]
    assert "sk-sim-401-secret" not in done.output
    table = rows(shop.run("check", "--online", status=1).stdout)
    assert table["bad"][:2] == ["chat", "401"]
    assert table["lost"][:2] == ["gone", "-"]


def test_a_model_that_is_not_listed_is_a_warning(shop: Shop) -> None:
    with shop.file.open("a") as file:
        file.write('[[routes]]\nmatch = "mine"\nupstream = "messages"\nmodel = "gtp-5"\n')
        file.write(account("second", "messages", "sk-sim-2"))
    done = shop.run("check", "--online")
    assert "messages does not list the model gtp-5" in done.stderr
    unknown = "messages does not tell the context window of gtp-5: agents are told 128000"
    assert unknown in done.stderr
    assert json.loads(shop.run("check", "--online", "--json").stdout)["unlisted"] == [
        ["messages", "gtp-5"]
    ]


def test_what_makes_it_unusable_is_told_to_scripts(shop: Shop) -> None:
    """Also what is wrong with a file that it names, as the gateway would find when it starts."""
    text = shop.file.read_text()
    shop.file.write_text(text.replace("workers", 'tls_certificate = "none.pem"\nworkers'))
    for command in (("check",), ("serve", "--port", "0")):
        told = shop.run(*command, status=1).stderr
        assert told.startswith(f"error: {shop.file}:4: server.tls_certificate: cannot read ")
    found = json.loads(shop.run("check", "--json", status=1).stdout)
    assert (found["file"], found["usable"]) == (str(shop.file), False)
    (problem,) = found["problems"]
    assert (problem["line"], problem["key"]) == (4, "server.tls_certificate")
    shop.file.write_text(text + "broken =")
    assert len(json.loads(shop.run("reload", "--json", status=1).stdout)["problems"]) == 1


@pytest.mark.parametrize("command", ["check", "serve", "reload", "usage"])
def test_a_file_that_cannot_be_looked_at(command: str) -> None:
    """Such as one in a folder of somebody else."""
    done = CliRunner().invoke(main, [command, "--config", "x" * 300])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.endswith("x:1: cannot read the file: File name too long\n")


def test_a_check_asks_nobody_unless_told(shop: Shop) -> None:
    with shop.file.open("a") as file:
        file.write(account("bad", "chat", "sk-sim-401"))
    found = json.loads(shop.run("check", "--json").stdout)
    assert found["usable"] is True
    assert "accounts" not in found


def test_credentials_are_named_and_with_online_obtained(shop: Shop) -> None:
    """Also at services that list no models; a login is only read, since a gateway renews it."""
    shop.run("accounts", "add", "--upstream", "chat", "--key", "-", "stored", given="sk-sim-9\n")
    base_url = re.search(r'base_url = "(.*)"', shop.file.read_text())
    assert base_url is not None
    oauth = f'kind = "oauth2", token_url = "{base_url[1]}/oauth/token", client_id = "gw"'
    static = f'kind = "aws", access_key_id = "{KEY_ID}", secret_access_key = "{SECRET}"'
    own = {
        "token": f'{oauth}, client_secret = "oauth-secret"',
        "wrong": f'{oauth}, client_secret = "another"',
        "login": f'{oauth}, grant = "refresh_token", refresh_token = "of-a-login"',
        "signed": f'{static}, signing_name = "bedrock"',
    }
    with shop.file.open("a") as file:
        file.write(
            '[[upstreams]]\nname = "cloud"\nprotocol = "anthropic_messages"\n'
            f'service = "bedrock_invoke"\nbase_url = "{base_url[1]}"\n'
        )
        for name, text in own.items():
            file.write(
                account(name, "cloud", "x").replace('key = "x"', f"credentials = {{ {text} }}")
            )
            file.write('region = "eu-west-1"\n')
    offline = shop.run("check").stdout
    assert "account token: tokens of an authorisation server (client_credentials)\n" in offline
    assert "account signed: keys of AWS from the configuration\n" in offline
    done = shop.run("check", "--online", status=1).stdout
    assert "(client_credentials); ends in 60 min\n" in done
    found = rows(done)
    assert found["token"][1] == found["signed"][1] == "404"
    assert found["wrong"][1] == found["login"][1] == "-"
    assert "client_id or client_secret is wrong" in done
    assert "renewed only by a gateway that serves" in done
