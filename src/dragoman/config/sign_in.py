"""The settings of sign-in by an identity provider."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from dragoman.config.access_rules import Name, NonEmpty, SignInRule
from dragoman.config.secret import Secret


class SignIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sign-in of people with the company's account: Claude Code and Codex sign in at the gateway,
    which asks an OpenID provider who they are (see [people](people.md)). Requires the extra
    `sign-in` (`pip install '.[sign-in]'`), a store, and `storage.key`."""

    public_url: NonEmpty
    """The address of the gateway as people and their programs reach it, such as
    `https://llm.example.com`: https, or http on this machine. At the provider, register
    `PUBLIC_URL/oauth/callback` as redirect URI."""
    issuer: NonEmpty
    """The provider, exactly as its discovery document names itself: https, or http on this
    machine."""
    client_id: NonEmpty
    """The gateway's id at the provider."""
    client_secret: Secret | None = None
    """The gateway's secret at the provider, usually `env:DRAGOMAN_CLIENT_SECRET`."""
    scopes: tuple[NonEmpty, ...] = ("openid", "email", "profile", "offline_access")
    """What is asked of the provider; `openid` is required. With `offline_access` most providers
    give a refresh token, by which the gateway learns when a person was removed there."""
    groups_claim: NonEmpty = "groups"
    """The claim of the ID token that has the groups of a person."""
    login_notice: Annotated[str, Meta(max_length=500)] = ""
    """Text that Claude Code shows before a person signs in, at most 500 characters."""
    token_s: Annotated[int, Meta(ge=600, le=86400)] = 3600
    """Seconds for which an access token is valid, at least 600. The provider is asked again about a
    person when it is renewed."""
    idp_grace_s: Annotated[float, Meta(ge=0)] = 3600.0
    """Seconds for which people stay signed in while the provider, or the store, cannot be used."""
    max_login_age_s: Annotated[float, Meta(ge=600)] = 12 * 3600.0
    """Seconds after which a person has to sign in again if the provider gave no refresh token."""
    rules: tuple[SignInRule, ...] = ()
    """Who may sign in: `[[sign_in.rules]]`."""


Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]


class JwtIssuer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer whose signed tokens (JWT) are taken in place of keys: a provider's, for programs
    that get them by its command line, or a cluster's, for machines. A token is never tried as a
    key. Requires the extra `sign-in`."""

    name: Name
    """What its clients are named by, in logs, usage and limits: `NAME:EMAIL`, or `NAME:SUBJECT`."""
    issuer: NonEmpty
    """The issuer, exactly as in the claim `iss`: https, or http on this machine."""
    audience: NonEmpty
    """What the claim `aud` must have: a name of this gateway that no other service has."""
    jwks_url: NonEmpty | None = None
    """Where its public keys are; absent: where its discovery document says."""
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256", "EdDSA")
    """Algorithms that it signs with."""
    groups_claim: NonEmpty = "groups"
    """The claim that has the groups."""
    team_claim: NonEmpty | None = None
    """The claim that names the team of a client, which takes precedence over that of the rule. A
    team that does not exist may not call."""
    rules: tuple[SignInRule, ...] = ()
    """Who may call: as `[[sign_in.rules]]`."""
