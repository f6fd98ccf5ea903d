"""Where keys of AWS come from, in the order in which the vendor's tools look."""

from __future__ import annotations

import base64
import configparser
import hashlib
import shlex
from collections.abc import Mapping
from math import inf
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec.structs import replace

from dragoman.accounts.credentials.decide.answers import (
    aws_of,
    bearer,
    is_token,
    json_object,
    moment,
    refusal,
    sts_of,
    unavailable,
)
from dragoman.accounts.credentials.decide.refreshing import (
    Credential,
    CredentialError,
    CredentialFailure,
    check_inputs,
    inputs_of,
)
from dragoman.accounts.credentials.decide.signing import (
    AwsKeys,
    Scope,
    Signable,
    Signer,
    signed_headers,
)
from dragoman.accounts.credentials.io import LOOPBACK, Ask, Environment
from dragoman.accounts.credentials.place import Place
from dragoman.config.credentials import AwsCredentials

_KEY_S = 43_200
_CONTAINERS = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23"})
_STS = "STS of AWS"
_IMDS_S = 1.0
_FILE_S = 60.0
"""Seconds after which a file is looked at again whose keys have no end that is known."""
_LASTING = {
    "ExpiredToken": "sign in again where its token comes from",
    "InvalidIdentityToken": "its web identity token is not valid",
    "AccessDenied": "the role's owner does not allow it to be assumed",
    "InvalidClientTokenId": "AWS does not know its access key",
    "SignatureDoesNotMatch": "its secret access key is wrong",
}

Profile = Mapping[str, str]


async def obtain_aws(
    settings: AwsCredentials,
    place: Place,
    failure: CredentialFailure | None,
    environment: Environment,
) -> Credential:
    """Keys of AWS, or the Bedrock key made from them.

    Raises:
        CredentialError: there are none.
    """
    source = _Source(settings, place.signing_region, failure, environment)
    credential = await source.keys()
    if settings.form == "bedrock_key":
        assert credential.keys is not None
        now = environment.clock()
        token = bedrock_key(credential.keys, source.region, now)
        credential = replace(
            credential, keys=None, expires_at=min(credential.expires_at, now + _KEY_S)
        )
        credential = bearer(credential, token)
    return credential


def bedrock_key(keys: AwsKeys, region: str, now: float) -> str:
    """A Bedrock API key: a URL that is signed for 12 hours, in which it may be called with any
    request."""
    signer = Signer(keys, Scope(region, "bedrock"))
    query = [("Action", "CallWithBearerToken")]
    url = signer.presigned("POST", "bedrock.amazonaws.com", query, _KEY_S, now)
    return f"bedrock-api-key-{base64.b64encode(f'{url}&Version=1'.encode()).decode()}"


class _Source:
    """Looks for keys once."""

    def __init__(
        self,
        settings: AwsCredentials,
        region: str,
        failure: CredentialFailure | None,
        environment: Environment,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._failure = failure
        self.region = region or environment.environ.get("AWS_REGION", "")
        self._inputs: list[str] = []

    async def keys(self) -> Credential:
        settings = self._settings
        own = settings.access_key_id, settings.secret_access_key
        if own[0] is not None and own[1] is not None:
            token = settings.session_token
            secrets = own[1].reveal(), "" if token is None else token.reveal()
            found = self._static(AwsKeys(own[0], *secrets))
        elif settings.profile is not None:
            found = await self._profile(settings.profile)
        else:
            found = await self._chain()
        if settings.role_arn is not None:
            found = await self._assume(
                found, settings.role_arn, settings.external_id or "", settings.session_name
            )
        return replace(found, inputs=inputs_of(*self._inputs))

    def _static(self, keys: AwsKeys) -> Credential:
        self._note(keys.id, keys.secret, keys.token)
        return Credential(self._environment.clock(), keys=keys)

    def _note(self, *inputs: str) -> None:
        """What the keys depend on: others mean that they are tried again."""
        self._inputs += inputs

    async def _chain(self) -> Credential:
        environ = self._environment.environ
        if (found := self._of_environment()) is not None:
            return found
        file, role = environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"), environ.get("AWS_ROLE_ARN")
        if file and role:
            name = environ.get("AWS_ROLE_SESSION_NAME", self._settings.session_name)
            return await self._web_identity(file, role, name)
        name = environ.get("AWS_PROFILE", "default")
        profiles = await self._profiles()
        if name in profiles:
            return await self._of_profile(name, profiles, ())
        if "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" in environ or (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI" in environ
        ):
            return await self._container()
        return await self._instance()

    def _of_environment(self) -> Credential | None:
        environ = self._environment.environ
        id, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
        if not id or not secret:
            return None
        return self._static(AwsKeys(id, secret, environ.get("AWS_SESSION_TOKEN", "")))

    # Files

    async def _profiles(self) -> dict[str, dict[str, str]]:
        """All profiles of both files; sessions of single sign-on as `sso-session NAME`."""
        environ = self._environment.environ
        config = environ.get("AWS_CONFIG_FILE", "~/.aws/config")
        shared = environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
        found: dict[str, dict[str, str]] = {}
        for path, prefix in ((config, "profile "), (shared, "")):
            if not await self._environment.exists(path):
                continue
            parser = configparser.RawConfigParser(default_section="\0")
            try:
                parser.read_string(
                    (await self._environment.read(path, "its profile file")).decode()
                )
            except (configparser.Error, UnicodeDecodeError):
                raise unavailable("its profile file is not in the form of AWS") from None
            for section in parser.sections():
                found.setdefault(section.removeprefix(prefix), {}).update(parser.items(section))
        return found

    async def _profile(self, name: str) -> Credential:
        profiles = await self._profiles()
        if name not in profiles:
            raise unavailable("its profile is in no file of AWS; it waits for the files to change")
        return await self._of_profile(name, profiles, ())

    async def _of_profile(
        self, name: str, profiles: Mapping[str, Profile], seen: tuple[str, ...]
    ) -> Credential:
        profile = profiles.get(name)
        if profile is None or name in seen:
            raise unavailable("its profile names a source_profile that is not there")
        self.region = self.region or profile.get("region", "")
        session = profile.get("role_session_name", self._settings.session_name)
        if role := profile.get("role_arn"):
            if file := profile.get("web_identity_token_file"):
                return await self._web_identity(file, role, session)
            if source := profile.get("source_profile"):
                above = (*seen, name) if source != name else seen
                found = (
                    self._of_keys(profile)
                    if source == name
                    else await self._of_profile(source, profiles, above)
                )
            else:
                found = await self._named_source(profile.get("credential_source", ""))
            external = profile.get("external_id", "")
            return await self._assume(found, role, external, session)
        if "sso_session" in profile or "sso_start_url" in profile:
            return await self._sso(profile, profiles)
        if "aws_access_key_id" in profile:
            return self._of_keys(profile)
        if command := profile.get("credential_process"):
            output = await self._environment.run(shlex.split(command), {}, 30.0)
            return aws_of(
                json_object(output, "its command"), "its command", self._environment.clock()
            )
        raise unavailable("its profile has no keys, role, single sign-on or command")

    def _of_keys(self, profile: Profile) -> Credential:
        try:
            id, secret = profile["aws_access_key_id"], profile["aws_secret_access_key"]
        except KeyError:
            raise unavailable("its profile has no whole access key") from None
        found = self._static(AwsKeys(id, secret, profile.get("aws_session_token", "")))
        # Tools that write the file say when they will write it again.
        for name in ("aws_expiration", "x_security_token_expires", "expiration"):
            at = moment(profile.get(name, ""))
            if at is not None:
                return replace(found, expires_at=at)
        return replace(found, refresh_at=found.made_at + _FILE_S)

    async def _named_source(self, name: str) -> Credential:
        if name == "Environment" and (found := self._of_environment()) is not None:
            return found
        if name == "EcsContainer":
            return await self._container()
        if name == "Ec2InstanceMetadata":
            return await self._instance()
        raise unavailable("its profile names no source of the keys for its role")

    # Roles

    def _sts(self) -> str:
        given = self._environment.environ.get("AWS_ENDPOINT_URL_STS")
        if given:
            return given.rstrip("/")
        suffix = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
        return f"https://sts.{self.region or 'us-east-1'}.{suffix}"

    async def _assume(self, by: Credential, role: str, external: str, session: str) -> Credential:
        fields = {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": session,
            "DurationSeconds": str(self._settings.duration_s),
        }
        if external:
            fields["ExternalId"] = external
        assert by.keys is not None
        return await self._ask_sts(fields, by.keys)

    async def _web_identity(self, file: str, role: str, session: str) -> Credential:
        token = (await self._environment.read(file, "its web identity token")).decode().strip()
        self._note(token)
        fields = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": session,
            "DurationSeconds": str(self._settings.duration_s),
            "WebIdentityToken": token,
        }
        return await self._ask_sts(fields, None)

    async def _ask_sts(self, fields: Mapping[str, str], keys: AwsKeys | None) -> Credential:
        self._note(*fields.values())
        now, url = self._environment.clock(), self._sts()
        body = urlencode(fields).encode()
        headers: tuple[tuple[str, str], ...] = (
            ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
        )
        if keys is not None:
            signed = signed_headers(urlsplit(url).netloc, headers)
            signer = Signer(keys, Scope(self.region or "us-east-1", "sts"))
            headers += signer.headers(Signable("POST", "/", signed, body), now)
        ask, inputs = Ask("POST", f"{url}/", headers, body), inputs_of(*self._inputs)
        answer = await self._environment.granted(ask, _STS, _LASTING, inputs, self._failure)
        return sts_of(answer.body, _STS, now)

    # The machine

    async def _container(self) -> Credential:
        environ, who = self._environment.environ, "the container's service of credentials"
        relative = environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
        if relative:
            url = f"http://169.254.170.2{relative}"
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _CONTAINERS | LOOPBACK:
            raise CredentialError("refused", f"{who} is at an address that is not allowed")
        token = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        if file := environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = (await self._environment.read(file, "the container's token")).decode().strip()
        if token and not is_token(token):
            raise CredentialError("refused", "the container's token cannot be sent in a header")
        headers = (("authorization", token),) if token else ()
        body = await self._environment.body_of(Ask("GET", url, headers, is_direct=True), who)
        return aws_of(json_object(body, who), who, self._environment.clock())

    async def _instance(self) -> Credential:
        environ, who = self._environment.environ, "the instance's metadata service"
        if environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise unavailable("no keys of AWS were found")
        base = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip(
            "/"
        )
        lifetime = ("x-aws-ec2-metadata-token-ttl-seconds", "21600")

        async def got(method: str, path: str, header: tuple[str, str]) -> str:
            ask = Ask(method, f"{base}/latest/{path}", (header,), b"", _IMDS_S, is_direct=True)
            absent = f"no keys of AWS were found, and {who} does not answer"
            body = await self._environment.body_of(ask, who, absent, ": has it a role?")
            return body.decode("utf-8", "replace").strip()

        token = "x-aws-ec2-metadata-token", await got("PUT", "api/token", lifetime)
        roles = "meta-data/iam/security-credentials/"
        role = (await got("GET", roles, token)).partition("\n")[0]
        found = json_object((await got("GET", f"{roles}{quote(role)}", token)).encode(), who)
        now = self._environment.clock()
        credential = aws_of(found, who, now)
        if credential.expires_at <= now:
            # In an outage it hands out what it has, which the services go on to accept.
            credential = replace(credential, expires_at=inf, refresh_at=now + 600.0)
        return credential

    # Single sign-on

    async def _sso(self, profile: Profile, profiles: Mapping[str, Profile]) -> Credential:
        session = profile.get("sso_session", "")
        at = profiles.get(f"sso-session {session}", profile) if session else profile
        name = session or profile.get("sso_start_url", "")
        region, who = at.get("sso_region", ""), "single sign-on of AWS"
        digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
        path = f"~/.aws/sso/cache/{digest}.json"
        login = CredentialError("login_needed", "its single sign-on has ended: run `aws sso login`")
        if not await self._environment.exists(path):
            raise login
        cached = json_object(await self._environment.read(path, "its single sign-on"), who)
        token, now = str(cached.get("accessToken", "")), self._environment.clock()
        self._note(token)
        inputs = inputs_of(*self._inputs)
        check_inputs(inputs, self._failure)
        ends = moment(str(cached.get("expiresAt", "")))
        if not is_token(token) or ends is None or ends <= now:
            raise CredentialError(login.problem, str(login), inputs)
        base = self._environment.environ.get(
            "AWS_ENDPOINT_URL_SSO", f"https://portal.sso.{region}.amazonaws.com"
        )
        asked = {
            "role_name": profile.get("sso_role_name", ""),
            "account_id": profile.get("sso_account_id", ""),
        }
        url = f"{base.rstrip('/')}/federation/credentials?{urlencode(asked)}"
        answer = await self._environment.fetch(
            Ask("GET", url, (("x-amz-sso_bearer_token", token),)), who
        )
        if answer.status == 401:
            raise CredentialError(login.problem, str(login), inputs)
        if answer.status != 200:
            raise refusal(answer.status, answer.body, who, {})
        return aws_of(_of_role(json_object(answer.body, who)), who, now)


def _of_role(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of single sign-on, named as other services name them; their time is in milliseconds."""
    found = answer.get("roleCredentials")
    keys: dict[str, Any] = found if isinstance(found, dict) else {}
    ends = keys.get("expiration")
    return {
        "AccessKeyId": keys.get("accessKeyId"),
        "SecretAccessKey": keys.get("secretAccessKey"),
        "SessionToken": keys.get("sessionToken"),
        "Expiration": ends / 1000 if isinstance(ends, int | float) else None,
    }


def caller_identity(keys: AwsKeys, region: str, audience: str, now: float) -> str:
    """A signed request for the identity of these keys, as JSON that is encoded as in URLs: Google
    takes it for a token."""
    host = f"sts.{region}.amazonaws.com"
    path = "/?Action=GetCallerIdentity&Version=2011-06-15"
    sent = [("host", host), ("x-goog-cloud-target-resource", audience)]
    added = Signer(keys, Scope(region, "sts")).headers(Signable("POST", path, sent), now)
    headers = [{"key": name, "value": value} for name, value in (*sent, *added)]
    request = {"url": f"https://{host}{path}", "method": "POST", "headers": headers}
    return quote(msgspec.json.encode(request))
