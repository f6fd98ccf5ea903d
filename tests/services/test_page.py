"""The page about clouds: what it has to paste is a configuration, and its table says what is so."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from dragoman.cli import main
from dragoman.config import parse_config
from dragoman.lab.simulator.authority import KEY_ID, SECRET
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.prices.loading import load_table, provider_of
from dragoman.server.testing import running_gateway
from tests.gateway.clients import PATHS, body
from tests.gateway.http import call

PAGE = (Path(__file__).parents[2] / "docs" / "clouds.md").read_text()
SERVICES = PAGE.partition("## Services")[2]
ROWS = re.findall(r"^\| ([^|]+) \| (`\w+[^|]*) \| ?([^|]*)\| `(https[^|`]+)` \|$", SERVICES, re.M)
HEAD = '[server]\nport = 0\n[[clients]]\nname = "t"\nkey = "sk-test-client"\n'
VARIABLES = dict.fromkeys(re.findall(r'"env:(\w+)"', SERVICES), "secret-of-the-test")


def test_what_is_to_be_pasted_is_checked(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", SERVICES, re.DOTALL)
    file = tmp_path / "dragoman.toml"
    file.write_text(block)
    done = CliRunner().invoke(main, ["check", "--config", str(file)], env=VARIABLES)
    assert done.exit_code == 0, done.output
    assert "usable (4 upstreams, 4 accounts" in done.output


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}, {row[1][1:12]}" for row in ROWS])
def test_every_row_is_an_upstream(row: tuple[str, str, str, str]) -> None:
    _, protocols, service, base_url = row
    for protocol in re.findall(r"`(\w+)`", protocols):
        text = f'[[upstreams]]\nname = "u"\nprotocol = "{protocol}"\nbase_url = "{base_url}"\n'
        if service.strip():
            text += f'service = "{service.strip().strip("`")}"\n'
        (upstream,) = parse_config(text).config.upstreams
        assert upstream.endpoint is upstream.codec.endpoint.at(upstream.service)


def test_prices_are_those_of_the_host() -> None:
    text = re.findall(r"```toml\n(.*?)```", SERVICES, re.DOTALL)[0]
    for name, value in VARIABLES.items():
        text = text.replace(f"env:{name}", value)
    table = load_table()
    found = [provider_of(upstream, table) for upstream in parse_config(text).config.upstreams]
    assert found == ["aws", "google", "google", "azure"]


def test_the_table_has_every_service() -> None:
    assert len(ROWS) >= 11
    named = set(re.findall(r"`(bedrock_invoke|vertex|azure_deployments)`", str(ROWS)))
    assert len(named) == 3


def pasted(url: str, folder: Path) -> str:
    """All that the page has to paste of credentials, with the simulator in place of vendors, as
    the page says; files and programs are those of the test."""
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.partition("## Services")[0], re.DOTALL)
    text = ""
    for number, block in enumerate(blocks):
        if "[[accounts]]" in block:
            text += block
            continue
        text += (
            f'[[upstreams]]\nname = "u{number}"\nprotocol = "openai_chat"\n'
            f'base_url = "{url}"\n[[accounts]]\nname = "a{number}"\nupstream = "u{number}"\n{block}'
        )
    google = "https://{location}-aiplatform.googleapis.com"
    for vendors, own in {
        "https://bedrock-runtime.{region}.amazonaws.com/anthropic": url,
        'profile = "work"': 'profile = "work", signing_name = "bedrock"',
        google: url,
        "https://{resource}.openai.azure.com/openai/v1": url,
        "https://idp.example/token": f"{url}/oauth/token",
        "https://api.anthropic.com/v1/oauth/token": f"{url}/oauth/token",
        "/etc/keys/service-account.json": str(folder / "google.json"),
        "/usr/bin/vault": str(folder / "vault"),
        "file:/run/secret": f"file:{folder}/secret",
        "/var/run/secrets/token": str(folder / "token"),
    }.items():
        assert vendors in text, vendors
        text = text.replace(vendors, own)
    return text


def test_examples_of_credentials_work_as_pasted(
    simulator: RunningSimulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each account is asked once; the simulator checks by what."""
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    file = {"type": "service_account", "client_email": "g@p", "private_key_id": "k"}
    file |= {"private_key": pem, "token_uri": f"{simulator.base_url}/token"}
    (tmp_path / "google.json").write_text(json.dumps(file))
    (tmp_path / "secret").write_text("oauth-secret")
    (tmp_path / "token").write_text("of-a-workload")
    (tmp_path / "aws").write_text(
        f"[work]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n"
    )
    program = tmp_path / "vault"
    program.write_text('#!/bin/sh\n[ "$*" = "read -field=token llm" ] && echo of-a-vault\n')
    program.chmod(0o700)
    for name, value in {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "aws"),
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AZURE_AUTHORITY_HOST": simulator.base_url,
        "AZURE_CLIENT_SECRET": "of-azure",
    }.items():
        monkeypatch.setenv(name, value)
    config = parse_config(HEAD + pasted(simulator.base_url, tmp_path))
    found = {}
    with running_gateway(config) as gateway:
        for upstream in config.config.upstreams:
            asked = body("chat", f"{upstream.name}/sim-text", "[[sim: scenario=text words=3]]")
            told = call(gateway.base_url, "POST", PATHS["chat"], asked)
            assert told.status == 200, told.body
            found[upstream.name] = simulator.last.key
    kinds = [found.pop(name) for name in ("bedrock", "vertex", "azure")]
    assert kinds[0] == KEY_ID
    assert kinds[1].startswith("sim-token-google")
    assert kinds[2].startswith("sim-token-entra")
    assert [re.sub(r"-\d+$", "", one) for one in found.values()] == [
        "of-a-vault",
        "sim-token-oauth",
        "sim-token-oauth",
    ]
    assert simulator.app.authority.last["oauth"]["federation_rule_id"] == "RULE"


def test_examples_of_services_work_as_pasted(
    simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    (text,) = re.findall(r"```toml\n(.*?)```", SERVICES, re.DOTALL)
    vendors = r"https://(\{location\}-|bedrock-runtime\.\{region\}\.|\{resource\}\.)?[a-z.]+\.com"
    text, replaced = re.subn(vendors, simulator.base_url, text)
    assert replaced == 4
    with running_gateway(parse_config(HEAD + text)) as gateway:
        for model, upstream in {
            "claude-opus-5": "us.anthropic.claude-opus-5",
            "vertex-claude/claude-opus-5": "claude-opus-5",
            "gemini-3.1-pro": "gemini-3.1-pro",
            "gpt-x": "my-deployment",
        }.items():
            asked = body("chat", model, "[[sim: scenario=text words=3]]")
            told = call(gateway.base_url, "POST", PATHS["chat"], asked)
            assert told.status == 200, told.body
            assert (simulator.last.model, simulator.last.key) == (upstream, "secret-of-the-test")


AWS = 'kind = "aws", signing_name = "bedrock"'
FIXED = f'{AWS}, access_key_id = "{KEY_ID}", secret_access_key = "{SECRET}"'
OAUTH = 'kind = "oauth2", token_url = "{url}/oauth/token", client_secret = "oauth-secret"'
ENTRA = 'kind = "azure", tenant = "t", client_id = "c", client_secret = "s"'
ISSUED = "sim-token-"


@pytest.mark.parametrize(
    ("variable", "credentials", "key"),
    [
        ("", FIXED, KEY_ID),
        ("AWS_ENDPOINT_URL_STS", f'{FIXED}, role_arn = "arn:aws:iam::1:role/r"', "ASIA"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", AWS, "ASIA"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AWS, "ASIA"),
        ("AWS_ENDPOINT_URL_SSO", f'{AWS}, profile = "dev"', "ASIA"),
        ("GCE_METADATA_HOST", 'kind = "google"', f"{ISSUED}google_metadata"),
        ("AZURE_AUTHORITY_HOST", ENTRA, f"{ISSUED}entra"),
        ("AZURE_POD_IDENTITY_AUTHORITY_HOST", 'kind = "azure"', f"{ISSUED}managed_identity"),
        ("", OAUTH, f"{ISSUED}oauth"),
    ],
)
def test_the_simulator_is_reached_as_the_page_says(
    variable: str,
    credentials: str,
    key: str,
    simulator: RunningSimulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = tmp_path / ".aws/sso/cache"
    cache.mkdir(parents=True)
    login = {"accessToken": "login", "expiresAt": "2099-01-01T00:00:00Z"}
    digest = hashlib.sha1(b"corp", usedforsecurity=False).hexdigest()
    (cache / f"{digest}.json").write_text(json.dumps(login))
    (tmp_path / ".aws/config").write_text(
        "[profile dev]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = r\n"
        "[sso-session corp]\nsso_region = eu-west-1\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    if variable:
        ((_, place),) = re.findall(rf"`{variable}=(http://)?127.0.0.1:8099(.*?)`", PAGE)
        url = f"{simulator.base_url}{place}"
        is_host = variable == "GCE_METADATA_HOST"
        monkeypatch.setenv(variable, url.removeprefix("http://") if is_host else url)
    text = (
        f'{HEAD}[[upstreams]]\nname = "u"\nprotocol = "openai_chat"\n'
        f'base_url = "{simulator.base_url}"\n[[accounts]]\nname = "a"\nupstream = "u"\n'
        f'region = "eu-west-1"\ncredentials = {{ {credentials} }}\n'
    )
    with running_gateway(parse_config(text.replace("{url}", simulator.base_url))) as gateway:
        told = call(gateway.base_url, "POST", PATHS["chat"], body("chat", "u/sim-text"))
        assert told.status == 200, told.body
    assert simulator.last.key.startswith(key)
