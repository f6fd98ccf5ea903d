"""Accounts whose requests are signed, or authorised by tokens that expire, in a running gateway.
The simulator issues the tokens, and checks them and the signatures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import openai
import pytest
from msgspec.structs import replace

from dragoman.config import Account, Admin, Config, Route, Secret, Storage, parse_config
from dragoman.config.credentials import (
    AwsCredentials,
    CommandCredentials,
    Credentials,
    OAuthCredentials,
)
from dragoman.lab.simulator.authority import KEY_ID, SECRET, TOKEN, Authority, Failing
from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import APIS, PATHS, body, completed, streamed_text, text_of
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import KEY, Answer, call
from tests.gateway.limited import serving
from tests.realtime.serving import session

ADMIN_KEY = "admin-key-of-the-tests"
UPSTREAMS = ("chat", "messages", "responses")
STATIC = AwsCredentials(
    access_key_id=KEY_ID, secret_access_key=Secret(SECRET), signing_name="bedrock"
)


@pytest.fixture(autouse=True)
def authority(simulator: RunningSimulator) -> Iterator[Authority]:
    simulator.app.authority = Authority()
    yield simulator.app.authority
    simulator.app.authority = Authority()


def oauth(simulator: RunningSimulator) -> OAuthCredentials:
    return OAuthCredentials(
        token_url=f"{simulator.base_url}/oauth/token",
        client_id="gw",
        client_secret=Secret("oauth-secret"),
    )


def with_credentials(base_url: str, credentials: Credentials, **more: Any) -> Config:
    """Every upstream has an account of these credentials only."""
    config = config_for(base_url)
    accounts = tuple(
        Account(name=name, upstream=name, credentials=credentials, region="eu-west-1")
        for name in UPSTREAMS
    )
    return replace(config, accounts=accounts, **more)


def ask(gateway: RunningGateway, api: str, model: str, *, stream: bool = False) -> Answer:
    return call(gateway.base_url, "POST", PATHS[api], body(api, model, stream=stream))


def answered(gateway: RunningGateway, api: str, model: str, *, stream: bool = False) -> bool:
    answer = ask(gateway, api, model, stream=stream)
    if stream and answer.status == 200:
        return completed(api, answer.body)
    return answer.status == 200


PRINTED = json.dumps({"Version": 1, "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET})


@pytest.mark.parametrize(
    ("credentials", "stream"),
    [
        (STATIC, False),
        (STATIC, True),
        (
            CommandCredentials(
                command=("/bin/echo", PRINTED), output="aws", signing_name="bedrock"
            ),
            False,
        ),
    ],
    ids=["whole", "streamed", "printed"],
)
def test_signed_requests_are_what_the_service_computes(
    start: Start, simulator: RunningSimulator, credentials: Credentials, stream: bool
) -> None:
    gateway = start(with_credentials(simulator.base_url, credentials))
    for api in APIS:
        for upstream in UPSTREAMS:
            assert answered(gateway, api, f"{upstream}/sim-text", stream=stream)
    for sent in simulator.requests:
        assert sent.key == KEY_ID
        assert sent.header("x-api-key") is None


def test_what_a_client_sends_of_its_own_reaches_no_cloud(
    start: Start, simulator: RunningSimulator
) -> None:
    gateway = start(with_credentials(simulator.base_url, STATIC))
    own = {
        "x-api-key": KEY,
        "cookie": "session=secret",
        "x-amz-security-token": "theirs",
        "x-amzn-bedrock-trace": "ENABLED",
        "x-goog-user-project": "theirs",
        "x-forwarded-for": "192.0.2.7",
        "x-stainless-lang": "python",
        "anthropic-workspace-id": "theirs",
        "via": "1.1 theirs",
    }
    sent = body("messages", "messages/sim-text")
    answer = call(gateway.base_url, "POST", PATHS["messages"], sent, headers=own)
    assert answer.status == 200
    received = {name.lower() for name, _ in simulator.last.headers}
    assert not received & own.keys()


def test_a_clock_that_is_off_is_corrected_and_no_account_blamed(
    start: Start, simulator: RunningSimulator, authority: Authority
) -> None:
    gateway = start(with_credentials(simulator.base_url, STATIC))
    authority.clock_s = 3600.0
    before = len(simulator.requests)
    assert answered(gateway, "chat", "chat/sim-text")
    assert len(simulator.requests) == before + 2, "once more with the service's clock"
    assert answered(gateway, "chat", "chat/sim-text")
    assert len(simulator.requests) == before + 3
    assert not gateway.app.pool.state("chat").disabled


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_a_token_that_was_revoked_is_replaced_unseen(
    start: Start, simulator: RunningSimulator, authority: Authority, api: str, stream: bool
) -> None:
    gateway = start(with_credentials(simulator.base_url, oauth(simulator)))
    assert answered(gateway, api, "messages/sim-text", stream=stream)
    simulator.wait_for(lambda: authority.issued["oauth"] == len(UPSTREAMS))
    authority.revoke()
    following = f"{TOKEN}oauth-{len(UPSTREAMS) + 1}"
    asked = body(api, "messages/sim-echo", f"of {following}", stream=stream)
    answer = call(gateway.base_url, "POST", PATHS[api], asked)
    text = streamed_text(api, answer.body) if stream else text_of(api, answer)
    assert "of [hidden]" in text
    assert following not in text
    assert authority.issued["oauth"] == len(UPSTREAMS) + 1
    assert following in authority.expires
    assert not gateway.app.pool.state("messages").disabled


def test_a_token_that_was_revoked_is_replaced_unseen_for_endpoints_and_sessions(
    start: Start, simulator: RunningSimulator, authority: Authority, tmp_path: Path
) -> None:
    """A body that was passed on is not sent again without what is gone of it."""
    config = with_credentials(simulator.base_url, oauth(simulator))
    chat, *others = config.upstreams
    endpoints: Any = ("embeddings", "realtime", "files")
    gateway = start(
        replace(
            config,
            upstreams=(replace(chat, endpoints=endpoints), *others),
            storage=Storage(path=str(tmp_path / "store.db")),
        )
    )
    simulator.wait_for(lambda: authority.issued["oauth"] == len(UPSTREAMS))
    authority.revoke()
    asked = {"model": f"{chat.name}/sim-embed", "input": "one"}
    assert call(gateway.base_url, "POST", "/v1/embeddings", asked).status == 200
    assert authority.issued["oauth"] == len(UPSTREAMS) + 1
    authority.revoke()
    with session(gateway, f"model={chat.name}/sim-voice", authorization=f"Bearer {KEY}"):
        assert authority.issued["oauth"] == len(UPSTREAMS) + 2
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY, max_retries=0) as sdk:
        for size in (9, 2**21):
            authority.revoke()
            content = b"x" * size
            with (
                nullcontext()
                if size == 9
                else pytest.raises(openai.APIStatusError, match="sent again")
            ):
                sdk.files.create(file=content, purpose="user_data")
            assert sdk.files.create(file=content, purpose="user_data").bytes == size
    authority.revoke()
    # What waits in a file for a field that comes late is there still.
    parts = (b'name="file"; filename="a"', b"x" * 2**21), (b'name="purpose"', b"user_data")
    form = b"".join(
        b"--b\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % part for part in parts
    )
    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = call(gateway.base_url, "POST", "/v1/files", form + b"--b--\r\n", headers=headers)
    assert (answer.status, answer.json["bytes"]) == (200, 2**21)
    assert not gateway.app.pool.state(chat.name).disabled


def test_a_second_refusal_puts_the_account_aside(
    start: Start,
    simulator: RunningSimulator,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = with_credentials(simulator.base_url, oauth(simulator))
    spare = Account(name="spare", upstream="chat", key=Secret("sk-spare"), priority=1)
    gateway = start(replace(config, accounts=(*config.accounts, spare)))
    assert answered(gateway, "chat", "chat/sim-text")
    simulator.wait_for(lambda: authority.issued["oauth"] == len(UPSTREAMS))

    def refuse(token: str) -> None:
        if token != "sk-spare":
            raise ApiError(401, "This token is not accepted.", code="invalid_api_key")

    monkeypatch.setattr(authority, "check_token", refuse)
    assert answered(gateway, "chat", "chat/sim-text"), "by the spare account"
    assert simulator.last.key == "sk-spare"
    assert authority.issued["oauth"] == len(UPSTREAMS) + 1
    assert gateway.app.pool.state("chat").disabled


def test_an_account_without_a_token_is_aside_and_says_why(
    start: Start, simulator: RunningSimulator, authority: Authority
) -> None:
    authority.failing["oauth"] = Failing(503)
    config = with_credentials(
        simulator.base_url,
        oauth(simulator),
        admin=Admin(key=Secret(ADMIN_KEY)),
        storage=Storage(path=""),
    )
    gateway = start(config)
    answer = ask(gateway, "chat", "chat/sim-text")
    assert answer.status == 503
    assert "the authorisation server failed with status 503" in answer.body.decode()
    assert "oauth-secret" not in answer.body.decode()
    state = gateway.app.pool.state("chat")
    assert "the authorisation server failed with status 503" in state.cooling[""].why


def test_metrics_tell_when_credentials_end_and_how_refreshes_went(
    start: Start, simulator: RunningSimulator, authority: Authority
) -> None:
    admin = Admin(key=Secret(ADMIN_KEY))
    gateway = start(with_credentials(simulator.base_url, oauth(simulator), admin=admin))
    assert answered(gateway, "chat", "chat/sim-text")
    scraped = call(gateway.base_url, "GET", "/metrics", key=ADMIN_KEY).body.decode()
    named = 'upstream="chat",account="chat"'
    assert f'dragoman_credential_refreshes_total{{{named},outcome="ok"}} 1' in scraped
    assert f"dragoman_credential_expires_timestamp_seconds{{{named}}}" in scraped


def test_what_lasts_is_shown_to_the_client_as_no_fault_of_theirs(
    start: Start, simulator: RunningSimulator, authority: Authority
) -> None:
    refused = {"error": "invalid_client"}
    authority.failing["oauth"] = Failing(401, refused)
    gateway = start(with_credentials(simulator.base_url, oauth(simulator)))
    simulator.wait_for(lambda: bool(gateway.app.pool.state("chat").disabled))
    answer = ask(gateway, "chat", "chat/sim-text")
    assert answer.status == 403
    assert "client_id or client_secret is wrong" in answer.body.decode()


def test_counts_lists_of_models_and_tests_of_accounts_are_authorised_alike(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    admin = Admin(key=Secret(ADMIN_KEY))
    for credentials in (STATIC, oauth(simulator)):
        storage = Storage(path=str(tmp_path / "store.db"))
        config = with_credentials(simulator.base_url, credentials, admin=admin, storage=storage)
        gateway = start(config)
        sent = json.dumps(
            {"model": "messages/sim-text", "messages": [{"role": "user", "content": "Hi"}]}
        )
        counted = call(gateway.base_url, "POST", "/v1/messages/count_tokens", sent.encode())
        assert counted.status == 200
        assert "x-dragoman-estimated" not in {name.lower() for name in counted.headers}
        listed = call(gateway.base_url, "GET", "/v1/models")
        assert "messages/sim-text" in [one["id"] for one in listed.json["data"]]
        tested = call(gateway.base_url, "POST", "/admin/accounts/chat/test", key=ADMIN_KEY)
        assert tested.json["passed"], tested.body


def test_a_profile_that_another_tool_rewrites_is_read_when_its_keys_have_expired(
    start: Start,
    simulator: RunningSimulator,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    def write() -> str:
        id, secret, token, _ = authority.keys_of("tool")
        file.write_text(
            f"[work]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n"
            f"aws_session_token = {token}\n"
        )
        return id

    write()
    credentials = AwsCredentials(profile="work", signing_name="bedrock")
    gateway = start(with_credentials(simulator.base_url, credentials))
    assert answered(gateway, "chat", "chat/sim-text")
    authority.revoke()
    id = write()
    assert answered(gateway, "chat", "chat/sim-text")
    assert simulator.last.key == id


def test_no_secret_is_shown_anywhere(
    simulator: RunningSimulator,
    authority: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = with_credentials(
        simulator.base_url,
        oauth(simulator),
        admin=Admin(key=Secret(ADMIN_KEY)),
        storage=Storage(path=str(tmp_path / "store.db")),
        routes=(Route(match="quoted", upstream="chat", model="sim-text"),),
    )
    aws = replace(config.accounts[0], name="aws", credentials=STATIC)
    with (
        caplog.at_level("DEBUG"),
        serving(replace(config, accounts=(*config.accounts, aws))) as (
            gateway,
            lines,
        ),
    ):
        assert answered(gateway, "chat", "chat/sim-text")
        tokens = [token for token in authority.expires if "oauth" in token]
        assert tokens
        shown = [repr(gateway.app.config), repr(lines)]
        authority.failing["oauth"] = Failing(
            400, {"error": "x", "error_description": f"of {tokens[0]} and oauth-secret"}
        )
        authority.revoke()
        shown.append(ask(gateway, "chat", "messages/sim-text").body.decode())
        shown += [
            call(gateway.base_url, "GET", path, key=ADMIN_KEY).body.decode()
            for path in ("/admin/accounts", "/metrics", "/admin/accounts/chat")
        ]
        shown.append(caplog.text)
    for text in shown:
        for secret in (*tokens, "oauth-secret", SECRET):
            assert secret not in text


def test_a_configuration_of_many_kinds_is_usable(tmp_path: Path) -> None:
    """The examples of the specification, as they are written."""
    text = """
[[upstreams]]
name = "bedrock"
protocol = "anthropic_messages"
base_url = "https://bedrock-runtime.us-east-1.amazonaws.com/anthropic"
"""
    kinds = (
        'kind = "aws", profile = "work"',
        f'kind = "google", file = "{tmp_path}/sa.json"',
        'kind = "google"',
        'kind = "azure", tenant = "t", client_id = "c", client_secret = "secret-of-azure"',
        'kind = "command", command = ["/bin/token", "x"], output = "text", refresh_s = 900',
        'kind = "oauth2", token_url = "https://idp.example/token", client_id = "gw", '
        'client_secret = "secret-of-oauth", scope = "llm"',
    )
    for number, kind in enumerate(kinds):
        text += (
            f'[[accounts]]\nname = "a{number}"\nupstream = "bedrock"\ncredentials = {{ {kind} }}\n'
        )
    assert len(parse_config(text).config.accounts) == len(kinds)


def test_a_gateway_starts_without_any_network(start: Start, simulator: RunningSimulator) -> None:
    unreachable = OAuthCredentials(token_url="http://127.0.0.1:1/token")
    gateway = start(with_credentials(simulator.base_url, unreachable))
    assert call(gateway.base_url, "GET", "/healthz").status == 200
    answer = ask(gateway, "chat", "chat/sim-text")
    assert answer.status == 503
    assert "does not answer (connection refused)" in answer.body.decode()


def test_reasons_are_where_operators_look(
    start: Start, simulator: RunningSimulator, authority: Authority, tmp_path: Path
) -> None:
    authority.failing["oauth"] = Failing(401, {"error": "invalid_client"})
    admin, storage = Admin(key=Secret(ADMIN_KEY)), Storage(path=str(tmp_path / "store.db"))
    more = {"admin": admin, "storage": storage}
    gateway = start(with_credentials(simulator.base_url, oauth(simulator), **more))
    simulator.wait_for(lambda: bool(gateway.app.pool.state("chat").disabled))
    why = "the authorisation server refused (invalid_client): its client_id or client_secret is"
    answer = ask(gateway, "chat", "chat/sim-text").body.decode()
    assert why in answer
    assert "chat-" not in answer
    shown = call(gateway.base_url, "GET", "/metrics", key=ADMIN_KEY).body.decode()
    assert 'dragoman_accounts{upstream="chat",state="disabled"} 1' in shown
    one = call(gateway.base_url, "GET", "/admin/accounts/chat", key=ADMIN_KEY).json["account"]
    assert one["credentials"] == "tokens of an authorisation server (client_credentials)"
    simulator.wait_for(
        lambda: why in call(gateway.base_url, "GET", "/admin/accounts", key=ADMIN_KEY).body.decode()
    )
