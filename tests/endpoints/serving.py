"""Gateways whose upstreams have endpoints, over the simulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

import openai

from dragoman.config import (
    Account,
    Client,
    Config,
    EndpointName,
    OwnPrice,
    Route,
    Secret,
    Server,
    Timeouts,
    Upstream,
)
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.http import KEY, TRUSTS_NOBODY, Answer, call

ALL = get_args(EndpointName)
_clients: list[openai.OpenAI] = []
TIMEOUTS = Timeouts(connect_s=2.0, first_byte_s=5.0, idle_s=5.0)


def upstream(name: str, base_url: str, protocol: str = "openai_chat", **fields: Any) -> Upstream:
    if protocol == "openai_chat":
        fields.setdefault("endpoints", ALL)
    return Upstream(name=name, protocol=protocol, base_url=base_url, timeouts=TIMEOUTS, **fields)


def config(
    *upstreams: Upstream,
    keys: tuple[str, ...] = ("sk-sim-account",),
    routes: tuple[Route, ...] = (),
    prices: tuple[OwnPrice, ...] = (),
    **client: Any,
) -> Config:
    """Each upstream with an account for each key, and a client. A name `my-*` leads to the first
    upstream, which has a `sim-` model of that name."""
    clients = (Client(name="tester", key=Secret(KEY), **client),)
    return Config(
        server=Server(commit_after_s=10.0, shutdown_grace_s=5.0),
        clients=clients,
        upstreams=upstreams,
        accounts=tuple(
            Account(name=f"{one.name}-{number}", upstream=one.name, key=Secret(key))
            for one in upstreams
            for number, key in enumerate(keys)
        ),
        routes=(*routes, Route(match="my-model", upstream=upstreams[0].name, model="sim-model")),
        prices=prices,
    )


@contextmanager
def serving(made: Config) -> Iterator[tuple[RunningGateway, list[Any]]]:
    """A gateway and the lines of its log."""
    lines: list[Any] = []
    with running_gateway(made, lambda line: lines.append(json.loads(line))) as gateway:
        yield gateway, lines
        while _clients:
            _clients.pop().close()


def sdk(gateway: RunningGateway) -> openai.OpenAI:
    """OpenAI's client of a gateway, closed with it."""
    client = openai.OpenAI(
        api_key=KEY,
        base_url=gateway.openai_base_url,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=TRUSTS_NOBODY),
    )
    _clients.append(client)
    return client


def post(gateway: RunningGateway, path: str, body: bytes | dict[str, Any], **fields: Any) -> Answer:
    if isinstance(body, bytes):
        fields["headers"] = {"content-type": "application/json", **fields.get("headers", {})}
    return call(gateway.base_url, "POST", path, body, **fields)


REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"model": "my-model", "input": "one"},
    "/v1/moderations": {"model": "my-model", "input": "one"},
    "/v1/completions": {"model": "my-model", "prompt": "one"},
    "/v1/fim/completions": {"model": "my-model", "prompt": "one", "suffix": "two"},
    "/beta/completions": {"model": "my-model", "prompt": "one", "suffix": "two"},
    "/infill": {"model": "my-model", "input_prefix": "one", "input_suffix": "two"},
    "/v1/rerank": {"model": "my-model", "query": "one", "documents": ["one", "two"]},
    "/v2/rerank": {"model": "my-model", "query": "one", "documents": ["one", "two"]},
    "/v1/images/generations": {"model": "my-model", "prompt": "one"},
    "/v1/audio/speech": {"model": "my-model", "input": "one", "voice": "alloy"},
}
"""A request for each path of the table that has no parameter, with a held body."""
