"""Gateways over one store, whose upstreams hold files and batches of two accounts each."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import psycopg
from google import genai

from dragoman.config import read_config
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.http import TRUSTS_NOBODY, call

ME, YOU = "sk-client-me-000001", "sk-client-you-00001"
SAID: Any = [{"role": "user", "content": "é"}]
KEYS = ("sk-sim-one", "sk-sim-two")
_ENDPOINTS = '["files", "uploads", "batches", "conversations", "vector_stores", "containers"]'
_UPSTREAMS = """
[[upstreams]]
name = "chat"
protocol = "openai_chat"
base_url = "{url}"
endpoints = {endpoints}
[[upstreams]]
name = "responses"
protocol = "openai_responses"
base_url = "{url}"
endpoints = {endpoints}
stored_responses = "pass"
[[upstreams]]
name = "messages"
protocol = "anthropic_messages"
base_url = "{url}"
[[upstreams]]
name = "google"
protocol = "google_generate_content"
base_url = "{url}"
[[upstreams]]
name = "interactions"
protocol = "google_interactions"
base_url = "{url}"
[[routes]]
match = "my-*"
upstream = "chat"
model = "sim-text"
[[routes]]
match = "gemini-*"
upstream = "google"
model = "sim-text"
[[routes]]
match = "claude-*"
upstream = "messages"
model = "sim-text"
"""
_CLIENT = """
[[clients]]
name = "{name}"
key = "{key}"
{rules}
"""
_ACCOUNT = """
[[accounts]]
name = "{upstream}-{key}"
upstream = "{upstream}"
key = "{key}"
"""
BUDGET = """
[[clients.limits]]
kind = "cost"
window = "30d"
amount = 0.01
"""
TOKENS = 25
"""Of each request of a simulated batch."""
PRICES = """
[[prices]]
upstream = "{upstream}"
model = "*"
input = 1.0
output = 10.0
"""


class Gateways:
    """Opens gateways that share a store, and so the things of their clients."""

    def __init__(self, simulator: RunningSimulator, folder: Path, url: str) -> None:
        self.simulator = simulator
        self.folder = folder
        self._url = url
        self._storage = f'url = "{url}"' if url else 'path = "store.db"'
        self._stack = ExitStack()

    def open(
        self, rules: str = "", more: str = "", keys: tuple[str, ...] = KEYS, yours: str = ""
    ) -> RunningGateway:
        """One more gateway. `rules` are those of the first client, `yours` of the second."""
        accounts = "".join(
            _ACCOUNT.format(upstream=upstream, key=key)
            for upstream in ("chat", "responses", "messages", "google", "interactions")
            for key in keys
        )
        clients = _CLIENT.format(name="me", key=ME, rules=rules)
        clients += _CLIENT.format(name="you", key=YOU, rules=yours)
        made = _UPSTREAMS.format(url=self.simulator.base_url, endpoints=_ENDPOINTS)
        file = self.folder / "dragoman.toml"
        file.write_text(f"[storage]\n{self._storage}\n{clients}{made}{accounts}{more}")
        return self._stack.enter_context(running_gateway(read_config(file)))

    def make_due(self) -> None:
        """Have all batches looked at now."""
        statement = "UPDATE kept_elsewhere SET due = 1 WHERE due IS NOT NULL"
        if self._url:
            with psycopg.connect(self._url) as store:
                store.execute(statement)
        else:
            with closing(sqlite3.connect(self.folder / "store.db")) as file, file:
                file.execute(statement)

    def openai(self, gateway: RunningGateway, key: str = ME) -> openai.OpenAI:
        """A client of OpenAI's SDK."""
        http = openai.DefaultHttpxClient(verify=TRUSTS_NOBODY)
        url = gateway.openai_base_url
        made = openai.OpenAI(base_url=url, api_key=key, max_retries=0, http_client=http)
        return self._stack.enter_context(made)

    def anthropic(self, gateway: RunningGateway, key: str = ME) -> anthropic.Anthropic:
        """A client of Anthropic's SDK."""
        http = anthropic.DefaultHttpxClient(verify=TRUSTS_NOBODY)
        url = gateway.base_url
        made = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, http_client=http)
        return self._stack.enter_context(made)

    def google(self, gateway: RunningGateway, key: str = ME, version: str = "v1") -> genai.Client:
        """A client of Google's SDK."""
        url = gateway.base_url
        options = genai.types.HttpOptions(
            base_url=url, api_version=version, client_args={"verify": TRUSTS_NOBODY}
        )
        made = genai.Client(api_key=key, http_options=options)
        self._stack.callback(made.close)
        return made

    def close(self) -> None:
        self._stack.close()


@contextmanager
def gateways(simulator: RunningSimulator, folder: Path, url: str) -> Iterator[Gateways]:
    """Gateways over a store in `folder`, or in the PostgreSQL database of `url`."""
    made = Gateways(simulator, folder, url)
    try:
        yield made
    finally:
        made.close()


def batch_lines(*models: str, most: int | None = 100, messages: Any = SAID) -> bytes:
    """The file of a batch, with a request for each of these models."""
    lines = []
    for number, model in enumerate(models):
        body: dict[str, Any] = {"model": model, "messages": messages}
        if most is not None:
            body["max_tokens"] = most
        line = {"custom_id": f"r{number}", "method": "POST", "url": "/v1/chat/completions"}
        lines.append(json.dumps({**line, "body": body}) + "\n")
    return "".join(lines).encode()


def used(gateway: RunningGateway) -> int:
    """The tokens that the client of the tests has used."""
    total = call(gateway.base_url, "GET", "/v1/usage", key=ME).json["total"]
    return int(total["input_tokens"] + total["output_tokens"])


def limit_of(gateway: RunningGateway) -> dict[str, str]:
    """The limit of the client of the tests: what is used of it, and reserved."""
    (limit,) = call(gateway.base_url, "GET", "/v1/key", key=ME).json["limits"]
    return dict(limit)
