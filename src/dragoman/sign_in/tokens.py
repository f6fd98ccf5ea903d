"""Tokens that the gateway issues: access tokens, which it signs, and refresh tokens, of which it
stores a hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import msgspec
from joserfc.jwk import OKPKey
from msgspec import Struct

from dragoman.accounts.cipher import SealError
from dragoman.keys.people import IDLE_S, SigningKey, StoredPerson, StoredSession
from dragoman.keys.ring import AccessToken, Denial, Denied
from dragoman.sign_in.jose import Flawed, signed, unverified_issuer, verified
from dragoman.storage.encryption import AesGcmCipher

AUDIENCE: Final = "dragoman"
LEEWAY_S: Final = 60.0
"""Seconds for which an access token is taken after it has expired: Codex renews it only then."""
GRACE_S: Final = 60.0
"""Seconds for which a refresh token that was replaced gives what replaced it: several programs may
use one file of tokens, and an answer may be lost."""
ROTATE_AFTER_S: Final = 90 * 24 * 3600.0
"""Seconds after which another key signs."""
_OVERLAP_S = 2 * 24 * 3600.0
"""Seconds for which a replaced key still verifies: longer than any token lives."""
_KNOWN_AFTER_S = 30.0
"""Seconds after which every instance knows a new key."""

_PREFIX = "rt-drg-"
_ID_BYTES, _RANDOM_BYTES, _MAC_BYTES = 16, 32, 16


class SessionSecrets(Struct, frozen=True):
    """Secrets of a session: the key from which its refresh tokens follow one another, and the
    provider's refresh token, None if it gave none."""

    key: bytes
    provider: str | None = None


class Presented(Enum):
    """What a refresh token of a session is."""

    CURRENT = "current"
    RECENT = "was replaced a moment ago"
    REUSED = "was replaced before"
    FORGED = "was never issued"


def digest(secret: str) -> str:
    """The hash by which something secret is stored and found, in hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_session_id() -> str:
    """The id of a new session."""
    return secrets.token_hex(_ID_BYTES)


def first_refresh_token(session: str, key: bytes) -> str:
    """The first refresh token of a session."""
    return _refresh_token(session, key, secrets.token_bytes(_RANDOM_BYTES))


def next_refresh_token(session: str, key: bytes, token: str) -> str:
    """The refresh token that follows `token`: always the same, so that all who present that one are
    given the same."""
    random = _parts(token)[1]
    return _refresh_token(session, key, hmac.digest(key, b"next\0" + random, "sha256"))


def session_of(token: str) -> str | None:
    """The session that a refresh token names, which nothing proves; None if it is none."""
    try:
        return _parts(token)[0]
    except ValueError:
        return None


def presented(session: StoredSession, key: bytes, token: str, now: float) -> Presented:
    """What a token is that names a session."""
    _, random, mac = _parts(token)
    if not hmac.compare_digest(mac, _mac(session.id, key, random)):
        return Presented.FORGED
    found = digest(token)
    if hmac.compare_digest(found, session.refresh):
        return Presented.CURRENT
    if hmac.compare_digest(found, session.former) and abs(now - session.rotated) <= GRACE_S:
        return Presented.RECENT
    return Presented.REUSED


def is_idle(session: StoredSession, now: float) -> bool:
    """Whether a session was not renewed for too long."""
    return now - session.rotated > IDLE_S


def _refresh_token(session: str, key: bytes, random: bytes) -> str:
    data = bytes.fromhex(session) + random + _mac(session, key, random)
    return _PREFIX + urlsafe_b64encode(data).decode().rstrip("=")


def _mac(session: str, key: bytes, random: bytes) -> bytes:
    return hmac.digest(key, b"mac\0" + bytes.fromhex(session) + random, "sha256")[:_MAC_BYTES]


def _parts(token: str) -> tuple[str, bytes, bytes]:
    """The session's id, the random bytes and the check of a refresh token.

    Raises:
        ValueError: it is none.
    """
    text = token.removeprefix(_PREFIX)
    if text == token or not text.isascii() or len(text) > 200:
        raise ValueError("no refresh token")
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(data) != _ID_BYTES + _RANDOM_BYTES + _MAC_BYTES:
        raise ValueError("no refresh token")
    random = data[_ID_BYTES:-_MAC_BYTES]
    return data[:_ID_BYTES].hex(), random, data[-_MAC_BYTES:]


def new_signing_key(cipher: AesGcmCipher, now: float) -> SigningKey:
    """A new key, encrypted."""
    id = secrets.token_hex(8)
    made = OKPKey.generate_key("Ed25519").as_dict(private=True)
    return SigningKey(id=id, created=now, sealed=cipher.seal_sign_in(msgspec.json.encode(made), id))


class AccessTokens:
    """Signs access tokens with the newest of `known`, and verifies those of each that is not
    replaced for long."""

    def __init__(self, issuer: str, known: Mapping[str, SigningKey], cipher: AesGcmCipher) -> None:
        self._issuer = issuer
        self._known = known
        self._cipher = cipher
        self._opened: dict[str, OKPKey | None] = {}

    def signs(self, now: float) -> SigningKey | None:
        """The key that signs at `now`; None if there is none."""
        usable = [key for key in self._by_age() if self._open(key) is not None]
        known = [key for key in usable if now - key.created >= _KNOWN_AFTER_S]
        return known[-1] if known else usable[-1] if usable else None

    def is_due(self, now: float) -> bool:
        """Whether a new key has to be made."""
        usable = [key for key in self._by_age() if self._open(key) is not None]
        return not usable or now - usable[-1].created > ROTATE_AFTER_S

    def issue(self, session: str, person: StoredPerson, now: float, seconds: int) -> str | None:
        """A new access token for a session; None if there is no key to sign it with."""
        key = self.signs(now)
        opened = None if key is None else self._open(key)
        if key is None or opened is None:
            return None
        claims: dict[str, Any] = {
            "iss": self._issuer,
            "aud": AUDIENCE,
            "sub": person.id,
            "iat": int(now),
            "exp": int(now) + seconds,
            "jti": secrets.token_urlsafe(12),
            "sid": session,
        }
        if person.identity.email:
            claims["email"] = person.identity.email
        return signed(claims, opened, key.id, "at+jwt")

    def read(self, token: bytes, now: float) -> AccessToken | None:
        """The session of an access token; None if it is of another issuer, or no token.

        Raises:
            Denied: its signature is wrong, or it has expired.
        """
        session, ends = self.session_of(token, now) or ("", 0.0)
        if not session:
            return None
        if now >= ends:
            raise Denied(Denial.LAPSED)
        return AccessToken(bytes.fromhex(session), ends)

    def session_of(self, token: bytes, now: float) -> tuple[str, float] | None:
        """The session of an access token, and until when it is taken, expired or not.

        Raises:
            Denied: its signature is wrong.
        """
        if token.count(b".") != 2 or unverified_issuer(token) != self._issuer:
            return None
        try:
            claims = verified(token, self._verifying(now), ("EdDSA",))
            session, ends = claims["sid"], float(claims["exp"])
            if claims["aud"] != AUDIENCE or len(bytes.fromhex(session)) != _ID_BYTES:
                raise Denied(Denial.UNSIGNED)
        except (Flawed, KeyError, TypeError, ValueError):
            raise Denied(Denial.UNSIGNED) from None
        return session, ends + LEEWAY_S

    def _verifying(self, now: float) -> dict[str, OKPKey]:
        found: dict[str, OKPKey] = {}
        keys = self._by_age()
        for key, following in zip(keys, [*keys[1:], None], strict=True):
            opened = self._open(key)
            replaced = following is not None and now - following.created > _OVERLAP_S
            if opened is not None and not replaced:
                found[key.id] = opened
        return found

    def _by_age(self) -> list[SigningKey]:
        return sorted(self._known.values(), key=lambda key: key.created)

    def _open(self, key: SigningKey) -> OKPKey | None:
        """The key itself; None if it was encrypted with a key that is gone."""
        if key.id not in self._opened:
            try:
                opened = msgspec.json.decode(self._cipher.open_sign_in(key.sealed, key.id))
                self._opened[key.id] = OKPKey.import_key(opened)
            except SealError:
                self._opened[key.id] = None
        return self._opened[key.id]
