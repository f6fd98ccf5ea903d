"""An environment for sources of credentials: the simulator's authority, without sockets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from urllib.parse import urlsplit

import pytest

from dragoman.accounts.credentials.decide.refreshing import (
    Credential,
    CredentialError,
    CredentialFailure,
)
from dragoman.accounts.credentials.io import Answer, Ask, Environment, Unanswered
from dragoman.accounts.credentials.messages import Obtain
from dragoman.accounts.credentials.place import Place
from dragoman.accounts.credentials.sources import obtain
from dragoman.config import Account, parse_config
from dragoman.config.credentials import Credentials
from dragoman.lab.simulator.authority import Authority
from dragoman.lab.simulator.recording import RecordedRequest
from tests.credentials.given import config

BASE = "http://127.0.0.1:1"
PLACE = Place("https://bedrock-runtime.us-east-1.amazonaws.com/anthropic", region="us-east-1")


class Clouds:
    """All issuers. `down`: none of them answers. `asks` are the requests."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self.authority = Authority()
        self.down = False
        self.asks: list[Ask] = []
        none = {"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}
        none |= {"CLOUDSDK_CONFIG": "/nowhere", "PATH": "/usr/bin:/bin"}
        self.environ = {**none, **(environ or {})}

    async def fetch(self, ask: Ask) -> Answer:
        self.asks.append(ask)
        if self.down:
            raise Unanswered("connection refused", was_sent=False)
        parts = urlsplit(ask.url)
        headers = (("host", parts.netloc), *ask.headers)
        record = RecordedRequest(0, ask.method, parts.path, parts.query, headers)
        record.body = ask.body
        answer = self.authority.answer(record)
        assert answer is not None, f"nobody answers {ask.method} {parts.path}"
        status, found, body = answer
        return Answer(status, {name.lower(): value for name, value in found}, body)

    async def obtain(
        self, settings: Credentials, place: Place = PLACE, failure: CredentialFailure | None = None
    ) -> Credential:
        account = Account(name="one", upstream="cloud", credentials=settings)
        environment = Environment(self.fetch, time.time, self.environ)
        return await obtain(account, place, Obtain("", None, failure), environment)


def settings_of(credentials: str) -> Credentials:
    """The settings as the configuration file has them."""
    found = parse_config(config(credentials)).config.accounts[0].credentials
    assert found is not None
    return found


def token_of(credential: Credential) -> str:
    return dict(credential.headers)["authorization"].removeprefix("Bearer ")


async def failure(clouds: Clouds, credentials: str) -> CredentialError:
    with pytest.raises(CredentialError) as raised:
        await clouds.obtain(settings_of(credentials))
    return raised.value
