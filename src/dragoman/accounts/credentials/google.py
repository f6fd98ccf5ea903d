"""Access tokens of Google Cloud."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec.structs import replace

from dragoman.accounts.credentials.aws import caller_identity, obtain_aws
from dragoman.accounts.credentials.decide.answers import (
    bearer,
    bearer_of,
    json_object,
    moment,
    unavailable,
)
from dragoman.accounts.credentials.decide.jwt import private_key, signed
from dragoman.accounts.credentials.decide.refreshing import (
    Credential,
    CredentialError,
    CredentialFailure,
    inputs_of,
)
from dragoman.accounts.credentials.io import LOOPBACK, Ask, Environment
from dragoman.accounts.credentials.place import Place
from dragoman.config.credentials import AwsCredentials, GoogleCredentials

_REGION = re.compile(r"[a-z0-9-]{1,40}")

FORM = ("content-type", "application/x-www-form-urlencoded")
JSON = ("content-type", "application/json")
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"

_TOKEN_URL = "https://oauth2.googleapis.com/token"
_LIFE_S = 3600
_WHO = "Google"
_METADATA = "the metadata server"
_LASTING = {
    "invalid_grant": "its key was deleted or its login has ended: replace the file",
    "invalid_client": "the client of the file is not known",
    "unauthorized_client": "the client of the file may not do this",
}


async def obtain_google(
    settings: GoogleCredentials,
    place: Place,
    failure: CredentialFailure | None,
    environment: Environment,
) -> Credential:
    """An access token of Google.

    Raises:
        CredentialError: there is none.
    """
    path = await _file(settings, environment)
    if path is None:
        return await _from_metadata(settings, environment)
    text = await environment.read(path, "its file")
    inputs = inputs_of(text)
    source = _Source(settings, inputs, failure, environment)
    found = await source.of(json_object(text, "its file"))
    return replace(found, inputs=inputs)


async def _file(settings: GoogleCredentials, environment: Environment) -> str | None:
    """The file of the credentials, None if there is none."""
    if settings.file is not None:
        return settings.file
    if path := environment.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return path
    folder = environment.environ.get("CLOUDSDK_CONFIG", "~/.config/gcloud")
    path = f"{folder}/application_default_credentials.json"
    return path if await environment.exists(path) else None


async def _from_metadata(settings: GoogleCredentials, environment: Environment) -> Credential:
    host = environment.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    scopes = urlencode({"scopes": settings.scope})
    path = f"/computeMetadata/v1/instance/service-accounts/default/token?{scopes}"
    ask = Ask(
        "GET", f"http://{host}{path}", (("metadata-flavor", "Google"),), b"", 3.0, is_direct=True
    )
    absent = f"no file of credentials was found, and {_METADATA} does not answer"
    answer = await environment.fetch(ask, _METADATA, absent)
    if answer.headers.get("metadata-flavor") != "Google":
        raise unavailable(f"what answers in place of {_METADATA} is another server")
    if answer.status != 200:
        raise unavailable(f"{_METADATA} failed with status {answer.status}")
    return bearer_of(answer.body, _METADATA, environment.clock())


class _Source:
    """Makes a token of the content of a file."""

    def __init__(
        self,
        settings: GoogleCredentials,
        inputs: str,
        failure: CredentialFailure | None,
        environment: Environment,
    ) -> None:
        self._settings = settings
        self._inputs = inputs
        self._failure = failure
        self._environment = environment

    async def of(self, file: Mapping[str, Any]) -> Credential:
        kind = file.get("type")
        if kind == "service_account":
            return await self._service_account(file)
        if kind == "authorized_user":
            return await self._user(file)
        if kind == "external_account":
            return await self._external(file)
        if kind == "impersonated_service_account":
            inner = file.get("source_credentials")
            source = await self.of(inner if isinstance(inner, dict) else {})
            return await self._impersonated(
                source, _text(file, "service_account_impersonation_url")
            )
        raise self._refused(f"its file is of a type that is not known: {str(kind)[:40]}")

    async def _service_account(self, file: Mapping[str, Any]) -> Credential:
        environment, email = self._environment, _text(file, "client_email")
        key = private_key(_text(file, "private_key").encode(), "its file")
        now = environment.clock()
        header = {"alg": "RS256", "kid": _text(file, "private_key_id")}
        claims: dict[str, Any] = {"iss": email, "iat": int(now), "exp": int(now) + _LIFE_S}
        if self._settings.self_signed:
            claims |= {"sub": email, "scope": self._settings.scope}
            return bearer(Credential(now, now + _LIFE_S), signed(claims, header, key))
        url = str(file.get("token_uri") or _TOKEN_URL)
        audience = url if _is_here(url) else _TOKEN_URL
        claims |= {"scope": self._settings.scope, "aud": audience}
        fields = {"grant_type": JWT_BEARER, "assertion": signed(claims, header, key)}
        return await self._token(url, fields)

    async def _user(self, file: Mapping[str, Any]) -> Credential:
        fields = {
            "grant_type": "refresh_token",
            "client_id": _text(file, "client_id"),
            "client_secret": _text(file, "client_secret"),
            "refresh_token": _text(file, "refresh_token"),
        }
        found = await self._token(str(file.get("token_uri") or _TOKEN_URL), fields)
        project = file.get("quota_project_id")
        more = (("x-goog-user-project", str(project)),) if project else ()
        return replace(found, headers=(*found.headers, *more))

    async def _external(self, file: Mapping[str, Any]) -> Credential:
        source = file.get("credential_source")
        subject = await self._subject(file, source if isinstance(source, dict) else {})
        impersonation = file.get("service_account_impersonation_url")
        fields = {
            "grant_type": TOKEN_EXCHANGE,
            "audience": _text(file, "audience"),
            "scope": "https://www.googleapis.com/auth/cloud-platform"
            if impersonation
            else self._settings.scope,
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "subject_token": subject,
            "subject_token_type": _text(file, "subject_token_type"),
        }
        found = await self._token(_text(file, "token_url"), fields)
        return await self._impersonated(found, str(impersonation)) if impersonation else found

    async def _subject(self, file: Mapping[str, Any], source: Mapping[str, Any]) -> str:
        """The token that is exchanged."""
        environment = self._environment
        if str(source.get("environment_id", "")).startswith("aws"):
            return await self._aws_subject(file, source)
        if "executable" in source:
            return await self._printed(file, source["executable"])
        if "file" in source:
            text = await environment.read(str(source["file"]), "its token file")
        elif "url" in source:
            url = self._allowed(str(source["url"]), google_only=False)
            headers = tuple((str(k), str(v)) for k, v in dict(source.get("headers") or {}).items())
            text = await environment.body_of(Ask("GET", url, headers), "its source of tokens")
        else:
            raise self._refused("its file names no source of tokens that is known")
        form = source.get("format")
        if isinstance(form, dict) and form.get("type") == "json":
            found = json_object(text, "its source of tokens")
            return str(found.get(str(form.get("subject_token_field_name")), ""))
        return text.decode("utf-8", "replace").strip()

    async def _aws_subject(self, file: Mapping[str, Any], source: Mapping[str, Any]) -> str:
        environment = self._environment
        region = environment.environ.get("AWS_REGION") or environment.environ.get(
            "AWS_DEFAULT_REGION", ""
        )
        if not region and source.get("region_url"):
            url = self._allowed(str(source["region_url"]), google_only=False)
            answer = await environment.fetch(Ask("GET", url, is_direct=True), "the metadata of AWS")
            region = answer.body.decode("utf-8", "replace").strip()[:-1]
            # It becomes part of the host that is sent a token.
            if answer.status != 200 or _REGION.fullmatch(region) is None:
                raise unavailable("the metadata of AWS names no region")
        found = await obtain_aws(AwsCredentials(), Place("", region=region), None, environment)
        assert found.keys is not None
        return caller_identity(found.keys, region, _text(file, "audience"), environment.clock())

    async def _printed(self, file: Mapping[str, Any], executable: Any) -> str:
        environment, variable = self._environment, "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
        if environment.environ.get(variable) != "1":
            raise self._refused(f"its file names a program, which is only run with {variable}=1")
        settings = executable if isinstance(executable, dict) else {}
        variables = {
            "GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE": _text(file, "audience"),
            "GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE": _text(file, "subject_token_type"),
            "GOOGLE_EXTERNAL_ACCOUNT_INTERACTIVE": "0",
        }
        seconds = min(float(settings.get("timeout_millis", 30_000)) / 1000, 60.0)
        command = str(settings.get("command", "")).split()
        if not command:
            raise self._refused("its file names no program")
        printed = json_object(await environment.run(command, variables, seconds), "its program")
        if printed.get("success") is not True:
            raise unavailable(f"its program failed: {str(printed.get('code', ''))[:40]}")
        ends = printed.get("expiration_time")
        if isinstance(ends, int | float) and ends <= environment.clock():
            raise CredentialError("expired", "its program printed a token that has expired")
        return str(printed.get("id_token") or printed.get("saml_response") or "")

    async def _impersonated(self, source: Credential, url: str) -> Credential:
        environment = self._environment
        body = msgspec.json.encode({"scope": [self._settings.scope], "lifetime": f"{_LIFE_S}s"})
        headers = (JSON, *source.headers)
        ask = Ask("POST", self._allowed(url), headers, body)
        answer = await environment.granted(ask, _WHO, _LASTING, self._inputs)
        found = json_object(answer.body, _WHO)
        token, ends = found.get("accessToken"), moment(str(found.get("expireTime", "")))
        if not isinstance(token, str) or ends is None:
            raise unavailable(f"{_WHO} answered without a usable accessToken")
        return bearer(Credential(environment.clock(), ends), token)

    async def _token(self, url: str, fields: Mapping[str, str]) -> Credential:
        ask = Ask("POST", self._allowed(url), (FORM,), urlencode(fields).encode())
        environment, inputs = self._environment, self._inputs
        answer = await environment.granted(ask, _WHO, _LASTING, inputs, self._failure)
        return bearer_of(answer.body, _WHO, environment.clock())

    def _allowed(self, url: str, *, google_only: bool = True) -> str:
        """An address of a file that may be called: `https`, or of this machine.

        Raises:
            CredentialError: it may not.
        """
        host = urlsplit(url).hostname or ""
        is_google = host.endswith((".googleapis.com", ".google.com"))
        if _is_here(url) or (url.startswith("https://") and (is_google or not google_only)):
            return url
        raise self._refused("its file names an address that is not Google's")

    def _refused(self, why: str) -> CredentialError:
        return CredentialError("refused", why, self._inputs)


def _text(file: Mapping[str, Any], name: str) -> str:
    found = file.get(name)
    if not isinstance(found, str) or not found:
        raise CredentialError("refused", f"its file has no {name}")
    return found


def _is_here(url: str) -> bool:
    """Whether an address is of this machine: tests and proxies of one's own."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname in LOOPBACK | {"169.254.169.254"}
