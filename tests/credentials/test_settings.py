"""Credentials in the configuration, and requests that they authorise."""

from __future__ import annotations

import re
import tracemalloc
from urllib.parse import unquote

import pytest

from dragoman.config import Config, ConfigError, parse_config
from dragoman.lab.simulator.authority import KEY_ID, SECRET, Authority
from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.protocols.base import quoted
from dragoman.serving.upstream_requests import UpstreamDefaults, UpstreamRequestBuilder
from dragoman.upstream.request import prepared, render_head
from tests.credentials.given import config

AWS = 'kind = "aws", access_key_id = "AKIDEXAMPLE", secret_access_key = "not-a-real-secret"'

PRINTED = 'kind = "command", command = ["/bin/keys"], output = "aws"'


UPSTREAM = """
[[upstreams]]
name = "u"
protocol = "openai_chat"
base_url = "http://localhost:1/v1"
[[accounts]]
name = "a"
upstream = "u"
key = "sk-not-a-real-key"
"""


def builder_of(text: str) -> UpstreamRequestBuilder:
    parsed: Config = parse_config(text).config
    return UpstreamRequestBuilder(UpstreamDefaults(parsed.upstreams[0]), parsed.accounts[0])


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (config(AWS, 'key = "k"'), "accounts[0].credentials", "excludes key"),
        (config(AWS.replace("aws", "awz")), "accounts[0].credentials.kind", "did you mean aws?"),
        (config(AWS.replace('kind = "aws", ', "")), "accounts[0].credentials.kind", "one of aws"),
        (config(f"{AWS}, colour = 1"), "accounts[0].credentials.colour", "unknown key"),
        (
            config(AWS, base_url="https://bedrock-runtime.{region}.amazonaws.com"),
            "accounts[0].region",
            "required",
        ),
        (
            config(AWS, 'region = "a/b"', "https://bedrock-runtime.{region}.amazonaws.com"),
            "accounts[0].region",
            "letters, digits",
        ),
        (config(AWS, 'region = "eu-west-1"'), "accounts[0].region", "differs"),
        (
            config(f'{AWS}, signing_name = "bedrock-mantle"'),
            "accounts[0].credentials.signing_name",
            "differs",
        ),
        (
            config(PRINTED, 'region = "eu-west-1"', "https://gateway.example"),
            "accounts[0].credentials.signing_name",
            "does not follow",
        ),
        (
            config(AWS, base_url="https://gateway.example"),
            "accounts[0].region",
            "does not follow",
        ),
        (
            config(AWS, 'region = "eu-west-1"', "https://gateway.example"),
            "accounts[0].credentials.signing_name",
            "does not follow",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(text: str, key: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    found = {problem.key: problem.message for problem in error.value.problems}
    assert message in found[key]


def test_a_request_is_signed_over_what_is_sent() -> None:
    builder = builder_of(config(AWS))
    request = builder.post("/messages", b"{}", None, stream=False)
    head = render_head(request, prepared(request).lines).decode()
    authorisation = re.search(r"authorization: (.*)\r\n", head)
    assert authorisation is not None
    assert "/us-east-1/bedrock/aws4_request" in authorisation[1]
    assert "SignedHeaders=anthropic-version;content-type;host;x-amz-date" in authorisation[1]
    assert head.startswith("POST /anthropic/v1/messages HTTP/1.1\r\n")
    assert "x-api-key" not in head
    assert b"authorization" not in prepared(request).lines, "it is of this request alone"
    assert builder.signs_bodies
    assert not builder_of(config(f'{AWS}, form = "bedrock_key"')).signs_bodies


def test_accounts_in_two_regions_share_an_upstream() -> None:
    text = config(AWS, 'region = "eu-west-1"', "https://bedrock-runtime.{region}.amazonaws.com")
    text += (
        text[text.index("[[accounts]]") :]
        .replace("eu-west-1", "us-west-2")
        .replace('"one"', '"two"')
    )
    parsed = parse_config(text).config
    defaults = UpstreamDefaults(parsed.upstreams[0])
    for account, region in zip(parsed.accounts, ("eu-west-1", "us-west-2"), strict=True):
        request = UpstreamRequestBuilder(defaults, account).post("/x", b"", None, stream=True)
        assert request.url == f"https://bedrock-runtime.{region}.amazonaws.com/v1/x"
        assert f"/{region}/bedrock/" in dict(request.authorisation)["authorization"]


@pytest.mark.parametrize(
    "name",
    [
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc",
        "claude-opus-4-5@20251101",
        "a;b",
        "with space",
        "größe",
        "100%",
        "a+b&c=d?e#f",
    ],
)
def test_names_of_models_are_right_on_the_wire_and_in_the_signature(name: str) -> None:
    """The simulator computes the signature of what arrives, by a proxy that adds headers."""
    settings = f'kind = "aws", access_key_id = "{KEY_ID}", secret_access_key = "{SECRET}"'
    builder = builder_of(
        config(settings, base_url="https://bedrock-runtime.us-east-1.amazonaws.com")
    )
    request = builder.post(f"/model/{quoted(name)}/invoke", b"{}", None, stream=False)
    head = render_head(request, prepared(request).lines).decode().split("\r\n")
    path, _, query = head[0].split(" ")[1].partition("?")
    assert unquote(path) == f"/v1/model/{name}/invoke"
    headers = tuple(tuple(line.split(": ", 1)) for line in head[1:] if line)
    headers += (("via", "1.1 p"), ("x-forwarded-for", "192.0.2.1"), ("x-amzn-trace-id", "Root=1"))
    record = RecordedRequest(0, "POST", path, query, headers, request.body)  # type: ignore[arg-type]
    assert Authority().check_signature(record) == KEY_ID


def test_long_headers_of_clients_are_not_remembered() -> None:
    """They are sent, and what requests have in common grows by none of them."""
    builder = builder_of(UPSTREAM)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(30):
            value = f"{number}" + "x" * 60_000
            request = builder.post("/chat/completions", b"{}", {"x-beta": value}, stream=False)
            assert value.encode() in render_head(request, prepared(request).lines)
            del request, value
        assert tracemalloc.get_traced_memory()[0] - before < 60_000
    finally:
        tracemalloc.stop()
