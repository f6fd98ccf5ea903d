"""Access tokens of Microsoft Entra."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

from msgspec.structs import replace

from dragoman.accounts.credentials.decide.answers import bearer_of
from dragoman.accounts.credentials.decide.jwt import asserted, certificate, client_assertion
from dragoman.accounts.credentials.decide.refreshing import (
    Credential,
    CredentialError,
    CredentialFailure,
    inputs_of,
)
from dragoman.accounts.credentials.google import FORM
from dragoman.accounts.credentials.io import LOOPBACK, Ask, Environment
from dragoman.accounts.credentials.place import Place
from dragoman.config.credentials import AzureCredentials

_WHO = "Entra"
_IDENTITY = "the managed identity of this machine"
_ABSENT = f"no secret is configured, and {_IDENTITY} does not answer"
_ASSERTION_S = 600
_MOST_ARC = 4096

ARC_FOLDER = "/var/opt/azcmagent/tokens/"
"""Where the agent of Azure Arc has the files that it names."""

_LASTING = {
    "AADSTS7000215": "its client secret is wrong",
    "AADSTS7000222": "its client secret has expired",
    "AADSTS700016": "its application is not known in the tenant",
    "AADSTS90002": "its tenant is not known",
    "AADSTS700027": "its certificate is not registered",
    "AADSTS70021": "no federated identity fits its token",
    "AADSTS500011": "its scope is not known in the tenant",
    "invalid_client": "its secret or certificate is not accepted",
}


async def obtain_azure(
    settings: AzureCredentials,
    place: Place,
    failure: CredentialFailure | None,
    environment: Environment,
) -> Credential:
    """An access token of Entra.

    Raises:
        CredentialError: there is none.
    """
    environ, scope = environment.environ, settings.scope or default_scope(place.host)
    client = settings.client_id or environ.get("AZURE_CLIENT_ID", "")
    tenant = settings.tenant or environ.get("AZURE_TENANT_ID", "")
    file = settings.token_file or environ.get("AZURE_FEDERATED_TOKEN_FILE")
    proof: dict[str, str] = {}
    authority = environ.get("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com").rstrip("/")
    url = f"{authority}/{quote(tenant)}/oauth2/v2.0/token"
    shown: str | bytes
    if settings.client_secret is not None:
        shown = settings.client_secret.reveal()
        proof["client_secret"] = shown
    elif settings.certificate is not None:
        shown = await environment.read(settings.certificate, "its certificate")
        proof = _certified(settings, shown, client, url, environment.clock())
    elif file is not None:
        token = await environment.read(file, "its federated token")
        shown = token.decode("utf-8", "replace").strip()
        proof = asserted(shown)
    else:
        return await _managed(settings.client_id or "", scope, environment)
    if not client or not tenant:
        raise CredentialError("refused", "its tenant or client_id is not set")
    if not _may_be_called(url):
        raise CredentialError("refused", "AZURE_AUTHORITY_HOST is no https address")
    inputs = inputs_of(client, tenant, scope, shown)
    fields = {"client_id": client, "scope": scope, "grant_type": "client_credentials", **proof}
    ask = Ask("POST", url, (FORM,), urlencode(fields).encode())
    answer = await environment.granted(ask, _WHO, _LASTING, inputs, failure)
    return replace(bearer_of(answer.body, _WHO, environment.clock()), inputs=inputs)


def default_scope(host: str) -> str:
    """The scope of tokens for a host."""
    audience = "cognitiveservices.azure.com"
    if host.endswith(".services.ai.azure.com"):
        audience = "ai.azure.com"
    return f"https://{audience}/.default"


def _certified(
    settings: AzureCredentials, data: bytes, client: str, url: str, now: float
) -> dict[str, str]:
    password = settings.certificate_password
    secret = None if password is None else password.reveal().encode()
    key, print_of = certificate(data, "its certificate", secret)
    header = {"alg": "PS256", "x5t#S256": print_of}
    return client_assertion(client, url, now, _ASSERTION_S, header, key)


async def _managed(client: str, scope: str, environment: Environment) -> Credential:
    environ, resource = environment.environ, scope.removesuffix("/.default")
    endpoint, secret = environ.get("IDENTITY_ENDPOINT", ""), environ.get("IDENTITY_HEADER")
    asked = {"resource": resource} | ({"client_id": client} if client else {})
    header = ("metadata", "true")
    if endpoint and secret:
        asked = {"api-version": "2019-08-01", **asked}
        header = ("x-identity-header", secret)
    elif endpoint:
        return await _arc(endpoint, asked, environment)
    else:
        base = environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://169.254.169.254")
        endpoint = f"{base.rstrip('/')}/metadata/identity/oauth2/token"
        asked = {"api-version": "2018-02-01", **asked}
    return await _identity(_asked(endpoint, asked, header), environment)


async def _arc(endpoint: str, asked: Mapping[str, str], environment: Environment) -> Credential:
    """The token of a machine that Azure Arc manages: the agent has it read a file, which only its
    administrators may."""
    asked = {"api-version": "2020-06-01", **asked}
    own = ("metadata", "true")
    challenge = await environment.fetch(_asked(endpoint, asked, own), _IDENTITY, _ABSENT)
    named = challenge.headers.get("www-authenticate", "").partition("realm=")[2].strip('"')
    is_own = named.startswith(ARC_FOLDER) and named.endswith(".key") and ".." not in named
    if challenge.status != 401 or not is_own:
        raise CredentialError("refused", "the agent of Azure Arc named no file of its own")
    secret = await environment.read(named, "the file of Azure Arc's agent")
    if len(secret) > _MOST_ARC:
        raise CredentialError("refused", "the file of Azure Arc's agent is too large")
    shown = ("authorization", f"Basic {secret.decode().strip()}")
    return await _identity(_asked(endpoint, asked, own, shown), environment)


def _asked(endpoint: str, asked: Mapping[str, str], *headers: tuple[str, str]) -> Ask:
    return Ask("GET", f"{endpoint}?{urlencode(asked)}", headers, b"", 5.0, is_direct=True)


async def _identity(ask: Ask, environment: Environment) -> Credential:
    body = await environment.body_of(ask, _IDENTITY, _ABSENT, ": has it one?")
    return bearer_of(body, _IDENTITY, environment.clock())


def _may_be_called(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in LOOPBACK
