"""Clients of every protocol over the services of clouds, which the simulator plays."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols import CODECS
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import PATHS, body, completed, stream_error, streamed_text, text_of
from tests.gateway.http import KEY, call

SAID = "The dragoman stood between two"
ASKED = "Hello [[sim: scenario=text words=5]]"
MODEL = "arn:aws:bedrock:us-east-1:1:application-inference-profile/x1"
SERVED = {
    "bedrock": ("/model/{}/invoke", "/model/{}/invoke-with-response-stream"),
    "claude": (
        "/v1/projects/p-1/locations/europe-west1/publishers/anthropic/models/{}:rawPredict",
        "/v1/projects/p-1/locations/europe-west1/publishers/anthropic/models/{}:streamRawPredict",
    ),
    "gemini": (
        "/v1/projects/p-1/locations/global/publishers/google/models/{}:generateContent",
        "/v1/projects/p-1/locations/global/publishers/google/models/{}:streamGenerateContent",
    ),
    "garden": ("/v1beta1/projects/p-1/locations/global/endpoints/openapi/chat/completions",) * 2,
    "azure": ("/openai/deployments/{}/chat/completions",) * 2,
}
MODELS = {
    "bedrock": MODEL,
    "claude": "claude-opus-4-5@20251101",
    "gemini": "gemini-3.1-pro",
    "garden": "google/gemini-3.1-pro",
    "azure": "my-deployment",
}
KEYS = {"bedrock": "bedrock-key", "azure": "azure-key"}
CELLS = [
    *((client, "bedrock") for client in PATHS),
    *(("messages", service) for service in SERVED if service != "bedrock"),
    ("chat", "claude"),
    ("chat", "azure"),
    ("responses", "gemini"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "service"), CELLS)
def test_an_answer(
    client: str, service: str, stream: bool, gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """What each service wants is checked by the simulator."""
    asked = body(client, f"{service}/{MODELS[service]}", ASKED, stream=stream)
    told = call(gateway.base_url, "POST", PATHS[client], asked)
    assert told.status == 200, told.body
    if stream:
        assert streamed_text(client, told.body) == SAID
        assert completed(client, told.body)
    else:
        assert text_of(client, told) == SAID
    assert simulator.last.path == SERVED[service][stream].format(MODELS[service])
    assert simulator.last.key == KEYS.get(service, "token")
    if service == "azure":
        assert simulator.last.query == "api-version=2024-10-21"


@pytest.mark.parametrize("client", PATHS)
def test_whole_equals_streamed(client: str, gateway: RunningGateway) -> None:
    """An answer of several blocks over an event stream has the usage of a whole one."""
    text = "[[sim: scenario=parallel_tools seed=5]]"
    tools: dict[str, Any] = {"name": "get_weather", "input_schema": {"type": "object"}}
    if client != "messages":
        function = {"name": "get_weather", "parameters": {"type": "object"}}
        tools = {"type": "function", "function": function}
        tools = tools if client == "chat" else {"type": "function", **function}
    options = {"stream_options": {"include_usage": True}} if client == "chat" else {}
    asked = body(client, f"bedrock/{MODEL}", text, tools=[tools])
    whole = call(gateway.base_url, "POST", PATHS[client], asked)
    streamed = call(gateway.base_url, "POST", PATHS[client], {**asked, **options, "stream": True})
    assert whole.status == streamed.status == 200
    usage = whole.json["usage"]
    tokens = usage.get("output_tokens", usage.get("completion_tokens"))
    assert f'_tokens":{tokens}'.encode() in streamed.body
    assert streamed.body.count(b"get_weather") >= whole.body.count(b"get_weather") >= 1


def test_a_long_answer_is_asked_for_as_a_stream(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """An event stream that no client asked for becomes a whole answer."""
    asked = body("chat", f"bedrock/{MODEL}", ASKED, max_tokens=120_000)
    told = call(gateway.base_url, "POST", PATHS["chat"], asked)
    assert text_of("chat", told) == SAID
    assert simulator.last.path.endswith("/invoke-with-response-stream")


@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("fault=error status=429", 429),
        ("fault=error_in_stream status=429 after=0", 429),
        ("fault=truncate after=0", 502),
    ],
)
def test_a_failure_before_the_answer(
    client: str, fault: str, status: int, gateway: RunningGateway
) -> None:
    """The 200 of the service is held back until there is something of an answer."""
    asked = body(client, f"bedrock/{MODEL}", f"[[sim: scenario=text {fault}]]", stream=True)
    told = call(gateway.base_url, "POST", PATHS[client], asked)
    assert told.status in (status, 503, 529), told.body
    assert not told.body.startswith(b"data:")


@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize("fault", ["error_in_stream status=429", "truncate", "close"])
def test_a_failure_within_the_answer(client: str, fault: str, gateway: RunningGateway) -> None:
    text = f"[[sim: scenario=text words=40 fault={fault} after=9]]"
    asked = body(client, f"bedrock/{MODEL}", text, stream=True)
    told = call(gateway.base_url, "POST", PATHS[client], asked)
    assert told.status == 200
    assert streamed_text(client, told.body)
    assert not completed(client, told.body)
    assert stream_error(client, told.body) is not None


def test_pieces_of_messages(gateway: RunningGateway) -> None:
    """The pieces in which an event stream arrives are no part of it."""
    text = "[[sim: scenario=text words=9 cut=7]]"
    told = call(
        gateway.base_url,
        "POST",
        PATHS["messages"],
        body("messages", f"bedrock/{MODEL}", text, stream=True),
    )
    assert len(streamed_text("messages", told.body).split()) == 9


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", [MODEL, "us.m-v1:0", "a b@c/d;e", "ü/é"])
def test_what_is_signed_is_what_is_sent(
    model: str, stream: bool, gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """The simulator computes the signature anew."""
    asked = body("messages", f"signed/{model}", ASKED, stream=stream)
    told = call(gateway.base_url, "POST", PATHS["messages"], asked)
    assert told.status == 200, told.body
    assert simulator.last.model == model
    assert simulator.last.key == "AKIDTEST"


COUNTED = "/v1/messages/count_tokens"


@pytest.mark.parametrize("service", ["bedrock", "claude"])
def test_a_count(service: str, gateway: RunningGateway, simulator: RunningSimulator) -> None:
    """Counted by the service itself, for the SDK of its protocol and a client of another."""
    with anthropic.Anthropic(base_url=gateway.base_url, api_key=KEY, max_retries=0) as client:
        told = client.messages.with_raw_response.count_tokens(
            model=f"{service}/m", messages=[{"role": "user", "content": "Hello there"}]
        )
    assert "x-dragoman-estimate" not in told.headers
    assert "count-tokens" in simulator.last.path
    other = {"model": f"{service}/m", "input": "Hello there"}
    responses = call(gateway.base_url, "POST", "/v1/responses/input_tokens", other)
    assert responses.json["input_tokens"] == told.parse().input_tokens > 0


def test_a_count_of_gemini(gateway: RunningGateway, simulator: RunningSimulator) -> None:
    asked = {"model": "gemini/g-3", "messages": [{"role": "user", "content": "Hello there"}]}
    told = call(gateway.base_url, "POST", COUNTED, asked)
    assert told.status == 200, told.body
    assert told.json["input_tokens"] > 0
    assert "x-dragoman-estimate" not in told.headers
    assert simulator.last.path.endswith("/publishers/google/models/g-3:countTokens")
    assert set(simulator.last.json) == {"contents", "generationConfig"}


FOREIGN = {
    "x-amz-date": "20261129T000000Z",
    "x-amz-security-token": "sk-of-client-0004",
    "x-amzn-bedrock-guardrailidentifier": "of-client",
    "cookie": "sk-of-client-0005",
    "x-forwarded-for": "192.0.2.1",
    "x-forwarded-host": "of-client",
    "forwarded": "for=192.0.2.1",
    "via": "1.1 of-client",
    "x-stainless-lang": "of-client",
    "anthropic-workspace-id": "of-client",
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("service", SERVED)
@pytest.mark.parametrize("client", ["messages", "chat"])
def test_no_header_of_a_client_reaches_a_service(
    client: str, service: str, stream: bool, gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    asked = body(client, f"{service}/{MODELS[service]}", ASKED, stream=stream)
    key = {"x-api-key": KEY} if client == "messages" else {"authorization": f"Bearer {KEY}"}
    told = call(gateway.base_url, "POST", PATHS[client], asked, {**FOREIGN, **key}, key=None)
    assert told.status == 200, told.body
    sent = dict(simulator.last.headers)
    assert not {name for name in FOREIGN if name in sent}
    assert not any("of-client" in value or "192.0.2" in value for value in sent.values())
    assert KEY not in str(sent)


def test_the_models_of_a_service_are_those_of_the_configuration(gateway: RunningGateway) -> None:
    told = call(gateway.base_url, "GET", "/v1/models")
    assert told.status == 200


def test_inference_profiles_with_claude_are_models_where_they_are_asked_for(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """The simulator checks the signature; at AWS it is the host of the control plane."""
    told = call(gateway.base_url, "GET", "/v1/models").json["data"]
    names = [one["id"] for one in told]
    assert f"signed/us.anthropic.{simulator.app.model_names()[0]}" in names
    assert not [name for name in names if "nova" in name or name.startswith("bedrock/")]
    at = CODECS["anthropic_messages"].endpoint.services["bedrock_invoke"].models.base_url
    assert at is not None
    runtime = "https://bedrock-runtime-fips.eu-west-1.amazonaws.com"
    assert at(runtime) == "https://bedrock-fips.eu-west-1.amazonaws.com"
