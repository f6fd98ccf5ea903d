"""Files, answers and errors that are not what they should be."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dragoman.accounts.credentials.decide.answers import json_object, refusal
from dragoman.accounts.credentials.decide.answers import token_of as token_in
from dragoman.accounts.credentials.decide.refreshing import CredentialError
from dragoman.accounts.credentials.io import Answer, Ask
from tests.credentials.environments import BASE, Clouds, settings_of

SECRET = "a-secret-that-was-sent"


@pytest.mark.parametrize("name", ["error", "message", "error_description", "Message", "code"])
def test_a_refusal_that_quotes_a_secret_does_not_show_it(name: str) -> None:
    body = json.dumps({name: f"{SECRET} is not known"}).encode()
    for status in (400, 500):
        assert SECRET not in str(refusal(status, body, "the server", {}))
    xml = f"<Error><Code>{SECRET} x</Code><Message>{SECRET}</Message></Error>".encode()
    assert SECRET not in str(refusal(400, xml, "the server", {}))


def test_a_life_too_long_to_be_counted_is_one_that_is_not_said() -> None:
    answer = json_object(b'{"access_token": "t", "expires_in": 1%s}' % (b"0" * 400), "it")
    assert token_in(answer, "it", 0.0)[1].expires_at == 300.0


@pytest.mark.parametrize(
    "profile",
    [
        "credential_process = program 'of",
        "role_arn = r\nweb_identity_token_file = {token}",
    ],
)
async def test_what_cannot_be_read_is_the_reason(tmp_path: Path, profile: str) -> None:
    token, file = tmp_path / "token", tmp_path / "config"
    token.write_bytes(b"\xff" + SECRET.encode())
    file.write_text(f"[profile p]\n{profile.format(token=token)}\n")
    clouds = Clouds({"AWS_CONFIG_FILE": str(file)})
    with pytest.raises(CredentialError) as raised:
        await clouds.obtain(settings_of('kind = "aws", profile = "p"'))
    assert "cannot be read (" in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(("status", "region"), [(200, "x@evil.example/b"), (404, "not found")])
async def test_metadata_does_not_name_the_host_that_is_sent_a_token(
    tmp_path: Path, status: int, region: str
) -> None:
    file, token = tmp_path / "file", tmp_path / "token"
    token.write_text(SECRET)
    source = {"environment_id": "aws1", "region_url": f"{BASE}/region"}
    kind = {"type": "external_account", "audience": "a", "credential_source": source}
    file.write_text(json.dumps(kind))

    class Hostile(Clouds):
        async def fetch(self, ask: Ask) -> Answer:
            self.asks.append(ask)
            return Answer(status, {}, region.encode())

    clouds = Hostile({"AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": "role"})
    with pytest.raises(CredentialError):
        await clouds.obtain(settings_of(f'kind = "google", file = "{file}"'))
    assert [urlsplit(ask.url).path for ask in clouds.asks] == ["/region"]
