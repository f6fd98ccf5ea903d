"""What is sent to the services of clouds: paths, members and headers, as the vendors' SDKs have
them."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import unquote

import anthropic
import httpx2
import openai
import pytest

from dragoman.canonical.errors import InvalidRequest, Refused
from dragoman.config import Upstream, parse_config
from dragoman.config.errors import ConfigError
from dragoman.endpoints.wire import path_at
from dragoman.protocols import CODECS
from dragoman.protocols.settings import make_capabilities
from dragoman.translation import Call, CallSettings, ClientRequest
from dragoman.translation.library import translate_request
from dragoman.upstream.request import UpstreamRequest, prepared
from dragoman.upstream.urls import join_url

HELLO = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
DATE, BEDROCK, VERTEX = "2026-10-21", "bedrock-2023-05-31", "vertex-2023-10-16"
OLD = "2023-06-01"

Sent = tuple[str, str, dict[str, Any]]
"""Path, query and body."""


def made(
    service: str,
    body: dict[str, Any] = HELLO,
    headers: dict[str, str] | None = None,
    model: str | None = None,
    protocol: str = "anthropic_messages",
    capabilities: dict[str, Any] | None = None,
) -> Call:
    """The call of a client of the service's own protocol."""
    settings = CallSettings(
        model=model,
        service=service,
        headers=headers or {},
        capabilities=CODECS[protocol]
        .endpoint.at(service)
        .completed(make_capabilities(**(capabilities or {})), "http://h", model or ""),
    )
    return Call(ClientRequest(protocol, json.dumps(body).encode()), protocol, settings)


def sent(call: Call) -> dict[str, Any]:
    return dict(json.loads(call.body))


# --- as the SDKs ---------------------------------------------------------------------------------


class Recorded(Exception):
    """The request was recorded."""


def recording(found: list[Sent]) -> httpx2.Client:
    """A client of HTTP that records a request, and sends none."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        path, _, query = request.url.raw_path.decode().partition("?")
        found.append((path, query, json.loads(request.content)))
        raise Recorded

    return httpx2.Client(transport=httpx2.MockTransport(handle))


def by_sdk(ask: Any) -> Sent:
    """What an SDK sends."""
    found: list[Sent] = []
    with suppress(anthropic.APIConnectionError, openai.APIConnectionError, Recorded):
        ask(recording(found))
    (only,) = found
    return only


def target_of(base_url: str, call: Call) -> tuple[str, str]:
    """The path and query of a call below a base URL, as they go onto the wire."""
    path, _, own = call.path.partition("?")
    url = join_url(base_url, call.endpoint.version + path, own)
    line = prepared(UpstreamRequest(method="POST", url=url)).lines.split(b"\r\n")[0]
    target = line.split(b" ")[1].decode()
    path, _, query = target.partition("?")
    return path, query


ARN = "arn:aws:bedrock:us-east-1:1:application-inference-profile/a b;v=1"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", [ARN, "us.anthropic.claude-opus-5-v1:0", "ü@1", "a..b"])
def test_bedrock_invoke_is_asked_as_by_the_sdk(model: str, stream: bool) -> None:
    """Path and members are those of AnthropicBedrock."""
    betas = {"anthropic-beta": "context-1m-2025-08-07,effort-2025-11-24"}

    def ask(http_client: httpx2.Client) -> None:
        client = anthropic.AnthropicBedrock(
            aws_region="us-east-1", api_key="k", http_client=http_client, max_retries=0
        )
        asked: Any = {**HELLO, "model": model}
        client.messages.create(**asked, stream=stream, extra_headers=betas)

    headers = {"anthropic-version": DATE, **betas}
    call = made("bedrock_invoke", {**HELLO, "stream": stream}, headers, model)
    target = target_of("https://bedrock-runtime.us-east-1.amazonaws.com", call)
    assert (*target, sent(call)) == by_sdk(ask)
    assert not call.headers_passed
    assert not {"anthropic-version", "anthropic-beta"} & call.headers().keys()


@pytest.mark.parametrize("stream", [False, True])
def test_vertex_is_asked_as_by_the_sdk(stream: bool) -> None:
    model = "claude-opus-4-5@20251101"

    def ask(http_client: httpx2.Client) -> None:
        client = anthropic.AnthropicVertex(
            region="us-east5",
            project_id="p",
            access_token="t",
            http_client=http_client,
            max_retries=0,
        )
        asked: Any = {**HELLO, "model": model}
        if stream:
            asked["stream"] = True
        client.messages.create(**asked)

    body = {**HELLO, "stream": True} if stream else HELLO
    betas = {"anthropic-beta": "effort-2025-11-24"}
    call = made("vertex", body, {"anthropic-version": DATE, **betas}, model)
    base_url = "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5"
    assert (*target_of(base_url, call), sent(call)) == by_sdk(ask)
    assert call.headers_passed == betas
    assert "anthropic-version" not in call.headers()


def test_azure_is_asked_as_by_the_sdk() -> None:
    asked: Any = {"model": "my-gpt", "messages": HELLO["messages"]}

    def ask(http_client: httpx2.Client) -> None:
        client = openai.AzureOpenAI(
            azure_endpoint="https://res.openai.azure.com",
            api_version="2024-10-21",
            api_key="k",
            http_client=http_client,
            max_retries=0,
        )
        client.chat.completions.create(**asked)

    call = made("azure_deployments", asked, protocol="openai_chat")
    base_url = "https://res.openai.azure.com/openai?api-version=2024-10-21"
    assert (*target_of(base_url, call), sent(call)) == by_sdk(ask)
    assert call.headers("k")["api-key"] == "k"


@pytest.mark.parametrize(
    "path",
    [
        *("/completions", "/embeddings", "/images/generations", "/images/edits"),
        *("/audio/speech", "/audio/transcriptions", "/audio/translations"),
    ],
)
def test_other_endpoints_of_azure_are_where_the_sdk_has_them(path: str) -> None:
    """Each path of a deployment, also of those whose bodies are forms."""
    base_url = "https://res.openai.azure.com/openai?api-version=2024-10-21"

    def ask(http_client: httpx2.Client) -> None:
        with openai.AzureOpenAI(
            azure_endpoint="https://res.openai.azure.com",
            api_version="2024-10-21",
            api_key="k",
            http_client=http_client,
            max_retries=0,
        ) as client:
            client.post(path, body={"model": "my-gpt"}, cast_to=object)

    azure = Upstream(
        name="azure", protocol="openai_chat", service="azure_deployments", base_url=base_url
    )
    ours, is_root = path_at(azure, f"/v1{path}", "my-gpt")
    assert not is_root
    url = join_url(base_url, azure.endpoint.version + ours)
    assert url.removeprefix("https://res.openai.azure.com") == "?".join(by_sdk(ask)[:2])


def test_responses_of_azure_have_no_deployment_in_the_path() -> None:
    asked = {"model": "my-gpt", "input": "Hi"}
    call = made("azure_deployments", asked, protocol="openai_responses")
    base_url = "https://res.openai.azure.com/openai?api-version=2025-04-01-preview"
    target = target_of(base_url, call)
    assert target == ("/openai/responses", "api-version=2025-04-01-preview")


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3.1-pro", "/publishers/google/models/gemini-3.1-pro:generateContent"),
        ("mistralai/m@1", "/publishers/mistralai/models/m@1:generateContent"),
        ("endpoints/123", "/endpoints/123:generateContent"),
    ],
)
def test_the_paths_of_gemini(model: str, path: str) -> None:
    """The VX paths."""
    call = translate_request(
        "openai_chat", "google_generate_content", HELLO, model=model, service="vertex"
    )
    assert call.path == path


PLAIN = {
    "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1": (
        "openai_chat",
        "/openai/v1/chat/completions",
    ),
    "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/anthropic": (
        "anthropic_messages",
        "/anthropic/v1/messages",
    ),
    "https://bedrock-mantle.us-east-1.api.aws/anthropic": (
        "anthropic_messages",
        "/anthropic/v1/messages",
    ),
    "https://bedrock-mantle.us-east-1.api.aws/v1": ("openai_responses", "/v1/responses"),
    "https://aws-external-anthropic.us-east-1.api.aws": ("anthropic_messages", "/v1/messages"),
    "https://claude.googleapis.com/v1/projects/p/locations/l/workspaces/w/invoke/v1": (
        "anthropic_messages",
        "/v1/projects/p/locations/l/workspaces/w/invoke/v1/messages",
    ),
    "https://r.openai.azure.com/openai/v1": ("openai_chat", "/openai/v1/chat/completions"),
    "https://r.services.ai.azure.com/api/projects/p/openai/v1?api-version=preview": (
        "openai_responses",
        "/api/projects/p/openai/v1/responses",
    ),
    "https://r.services.ai.azure.com/anthropic": ("anthropic_messages", "/anthropic/v1/messages"),
}


@pytest.mark.parametrize("base_url", PLAIN)
def test_plain_services_need_nothing_but_their_address(base_url: str) -> None:
    protocol, path = PLAIN[base_url]
    body = {"model": "m", "input": "Hi"} if protocol == "openai_responses" else HELLO
    call = made("plain", body, protocol=protocol)
    found, query = target_of(base_url, call)
    assert found == path
    assert query == base_url.partition("?")[2]


GOOGLE_CLOUD = "https://claude.googleapis.com/v1/projects/p/locations/l/workspaces/w/invoke/v1"
CLAUDE: dict[str, Any] = {
    "https://bedrock-mantle.us-east-1.api.aws/anthropic": partial(
        anthropic.AnthropicBedrockMantle, aws_region="us-east-1", api_key="k"
    ),
    "https://aws-external-anthropic.us-east-1.api.aws": partial(
        anthropic.AnthropicAWS, aws_region="us-east-1", api_key="k", workspace_id="w"
    ),
    "https://res.services.ai.azure.com/anthropic": partial(
        anthropic.AnthropicFoundry, resource="res", api_key="k"
    ),
    GOOGLE_CLOUD: partial(
        anthropic.AnthropicGoogleCloud,
        project="p",
        location="l",
        workspace_id="w",
        skip_auth=True,
    ),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("base_url", CLAUDE)
def test_plain_services_with_claude_are_asked_as_by_the_sdk(base_url: str, stream: bool) -> None:
    asked: dict[str, Any] = {**HELLO, "stream": True} if stream else dict(HELLO)

    def ask(http_client: httpx2.Client) -> None:
        client = CLAUDE[base_url](http_client=http_client, max_retries=0)
        client.messages.create(**asked)

    call = made("plain", asked)
    assert (*target_of(base_url, call), sent(call)) == by_sdk(ask)


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", ["bedrock_invoke", "vertex"])
@pytest.mark.parametrize("model", [".", "..", "..;x", ".;", ";"])
def test_names_that_cannot_stand_in_a_path(service: str, model: str) -> None:
    """Refused, before anything is sent."""
    with pytest.raises(InvalidRequest) as refused:
        made(service, model=model)
    assert refused.value.fault.param == "model"


@pytest.mark.parametrize("service", ["bedrock_invoke", "vertex"])
@pytest.mark.parametrize("model", ["a/b", "a b", "a:b", "a@b", "a;b", "a?b", "a#b", "a%2Fb", "é"])
def test_names_in_paths_are_one_segment(service: str, model: str) -> None:
    call = made(service, model=model)
    path, query = target_of("http://h", call)
    assert not query
    segments = path.split("/")
    segment = segments[2] if service == "bedrock_invoke" else segments[-1].rpartition(":")[0]
    assert unquote(segment) == model
    kept = ":;" if service == "bedrock_invoke" else "@"
    for sign in ":;@":
        assert (sign in segment) is (sign in model and sign in kept)


# --- versions and betas --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "asked", "capabilities", "version"),
    [
        ("bedrock_invoke", DATE, {}, DATE),
        ("bedrock_invoke", OLD, {}, BEDROCK),
        ("bedrock_invoke", "2027-01-01", {}, BEDROCK),
        ("bedrock_invoke", None, {}, BEDROCK),
        ("bedrock_invoke", DATE, {"client_versions": False}, BEDROCK),
        ("bedrock_invoke", OLD, {"anthropic_version": DATE}, DATE),
        ("vertex", DATE, {}, DATE),
        ("vertex", OLD, {}, VERTEX),
        ("vertex", DATE, {"anthropic_version": VERTEX}, VERTEX),
    ],
)
def test_the_version_in_the_body(
    service: str, asked: str | None, capabilities: dict[str, Any], version: str
) -> None:
    headers = {} if asked is None else {"anthropic-version": asked}
    assert (
        sent(made(service, headers=headers, capabilities=capabilities))["anthropic_version"]
        == version
    )


def test_sampling_is_written_as_the_version_has_it() -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0.5}
    by_default = translate_request(
        "openai_chat", "anthropic_messages", asked, service="bedrock_invoke"
    )
    assert sent(by_default)["temperature"] == 0.5
    dated = translate_request(
        "openai_chat",
        "anthropic_messages",
        asked,
        service="bedrock_invoke",
        capabilities={"anthropic_version": DATE},
    )
    assert "temperature" not in sent(dated)
    assert [loss.path for loss in dated.losses] == ["temperature"]


def test_betas_of_client_and_configuration() -> None:
    own = {"anthropic_beta": ["a-2025-01-01", "b-2025-01-01"]}
    headers = {"anthropic-beta": "b-2025-01-01, c-2025-01-01"}
    call = made("bedrock_invoke", headers=headers, capabilities={"body": own})
    assert sent(call)["anthropic_beta"] == ["a-2025-01-01", "b-2025-01-01", "c-2025-01-01"]


@pytest.mark.parametrize("service", ["plain", "vertex", "bedrock_invoke"])
def test_betas_that_a_service_does_not_know(service: str) -> None:
    headers = {"anthropic-beta": "a-2025-01-01,b-2025-01-01"}
    call = made(service, headers=headers, capabilities={"omit_betas": ("a-2025-01-01",)})
    left = sent(call).get("anthropic_beta") or [call.headers_passed["anthropic-beta"]]
    assert left == ["b-2025-01-01"]
    assert [(loss.path, loss.kind) for loss in call.losses] == [("anthropic-beta", "knob")]
    none = made(service, headers=headers, capabilities={"omit_betas": ("*",)})
    assert "anthropic_beta" not in sent(none)
    assert not none.headers_passed
    assert len(none.losses) == 2


def test_members_that_a_service_does_not_know() -> None:
    """Of every tool, past the name of its form; the rest byte for byte."""
    tools: list[dict[str, Any]] = [
        {"name": "f", "input_schema": {"type": "object"}, "defer_loading": True},
        {"name": "g", "input_schema": {"type": "object"}},
    ]
    body = {**HELLO, "tools": tools, "context_management": {"edits": []}}
    fields = ("tools.*.custom.defer_loading", "context_management", "not.there", "tools.x")
    call = made("plain", body, capabilities={"omit_fields": fields})
    found = sent(call)
    assert found == {
        **HELLO,
        "tools": [{k: v for k, v in tools[0].items() if k[0] != "d"}, tools[1]],
    }
    assert [loss.path for loss in call.losses] == ["tools[0].defer_loading", "context_management"]
    untouched = made("plain", body, capabilities={"omit_fields": ("tools.*.strict",)})
    assert sent(untouched) == body
    assert not untouched.losses


def test_strict_refuses_to_leave_anything_out() -> None:
    asked = {**HELLO, "context_management": {"edits": []}}
    with pytest.raises(Refused):
        translate_request(
            "anthropic_messages",
            "anthropic_messages",
            asked,
            service="vertex",
            capabilities={"omit_fields": ("context_management",)},
            options={"policy": "strict"},
        )


# --- configuration -------------------------------------------------------------------------------

UPSTREAM = """
[[upstreams]]
name = "u"
protocol = "{protocol}"
service = "{service}"
base_url = "https://example.com"
"""


@pytest.mark.parametrize(
    ("protocol", "service", "others"),
    [
        ("openai_chat", "bedrock_invoke", "anthropic_messages"),
        ("openai_responses", "vertex", "openai_chat and anthropic_messages and google"),
        ("anthropic_messages", "azure_deployments", "openai_chat and openai_responses"),
    ],
)
def test_a_service_that_does_not_offer_the_protocol(
    protocol: str, service: str, others: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(UPSTREAM.format(protocol=protocol, service=service))
    assert f"upstreams[0].service: it offers {others}" in str(refused.value)


def test_the_library_refuses_a_service_that_does_not_offer_the_protocol() -> None:
    with pytest.raises(ValueError, match="service must be one that offers openai_chat"):
        translate_request("openai_chat", "openai_chat", HELLO, service="bedrock_invoke")
