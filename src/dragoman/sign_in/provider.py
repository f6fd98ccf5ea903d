"""The company's OpenID provider, as a confidential client of it sees it: discovery, keys, codes and
refresh tokens (OpenID Connect Core and Discovery 1.0)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.sign_in import SignIn
from dragoman.keys.people import Identity, email_of
from dragoman.sign_in.grants import Granted, basic_auth, challenge_of
from dragoman.sign_in.jose import Expected, Flaw, Flawed, check_claims
from dragoman.sign_in.key_sets import (
    AGAIN_S,
    KEPT_IN_OUTAGES_S,
    KEPT_S,
    KeySet,
    ProviderAway,
    call,
    discovered,
    url_in,
)
from dragoman.upstream.client import UpstreamClient

_LONGEST_GROUP = 256
_MOST_GROUPS = 1000
_ALGORITHMS = ("RS256", "ES256", "EdDSA", "PS256")


class ProviderRefuses(Exception):
    """The provider does not know the person any more, or not the code."""


class Metadata(Struct, frozen=True):
    """What discovery says of a provider."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    posts_secret: bool


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
        self._reading = asyncio.Lock()
        self._keys = KeySet(client, clock)

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
        claims = await self._keys.verified(token.encode(), url, _ALGORITHMS)
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
        status, answer = await call(
            self._client, "POST", metadata.token_endpoint, headers, urlencode(form).encode()
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
        known, age = self._metadata, self._clock() - self._read_at
        if known is not None and (age < KEPT_S or self._reading.locked()):
            return known
        async with self._reading:
            now = self._clock()
            known = self._metadata if now - self._read_at <= KEPT_IN_OUTAGES_S else None
            if now - self._tried_at >= AGAIN_S:
                self._tried_at = now
                try:
                    document = await discovered(self._client, self.settings.issuer)
                    known = self._metadata = self._read_metadata(document)
                    self._read_at = now
                except ProviderAway:
                    if known is None:
                        raise
            if known is None:
                raise ProviderAway("it could not be asked a moment ago")
            return known

    def _read_metadata(self, document: Mapping[str, Any]) -> Metadata:
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        urls = {name: url_in(document, name) for name in names}
        methods = document.get("token_endpoint_auth_methods_supported")
        known = methods if isinstance(methods, list) else ["client_secret_basic"]
        posts = "client_secret_post" in known and "client_secret_basic" not in known
        return Metadata(**urls, posts_secret=posts)


def identity_of(claims: Mapping[str, Any], issuer: str, groups_claim: str) -> Identity:
    """The person of verified claims."""
    groups = claims.get(groups_claim)
    names = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    plain = [one for one in names if isinstance(one, str) and 0 < len(one) <= _LONGEST_GROUP]
    # Some say it as a text; what is said in any other way is no confirmation.
    is_known = claims.get("email_verified", True) in (True, "true")
    return Identity(
        issuer=issuer,
        subject=claims["sub"],
        email=email_of(claims.get("email")) if is_known else "",
        groups=tuple(plain[:_MOST_GROUPS]),
    )


def _text(answer: Mapping[str, Any], name: str) -> str | None:
    value = answer.get(name)
    return value if isinstance(value, str) and value else None
