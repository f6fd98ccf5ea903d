"""The company's OpenID provider, as a confidential client of it sees it: discovery, keys, codes and
refresh tokens (OpenID Connect Core and Discovery 1.0)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from msgspec.structs import replace

import dragoman
from dragoman.config.checks import is_safe_url
from dragoman.config.sign_in import SignIn
from dragoman.jsontext import JsonError, strict
from dragoman.keys.people import Identity, email_of
from dragoman.sign_in.grants import Granted, basic_auth, challenge_of
from dragoman.sign_in.jose import (
    Expected,
    Flaw,
    Flawed,
    Key,
    UnknownKey,
    check_claims,
    public_keys,
    verified,
)
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError
from dragoman.upstream.request import Timeouts, UpstreamRequest

_KEPT_S: Final = 3600.0
"""Seconds after which metadata and keys are read again."""
_KEPT_IN_OUTAGES_S: Final = 24 * 3600.0
_KEYS_AGAIN_S: Final = 60.0
"""Seconds between two times that keys are read because one is not known."""
_AGAIN_S: Final = 10.0
"""Seconds between two times that a provider is asked that failed."""
_MOST_BYTES = 1024 * 1024
_LIMIT_S = 5.0
_TIMEOUTS = Timeouts(connect=_LIMIT_S, first_byte=_LIMIT_S, idle=_LIMIT_S, total=2 * _LIMIT_S)
_LONGEST_GROUP = 256
_MOST_GROUPS = 1000
_ALGORITHMS = ("RS256", "ES256", "EdDSA", "PS256")


class ProviderAway(Exception):
    """The provider cannot be asked now, or answers what is of no use. The message has no secret."""


class ProviderRefuses(Exception):
    """The provider does not know the person any more, or not the code."""


class Metadata(Struct, frozen=True):
    """What discovery says of a provider."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    posts_secret: bool


class KeySet:
    """The public keys of an issuer, read when they are needed, and read again when a token names
    one that is not known."""

    def __init__(self, read: Callable[[str], Any], clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._keys: dict[str, Key] = {}
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._reading = asyncio.Lock()

    async def verified(
        self, token: bytes, url: str, algorithms: tuple[str, ...] = _ALGORITHMS
    ) -> dict[str, Any]:
        """The claims of a token that is signed with a key of the set at `url`.

        Raises:
            Flawed: it is not.
            ProviderAway: the keys cannot be read.
        """
        await self._refresh(url, _KEPT_S)
        try:
            return verified(token, self._keys, algorithms)
        except UnknownKey:
            await self._refresh(url, _KEYS_AGAIN_S)
            return verified(token, self._keys, algorithms)

    async def _refresh(self, url: str, after_s: float) -> None:
        async with self._reading:
            now = self._clock()
            if now - self._read_at < after_s or now - self._tried_at < min(_AGAIN_S, after_s):
                if self._read_at == float("-inf"):
                    raise ProviderAway("its keys cannot be read")
                return
            self._tried_at = now
            try:
                self._keys = public_keys(await self._read(url))
                self._read_at = now
            except ProviderAway:
                if now - self._read_at > _KEPT_IN_OUTAGES_S:
                    raise


class Provider:
    """The provider of one configuration. `clock` is monotonic seconds."""

    def __init__(
        self,
        settings: SignIn,
        client: UpstreamClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._client = client
        self._clock = clock
        self._metadata: Metadata | None = None
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._keys = KeySet(self._json, clock)

    @property
    def redirect_uri(self) -> str:
        """Where the provider sends people back to."""
        return f"{self.settings.public_url.rstrip('/')}/oauth/callback"

    async def sign_in_url(self, state: str, nonce: str, verifier: str) -> str:
        """Where a person signs in.

        Raises:
            ProviderAway: it is not known now.
        """
        endpoint = (await self._discovered()).authorization_endpoint
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"

    async def exchange(self, code: str, nonce: str, verifier: str) -> Granted:
        """Who has signed in, by the code that the provider gave.

        Raises:
            ProviderAway: the provider cannot be asked.
            ProviderRefuses: the code is none.
            Flawed: its answer proves nothing.
        """
        answer = await self._token(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self.redirect_uri,
                "code_verifier": verifier,
            }
        )
        claims = await self._claims(answer, nonce)
        return Granted(identity=self._identity(claims), provider=_text(answer, "refresh_token"))

    async def renew(self, granted: Granted) -> Granted:
        """What the provider says now of a person, by its refresh token.

        Raises:
            ProviderAway: the provider cannot be asked, or its answer proves nothing.
            ProviderRefuses: the person may not sign in any more.
        """
        assert granted.provider is not None
        answer = await self._token(
            {"grant_type": "refresh_token", "refresh_token": granted.provider}
        )
        following = _text(answer, "refresh_token") or granted.provider
        identity = granted.identity
        if "id_token" in answer:
            try:
                claims = await self._claims(answer, None)
            except Flawed as error:
                raise ProviderAway(str(error)) from None
            if claims["sub"] != identity.subject:
                raise ProviderRefuses(f"the token {Flaw.SUBJECT.value}")
            found = self._identity(claims)
            # Groups that are not there are groups that the person has left.
            identity = found if "email" in claims else replace(found, email=identity.email)
        return Granted(identity=identity, provider=following)

    async def _claims(self, answer: Mapping[str, Any], nonce: str | None) -> dict[str, Any]:
        token = _text(answer, "id_token")
        if token is None:
            raise Flawed(Flaw.MALFORMED)
        url = (await self._discovered()).jwks_uri
        claims = await self._keys.verified(token.encode(), url)
        settings = self.settings
        expected = Expected(
            issuer=settings.issuer, audience=settings.client_id, nonce=nonce, identifies=True
        )
        check_claims(claims, expected, time.time())
        return claims

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        return identity_of(claims, self.settings.issuer, self.settings.groups_claim)

    async def _token(self, form: dict[str, str]) -> dict[str, Any]:
        """The answer of the token endpoint.

        Raises:
            ProviderAway: there is none.
            ProviderRefuses: what was presented is not valid any more.
        """
        settings, metadata = self.settings, await self._discovered()
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if settings.client_secret is None:
            form["client_id"] = settings.client_id
        elif metadata.posts_secret:
            form |= {
                "client_id": settings.client_id,
                "client_secret": settings.client_secret.reveal(),
            }
        else:
            headers["authorization"] = basic_auth(
                settings.client_id, settings.client_secret.reveal()
            )
        status, answer = await self._call(
            "POST", metadata.token_endpoint, headers, urlencode(form).encode()
        )
        if status == 200 and isinstance(answer, dict):
            return answer
        error = answer.get("error") if isinstance(answer, dict) else None
        if 400 <= status < 500 and error == "invalid_grant":
            raise ProviderRefuses("it answers invalid_grant")
        known = error if isinstance(error, str) and error.isascii() else "no error of OAuth"
        raise ProviderAway(f"its token endpoint answers {status}, {known[:40]!r}")

    async def _discovered(self) -> Metadata:
        """What discovery says, read once an hour.

        Raises:
            ProviderAway: it cannot be read, and was not read in the last day.
        """
        now = self._clock()
        known = self._metadata
        if known is not None and now - self._read_at < _KEPT_S:
            return known
        if now - self._tried_at < _AGAIN_S and known is not None:
            return known
        self._tried_at = now
        url = self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
        try:
            self._metadata = self._read_metadata(await self._json(url))
        except ProviderAway:
            if known is None or now - self._read_at > _KEPT_IN_OUTAGES_S:
                raise
            return known
        self._read_at = now
        return self._metadata

    def _read_metadata(self, document: object) -> Metadata:
        if not isinstance(document, dict):
            raise ProviderAway("its discovery document is no object")
        if document.get("issuer") != self.settings.issuer:
            raise ProviderAway("its discovery document names another issuer")
        urls: dict[str, str] = {}
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            url = _text(document, name)
            if url is None or not is_safe_url(url.partition("?")[0]):
                raise ProviderAway(f"its {name} is missing, or not https")
            urls[name] = url
        methods = document.get("token_endpoint_auth_methods_supported")
        known = methods if isinstance(methods, list) else ["client_secret_basic"]
        posts = "client_secret_post" in known and "client_secret_basic" not in known
        return Metadata(**urls, posts_secret=posts)

    async def _json(self, url: str) -> Any:
        status, found = await self._call("GET", url, {})
        if status != 200 or found is None:
            raise ProviderAway(f"{urlsplit(url).path} answers {status}, or no JSON")
        return found

    async def _call(
        self, method: Any, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Any]:
        """The status of an answer, and its body as JSON, None if it is none. Redirects are not
        followed."""
        request = UpstreamRequest(
            method=method,
            url=url,
            headers=tuple(
                {
                    "accept": "application/json",
                    "user-agent": f"dragoman/{dragoman.__version__}",
                    **headers,
                }.items()
            ),
            body=body,
            timeouts=_TIMEOUTS,
        )
        try:
            async with await self._client.send(request) as answer:
                text = await answer.read(_MOST_BYTES)
                status = answer.status
        except CallError as error:
            raise ProviderAway(error.cause) from None
        except (ValueError, RuntimeError, OSError) as error:
            raise ProviderAway(type(error).__name__) from None
        try:
            return status, strict(text)
        except JsonError:
            return status, None


def identity_of(claims: Mapping[str, Any], issuer: str, groups_claim: str) -> Identity:
    """The person of verified claims."""
    groups = claims.get(groups_claim)
    names = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    plain = [one for one in names if isinstance(one, str) and 0 < len(one) <= _LONGEST_GROUP]
    is_known = claims.get("email_verified", True) not in (False, "false")
    return Identity(
        issuer=issuer,
        subject=claims["sub"],
        email=email_of(claims.get("email")) if is_known else "",
        groups=tuple(plain[:_MOST_GROUPS]),
    )


def _text(answer: Mapping[str, Any], name: str) -> str | None:
    value = answer.get(name)
    return value if isinstance(value, str) and value else None
