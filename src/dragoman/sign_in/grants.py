"""What a sign-in has begun, as states. Pure: the time and what is stored are arguments."""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64encode, urlsafe_b64encode
from typing import Final, Literal
from urllib.parse import quote_plus, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from dragoman.keys.people import Identity

CODE_S: Final = 600.0
"""Seconds for which a device code, and a visit to the provider, may be used."""
AUTHORIZATION_CODE_S: Final = 60.0
INTERVAL_S: Final = 5
"""Seconds between two polls with a device code."""
MOST_TRIES: Final = 5
"""Times that one user code may be entered."""

DASHBOARD: Final = "dashboard"
"""The program that the dashboard is, in lists of sessions."""

MCP_CLIENT: Final = "mcp"
"""The id of every program that calls MCP servers alone."""

CLIENTS: Final = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    MCP_CLIENT: "A program that calls MCP servers",
}
"""The programs that sign in, by their ids, as people know them."""

_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""Those of user codes (RFC 8628, section 6.1): without vowels no words, and none looks like
another."""
_HALF = 4

Status = Literal["pending", "approved", "denied"]


class Granted(Struct, frozen=True, kw_only=True):
    """What a person who has signed in at the provider lets a program have: who the person is, and
    the provider's refresh token, None if it gave none."""

    identity: Identity
    provider: str | None = None


class DeviceGrant(Struct, frozen=True, kw_only=True, tag="device"):
    """A program that waits for a person to enter its code. `polled` is when it last asked, and
    `interval` how many seconds it has to wait in between."""

    user_code: str
    client: str
    expires: float
    status: Status = "pending"
    granted: Granted | None = None
    tries: int = 0
    polled: float = 0.0
    interval: float = INTERVAL_S


class Redirect(Struct, frozen=True, kw_only=True):
    """Where a program waits for its authorization code, with what it has to prove then."""

    uri: str
    state: str | None
    challenge: str
    client: str


class Visit(Struct, frozen=True, kw_only=True, tag="visit"):
    """A person's visit to the provider, in the browser that has the cookie with this digest: for
    the device code with this digest, or for a program that waits at `redirect`. `granted` is what
    came of it. With `dashboard`, the person wants to open that; after the visit, its secret is the
    code that begins a session there."""

    browser: str
    nonce: str
    verifier: str
    expires: float
    device: str = ""
    redirect: Redirect | None = None
    dashboard: bool = False
    granted: Granted | None = None


class CodeGrant(Struct, frozen=True, kw_only=True, tag="code"):
    """An authorization code. `session` is what it gave, empty before it was used."""

    redirect: Redirect
    granted: Granted
    expires: float
    session: str = ""


Grant = DeviceGrant | Visit | CodeGrant


def new_secret() -> str:
    """A secret of 256 bits."""
    return secrets.token_urlsafe(32)


def new_user_code() -> str:
    """A code for people to type."""
    signs = "".join(secrets.choice(_LETTERS) for _ in range(2 * _HALF))
    return f"{signs[:_HALF]}-{signs[_HALF:]}"


def user_code_of(text: str) -> str:
    """A user code as it was made, however it was typed; empty if it is none."""
    signs = [sign for sign in text.upper() if sign.isalnum()]
    if len(signs) != 2 * _HALF or not set(signs) <= set(_LETTERS):
        return ""
    return f"{''.join(signs[:_HALF])}-{''.join(signs[_HALF:])}"


def entered(grant: DeviceGrant, now: float) -> DeviceGrant | None:
    """The grant after its user code was entered; None if that is of no use any more."""
    if grant.status != "pending" or now >= grant.expires or grant.tries >= MOST_TRIES:
        return None
    return replace(grant, tries=grant.tries + 1)


def polled(grant: DeviceGrant, now: float) -> tuple[DeviceGrant, str]:
    """The grant after its device code was presented, and the error that is the answer: empty if
    there is something to be given for it."""
    if now >= grant.expires:
        return grant, "expired_token"
    if grant.status == "denied":
        return grant, "access_denied"
    if grant.status == "approved":
        return grant, ""
    # A second less than asked for: clocks and networks are not exact.
    if grant.polled and now - grant.polled < grant.interval - 1:
        return replace(grant, polled=now, interval=grant.interval + INTERVAL_S), "slow_down"
    return replace(grant, polled=now), "authorization_pending"


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636)."""
    hashed = hashlib.sha256(verifier.encode()).digest()
    return urlsafe_b64encode(hashed).decode().rstrip("=")


def is_challenge(text: str) -> bool:
    """Whether a text can be an S256 challenge."""
    return len(text) == 43 and all(sign.isalnum() or sign in "-_" for sign in text)


def is_loopback_redirect(uri: str) -> bool:
    """Whether a redirect leads to a program on the person's own machine (RFC 8252, section 7.3):
    `http://127.0.0.1:PORT/callback`, or `localhost`."""
    if not uri.isascii() or not uri.isprintable() or "\\" in uri or " " in uri:
        return False
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return False
    if port is None or parts.hostname not in ("127.0.0.1", "localhost"):
        return False
    return uri == f"http://{parts.hostname}:{port}/callback"


def basic_auth(client: str, secret: str) -> str:
    """The header of a client that proves itself (RFC 6749, section 2.3.1)."""
    return "Basic " + b64encode(f"{quote_plus(client)}:{quote_plus(secret)}".encode()).decode()
