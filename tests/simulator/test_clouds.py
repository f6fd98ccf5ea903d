"""The simulator as a cloud: the vendors' SDKs use it, and what they would not send is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.http import TRUSTS_NOBODY, Answer, call

ASKED: Any = [{"role": "user", "content": "Hello [[sim: scenario=text words=3]]"}]
SAID = "The dragoman stood"
KEY = {"authorization": "Bearer k"}
BODY = {"messages": ASKED, "max_tokens": 9, "anthropic_version": "bedrock-2023-05-31"}
VERTEX = "/v1/projects/p/locations/l/publishers/anthropic/models/m"


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(verify=TRUSTS_NOBODY, timeout=30) as client:
        yield client


def test_anthropic_bedrock(simulator: RunningSimulator, http: httpx2.Client) -> None:
    client = anthropic.AnthropicBedrock(
        aws_region="us-east-1", api_key="k", base_url=simulator.base_url, http_client=http
    )
    told = client.messages.create(model="a/b", max_tokens=9, messages=ASKED)
    assert told.content[0].text == SAID  # type: ignore[union-attr]
    with client.messages.stream(model="a/b", max_tokens=9, messages=ASKED) as stream:
        assert stream.get_final_text() == SAID
    assert simulator.last.model == "a/b"


def test_anthropic_vertex(simulator: RunningSimulator, http: httpx2.Client) -> None:
    client = anthropic.AnthropicVertex(
        region="l",
        project_id="p",
        access_token="t",
        base_url=f"{simulator.base_url}/v1",
        http_client=http,
    )
    told = client.messages.create(model="m@1", max_tokens=9, messages=ASKED)
    assert told.content[0].text == SAID  # type: ignore[union-attr]
    with client.messages.stream(model="m@1", max_tokens=9, messages=ASKED) as stream:
        assert stream.get_final_text() == SAID
    assert client.messages.count_tokens(model="m@1", messages=ASKED).input_tokens > 0
    assert simulator.last.model == "m@1"


def test_azure_openai(simulator: RunningSimulator, http: httpx2.Client) -> None:
    client = openai.AzureOpenAI(
        azure_endpoint=simulator.base_url, api_version="2024-10-21", api_key="k", http_client=http
    )
    told = client.chat.completions.create(model="d", messages=ASKED)
    assert told.choices[0].message.content == SAID
    chunks = list(client.chat.completions.create(model="d", messages=ASKED, stream=True))
    assert not chunks[0].choices
    assert not chunks[0].id
    texts = [one.choices[0].delta.content or "" for one in chunks if one.choices]
    assert "".join(texts) == SAID


def ask(simulator: RunningSimulator, path: str, body: Any, headers: dict[str, str] = KEY) -> Answer:
    return call(
        simulator.base_url, "POST", path, json.dumps(body).encode(), JSON | headers, key=None
    )


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/model/m/invoke", {**BODY, "model": "m"}, KEY, 400),
        ("/model/m/invoke", {**BODY, "stream": False}, KEY, 400),
        ("/model/m/invoke", {"messages": ASKED, "max_tokens": 9}, KEY, 400),
        ("/model/m/invoke", {**BODY, "anthropic_version": "vertex-2023-10-16"}, KEY, 400),
        ("/model/m/invoke", {**BODY, "anthropic_beta": "a"}, KEY, 400),
        ("/model/m/invoke", BODY, {**KEY, "anthropic-version": "2023-06-01"}, 400),
        ("/model/m/invoke", BODY, {**KEY, "x-api-key": "k"}, 400),
        ("/model/m/invoke", BODY, {}, 403),
        ("/model/m/count-tokens", {"input": {"invokeModel": {"body": "e30"}}}, KEY, 400),
        (f"{VERTEX}:rawPredict", {**BODY, "anthropic_version": "vertex-2023-10-16"}, KEY, 200),
        (f"{VERTEX}:rawPredict", BODY, KEY, 400),
        (
            f"{VERTEX}:streamRawPredict",
            {**BODY, "anthropic_version": "vertex-2023-10-16"},
            KEY,
            400,
        ),
        ("/openai/deployments/d/chat/completions", {"messages": ASKED}, KEY, 404),
        (
            "/openai/deployments/d/chat/completions?api-version=1",
            {"messages": ASKED},
            {"api-key": "k"},
            200,
        ),
    ],
)
def test_what_a_cloud_takes(
    path: str, body: Any, headers: dict[str, str], status: int, simulator: RunningSimulator
) -> None:
    assert ask(simulator, path, body, headers).status == status


def test_the_errors_of_bedrock(simulator: RunningSimulator) -> None:
    told = ask(simulator, "/model/m/invoke", {**BODY, "model": "m"})
    assert told.headers["x-amzn-errortype"].startswith("ValidationException:")
    assert told.json == {"message": "model: Extra inputs are not permitted"}
