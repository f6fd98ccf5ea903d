"""Signatures of AWS: the published vectors, and what the vendor's own library computes.

`sigv4.json` has the cases of `tests/aws-signing-test-suite/v4` of awslabs/aws-c-auth by their names
(without those of unnormalised paths, which are for S3), and others signed by botocore.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch
from urllib.parse import quote, urlencode

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.credentials.decide.signing import (
    AwsKeys,
    Scope,
    Signable,
    Signer,
    signed_headers,
)
from dragoman.config.aws_hosts import region_and_name
from tests.credentials.given import FACTS, NOW


def signer(token: str = "", region: str = "us-east-1", service: str = "service") -> Signer:
    return Signer(AwsKeys(FACTS["key_id"], FACTS["secret"], token), Scope(region, service))


@pytest.mark.parametrize("case", FACTS["cases"], ids=lambda case: case["name"])
def test_signatures_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    one = signer(case["token"], case.get("region", "us-east-1"), case.get("service", "service"))
    headers = [("Host", case.get("host", "example.amazonaws.com")), *map(tuple, case["headers"])]
    request = Signable(case["method"], case["path"], headers, case["body"].encode())
    added = dict(one.headers(request, NOW))
    assert added["authorization"].endswith(f"Signature={case['signature']}")
    assert added.get("x-amz-security-token", "") == case["token"]


SEGMENTS = st.text(st.characters(codec="utf-8"), max_size=9)
NAMES = st.sampled_from(["content-type", "x-amz-target", "x-amzn-bedrock-trace", "anthropic-beta"])
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)


@given(
    st.lists(SEGMENTS, max_size=4),
    st.lists(st.tuples(SEGMENTS, SEGMENTS), max_size=4),
    st.dictionaries(NAMES, VALUES, max_size=4),
    st.binary(max_size=20),
    st.sampled_from(["", "of-a-session"]),
)
def test_signatures_are_those_of_botocore(
    segments: list[str],
    query: list[tuple[str, str]],
    headers: dict[str, str],
    body: bytes,
    token: str,
) -> None:
    path = "/" + "/".join(quote(one, safe=":;@") for one in segments)
    pairs = [(name, value) for name, value in query if name]
    if pairs:
        path += "?" + urlencode(pairs, quote_via=quote)
    host = "bedrock-runtime.us-east-1.amazonaws.com"
    added = dict(
        signer(token, service="bedrock").headers(
            Signable("POST", path, [("host", host), *headers.items()], body), NOW
        )
    )
    request = AWSRequest("POST", f"https://{host}{path}", headers, body)
    keys = Credentials(FACTS["key_id"], FACTS["secret"], token or None)
    with patch("botocore.auth.get_current_datetime", lambda: datetime.fromtimestamp(NOW, UTC)):
        SigV4Auth(keys, "bedrock", "us-east-1").add_auth(request)
    assert added["authorization"] == request.headers["Authorization"]


def test_the_signing_key_of_a_day_is_computed_once_and_that_of_the_next_is_another() -> None:
    one, request = signer(), Signable("GET", "/", [("host", "example.amazonaws.com")])
    first = one.headers(request, NOW)
    assert one.headers(request, NOW) == first
    later = one.headers(request, NOW + 86_400)
    assert later == signer().headers(request, NOW + 86_400) != first


def test_only_headers_that_no_server_in_between_changes_are_signed() -> None:
    sent = [
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("User-Agent", "x"),
        ("anthropic-version", "2023-06-01"),
        ("X-Amzn-Bedrock-Trace", "ENABLED"),
        ("x-amzn-trace-id", "Root=1"),
        ("x-forwarded-for", "192.0.2.1"),
        ("via", "1.1 proxy"),
        ("traceparent", "00-0-0-01"),
    ]
    assert [name for name, _ in signed_headers("example.com", sent)] == [
        "host",
        "content-type",
        "anthropic-version",
        "X-Amzn-Bedrock-Trace",
    ]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("bedrock-runtime.us-east-1.amazonaws.com", ("us-east-1", "bedrock")),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", ("us-gov-west-1", "bedrock")),
        ("bedrock-runtime.cn-north-1.amazonaws.com.cn", ("cn-north-1", "bedrock")),
        ("bedrock-runtime.eusc-de-east-1.amazonaws.eu", ("eusc-de-east-1", "bedrock")),
        ("bedrock.eu-west-1.amazonaws.com", ("eu-west-1", "bedrock")),
        ("bedrock-mantle.ap-southeast-2.api.aws", ("ap-southeast-2", "bedrock-mantle")),
        (
            "aws-external-anthropic.us-west-2.api.aws",
            ("us-west-2", "aws-external-anthropic"),
        ),
        ("bedrock-runtime.us-east-1.amazonaws.com.example.org", ("", "")),
        ("api.anthropic.com", ("", "")),
        ("127.0.0.1", ("", "")),
    ],
)
def test_region_and_signing_name_follow_from_the_host(host: str, expected: tuple[str, str]) -> None:
    assert region_and_name(host) == expected
