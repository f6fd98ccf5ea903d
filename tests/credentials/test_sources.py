"""Where each kind of credentials comes from; the simulator's authority checks the requests."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from dragoman.accounts.credentials import azure
from dragoman.accounts.credentials.aws import bedrock_key
from dragoman.accounts.credentials.decide.refreshing import CredentialError, next_failure
from dragoman.accounts.credentials.decide.signing import AwsKeys
from dragoman.accounts.credentials.place import Place
from dragoman.lab.simulator.authority import KEY_ID, SECRET, Failing
from tests.credentials.environments import BASE, Clouds, failure, settings_of, token_of
from tests.credentials.given import FACTS, NOW

KEY = rsa.generate_private_key(65537, 2048)
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
STATIC = f'access_key_id = "{KEY_ID}", secret_access_key = "{SECRET}"'
ROLE = "arn:aws:iam::123456789012:role/gateway"
STS = {"AWS_ENDPOINT_URL_STS": BASE}


def until(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()


# AWS


async def test_a_role_is_assumed_by_a_signed_request_and_not_again_once_it_was_refused() -> None:
    clouds = Clouds(STS)
    settings = settings_of(f'kind = "aws", {STATIC}, role_arn = "{ROLE}", external_id = "ours"')
    found = await clouds.obtain(settings)
    assert found.keys is not None
    assert found.keys.token in clouds.authority.expires
    assert 3500 < found.expires_at - time.time() <= 3600
    sent = clouds.authority.last["sts"]
    assert (sent["RoleArn"], sent["ExternalId"], sent["DurationSeconds"]) == (ROLE, "ours", "3600")
    denied = "<E><Error><Code>AccessDenied</Code><Message>not authorized</Message></Error></E>"
    clouds.authority.failing["sts"] = Failing(403, denied)
    with pytest.raises(CredentialError) as raised:
        await clouds.obtain(settings)
    assert raised.value.problem == "refused"
    asked = len(clouds.asks)
    with pytest.raises(CredentialError):
        await clouds.obtain(settings, failure=next_failure(None, raised.value, 0.0))
    assert len(clouds.asks) == asked, "the same inputs would be refused again"


async def test_profiles_are_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    clouds = Clouds({"AWS_SHARED_CREDENTIALS_FILE": str(file)})
    settings = settings_of('kind = "aws", profile = "work"')
    assert "waits for the files" in str(await failure(clouds, 'kind = "aws", profile = "work"'))
    inputs = []
    for number in (1, 2):
        file.write_text(
            f"[work]\naws_access_key_id = ID{number}\naws_secret_access_key = s{number}\n"
            f"aws_session_token = t{number}\n"
        )
        found = await clouds.obtain(settings)
        assert found.keys == AwsKeys(f"ID{number}", f"s{number}", f"t{number}")
        assert found.refresh_at < inf, "the file is looked at again"
        inputs.append(found.inputs)
    assert inputs[0] != inputs[1]


async def test_a_profile_may_chain_roles_run_a_command_or_name_the_instance(tmp_path: Path) -> None:
    command = tmp_path / "keys"
    command.write_text(
        '#!/bin/sh\nprintf \'{"Version":1,"AccessKeyId":"C","SecretAccessKey":"s",'
        f'"SessionToken":"t","Expiration":"{until(900)}"}}\'\n'
    )
    command.chmod(0o700)
    file = tmp_path / "config"
    file.write_text(
        f"[profile base]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n"
        f"[profile first]\nrole_arn = {ROLE}-1\nsource_profile = base\nregion = eu-west-1\n"
        f"[profile second]\nrole_arn = {ROLE}-2\nsource_profile = first\nexternal_id = x\n"
        f"[profile command]\ncredential_process = {command} --json\n"
        f"[profile instance]\nrole_arn = {ROLE}\ncredential_source = Ec2InstanceMetadata\n"
        "[profile loop]\nrole_arn = r\nsource_profile = pool\n"
        "[profile pool]\nrole_arn = r\nsource_profile = loop\n"
    )
    clouds = Clouds({"AWS_CONFIG_FILE": str(file), **STS})
    found = await clouds.obtain(settings_of('kind = "aws", profile = "second"'))
    assert clouds.authority.issued["sts"] == 2
    assert found.keys is not None
    assert found.keys.token in clouds.authority.expires
    found = await clouds.obtain(settings_of('kind = "aws", profile = "command"'))
    assert found.keys == AwsKeys("C", "s", "t")
    assert 800 < found.expires_at - time.time() <= 900
    await clouds.obtain(settings_of('kind = "aws", profile = "instance"'))
    assert clouds.authority.issued["imds"] == 1
    assert "not there" in str(await failure(clouds, 'kind = "aws", profile = "loop"'))


async def test_a_web_identity_is_read_anew_and_sent_unsigned(tmp_path: Path) -> None:
    file = tmp_path / "token"
    environ = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(file), "AWS_ROLE_ARN": ROLE, **STS}
    clouds = Clouds(environ)
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        await clouds.obtain(settings_of('kind = "aws"'))
        assert clouds.authority.last["sts"]["WebIdentityToken"] == token
        assert "authorization" not in dict(clouds.asks[-1].headers)


async def test_containers_issue_keys_and_foreign_hosts_are_not_asked(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("container-token\n")
    name = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
    clouds = Clouds(
        {name: f"{BASE}/container/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(file)}
    )
    await clouds.obtain(settings_of('kind = "aws"'))
    assert dict(clouds.asks[0].headers)["authorization"] == "container-token"
    assert clouds.asks[0].is_direct
    clouds.environ[name] = "http://metadata.example/container/credentials"
    assert (await failure(clouds, 'kind = "aws"')).problem == "refused"
    assert len(clouds.asks) == 1
    clouds.environ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/container/credentials"
    await clouds.obtain(settings_of('kind = "aws"'))
    assert clouds.asks[-1].url == "http://169.254.170.2/container/credentials"


async def test_an_instance_is_asked_by_version_2_and_may_hand_out_stale_keys() -> None:
    clouds = Clouds()
    found = await clouds.obtain(settings_of('kind = "aws"'))
    assert [ask.method for ask in clouds.asks] == ["PUT", "GET", "GET"]
    assert clouds.asks[0].total_s <= 2.0
    assert found.keys is not None
    assert 3500 < found.expires_at - time.time() <= 3600
    clouds.authority.life_s = -60.0
    stale = await clouds.obtain(settings_of('kind = "aws"'))
    assert stale.is_usable(time.time()), "in an outage they go on to be accepted"
    clouds.down = True
    error = await failure(clouds, 'kind = "aws"')
    assert (error.problem, "no keys of AWS were found" in str(error)) == ("unavailable", True)
    clouds.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    asked = len(clouds.asks)
    await failure(clouds, 'kind = "aws"')
    assert len(clouds.asks) == asked


async def test_single_sign_on_uses_the_login_that_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws" / "sso" / "cache").mkdir(parents=True)
    config = tmp_path / "config"
    config.write_text(
        "[profile dev]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = r\n"
        "[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.example\n"
    )
    digest = hashlib.sha1(b"corp", usedforsecurity=False).hexdigest()
    cached = tmp_path / ".aws" / "sso" / "cache" / f"{digest}.json"
    clouds = Clouds({"AWS_CONFIG_FILE": str(config), "AWS_ENDPOINT_URL_SSO": BASE})
    dev = 'kind = "aws", profile = "dev"'
    assert (await failure(clouds, dev)).problem == "login_needed"
    cached.write_text(json.dumps({"accessToken": "login", "expiresAt": until(600)}))
    found = await clouds.obtain(settings_of(dev))
    assert found.keys is not None
    assert dict(clouds.asks[-1].headers)["x-amz-sso_bearer_token"] == "login"
    assert clouds.authority.last["sso"] == {"role_name": "r", "account_id": "1"}
    cached.write_text(json.dumps({"accessToken": "login", "expiresAt": until(-1)}))
    error = await failure(clouds, dev)
    assert (error.problem, "aws sso login" in str(error)) == ("login_needed", True)


async def test_a_bedrock_key_is_that_of_the_vendors_generator() -> None:
    fact = FACTS["bedrock_key"]
    keys = AwsKeys(FACTS["key_id"], FACTS["secret"], fact["token"])
    assert bedrock_key(keys, fact["region"], NOW) == fact["key"]
    found = await Clouds().obtain(settings_of(f'kind = "aws", {STATIC}, form = "bedrock_key"'))
    assert token_of(found).startswith("bedrock-api-key-")
    assert found.keys is None
    assert 43_000 < found.expires_at - time.time() <= 43_200


# Google


def google_file(folder: Path, name: str = "google", **members: Any) -> str:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(members))
    return str(file)


def service_account(folder: Path, **more: Any) -> str:
    return google_file(
        folder,
        type="service_account",
        client_email="gateway@project.example",
        private_key=PEM.decode(),
        private_key_id="key-1",
        token_uri=f"{BASE}/token",
        **more,
    )


async def test_a_service_account_signs_for_a_token(tmp_path: Path) -> None:
    clouds = Clouds()
    clouds.authority.keys["gateway@project.example"] = PUBLIC
    file = service_account(tmp_path)
    found = await clouds.obtain(settings_of(f'kind = "google", file = "{file}"'))
    assert token_of(found) in clouds.authority.expires
    header, claims, _ = clouds.authority.last["google"]["assertion"].split(".")
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert decoded["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    assert decoded["exp"] - decoded["iat"] == 3600
    assert json.loads(base64.urlsafe_b64decode(header + "=="))["kid"] == "key-1"
    other = rsa.generate_private_key(65537, 2048).public_key()
    form = PublicFormat.SubjectPublicKeyInfo
    clouds.authority.keys["gateway@project.example"] = other.public_bytes(
        Encoding.PEM, form
    ).decode()
    error = await failure(clouds, f'kind = "google", file = "{file}"')
    assert error.problem == "login_needed"
    asked = len(clouds.asks)
    own = await clouds.obtain(settings_of(f'kind = "google", file = "{file}", self_signed = true'))
    assert token_of(own).count(".") == 2
    assert len(clouds.asks) == asked, "a token of one's own needs no call"


async def test_a_users_file_is_read_again_when_its_login_has_ended(tmp_path: Path) -> None:
    clouds = Clouds()

    def written(token: str) -> str:
        return google_file(
            tmp_path,
            type="authorized_user",
            client_id="c",
            client_secret="s",
            refresh_token=token,
            token_uri=f"{BASE}/token",
            quota_project_id="billed",
        )

    user = f'kind = "google", file = "{written("old")}"'
    found = await clouds.obtain(settings_of(user))
    assert dict(found.headers)["x-goog-user-project"] == "billed"
    clouds.authority.redeemed["old"] = "family"
    with pytest.raises(CredentialError) as raised:
        await clouds.obtain(settings_of(user))
    failure = next_failure(None, raised.value, 0.0)
    asked = len(clouds.asks)
    with pytest.raises(CredentialError):
        await clouds.obtain(settings_of(user), failure=failure)
    assert len(clouds.asks) == asked
    written("new")
    await clouds.obtain(settings_of(user), failure=failure)


async def test_a_workload_identity_is_exchanged_and_impersonates(tmp_path: Path) -> None:
    subject = tmp_path / "subject.json"
    subject.write_text('{"id_token": "from-a-file"}')

    def written(source: Any, **more: Any) -> str:
        file = google_file(
            tmp_path,
            type="external_account",
            audience="//iam.googleapis.com/x",
            subject_token_type="urn:ietf:params:oauth:token-type:jwt",
            token_url=f"{BASE}/v1/token",
            credential_source=source,
            **more,
        )
        return f'kind = "google", file = "{file}"'

    clouds = Clouds()
    form = {"type": "json", "subject_token_field_name": "id_token"}
    await clouds.obtain(settings_of(written({"file": str(subject), "format": form})))
    assert clouds.authority.last["google_sts"]["subject_token"] == "from-a-file"
    form = {"type": "json", "subject_token_field_name": "access_token"}
    place = f"{BASE}/computeMetadata/v1/instance/service-accounts/default/token"
    source = {"url": place, "headers": {"Metadata-Flavor": "Google"}, "format": form}
    await clouds.obtain(settings_of(written(source)))
    assert clouds.authority.last["google_sts"]["subject_token"].startswith("sim-token-google_meta")
    url = f"{BASE}/v1/projects/-/serviceAccounts/a@b:generateAccessToken"
    impersonating = written({"file": str(subject)}, service_account_impersonation_url=url)
    found = await clouds.obtain(settings_of(impersonating))
    assert "impersonation" in token_of(found)
    clouds.environ |= {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "eu-west-1",
    }
    await clouds.obtain(settings_of(written({"environment_id": "aws1"})))
    signed = json.loads(unquote(clouds.authority.last["google_sts"]["subject_token"]))
    assert signed["url"].startswith("https://sts.eu-west-1.amazonaws.com/?Action=GetCallerIdentity")
    assert {"key": "x-goog-cloud-target-resource", "value": "//iam.googleapis.com/x"} in signed[
        "headers"
    ]
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho \'{"version":1,"success":true,"id_token":"printed"}\'\n')
    program.chmod(0o700)
    running = written({"executable": {"command": f"{program} x", "timeout_millis": 5000}})
    assert "is only run with" in str(await failure(clouds, running))
    clouds.environ["GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"] = "1"
    await clouds.obtain(settings_of(running))
    assert clouds.authority.last["google_sts"]["subject_token"] == "printed"
    foreign = google_file(
        tmp_path,
        type="external_account",
        audience="a",
        subject_token_type="t",
        token_url="https://attacker.example/v1/token",
        credential_source={"file": str(subject)},
    )
    error = await failure(clouds, f'kind = "google", file = "{foreign}"')
    assert "not Google's" in str(error)


async def test_the_metadata_server_is_asked_last_and_must_say_that_it_is_one(
    tmp_path: Path,
) -> None:
    clouds = Clouds({"GCE_METADATA_HOST": "127.0.0.1:1"})
    found = await clouds.obtain(settings_of('kind = "google"'))
    assert clouds.authority.issued["google_metadata"] == 1
    assert clouds.asks[0].is_direct
    assert found.expires_at > time.time()
    folder = tmp_path / "gcloud"
    folder.mkdir()
    service_account(folder, name="application_default_credentials")
    clouds.environ["CLOUDSDK_CONFIG"] = str(folder)
    await clouds.obtain(settings_of('kind = "google"'))
    assert clouds.authority.issued["google"] == 1
    clouds.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(tmp_path / "missing.json")
    assert "cannot be read" in str(await failure(clouds, 'kind = "google"'))
    clouds = Clouds({"GCE_METADATA_HOST": "127.0.0.1:1"})
    clouds.authority.failing["google_metadata"] = Failing(200, {"access_token": "x"})
    assert "another server" in str(await failure(clouds, 'kind = "google"'))


# Azure

AZURE = 'kind = "azure", tenant = "t", client_id = "app"'
ENTRA = {"AZURE_AUTHORITY_HOST": BASE}
FOUNDRY = Place("https://res.services.ai.azure.com/anthropic")


async def test_entra_issues_tokens_for_a_secret() -> None:
    clouds = Clouds(ENTRA)
    await clouds.obtain(settings_of(f'{AZURE}, client_secret = "right"'), FOUNDRY)
    sent = clouds.authority.last["entra"]
    assert sent["scope"] == "https://ai.azure.com/.default"
    assert sent["grant_type"] == "client_credentials"
    openai = Place("https://res.openai.azure.com/openai/v1")
    await clouds.obtain(settings_of(f'{AZURE}, client_secret = "right"'), openai)
    assert clouds.authority.last["entra"]["scope"] == (
        "https://cognitiveservices.azure.com/.default"
    )
    error = await failure(clouds, f'{AZURE}, client_secret = "wrong"')
    assert (error.problem, "client secret is wrong" in str(error)) == ("refused", True)


def certificate() -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), 1, now, now + timedelta(1))
    return builder.sign(KEY, hashes.SHA256())


async def test_entra_issues_tokens_for_a_certificate(tmp_path: Path) -> None:
    made = certificate()
    pem = made.public_bytes(Encoding.PEM)
    locked = KEY.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
    )
    pfx = pkcs12.serialize_key_and_certificates(
        b"x", KEY, made, None, BestAvailableEncryption(b"password")
    )
    clouds = Clouds(ENTRA)
    clouds.authority.keys["app"] = PUBLIC
    for data in (PEM + pem, locked + pem, pfx):
        file = tmp_path / "certificate"
        file.write_bytes(data)
        text = f'{AZURE}, certificate = "{file}", certificate_password = "password"'
        await clouds.obtain(settings_of(text))
        header = clouds.authority.last["entra"]["client_assertion"].partition(".")[0]
        decoded = json.loads(base64.urlsafe_b64decode(header + "=="))
        digest = hashlib.sha256(made.public_bytes(Encoding.DER)).digest()
        expected = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        assert (decoded["alg"], decoded["x5t#S256"]) == ("PS256", expected)
    text = f'{AZURE}, certificate = "{file}", certificate_password = "other"'
    assert "can be read" in str(await failure(clouds, text))


async def test_a_workload_identity_of_kubernetes_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "token"
    names = {"AZURE_CLIENT_ID": "app", "AZURE_TENANT_ID": "t"}
    clouds = Clouds({**ENTRA, **names, "AZURE_FEDERATED_TOKEN_FILE": str(file)})
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + 60}).encode()).decode()
    for name in ("one", "two"):
        token = (
            f"{base64.urlsafe_b64encode(b'{}').decode().rstrip('=')}.{claims.rstrip('=')}.{name}"
        )
        file.write_text(token)
        await clouds.obtain(settings_of('kind = "azure"'))
        assert clouds.authority.last["entra"]["client_assertion"] == token


async def test_managed_identities_are_asked_as_each_service_wants_it() -> None:
    clouds = Clouds()
    found = await clouds.obtain(settings_of('kind = "azure", client_id = "mine"'), FOUNDRY)
    sent = clouds.authority.last["managed_identity"]
    assert sent["resource"] == "https://ai.azure.com"
    assert sent["client_id"] == "mine"
    assert 3500 < found.expires_at - time.time() <= 3600, "expires_on is a text"
    clouds.environ |= {"IDENTITY_ENDPOINT": f"{BASE}/msi/token", "IDENTITY_HEADER": "secret"}
    await clouds.obtain(settings_of('kind = "azure"'))
    assert dict(clouds.asks[-1].headers) == {"x-identity-header": "secret"}
    assert clouds.authority.last["app_service"]["api-version"] == "2019-08-01"


async def test_azure_arc_has_a_file_read_in_its_own_folder_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "ARC_FOLDER", f"{tmp_path}/")
    (tmp_path / "secret.key").write_text("of-the-agent")
    clouds = Clouds({"IDENTITY_ENDPOINT": f"{BASE}/arc"})
    realm = f"{tmp_path}/secret.key"

    async def fetch(ask: Any) -> Any:
        from dragoman.accounts.credentials.io import Answer

        clouds.asks.append(ask)
        if dict(ask.headers).get("authorization") == "Basic of-the-agent":
            return Answer(200, {}, b'{"access_token": "arc-token", "expires_in": "3600"}')
        return Answer(401, {"www-authenticate": f"Basic realm={realm}"}, b"")

    monkeypatch.setattr(clouds, "fetch", fetch)
    assert token_of(await clouds.obtain(settings_of('kind = "azure"'))) == "arc-token"
    for named in ("/etc/passwd", f"{tmp_path}/../x.key", f"{tmp_path}/secret.txt"):
        realm = named
        assert (await failure(clouds, 'kind = "azure"')).problem == "refused"


# OAuth 2

OAUTH = f'kind = "oauth2", token_url = "{BASE}/oauth/token", client_id = "gw"'


@pytest.mark.parametrize("form", ["form", "json"])
@pytest.mark.parametrize("how", ["basic", "body"])
async def test_clients_show_their_secret_in_the_header_or_the_body(form: str, how: str) -> None:
    clouds = Clouds()
    more = f'client_auth = "{how}", body = "{form}", scope = "llm", audience = "a"'
    text = f'{OAUTH}, client_secret = "oauth-secret", {more}'
    await clouds.obtain(settings_of(text))
    sent = clouds.authority.last["oauth"]
    assert (sent["scope"], sent["audience"]) == ("llm", "a")
    assert ("client_secret" in sent) is (how == "body")
    error = await failure(clouds, text.replace("oauth-secret", "not-it"))
    assert error.problem == "refused"
    assert "not-it" not in str(error)


async def test_secrets_of_files_are_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("not-yet-right")
    text = f'{OAUTH}, client_secret = "file:{file}", headers = {{ x-own = "file:{file}" }}'
    settings, clouds = settings_of(text), Clouds()
    with pytest.raises(CredentialError):
        await clouds.obtain(settings)
    file.write_text("oauth-secret")
    await clouds.obtain(settings)
    assert ("x-own", "oauth-secret") in clouds.asks[-1].headers


async def test_clients_may_sign_who_they_are_and_exchange_other_tokens(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(PEM)
    token = tmp_path / "token"
    clouds = Clouds()
    clouds.authority.keys["gw"] = PUBLIC
    signing = f'client_auth = "private_key_jwt", private_key = "{tmp_path}/key.pem"'
    await clouds.obtain(settings_of(f"{OAUTH}, {signing}"))
    assert "client_assertion" in clouds.authority.last["oauth"]
    for grant, member in (("jwt_bearer", "assertion"), ("token_exchange", "subject_token")):
        for text in ("one", "two"):
            token.write_text(text)
            more = 'body = "json", fields = { organization_id = "org" }, headers = { x-beta = "b" }'
            await clouds.obtain(
                settings_of(f'{OAUTH}, grant = "{grant}", token_file = "{token}", {more}')
            )
            sent = clouds.authority.last["oauth"]
            assert (sent[member], sent["organization_id"]) == (text, "org")
            assert ("x-beta", "b") in clouds.asks[-1].headers
