"""The simulator as what issues credentials and checks them, judged by the vendors' own libraries:
boto3, the signing clients of anthropic, and google-auth."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import anthropic
import boto3
import httpx2
import pytest
import requests
from botocore.config import Config
from botocore.credentials import ContainerMetadataFetcher, InstanceMetadataFetcher
from botocore.exceptions import ClientError
from botocore.httpsession import URLLib3Session
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from google.auth import identity_pool
from google.auth.compute_engine import _metadata
from google.auth.transport.requests import Request
from google.oauth2 import credentials as of_users
from google.oauth2 import service_account

from dragoman.lab.simulator.authority import KEY_ID, SECRET, Authority
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.http import TRUSTS_NOBODY

ASKED: Any = [{"role": "user", "content": "Hello [[sim: scenario=text words=3]]"}]
SAID = "The dragoman stood"
REGION = "us-east-1"


@pytest.fixture
def authority(simulator: RunningSimulator) -> Authority:
    simulator.app.authority = Authority()
    return simulator.app.authority


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(verify=TRUSTS_NOBODY, timeout=30) as client:
        yield client


@pytest.fixture
def boto(simulator: RunningSimulator) -> Iterator[Callable[..., Any]]:
    """Makes clients of boto3 for services that the simulator plays."""
    with ExitStack() as opened:

        def made(service: str, secret: str = SECRET) -> Any:
            client = boto3.client(
                service,
                region_name=REGION,
                endpoint_url=simulator.base_url,
                aws_access_key_id=KEY_ID,
                aws_secret_access_key=secret,
                config=Config(retries={"total_max_attempts": 1}),
            )
            return opened.enter_context(closing(client))

        yield made


SIGNING: dict[str, Any] = {
    "bedrock": anthropic.AnthropicBedrock,
    "mantle": anthropic.AnthropicBedrockMantle,
    "platform": anthropic.AnthropicAWS,
}


@pytest.mark.parametrize("name", SIGNING)
def test_clients_of_anthropic_that_sign(
    name: str, simulator: RunningSimulator, authority: Authority, http: httpx2.Client
) -> None:
    """Whole and streamed; of Bedrock by event streams, which botocore reads."""
    more = {"workspace_id": "w"} if name == "platform" else {}

    def signing(secret: str) -> Any:
        return SIGNING[name](
            aws_region=REGION,
            aws_access_key=KEY_ID,
            aws_secret_key=secret,
            base_url=simulator.base_url,
            http_client=http,
            max_retries=0,
            **more,
        )

    model = "us.anthropic.m-v1:0"
    right = signing(SECRET)
    assert right.messages.create(model=model, max_tokens=9, messages=ASKED).content[0].text == SAID
    with right.messages.stream(model=model, max_tokens=9, messages=ASKED) as stream:
        assert stream.get_final_text() == SAID
    assert simulator.last.key == KEY_ID
    with pytest.raises(anthropic.APIStatusError) as refused:
        signing("another").messages.create(model=model, max_tokens=9, messages=ASKED)
    assert refused.value.status_code == 403


def test_models_by_boto3(
    simulator: RunningSimulator, authority: Authority, boto: Callable[..., Any]
) -> None:
    """The names of models are encoded in paths as botocore does, and its errors are named."""
    runtime = boto("bedrock-runtime")
    model = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
    asked = {"messages": ASKED, "max_tokens": 9, "anthropic_version": "bedrock-2023-05-31"}
    named: Any = {"modelId": model, "contentType": "application/json"}
    told = runtime.invoke_model(**named, body=json.dumps(asked))
    with closing(told["body"]) as whole:
        assert json.loads(whole.read())["content"][0]["text"] == SAID
    assert simulator.last.model == model
    streamed = runtime.invoke_model_with_response_stream(**named, body=json.dumps(asked))
    with closing(streamed["body"]):
        events = [json.loads(event["chunk"]["bytes"]) for event in streamed["body"]]
    assert "".join(one.get("delta", {}).get("text", "") for one in events) == SAID
    counting = {"invokeModel": {"body": json.dumps(asked).encode()}}
    assert runtime.count_tokens(modelId="m", input=counting)["inputTokens"] > 0
    with pytest.raises(ClientError) as invalid:
        runtime.invoke_model(**named, body=json.dumps({**asked, "model": "m"}))
    assert invalid.value.response["Error"]["Code"] == "ValidationException"
    with pytest.raises(ClientError) as refused:
        boto("bedrock-runtime", "another").invoke_model(**named, body="{}")
    assert refused.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
    failing = [{"role": "user", "content": "[[sim: fault=error_in_stream status=429 after=2]]"}]
    body = json.dumps({**asked, "messages": failing})
    streamed = runtime.invoke_model_with_response_stream(**named, body=body)
    with closing(streamed["body"]), pytest.raises(ClientError) as throttled:
        list(streamed["body"])
    assert throttled.value.response["Error"]["Code"] == "throttlingException"


def test_keys_by_boto3(
    simulator: RunningSimulator, authority: Authority, boto: Callable[..., Any]
) -> None:
    sts, role = boto("sts"), "arn:aws:iam::123456789012:role/gateway"
    assumed = sts.assume_role(RoleArn=role, RoleSessionName="of-a-test")["Credentials"]
    assert assumed["SessionToken"] in authority.expires
    by_web = sts.assume_role_with_web_identity(
        RoleArn=role, RoleSessionName="of-a-test", WebIdentityToken="token"
    )
    assert by_web["Credentials"]["SessionToken"] in authority.expires
    asked = {"roleName": "r", "accountId": "1", "accessToken": "login"}
    found = boto("sso").get_role_credentials(**asked)["roleCredentials"]
    assert found["sessionToken"] in authority.expires
    instance = InstanceMetadataFetcher(base_url=simulator.base_url)
    with closing(instance._session):
        keys = instance.retrieve_iam_role_credentials()
        assert keys["token"] in authority.expires
    with closing(URLLib3Session()) as session:
        container = ContainerMetadataFetcher(session)
        keys = container.retrieve_full_uri(f"{simulator.base_url}/container/credentials")
        assert keys["Token"] in authority.expires


def test_tokens_by_google_auth(
    simulator: RunningSimulator,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    key = rsa.generate_private_key(65537, 2048)
    form = PublicFormat.SubjectPublicKeyInfo
    authority.keys["g@p.example"] = key.public_key().public_bytes(Encoding.PEM, form).decode()
    session = requests.Session()
    session.trust_env = False
    http = Request(session)
    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    account = {
        "client_email": "g@p.example",
        "private_key": key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ).decode(),
        "private_key_id": "k",
        "token_uri": f"{simulator.base_url}/token",
    }
    subject = tmp_path / "subject"
    subject.write_text("token-of-a-workload")
    made: list[Any] = [
        service_account.Credentials.from_service_account_info(account, scopes=scopes),  # type: ignore[no-untyped-call]
        of_users.Credentials(  # type: ignore[no-untyped-call]
            None, "refresh", None, account["token_uri"], "c", "s"
        ),
        identity_pool.Credentials(  # type: ignore[no-untyped-call]
            audience="//iam.googleapis.com/x",
            subject_token_type="urn:ietf:params:oauth:token-type:jwt",
            token_url=f"{simulator.base_url}/v1/token",
            credential_source={"file": str(subject)},
            scopes=scopes,
        ),
    ]
    with session:
        for one in made:
            one.refresh(http)
            assert one.token in authority.expires
        assert authority.last["google_sts"]["subject_token"] == "token-of-a-workload"
        host = simulator.base_url.removeprefix("http://")
        monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", host)
        monkeypatch.setattr(
            _metadata, "_get_metadata_root", lambda mds: f"http://{host}/computeMetadata/v1/"
        )
        token, _ = _metadata.get_service_account_token(http, scopes=scopes)  # type: ignore[no-untyped-call]
        assert token in authority.expires
