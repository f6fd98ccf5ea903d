"""Who calls `/admin`: the holder of a key, or of a session's cookie.

A browser sends a cookie whatever page asks it to, and to every port of a host. So a session has a
second half, a random token that only the page which signed in was given: without it the cookie is
worth nothing, to read or to write. A request that changes something needs headers in which the
browser names the page's origin as well. A key needs neither.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from dragoman.accounts.sync import AccountSync
from dragoman.admin.replies import Operator, Refusal
from dragoman.admin.sessions import Sessions
from dragoman.audit import Actor, Change
from dragoman.config import Admin
from dragoman.edge.auth import presented_key
from dragoman.edge.browsers import is_own_name
from dragoman.edge.incoming import IncomingRequest
from dragoman.http.addresses import Proxies, counted
from dragoman.keys.admins import FILE_NAME, Role
from dragoman.keys.people import is_person
from dragoman.keys.secrets import digest_of
from dragoman.operations.admin_service import AdminService
from dragoman.storage.sessions import LONGEST_S, Session

if TYPE_CHECKING:
    from dragoman.sign_in.endpoints import SignInEndpoints

T = TypeVar("T")

COOKIE = "dragoman_session"
TOKEN = b"x-dragoman-csrf"
"""The header with a session's token."""

_WRONG_S = 0.5
"""Seconds that the answer to a wrong key takes at least."""

_WRONG_KEY = (
    "This is no admin key of this gateway: it needs the one of `[admin]`, or a named one that is "
    "enabled. A client's key does not open this page."
)

_RANDOM_BYTES = 32
_READING = ("GET", "HEAD")
_NOBODY = Actor("", "admin")


class Operators:
    """Identifies callers by the key of the configuration file, one of the store, or a session: of a
    key, or of a person whom `sign_in` knows (None: nobody)."""

    def __init__(
        self,
        settings: Admin,
        account_sync: AccountSync | None,
        sessions: Sessions,
        proxies: Proxies,
        sign_in: SignInEndpoints | None = None,
    ) -> None:
        key = settings.key
        self._digest = None if key is None else digest_of(key.reveal().encode())
        self._account_sync = account_sync
        self._sessions = sessions
        self._proxies = proxies
        self._sign_in = sign_in

    async def identify(self, incoming: IncomingRequest) -> Operator:
        """Who calls. A session is used by that.

        Raises:
            Refusal: there is no key and no session, or it is none; or a page from elsewhere may
                have made the browser call.
            StoreError: the keys of the store cannot be read.
        """
        key = presented_key(incoming.headers)
        if key is not None:
            return await self._holder(digest_of(key))
        cookie = _cookie_of(incoming)
        if cookie is None:
            raise _unknown()
        if incoming.method not in _READING:
            self._check_page(incoming)
        digest = _session_digest(cookie, incoming.headers.get(TOKEN, b""))
        session = await self._sessions.find(digest)
        role = None if session is None else await self._role(session)
        if session is None or role is None:
            self._sessions.end(digest)
            message = "The session has ended, or its token is missing: sign in again."
            raise Refusal(401, "unauthenticated", message)
        return Operator(session.name, role, session, digest)

    async def is_signed_in(self, operator: Operator) -> bool:
        """Whether the session or key of an operator still counts. A session is used by that.

        Raises:
            StoreError: the keys of the store cannot be read.
        """
        if operator.session is None:
            with suppress(Refusal):
                return await self._holder(operator.digest) == operator
            return False
        found = await self._sessions.find(operator.digest)
        return found is not None and await self._role(found) is not None

    async def sign_in(
        self, incoming: IncomingRequest, key: bytes, address: str
    ) -> tuple[Operator, bytes]:
        """Begin a session for the holder of a key. Returns it with its token; the answer sets its
        cookie.

        Raises:
            Refusal: the key is wrong; a page from elsewhere may have made the browser call; or the
                browser would not keep the cookie.
            StoreError: the store cannot be used.
        """
        began = time.monotonic()
        flags = self._check_browser(incoming)
        try:
            operator = await self._holder(digest_of(key))
        except Refusal:
            await asyncio.sleep(_WRONG_S - (time.monotonic() - began))
            raise Refusal(401, "unauthenticated", _WRONG_KEY) from None
        if self._account_sync is not None:
            actor = Actor(operator.name, "admin", address)
            change = Change(action="sign_in", kind="admin", name=operator.name)
            await self._ask(lambda admins: admins.record(change), actor)
        return await self._begin(incoming, operator, _mark(digest_of(key)), flags)

    async def sign_in_person(self, incoming: IncomingRequest, code: str) -> tuple[Operator, bytes]:
        """Begin a session for a person who returns from the company's sign-in with a code. Returns
        it as `sign_in` does.

        Raises:
            Refusal: the code is none, or as of `sign_in`.
            StoreError: the store cannot be used.
        """
        flags = self._check_browser(incoming)
        opened = None
        if self._sign_in is not None:
            opened = await self._sign_in.begin_dashboard(incoming, code)
        found = None
        if opened is not None and self._sign_in is not None:
            found = await self._sign_in.dashboard_role(opened.session.id)
        if opened is None or found is None:
            raise Refusal(401, "unauthenticated", "The sign-in has expired: start it anew.")
        mark = bytes.fromhex(opened.session.id)
        return await self._begin(incoming, Operator(*found), mark, flags)

    def _check_browser(self, incoming: IncomingRequest) -> str:
        """Make sure that a session may begin in the browser that sent a request. Returns the flags
        of its cookie.

        Raises:
            Refusal: a page from elsewhere may have made the browser call, or it would not keep the
                cookie.
        """
        if incoming.headers.keys() & {b"origin", b"sec-fetch-site"}:
            self._check_page(incoming)
        flags = "" if incoming.is_local else "; Secure"
        if flags and _drops_secure(incoming.headers.get(b"origin", b"")):
            message = (
                "A browser keeps no session over plain HTTP from another machine. Use HTTPS, or "
                "forward a port of yours to the gateway (ssh -L) and open it on localhost."
            )
            raise Refusal(400, "insecure", message)
        return flags

    async def _begin(
        self, incoming: IncomingRequest, operator: Operator, mark: bytes, flags: str
    ) -> tuple[Operator, bytes]:
        """Begin a session, of which the answer sets the cookie."""
        cookie, token = (secrets.token_urlsafe(_RANDOM_BYTES).encode() for _ in range(2))
        digest = _session_digest(cookie, token)
        session = await self._sessions.begin(digest, operator.name, mark)
        _set_cookie(incoming, f"{cookie.decode()}; Max-Age={int(LONGEST_S)}{flags}")
        return Operator(operator.name, operator.role, session, digest), token

    async def count_refusal(self, address: str) -> float:
        """Count a sign-in of `address` that is refused, for whatever reason. Returns the seconds
        for which there were too many, 0 if there were not."""
        return await self._sessions.count_refusal(counted(address))

    async def sign_out(self, incoming: IncomingRequest, operator: Operator) -> bool:
        """End the session of an operator. Returns whether there was one."""
        if operator.session is not None:
            self._sessions.end(operator.digest)
            if is_person(operator.name) and self._sign_in is not None:
                await self._sign_in.end_dashboard(incoming, operator.session.mark.hex())
        _set_cookie(incoming, "; Max-Age=0")
        return operator.session is not None

    async def _holder(self, digest: bytes) -> Operator:
        """The operator who holds the key of a digest.

        Raises:
            Refusal: there is none.
        """
        if self._digest is not None and hmac.compare_digest(digest, self._digest):
            return Operator(FILE_NAME, "admin", digest=digest)
        if self._account_sync is not None:
            found = await self._ask(lambda admins: admins.holder(digest))
            if found is not None:
                return Operator(found.name, found.role, digest=digest)
        raise _unknown()

    async def _role(self, session: Session) -> Role | None:
        """The role of the key of a session; None if the key has another secret now, or is gone."""
        if is_person(session.name):
            if self._sign_in is None:
                return None
            found = await self._sign_in.dashboard_role(session.mark.hex())
            return None if found is None or found[0] != session.name else found[1]
        if session.name == FILE_NAME:
            same = self._digest is not None and _mark(self._digest) == session.mark
            return "admin" if same else None
        if self._account_sync is None:
            return None
        stored = await self._ask(lambda admins: admins.stored(session.name))
        if stored is None or not stored.enabled or _mark(stored.digest) != session.mark:
            return None
        return stored.role

    async def _ask(self, work: Callable[[AdminService], T], actor: Actor = _NOBODY) -> T:
        assert self._account_sync is not None
        return await self._account_sync.ask(lambda store: work(AdminService(store.admins, actor)))

    def _check_page(self, incoming: IncomingRequest) -> None:
        """Check that a browser's request comes from a page of this address.

        Raises:
            Refusal: it does not, or no header says so.
        """
        headers = incoming.headers
        origin = headers.get(b"origin")
        # The browser's own word, also where a proxy has put another host in its place.
        own = headers.get(b"sec-fetch-site") == b"same-origin"
        if origin is not None and not own:
            hosts = {headers.get(b"host", b"").lower()}
            if self._proxies and self._proxies.believes(incoming.address):
                hosts.add(headers.get(b"x-forwarded-host", b"").strip().lower())
            scheme, _, authority = origin.lower().partition(b"://")
            own = scheme in (b"http", b"https") and authority in hosts and bool(authority)
        if not own:
            message = (
                "The request comes from a page of another address than the Host that it names. A "
                "proxy in front has to pass the Host on (nginx: proxy_set_header Host $http_host), "
                "or to be one of server.trusted_proxies and send X-Forwarded-Host."
            )
            raise Refusal(403, "forged", message)


def check_json(incoming: IncomingRequest) -> None:
    """Check that a body is declared as JSON, as a form of a page elsewhere cannot.

    Raises:
        Refusal: it is not.
    """
    media = incoming.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media != b"application/json":
        message = "The request's content type must be application/json."
        raise Refusal(415, "unsupported_media_type", message)


def _unknown() -> Refusal:
    return Refusal(
        401,
        "unauthenticated",
        "An admin key is needed: `key` of [admin], or one that `dragoman admin add` made, as "
        "Authorization: Bearer KEY.",
    )


def _cookie_of(incoming: IncomingRequest) -> bytes | None:
    """The value of the session's cookie."""
    for part in incoming.headers.get(b"cookie", b"").split(b";"):
        name, _, value = part.strip().partition(b"=")
        if name == COOKIE.encode() and value:
            return value
    return None


def _set_cookie(incoming: IncomingRequest, value: str) -> None:
    header = f"{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/admin"
    incoming.shared.append((b"set-cookie", header.encode()))


def _session_digest(cookie: bytes, token: bytes) -> bytes:
    """What a session is known by: neither half finds it alone."""
    return digest_of(cookie + b":" + token)


def _drops_secure(origin: bytes) -> bool:
    """Whether the browser of a page at `origin` drops cookies that need a secure connection."""
    scheme, _, authority = origin.decode("latin-1").partition("://")
    return scheme == "http" and not is_own_name(authority)


def _mark(digest: bytes) -> bytes:
    """What a session stores of the key that it began with."""
    return hashlib.sha256(digest).digest()
