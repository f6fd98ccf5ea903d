"""Signed tokens of others: read, and checked in the order in which nothing is believed before it
is known (RFC 7515, 7519, 8725)."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NoReturn

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from msgspec import Struct

MOST_BYTES: Final = 16 * 1024
_MOST_LOOKED_AT = 4 * MOST_BYTES
SKEW_S: Final = 60.0
"""Seconds by which clocks may differ."""
ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")

_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
    "Ed25519": "OKP",
}
"""The type of key that each algorithm needs. Those with a shared secret are not among them."""
_LEAST_RSA_BITS = 2048
_LEAST_RSA_SIGNS = 342
"""Characters of a modulus of so many bits."""
_KEYS_IN_TOKEN = ("jwk", "jku", "x5u", "x5c")

Key = RSAKey | ECKey | OKPKey


class Flaw(Enum):
    """Why a token is refused."""

    TOO_LONG = "is longer than 16 KiB"
    MALFORMED = "is no signed JWT"
    DUPLICATE = "has a member twice"
    NO_SIGNATURE = "is not signed (alg none)"
    SYMMETRIC = "is signed with a shared secret, where the issuer has public keys"
    ALGORITHM = "is signed with an algorithm that is not allowed"
    KEY_IN_TOKEN = "brings its own key (jwk, jku, x5u or x5c)"
    CRITICAL = "has critical header members that are not known here (crit)"
    UNKNOWN_KEY = "is signed with a key that its issuer does not publish"
    SIGNATURE = "has a wrong signature"
    ISSUER = "is of another issuer"
    AUDIENCE = "is for another audience"
    PARTY = "was issued to another party (azp)"
    NO_EXPIRY = "has no time of expiry"
    EXPIRED = "has expired"
    FUTURE = "is from the future"
    NONCE = "does not answer this sign-in (nonce)"
    SUBJECT = "names nobody, or another person than before"


class Flawed(Exception):
    """A token is refused. The message has nothing of it."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(f"the token {flaw.value}")
        self.flaw = flaw


class UnknownKey(Flawed):
    """The token names a key that is not among those that are known: there may be a new one."""


class Expected(Struct, frozen=True, kw_only=True):
    """What the claims of a token must be: its issuer, its audience, and the nonce, None for any.
    `identifies`: it is an ID token, whose authorized party must be the audience."""

    issuer: str
    audience: str
    nonce: str | None = None
    identifies: bool = False


def unverified_issuer(token: bytes) -> str | None:
    """The issuer that a token names, which nothing proves; None if it is no JWT."""
    parts = token.split(b".")
    if len(parts) != 3 or len(token) > _MOST_LOOKED_AT:
        return None
    try:
        claims = json.loads(_bytes(parts[1]))
    except (ValueError, RecursionError):
        return None
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else None


def public_keys(document: object) -> dict[str, Key]:
    """The keys of a JWK set (RFC 7517) that can verify a signature, by their ids; one without an id
    by the empty text. Shared secrets, weak keys and those that are for something else are left
    out."""
    found: dict[str, Key] = {}
    members = document.get("keys") if isinstance(document, Mapping) else None
    for member in members if isinstance(members, list) else ():
        if not isinstance(member, dict) or member.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        if member["kty"] == "RSA" and len(str(member.get("n"))) < _LEAST_RSA_SIGNS:
            continue
        operations = member.get("key_ops")
        if member.get("use", "sig") != "sig" or (operations and "verify" not in operations):
            continue
        try:
            key = JWKRegistry.import_key(member)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if not isinstance(key, RSAKey | ECKey | OKPKey):
            continue
        if isinstance(key, RSAKey) and key.public_key.key_size < _LEAST_RSA_BITS:
            continue
        kid = member.get("kid", "")
        if isinstance(kid, str):
            found[kid] = key
    return found


def verified(
    token: bytes, keys: Mapping[str, Key], algorithms: Sequence[str] = ALGORITHMS
) -> dict[str, Any]:
    """The claims of a token that is signed with one of `keys`, by one of `algorithms`.

    Raises:
        Flawed: it is not; `UnknownKey` if its key is not among them.
    """
    if len(token) > MOST_BYTES:
        _refuse(Flaw.TOO_LONG)
    parts = token.split(b".")
    if len(parts) != 3 or not all(parts[:2]):
        _refuse(Flaw.MALFORMED)
    header, claims = _object(parts[0]), _object(parts[1])
    algorithm = header.get("alg")
    if not isinstance(algorithm, str):
        _refuse(Flaw.MALFORMED)
    if algorithm.lower() == "none":
        _refuse(Flaw.NO_SIGNATURE)
    if algorithm.upper().startswith("HS"):
        _refuse(Flaw.SYMMETRIC)
    if algorithm not in algorithms or algorithm not in _TYPES:
        _refuse(Flaw.ALGORITHM)
    if any(name in header for name in _KEYS_IN_TOKEN):
        _refuse(Flaw.KEY_IN_TOKEN)
    if "crit" in header or header.get("b64") is False:
        _refuse(Flaw.CRITICAL)
    key = _key(header, keys, _TYPES[algorithm])
    signed = parts[0] + b"." + parts[1]
    try:
        is_right = JWSRegistry.algorithms[algorithm].verify(signed, _bytes(parts[2]), key)
    except (JoseError, ValueError, TypeError):
        is_right = False
    if not is_right:
        _refuse(Flaw.SIGNATURE)
    return claims


def signed(claims: Mapping[str, Any], key: OKPKey, kid: str, kind: str) -> str:
    """A token with these claims, signed with Ed25519."""
    header = {"typ": kind, "alg": "EdDSA", "kid": kid}
    text = b".".join(_text(msgspec.json.encode(part)) for part in (header, claims))
    signature = JWSRegistry.algorithms["EdDSA"].sign(text, key)
    return (text + b"." + _text(signature)).decode()


def _text(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def _key(header: Mapping[str, Any], keys: Mapping[str, Key], kind: str) -> Key:
    kid = header.get("kid", "")
    named = keys.get(kid) if isinstance(kid, str) else None
    if named is None and kid:
        raise UnknownKey(Flaw.UNKNOWN_KEY)
    fitting = [one for one in keys.values() if one.key_type == kind]
    key = named if named is not None else fitting[0] if len(fitting) == 1 else None
    if key is None or key.key_type != kind:
        raise UnknownKey(Flaw.UNKNOWN_KEY)
    return key


def check_claims(claims: Mapping[str, Any], expected: Expected, now: float) -> None:
    """Make sure that claims are as expected at `now` (Unix seconds), and name somebody.

    Raises:
        Flawed: they are not.
    """
    if claims.get("iss") != expected.issuer:
        _refuse(Flaw.ISSUER)
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if expected.audience not in audiences:
        _refuse(Flaw.AUDIENCE)
    if expected.identifies:
        party = claims.get("azp")
        if party != expected.audience and (party is not None or len(audiences) > 1):
            _refuse(Flaw.PARTY)
    if "exp" not in claims:
        _refuse(Flaw.NO_EXPIRY)
    times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
    if expected.identifies and "iat" not in times:
        _refuse(Flaw.MALFORMED)
    if not all(_is_time(value) for value in times.values()):
        _refuse(Flaw.MALFORMED)
    if now >= times["exp"] + SKEW_S:
        _refuse(Flaw.EXPIRED)
    if any(times.get(name, 0) > now + SKEW_S for name in ("nbf", "iat")):
        _refuse(Flaw.FUTURE)
    if expected.nonce is not None and claims.get("nonce") != expected.nonce:
        _refuse(Flaw.NONCE)
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        _refuse(Flaw.SUBJECT)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _object(part: bytes) -> dict[str, Any]:
    """A part of a token: a JSON object without a member twice."""
    try:
        value = json.loads(_bytes(part), object_pairs_hook=_members)
    except (ValueError, RecursionError):
        raise Flawed(Flaw.MALFORMED) from None
    if not isinstance(value, dict):
        _refuse(Flaw.MALFORMED)
    return value


def _bytes(part: bytes) -> bytes:
    """The bytes that a part of a token stands for.

    Raises:
        ValueError: it has other signs than it may.
    """
    if _ENCODED.fullmatch(part) is None:
        raise ValueError("no base64url")
    return urlsafe_b64decode(part + b"=" * (-len(part) % 4))


_ENCODED = re.compile(rb"[A-Za-z0-9_-]+")


def _members(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            _refuse(Flaw.DUPLICATE)
        found[name] = value
    return found


def _refuse(flaw: Flaw) -> NoReturn:
    raise Flawed(flaw)
