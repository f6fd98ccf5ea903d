"""Access tokens of Microsoft Entra."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

from msgspec.structs import replace

from dragoman.accounts.credentials.decide.answers import (
    bearer,
    json_object,
    refusal,
    token_of,
    unavailable,
)
from dragoman.accounts.credentials.decide.jwt import certificate, signed
from dragoman.accounts.credentials.decide.refreshing import (
    Credential,
    CredentialError,
    CredentialFailure,
)
from dragoman.accounts.credentials.google import FORM
from dragoman.accounts.credentials.io import Answer, Ask, Environment, Unanswered
from dragoman.accounts.credentials.place import Place, check_inputs
from dragoman.config.credentials import AzureCredentials

_WHO = "Entra"
_IDENTITY = "the managed identity of this machine"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_S = 600
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
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
    inputs = [client, tenant, scope]
    if settings.client_secret is not None:
        proof["client_secret"] = settings.client_secret.reveal()
        inputs.append(proof["client_secret"])
    elif settings.certificate is not None:
        data = await environment.read(settings.certificate, "its certificate")
        inputs.append(hashlib.sha256(data).hexdigest())
        proof = _asserted(_certified(settings, data, client, url, environment.clock()))
    elif file is not None:
        token = (
            (await environment.read(file, "its federated token")).decode("utf-8", "replace").strip()
        )
        inputs.append(token)
        proof = _asserted(token)
    else:
        return await _managed(settings.client_id or "", scope, environment)
    if not client or not tenant:
        raise CredentialError("refused", "its tenant or client_id is not set")
    if not _may_be_called(url):
        raise CredentialError("refused", "AZURE_AUTHORITY_HOST is no https address")
    print_of = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:16]
    check_inputs(print_of, failure)
    fields = {"client_id": client, "scope": scope, "grant_type": "client_credentials", **proof}
    answer = await environment.fetch(Ask("POST", url, (FORM,), urlencode(fields).encode()), _WHO)
    if answer.status != 200:
        error = refusal(answer.status, answer.body, _WHO, _LASTING)
        raise CredentialError(error.problem, str(error), print_of)
    return replace(_read(answer, _WHO, environment), inputs=print_of)


def default_scope(host: str) -> str:
    """The scope of tokens for a host."""
    audience = "cognitiveservices.azure.com"
    if host.endswith(".services.ai.azure.com"):
        audience = "ai.azure.com"
    return f"https://{audience}/.default"


def _asserted(token: str) -> dict[str, str]:
    return {"client_assertion_type": _ASSERTION, "client_assertion": token}


def _certified(settings: AzureCredentials, data: bytes, client: str, url: str, now: float) -> str:
    password = settings.certificate_password
    secret = None if password is None else password.reveal().encode()
    key, print_of = certificate(data, "its certificate", secret)
    claims = {
        "aud": url,
        "iss": client,
        "sub": client,
        "jti": secrets.token_hex(16),
        "iat": int(now),
        "nbf": int(now),
        "exp": int(now) + _ASSERTION_S,
    }
    return signed(claims, {"alg": "PS256", "x5t#S256": print_of}, key)


async def _managed(client: str, scope: str, environment: Environment) -> Credential:
    environ, resource = environment.environ, scope.removesuffix("/.default")
    endpoint, secret = environ.get("IDENTITY_ENDPOINT", ""), environ.get("IDENTITY_HEADER")
    asked = {"resource": resource} | ({"client_id": client} if client else {})
    headers: tuple[tuple[str, str], ...] = (("metadata", "true"),)
    if endpoint and secret:
        asked = {"api-version": "2019-08-01", **asked}
        headers = (("x-identity-header", secret),)
    elif endpoint:
        return await _arc(endpoint, asked, environment)
    else:
        base = environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://169.254.169.254")
        endpoint = f"{base.rstrip('/')}/metadata/identity/oauth2/token"
        asked = {"api-version": "2018-02-01", **asked}
    return _identity(await _asked_identity(endpoint, asked, headers, environment), environment)


async def _asked_identity(
    endpoint: str,
    asked: Mapping[str, str],
    headers: tuple[tuple[str, str], ...],
    environment: Environment,
) -> Answer:
    ask = Ask("GET", f"{endpoint}?{urlencode(asked)}", headers, b"", 5.0, is_direct=True)
    try:
        return await environment.ask(ask)
    except Unanswered:
        why = f"no secret is configured, and {_IDENTITY} does not answer"
        raise unavailable(why) from None


async def _arc(endpoint: str, asked: Mapping[str, str], environment: Environment) -> Credential:
    """The token of a machine that Azure Arc manages: the agent has it read a file, which only its
    administrators may."""
    asked = {"api-version": "2020-06-01", **asked}
    challenge = await _asked_identity(endpoint, asked, (("metadata", "true"),), environment)
    named = challenge.headers.get("www-authenticate", "").partition("realm=")[2].strip('"')
    is_own = named.startswith(ARC_FOLDER) and named.endswith(".key") and ".." not in named
    if challenge.status != 401 or not is_own:
        raise CredentialError("refused", "the agent of Azure Arc named no file of its own")
    secret = await environment.read(named, "the file of Azure Arc's agent")
    if len(secret) > _MOST_ARC:
        raise CredentialError("refused", "the file of Azure Arc's agent is too large")
    headers = (("metadata", "true"), ("authorization", f"Basic {secret.decode().strip()}"))
    return _identity(await _asked_identity(endpoint, asked, headers, environment), environment)


def _identity(answer: Answer, environment: Environment) -> Credential:
    if answer.status != 200:
        raise unavailable(f"{_IDENTITY} failed with status {answer.status}: has it one?")
    return _read(answer, _IDENTITY, environment)


def _read(answer: Answer, who: str, environment: Environment) -> Credential:
    token, found = token_of(json_object(answer.body, who), who, environment.clock())
    return bearer(found, token)


def _may_be_called(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in _LOOPBACK
