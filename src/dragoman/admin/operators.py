"""Who asks for something of the administration: the holder of a key, or of a session's cookie.

A cookie is sent by a browser whatever page asks it to, so a request that changes something needs
two things besides: a token that only pages of this address can read, and what the browser tells of
where the page comes from. A key needs neither.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import dragoman
from dragoman.accounts.sync import AccountSync
from dragoman.admin.calls import (
    AdminRoute,
    Call,
    Operator,
    Refusal,
    Reply,
    bad,
    first,
    only,
    read_object,
)
from dragoman.audit import Actor, Change
from dragoman.config import Admin
from dragoman.edge.auth import presented_key
from dragoman.edge.incoming import IncomingRequest
from dragoman.http.addresses import Proxies, counted
from dragoman.keys.admins import FILE_NAME, Role
from dragoman.keys.secrets import digest_of
from dragoman.operations.admins import AdminAdministration
from dragoman.storage.shared_sessions import LONGEST_S, Session, Sessions

T = TypeVar("T")

COOKIE = "dragoman_session"
CSRF = b"x-dragoman-csrf"

MOST_FAILURES = 5
"""Wrong keys that one address may sign in with in a minute, over all workers."""

_WRONG_S = 0.5
"""Seconds that the answer to a wrong key takes at least."""

_LONGEST_KEY = 1000
_RANDOM_BYTES = 32
_READING = ("GET", "HEAD")
_NOBODY = Actor("", "admin")


class Operators:
    """Who holds the key of the configuration file, one of the store, or a session."""

    def __init__(
        self,
        settings: Admin,
        account_sync: AccountSync | None,
        sessions: Callable[[], Sessions],
        proxies: Proxies,
    ) -> None:
        key = settings.key
        self._digest = None if key is None else digest_of(key.reveal().encode())
        self._enabled = settings.enabled
        self._account_sync = account_sync
        self._sessions = sessions
        self._proxies = proxies

    @property
    def is_served(self) -> bool:
        """Whether there is an administration."""
        return self._digest is not None or self._enabled

    async def identify(self, incoming: IncomingRequest) -> Operator:
        """Who asks. A session is used by that.

        Raises:
            Refusal: there is no key and no session, or it is none; or a page from elsewhere may
                have made the browser ask.
            StoreError: the keys of the store cannot be read.
        """
        key = presented_key(incoming.headers)
        if key is not None:
            return await self._holder(key)
        cookie = _cookie(incoming)
        if cookie is None:
            raise _unknown()
        digest = digest_of(cookie)
        session = self._sessions().find(digest, time.time())
        role = None if session is None else await self._role(session)
        if session is None or role is None:
            self._sessions().end(digest)
            raise Refusal(401, "unauthenticated", "The session has ended: sign in again.")
        if incoming.method not in _READING:
            self._check_page(incoming)
            if not hmac.compare_digest(incoming.headers.get(CSRF, b""), _csrf(cookie).encode()):
                told = "The token of the session is missing or wrong."
                raise Refusal(403, "forged", told, CSRF.decode())
        return Operator(session.name, role, session, digest)

    async def holds(self, operator: Operator) -> bool:
        """Whether who asked for something that goes on may still have it. A session is used by it.

        Raises:
            StoreError: the keys of the store cannot be read.
        """
        if operator.session is None:
            return True
        found = self._sessions().find(operator.digest, time.time())
        return found is not None and await self._role(found) is not None

    def routes(self) -> list[AdminRoute]:
        """The routes of `/admin/session`."""
        return [
            AdminRoute(
                "session",
                {"GET": self._show, "POST": self._begin, "DELETE": self._end},
                reads=frozenset({"DELETE"}),
                open=frozenset({"GET", "POST"}),
            )
        ]

    async def _show(self, call: Call) -> Reply:
        only(call.query)
        try:
            operator = await self.identify(call.incoming)
        except Refusal:
            # Keys that are guessed are counted by the status.
            if presented_key(call.incoming.headers) is not None:
                raise
            return 200, {"name": None}
        return 200, _told(operator, _cookie(call.incoming))

    async def _begin(self, call: Call) -> Reply:
        only(call.query)
        began = time.monotonic()
        incoming, address = call.incoming, call.actor.address
        if incoming.headers.keys() & {b"origin", b"sec-fetch-site"}:
            self._check_page(incoming)
        check_json(incoming)
        sessions, counted_as = self._sessions(), counted(address)
        if wait := sessions.wait(counted_as, MOST_FAILURES, time.time()):
            incoming.shared.append((b"retry-after", b"%d" % (int(wait) + 1)))
            told = "There were too many wrong keys from this address."
            raise Refusal(429, "rate_limited", told)
        values = await read_object(incoming)
        key = values.pop("key", "")
        if values:
            bad("There is no such field.", first(values))
        if not isinstance(key, str) or len(key) > _LONGEST_KEY:
            bad("A text is expected.", "key")
        try:
            operator = await self._holder(key.strip().encode())
        except Refusal:
            sessions.failed(counted_as, time.time())
            await asyncio.sleep(_WRONG_S - (time.monotonic() - began))
            raise
        cookie = secrets.token_urlsafe(_RANDOM_BYTES).encode()
        digest, mark = digest_of(cookie), _mark(digest_of(key.strip().encode()))
        if self._account_sync is not None:
            actor = Actor(operator.name, "admin", address)
            change = Change(action="sign_in", kind="admin", name=operator.name)
            await self._ask(lambda admins: admins.note(change), actor)
        session = sessions.begin(digest, operator.name, mark, time.time())
        flags = "" if incoming.is_local else "; Secure"
        _set_cookie(incoming, f"{cookie.decode()}; Max-Age={int(LONGEST_S)}{flags}")
        return 200, _told(Operator(operator.name, operator.role, session, digest), cookie)

    async def _end(self, call: Call) -> Reply:
        only(call.query)
        if call.operator.digest:
            self._sessions().end(call.operator.digest)
        _set_cookie(call.incoming, "; Max-Age=0")
        return 200, {"ended": bool(call.operator.digest)}

    async def _holder(self, key: bytes) -> Operator:
        """Whose key it is.

        Raises:
            Refusal: nobody's.
        """
        digest = digest_of(key)
        if self._digest is not None and hmac.compare_digest(digest, self._digest):
            return Operator(FILE_NAME, "admin")
        if self._account_sync is not None:
            found = await self._ask(lambda admins: admins.holder(digest))
            if found is not None:
                return Operator(found.name, found.role)
        raise _unknown()

    async def _role(self, session: Session) -> Role | None:
        """What the key of a session may do; None if it is not the one it was, or is no more."""
        if session.name == FILE_NAME:
            same = self._digest is not None and _mark(self._digest) == session.mark
            return "admin" if same else None
        if self._account_sync is None:
            return None
        stored = await self._ask(lambda admins: admins.stored(session.name))
        if stored is None or not stored.enabled or _mark(stored.digest) != session.mark:
            return None
        return stored.role

    async def _ask(self, work: Callable[[AdminAdministration], T], actor: Actor = _NOBODY) -> T:
        assert self._account_sync is not None
        return await self._account_sync.ask(
            lambda store: work(AdminAdministration(store.admins, actor))
        )

    def _check_page(self, incoming: IncomingRequest) -> None:
        """Make sure that a browser's request comes from a page of this address.

        Raises:
            Refusal: it does not, or nothing tells.
        """
        headers = incoming.headers
        origin = headers.get(b"origin")
        if origin is None:
            own = headers.get(b"sec-fetch-site") == b"same-origin"
        else:
            hosts = {headers.get(b"host", b"").lower()}
            if self._proxies and self._proxies.believes(incoming.request.address):
                hosts.add(headers.get(b"x-forwarded-host", b"").strip().lower())
            scheme, _, authority = origin.lower().partition(b"://")
            own = scheme in (b"http", b"https") and authority in hosts and bool(authority)
        if not own:
            raise Refusal(403, "forged", "The request comes from a page of another address.")


def check_json(incoming: IncomingRequest) -> None:
    """Make sure that a body is called JSON, as a form of a page elsewhere cannot.

    Raises:
        Refusal: it is not.
    """
    media = incoming.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media != b"application/json":
        told = "The request's content type must be application/json."
        raise Refusal(415, "unsupported_media_type", told)


def _unknown() -> Refusal:
    return Refusal(401, "unauthenticated", "A key of the administration is needed.")


def _told(operator: Operator, cookie: bytes | None) -> dict[str, object]:
    session = operator.session
    return {
        "name": operator.name,
        "role": operator.role,
        "csrf": None if session is None or cookie is None else _csrf(cookie),
        "expires_at": None if session is None else session.ends,
        "zone": datetime.now().astimezone().tzname() or "UTC",
        "version": dragoman.__version__,
    }


def _cookie(incoming: IncomingRequest) -> bytes | None:
    """What the cookie of the session holds."""
    for part in incoming.headers.get(b"cookie", b"").split(b";"):
        name, _, value = part.strip().partition(b"=")
        if name == COOKIE.encode() and value:
            return value
    return None


def _set_cookie(incoming: IncomingRequest, value: str) -> None:
    told = f"{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/admin"
    incoming.shared.append((b"set-cookie", told.encode()))


def _csrf(cookie: bytes) -> str:
    """The token that belongs to a cookie, which it does not tell."""
    return hashlib.sha256(b"csrf:" + cookie).hexdigest()


def _mark(digest: bytes) -> bytes:
    """What a session keeps of the key that it began with."""
    return hashlib.sha256(digest).digest()
