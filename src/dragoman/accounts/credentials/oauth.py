"""Access tokens of an authorisation server (RFC 6749, 7523 and 8693), and those that commands
print."""

from __future__ import annotations

import base64
from math import inf
from typing import Any
from urllib.parse import quote_plus, urlencode

import msgspec
from msgspec.structs import replace

from dragoman.accounts.credentials.decide.answers import (
    UNKNOWN_LIFE_S,
    aws_of,
    bearer,
    bearer_of,
    is_token,
    json_object,
    moment,
    refusal,
    token_of,
    unavailable,
)
from dragoman.accounts.credentials.decide.jwt import client_assertion, private_key
from dragoman.accounts.credentials.decide.refreshing import (
    Credential,
    CredentialError,
    CredentialFailure,
    inputs_of,
)
from dragoman.accounts.credentials.google import FORM, JSON, JWT_BEARER, TOKEN_EXCHANGE
from dragoman.accounts.credentials.io import Ask, Environment, Unanswered
from dragoman.accounts.credentials.messages import Obtain
from dragoman.accounts.credentials.place import Place
from dragoman.accounts.credentials.rotating import ENDED, Redeemed, renewed
from dragoman.accounts.credentials.stored_logins import NOT_HERE, StoredLogins
from dragoman.config.credentials import CommandCredentials, OAuthCredentials
from dragoman.protocols.base import auth_header

_WHO = "the authorisation server"
_COMMAND = "its command"
_ASSERTION_S = 300
_LASTING = {
    "invalid_client": "its client_id or client_secret is wrong",
    "unauthorized_client": "its client may not use this grant",
    "invalid_grant": "its login has ended: sign in again",
    "invalid_scope": "its scope is not known",
}
_JWT = "urn:ietf:params:oauth:token-type:jwt"


async def obtain_oauth(
    settings: OAuthCredentials, failure: CredentialFailure | None, environment: Environment
) -> Credential:
    """An access token.

    Raises:
        CredentialError: there is none.
    """
    fields, headers = await _request(settings, environment)
    depends = [f"{name}={value}" for name, value in fields.items() if name != "client_assertion"]
    inputs = inputs_of(*depends, str(headers))
    ask = _asked(settings, fields, headers)
    answer = await environment.granted(ask, _WHO, _LASTING, inputs, failure)
    return replace(bearer_of(answer.body, _WHO, environment.clock()), inputs=inputs)


def _asked(
    settings: OAuthCredentials, fields: dict[str, str], headers: tuple[tuple[str, str], ...]
) -> Ask:
    kind, body = FORM, urlencode(fields).encode()
    if settings.body == "json":
        kind, body = JSON, msgspec.json.encode(fields)
    return Ask("POST", settings.token_url, (kind, *headers), body)


async def obtain_renewed(
    settings: OAuthCredentials,
    name: str,
    asked: Obtain,
    environment: Environment,
    logins: StoredLogins | None,
) -> Credential:
    """An access token for a refresh token, which is replaced.

    Raises:
        CredentialError: there is none.
    """
    if logins is None:
        raise unavailable(NOT_HERE)

    async def redeem(token: str) -> Redeemed | CredentialError:
        fields, headers = await _request(settings, environment)
        fields |= {"grant_type": "refresh_token", "refresh_token": token}
        try:
            answer = await environment.ask(_asked(settings, fields, headers))
        except Unanswered as error:
            if error.was_sent:
                raise CredentialError("login_needed", ENDED) from None
            return unavailable(f"{_WHO} does not answer ({error})")
        if answer.status not in (200, 201):
            return refusal(answer.status, answer.body, _WHO, _LASTING)
        found = json_object(answer.body, _WHO)
        access, credential = token_of(found, _WHO, environment.clock())
        following = found.get("refresh_token")
        is_new = isinstance(following, str) and is_token(following)
        return Redeemed(bearer(credential, access), str(following) if is_new else "")

    assert settings.refresh_token is not None
    given = settings.refresh_token.reveal()
    return await renewed(logins, name, given, asked, redeem, environment)


async def _request(
    settings: OAuthCredentials, environment: Environment
) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """The members of the request, and its own headers."""
    fields: dict[str, str] = {}
    if settings.grant == "client_credentials":
        fields["grant_type"] = "client_credentials"
    elif settings.grant != "refresh_token":
        assert settings.token_file is not None
        token = (await environment.read(settings.token_file, "its token file")).decode(
            "utf-8", "replace"
        )
        if settings.grant == "jwt_bearer":
            fields |= {"grant_type": JWT_BEARER, "assertion": token.strip()}
        else:
            fields |= {
                "grant_type": TOKEN_EXCHANGE,
                "subject_token": token.strip(),
                "subject_token_type": _JWT,
            }
    named = {"scope": settings.scope, "audience": settings.audience}
    fields |= {name: value for name, value in named.items() if value is not None}
    headers = [(name.lower(), value.reveal()) for name, value in settings.headers.items()]
    client, secret = settings.client_id, settings.client_secret
    if settings.client_auth == "private_key_jwt":
        fields |= await _client_assertion(settings, environment)
    elif client is not None and secret is not None and settings.client_auth == "basic":
        pair = f"{quote_plus(client)}:{quote_plus(secret.reveal())}"
        headers.append(("authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"))
    else:
        if client is not None:
            fields["client_id"] = client
        if secret is not None:
            fields["client_secret"] = secret.reveal()
    return fields | settings.fields, tuple(headers)


async def _client_assertion(settings: OAuthCredentials, environment: Environment) -> dict[str, str]:
    assert settings.private_key is not None
    key = private_key(
        await environment.read(settings.private_key, "its private key"), "its private_key"
    )
    client = settings.client_id or ""
    header = {"alg": "RS256" if _is_rsa(key) else "ES256"}
    if settings.private_key_id is not None:
        header["kid"] = settings.private_key_id
    now, url = environment.clock(), settings.token_url
    shown = client_assertion(client, url, now, _ASSERTION_S, header, key)
    return {"client_id": client, **shown}


def _is_rsa(key: Any) -> bool:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    return isinstance(key, RSAPrivateKey)


async def obtain_printed(
    settings: CommandCredentials, place: Place, environment: Environment
) -> Credential:
    """What a command prints.

    Raises:
        CredentialError: it failed, or printed something else.
    """
    variables = {name: value.reveal() for name, value in settings.environment.items()}
    if settings.output == "kubernetes":
        kind = {"apiVersion": _EXEC, "kind": "ExecCredential", "spec": {"interactive": False}}
        variables["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(kind).decode()
    output = await environment.run(settings.command, variables, settings.timeout_s)
    now = environment.clock()
    if settings.output == "aws":
        found = aws_of(json_object(output, _COMMAND), _COMMAND, now)
    else:
        token, found = _printed_token(settings.output, output, now)
        found = replace(found, headers=(auth_header(place.style, token),))
    if settings.refresh_s is not None:
        found = replace(found, refresh_at=now + settings.refresh_s)
    elif found.expires_at == inf:
        found = replace(found, refresh_at=now + UNKNOWN_LIFE_S)
    return replace(found, inputs=inputs_of(output))


_EXEC = "client.authentication.k8s.io/v1"


def _printed_token(form: str, output: bytes, now: float) -> tuple[str, Credential]:
    if form == "text":
        token = output.decode("utf-8", "replace").strip()
        if not is_token(token):
            raise unavailable("its command printed what is no token")
        return token, Credential(now)
    printed = json_object(output, _COMMAND)
    if form == "kubernetes":
        status = printed.get("status")
        printed = status if isinstance(status, dict) else {}
        ends = moment(str(printed.get("expirationTimestamp", "")))
        token, found = token_of({"token": printed.get("token")}, _COMMAND, now, ("token",))
        return token, replace(found, expires_at=inf if ends is None else ends)
    token, found = token_of(printed, _COMMAND, now, ("access_token", "token", "api_key"))
    if printed.get("expires_in") is None and printed.get("expires_at") is None:
        found = replace(found, expires_at=inf)
    return token, found
