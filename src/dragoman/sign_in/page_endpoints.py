"""The pages between a program, a person's browser and the provider (RFC 7636, 8252, 8628)."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlencode

from dragoman.accounts.store import StoreError
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.logins import WrongCodes
from dragoman.edge.record import Record
from dragoman.sign_in import pages, tokens
from dragoman.sign_in.base import BadForm, EndpointContext, Form, Handler, pairs_in
from dragoman.sign_in.grants import (
    CLIENTS,
    Redirect,
    Visit,
    is_challenge,
    is_loopback_redirect,
    new_secret,
    user_code_of,
)
from dragoman.sign_in.jose import Flawed
from dragoman.sign_in.key_sets import ProviderAway
from dragoman.sign_in.provider import ProviderRefuses
from dragoman.sign_in.sign_ins import Busy, NotAllowed, SignIns

_log = logging.getLogger("dragoman.gateway")

_LONGEST_STATE = 1024
_COOKIE = "dragoman_sign_in"
_NOT_REACHED = (
    "The company's sign-in cannot be reached now. Try again in a minute; whoever runs this gateway "
    "finds the reason in its log."
)
_GONE = "This sign-in has expired or was used already. Start it anew in your program."


class PageEndpoints:
    """What a person's browser is shown on the way to the provider and back."""

    def __init__(self, context: EndpointContext, wrong_codes: WrongCodes) -> None:
        self._context = context
        self._wrong_codes = wrong_codes
        is_secure = context.base.startswith("https:")
        # With this prefix, no page below the same domain can set it.
        self._cookie = f"__Host-{_COOKIE}" if is_secure else _COOKIE
        self._flags = "; Secure" if is_secure else ""

    def handlers(self) -> dict[str, Mapping[str, Handler]]:
        """What serves each path, by method."""
        return {
            "/oauth/authorize": {"GET": self._authorize},
            "/oauth/callback": {"GET": self._callback},
            "/oauth/approve": {"POST": self._approve},
            "/oauth/dashboard": {"GET": self._dashboard},
            "/device": {"GET": self._code_page, "POST": self._enter_code},
        }

    async def _code_page(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        query = dict(parse_qsl(incoming.query.decode("latin-1")))
        browser = self._browser(incoming)
        _page(incoming, pages.code_page(_csrf(browser), query.get("user_code", "")[:20]))

    async def _enter_code(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        form = await self._page_form(incoming)
        if form is None:
            return
        browser = self._browser(incoming)
        code = user_code_of(form.get("user_code", ""))
        digest = tokens.digest(browser)
        if self._wrong_codes.is_over(self._context.address(incoming)):
            text = "Too many wrong codes came from your address. Try again in ten minutes."
            _message(incoming, "Too many wrong codes", text, 429)
            return
        if not await self._begin(incoming, lambda sign_ins: sign_ins.enter(code, digest)):
            self._wrong_codes.failed(self._context.address(incoming))
            problem = "There is no such code, or it has expired."
            _page(incoming, pages.code_page(_csrf(browser), problem=problem), 400)

    async def _authorize(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        try:
            query = pairs_in(incoming.query)
            client, uri = query.get("client_id", ""), query.get("redirect_uri", "")
            if client not in CLIENTS:
                raise BadForm("The program that has sent you here is not known to this gateway.")
            if not is_loopback_redirect(uri):
                raise BadForm("The program that has sent you here is not on this computer.")
            if len(query.get("state", "")) > _LONGEST_STATE:
                raise BadForm("The program that has sent you here asks for too much.")
        except BadForm as error:
            # Nobody is sent on to an address that is not known.
            _message(incoming, "Sign-in refused", str(error), 400)
            return
        state, challenge = query.get("state"), query.get("code_challenge", "")
        if query.get("response_type") != "code":
            _send_to(incoming, uri, {"error": "unsupported_response_type"}, state)
            return
        if query.get("code_challenge_method") != "S256" or not is_challenge(challenge):
            _send_to(incoming, uri, {"error": "invalid_request"}, state)
            return
        redirect = Redirect(uri=uri, state=state, challenge=challenge, client=client)
        browser = tokens.digest(self._browser(incoming))
        await self._begin(incoming, lambda sign_ins: sign_ins.visit(browser, redirect=redirect))

    async def _dashboard(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        browser = tokens.digest(self._browser(incoming))
        await self._begin(incoming, lambda sign_ins: sign_ins.visit(browser, dashboard=True))

    async def _begin(
        self, incoming: IncomingRequest, begin: Callable[[SignIns], tuple[str, Visit] | None]
    ) -> bool:
        """Begin a visit, and send the browser to the provider, or say that this is not possible
        now. False: there is no visit, and no answer yet."""
        try:
            self._context.count_begun(incoming)
            begun = await self._context.ask(incoming, begin)
            if begun is None:
                return False
            state, visit = begun
            url = await self._context.provider.sign_in_url(state, visit.nonce, visit.verifier)
            _redirect(incoming, url)
        except (ProviderAway, StoreError, Busy) as error:
            self._reply_unavailable(incoming, error)
        return True

    async def _callback(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        query = dict(parse_qsl(incoming.query.decode("latin-1")))
        state, code = query.get("state", ""), query.get("code", "")
        browser = self._browser(incoming)
        digest = tokens.digest(browser)
        try:
            begun = await self._context.ask(
                incoming, lambda sign_ins: sign_ins.returned(state, digest)
            )
            if begun is None:
                _message(incoming, "Sign-in refused", _GONE, 400)
                return
            if not code:
                await self._context.ask(incoming, lambda sign_ins: sign_ins.refused(begun))
                text = "You were not signed in at the company's account."
                _message(incoming, "Not signed in", text, 403)
                return
            try:
                granted = await self._context.provider.exchange(code, begun.nonce, begun.verifier)
            except (ProviderRefuses, Flawed) as error:
                _log.error("a sign-in at the identity provider is refused: %s", error)
                await self._context.ask(incoming, lambda sign_ins: sign_ins.refused(begun))
                text = "The company's sign-in has given an answer that this gateway refuses."
                _message(incoming, "Sign-in refused", text, 403)
                return
            found = await self._context.ask(
                incoming, lambda sign_ins: sign_ins.signed_in(state, granted)
            )
        except NotAllowed as error:
            _message(incoming, "No access", str(error), 403)
            return
        except (ProviderAway, StoreError) as error:
            self._reply_unavailable(incoming, error)
            return
        if found is None:
            _message(incoming, "Sign-in refused", _GONE, 400)
            return
        state, visit, device = found
        if visit.dashboard:
            shown = await self._context.quietly(
                incoming, lambda sign_ins: sign_ins.dashboard_code(state, visit)
            )
            # After the # it is sent to nobody.
            _redirect(incoming, f"{self._context.base}/ui#sign-in={shown or 'failed'}")
            return
        client = visit.redirect.client if visit.redirect else device.client if device else ""
        _page(
            incoming,
            pages.approval_page(
                _csrf(browser),
                state,
                granted.identity.email or granted.identity.name,
                CLIENTS.get(client, "A program"),
                "" if device is None else device.user_code,
            ),
        )

    async def _approve(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        form = await self._page_form(incoming)
        if form is None:
            return
        state, approves = form.get("state", ""), form.get("decision") == "approve"
        browser = tokens.digest(self._browser(incoming))
        try:
            decided = await self._context.ask(
                incoming, lambda sign_ins: sign_ins.decide(state, browser, approves=approves)
            )
        except StoreError as error:
            self._reply_unavailable(incoming, error)
            return
        if decided is None:
            _message(incoming, "Sign-in refused", _GONE, 400)
            return
        visit, code = decided
        if visit.redirect is not None:
            result = {"code": code} if approves else {"error": "access_denied"}
            _send_to(incoming, visit.redirect.uri, result, visit.redirect.state)
        elif approves:
            text = "Your program is signed in. You can close this page."
            _message(incoming, "Signed in", text)
        else:
            text = "Nothing was given to the program. You can close this page."
            _message(incoming, "Denied", text)

    def _reply_unavailable(self, incoming: IncomingRequest, error: Exception) -> None:
        if isinstance(error, ProviderAway):
            _log.error("the identity provider cannot be asked: %s", error)
        _message(incoming, "Not now", _NOT_REACHED, 503)

    async def _page_form(self, incoming: IncomingRequest) -> Form | None:
        """The form that a page of this gateway sent; None if it was another page, which is
        answered."""
        form = await self._context.form(incoming)
        browser = self.browser_cookie(incoming)
        is_ours = browser is not None and hmac.compare_digest(
            form.get("csrf", "").encode(), _csrf(browser).encode()
        )
        if is_ours and self._is_same_origin(incoming.headers):
            return form
        text = "The request does not come from a page of this gateway. Open the page anew."
        _message(incoming, "Refused", text, 403)
        return None

    def _is_same_origin(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether the browser says that a request comes from a page of this gateway."""
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        if site is not None and site != b"same-origin":
            return False
        if origin is not None and origin != b"null":
            return (
                origin.decode("latin-1").rstrip("/") == self._context.base or site == b"same-origin"
            )
        return site == b"same-origin"

    def _browser(self, incoming: IncomingRequest) -> str:
        """The secret that a browser has in its cookie, which it is given if it has none."""
        found = self.browser_cookie(incoming)
        if found is None:
            found = new_secret()
            cookie = f"{self._cookie}={found}; HttpOnly; SameSite=Lax; Path=/; Max-Age=3600"
            incoming.shared.append((b"set-cookie", f"{cookie}{self._flags}".encode()))
        return found

    def browser_cookie(self, incoming: IncomingRequest) -> str | None:
        """The secret in the cookie of a browser; None if it has none."""
        for part in incoming.headers.get(b"cookie", b"").split(b";"):
            name, _, value = part.strip().partition(b"=")
            if name == self._cookie.encode() and value:
                return value.decode("latin-1")
        return None


def _csrf(browser: str) -> str:
    """The token of the forms of a browser: whoever makes the browser send a form does not know
    it."""
    return hashlib.sha256(f"csrf\0{browser}".encode()).hexdigest()


def _page(incoming: IncomingRequest, body: bytes, status: int = 200) -> None:
    incoming.reply(status, body, pages.HEADERS, pages.HTML)


def _message(incoming: IncomingRequest, title: str, text: str, status: int = 200) -> None:
    _page(incoming, pages.message_page(title, text), status)


def _redirect(incoming: IncomingRequest, url: str) -> None:
    headers = [(b"location", url.encode()), *pages.HEADERS]
    incoming.reply(303, b"", headers)


def _send_to(
    incoming: IncomingRequest, uri: str, result: Mapping[str, str], state: str | None
) -> None:
    """Send a browser back to the program that has sent it."""
    query = {**result, **({} if state is None else {"state": state})}
    _redirect(incoming, f"{uri}?{urlencode(query)}")
