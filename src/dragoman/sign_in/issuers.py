"""Tokens of other issuers, taken in place of keys: of machines, mostly."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.access_rules import SignInRule
from dragoman.config.sign_in import JwtIssuer
from dragoman.keys.people import rule_for
from dragoman.keys.records import StoredKey, StoredSecret
from dragoman.keys.ring import AccessToken, Denial, Denied, KeyRing
from dragoman.sign_in.jose import (
    SKEW_S,
    Expected,
    Flaw,
    Flawed,
    UnknownKey,
    check_claims,
    unverified_issuer,
    verified,
)
from dragoman.sign_in.key_sets import AGAIN_S, KeySet, ProviderAway, discovered, url_in
from dragoman.sign_in.provider import identity_of
from dragoman.upstream.client import UpstreamClient

_log = logging.getLogger("dragoman.gateway")

_MOST_KNOWN: Final = 10_000
"""Tokens whose claims are remembered."""
_LONGEST_TEAM: Final = 64
"""Characters of a team's name."""
_MOST_CLIENTS: Final = 10_000
"""Clients that are known at once: an issuer may name another one in each token."""


class _Known(Struct, frozen=True):
    """A token that was verified: the name of its client, the rules for that, and until when."""

    name: str
    rule: SignInRule
    ends: float


class JwtIssuers:
    """The issuers of one configuration. The clients of their tokens become keys of `ring`. `count`
    is called with the reason of each refusal."""

    def __init__(
        self,
        issuers: Sequence[JwtIssuer],
        client: UpstreamClient,
        ring: KeyRing,
        count: Callable[[str], object],
    ) -> None:
        self._issuers = {one.issuer: one for one in issuers}
        self._client = client
        self._ring = ring
        self._count = count
        self._keys = {one.issuer: KeySet(client, time.monotonic) for one in issuers}
        self._known: dict[bytes, _Known] = {}
        self._clients: dict[str, SignInRule] = {}
        self._reading: dict[str, tuple[asyncio.Task[None], float]] = {}
        """By issuer: what reads its keys, or was the last to, and when that began."""

    def read(self, token: bytes, now: float) -> AccessToken | None:
        """The client of a token; None if it is of no issuer that is known. No network is used: a
        signature is verified once, with keys that are known.

        Raises:
            Denied: the token is refused, or the keys of its issuer have to be read first.
        """
        digest = hashlib.sha256(token).digest()
        known = self._known.get(digest)
        if known is None:
            issuer = self._issuers.get(unverified_issuer(token) or "")
            if issuer is None:
                return None
            try:
                known = self._verified(token, issuer, now)
            except Flawed as error:
                self._count(error.flaw.name.lower())
                raise Denied(Denial.FLAWED, error.flaw.value) from None
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[digest] = known
        if now >= known.ends:
            self._count(Flaw.EXPIRED.name.lower())
            raise Denied(Denial.FLAWED, Flaw.EXPIRED.value)
        return AccessToken(self._client_of(known), known.ends)

    def _verified(self, token: bytes, issuer: JwtIssuer, now: float) -> _Known:
        keys = self._keys[issuer.issuer]
        if keys.known is None:
            raise Denied(Denial.KEYS_AWAY)
        if keys.is_due:
            self._read_later(issuer)
        try:
            claims = verified(token, keys.known, issuer.algorithms)
        except UnknownKey:
            if keys.may_have_more:
                raise Denied(Denial.KEYS_AWAY) from None
            raise
        expected = Expected(issuer=issuer.issuer, audience=issuer.audience)
        check_claims(claims, expected, now)
        identity = identity_of(claims, issuer.issuer, issuer.groups_claim)
        rule = rule_for(issuer.rules, identity)
        if rule is None:
            self._count("no_rule")
            raise Denied(Denial.NO_RULE)
        team = claims.get(issuer.team_claim) if issuer.team_claim else None
        if isinstance(team, str) and 0 < len(team) <= _LONGEST_TEAM:
            rule = replace(rule, team=team)
        name = f"{issuer.name}:{identity.name.removeprefix('sub:')}"
        return _Known(name, rule, float(claims["exp"]) + SKEW_S)

    def _client_of(self, known: _Known) -> bytes:
        """The digest under which the ring has a client, which is made one if it is none."""
        digest = hashlib.sha256(f"token of\0{known.name}".encode()).digest()
        rule = self._clients.get(known.name)
        if rule != known.rule or self._ring.caller(known.name) is None:
            if rule is None and len(self._clients) >= _MOST_CLIENTS:
                self.retire()
            self._clients[known.name] = known.rule
            secret = StoredSecret(digest=digest, ending="", created=0.0)
            made = StoredKey(
                name=known.name, created=0.0, rules=known.rule.rules, secrets=(secret,)
            )
            self._ring.update([made])
        return digest

    def retire(self) -> None:
        """Refuse all clients, until they present a token again."""
        self._ring.forget(self._clients)
        self._clients.clear()

    def _read_later(self, issuer: JwtIssuer) -> asyncio.Task[None]:
        """Read the keys of an issuer, which anybody may cause who names it: once at a time, and not
        again at once."""
        name, now = issuer.issuer, time.monotonic()
        task, began = self._reading.get(name, (None, 0.0))
        if task is None or (task.done() and now - began >= AGAIN_S):
            task = asyncio.get_running_loop().create_task(self._read(issuer))
            self._reading[name] = task, now
        return task

    async def fetch(self, token: bytes) -> None:
        """Read the keys that a token needs."""
        issuer = self._issuers.get(unverified_issuer(token) or "")
        if issuer is not None:
            await asyncio.shield(self._read_later(issuer))

    async def _read(self, issuer: JwtIssuer) -> None:
        try:
            url = issuer.jwks_url
            if url is None:
                url = url_in(await discovered(self._client, issuer.issuer), "jwks_uri")
            await self._keys[issuer.issuer].read(url)
        except ProviderAway as error:
            _log.error("the keys of %s cannot be read: %s", issuer.name, error)
