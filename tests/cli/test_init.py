"""`dragoman init`, and that what it writes can be used."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.config import Secret, parse_config, read_config
from dragoman.config.starting import VENDORS, Client, starting_configuration
from dragoman.serving.routing import Router

KEYS = {vendor.variable: "sk-some-key-of-a-vendor" for vendor in VENDORS.values()}


def run(*arguments: str, typed: str | None = None) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["init", *arguments], input=typed)
    return done.exit_code, done.output


@pytest.mark.parametrize("name", VENDORS)
def test_every_vendor_gives_a_usable_configuration(name: str) -> None:
    loaded = parse_config(starting_configuration([VENDORS[name]]), environ=KEYS)
    assert loaded.warnings == ()
    (upstream,) = loaded.config.upstreams
    assert (upstream.name, upstream.protocol) == (name, VENDORS[name].protocol)
    routed = [name] if VENDORS[name].match else []  # else as NAME/MODEL
    assert {route.upstream for route in loaded.config.routes} == set(routed)
    (account,) = loaded.config.accounts
    assert (account.key is None) == (not VENDORS[name].variable)


def test_all_vendors_stand_together() -> None:
    """No route hides another, in whatever order they are given."""
    text = starting_configuration(
        list(VENDORS.values())[::-1], [Client("anna", 'a"b\\c-0123456789')]
    )
    loaded = parse_config(text, environ=KEYS)
    assert loaded.warnings == ()
    assert len(loaded.config.upstreams) == len(VENDORS)
    patterns = [one for vendor in VENDORS.values() for one in vendor.patterns]
    assert {route.match for route in loaded.config.routes} == set(patterns)
    assert len(loaded.config.routes) == len(set(patterns))
    assert [key.reveal() for client in loaded.config.clients for key in client.secrets] == [
        'a"b\\c-0123456789'
    ]


def test_by_options(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    code, output = run(
        *("--config", str(file), "--upstream", "openai", "--upstream", "anthropic"),
        *("--key", "openai=env:WORK_KEY", "--client", "anna", "--host", "0.0.0.0", "--port", "99"),
    )
    assert code == 0, output
    found = read_config(file, environ={**KEYS, "WORK_KEY": "sk-work-0000"}).config
    assert (found.server.host, found.server.port) == ("0.0.0.0", 99)
    assert [str(account.key and account.key.reveal()) for account in found.accounts] == [
        "sk-work-0000",
        "sk-some-key-of-a-vendor",
    ]
    key = tmp_path / "anna.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert [one.reveal() for one in found.clients[0].secrets] == [key.read_text().strip()]
    assert key.read_text().strip() in output
    assert key.read_text().strip() not in file.read_text()
    assert "guide CLIENT --url http://127.0.0.1:99 --model MODEL (one of gpt-*, claude-*)" in output
    (line,) = [line for line in output.splitlines() if "export" in line]
    script = f"{line.partition(': ')[2]}; printenv DRAGOMAN_KEY"
    shown = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout == key.read_text()


def test_a_server_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    url = "http://127.0.0.1:8000/v1"
    code, output = run("--config", str(file), "--url", url, "--protocol", "anthropic_messages")
    assert code == 0, output
    (upstream,) = read_config(file, environ={}).config.upstreams
    assert (upstream.base_url, upstream.protocol) == (url, "anthropic_messages")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    file, key = tmp_path / "dragoman.toml", tmp_path / "anna.key"
    key.write_text("precious")
    arguments = ("--config", str(file), "--upstream", "ollama", "--client", "anna")
    code, output = run(*arguments)
    assert (code, file.exists()) == (1, False)
    assert "anna.key is there already" in output
    file.write_text("precious")
    code, output = run(*arguments)
    assert code == 1
    assert "dragoman.toml is there already" in output
    assert (file.read_text(), key.read_text()) == ("precious", "precious")
    assert run(*arguments, "--force")[0] == 0
    assert read_config(file).config.clients[0].secrets[0].reveal() != "precious"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --upstream or --url"),
        (("--upstream", "opnai"), "'opnai' is not one of openai, anthropic"),
        (("--upstream", "openai", "--key", "anthropic=env:X"), "'anthropic' is not one of openai"),
        (("--upstream", "openai", "--key", "openai=sk-1"), "give env:NAME or file:PATH"),
        (("--upstream", "openai", "--client", "../x"), "clients[0].name: expected a name"),
        (("--upstream", "openai", "--client", "a b"), "clients[0].name: expected a name"),
        (("--upstream", "openai", "--client", "a", "--client", "a"), "--client: a is given twice"),
        (("--upstream", "openai", "--host", "0.0.0.0"), "server.host: anyone who reaches"),
        (("--upstream", "openai", "--budget", "5"), "--budget: of which --client?"),
        (("--upstream", "openai", "--dashboard", "--client", "store"), "store is the name of"),
        (("--upstream", "openai", "--client", "a", "--budget", "x"), "limits[0].amount: expected"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "dragoman.toml"
    code, output = run("--config", str(file), *arguments)
    assert code == 2
    assert message in " ".join(output.split())
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    code, output = run("--config", str(tmp_path / "none" / "x.toml"), "--upstream", "ollama")
    assert code == 1
    assert "cannot write" in output
    assert "No such file or directory" in output


def test_a_person_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["dragoman.cli.init"], "_is_terminal", lambda: True)
    file = tmp_path / "dragoman.toml"
    code, output = run("--config", str(file), typed="openai, anthropic\nbob\nlots\n12.50\n\nn\n")
    assert code == 0, output
    found = read_config(file, environ=KEYS).config
    assert [upstream.name for upstream in found.upstreams] == ["openai", "anthropic"]
    assert [client.name for client in found.clients] == ["bob"]
    assert "set OPENAI_API_KEY to your key of openai" in output
    assert "an amount such as 20" in output
    (limit,) = found.clients[0].limits
    assert (limit.kind, limit.amount, limit.window) == ("cost", "12.50", "month")
    # All of a vendor's models lead to it, and the dashboard is there, with keys of its own.
    models = {"o3-mini", "codex-mini-latest", "chatgpt-4o-latest", "gpt-5.5", "claude-opus-4-6"}
    router = Router(found)
    leads = {model: router.resolve(model).upstream.name for model in models}
    assert leads == dict.fromkeys(models, "openai") | {"claude-opus-4-6": "anthropic"}
    assert found.admin.key is not None
    assert found.admin.key.reveal() == (tmp_path / "admin.key").read_text().strip()
    assert found.storage.key is not None
    assert (found.storage.responses, found.admin.key == found.storage.key) == (False, False)
    assert f"/ui, with the key in {tmp_path / 'admin.key'}" in output
    assert stat.S_IMODE((tmp_path / "store.key").stat().st_mode) == 0o600


def test_a_person_is_asked_again_and_of_their_own_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["dragoman.cli.init"], "_is_terminal", lambda: True)
    file = tmp_path / "dragoman.toml"
    typed = "opnai\n\n127.0.0.1:8000\nhttp://127.0.0.1:8000\nmessages\nanthropic_messages\nA_KEY\n\nn\n\n"
    code, output = run("--config", str(file), typed=typed)
    assert code == 0, output
    for told in ("'opnai' is none of them", "begins with http://", "'messages' is not one of"):
        assert told in output
    found = read_config(file, environ={"A_KEY": "sk-of-my-own"}).config
    assert (found.upstreams[0].base_url, found.upstreams[0].protocol) == (
        "http://127.0.0.1:8000",
        "anthropic_messages",
    )
    assert found.accounts[0].key == Secret("sk-of-my-own")
    assert found.clients == ()
    assert (found.admin.key, found.storage.key, found.storage.responses) == (None, None, True)
