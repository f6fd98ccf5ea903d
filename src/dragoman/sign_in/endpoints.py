"""The endpoints of the authorization server (RFC 6749, 7009, 7636, 8252, 8414, 8628), and the pages
between a program, a person's browser and the provider."""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode

from dragoman.accounts.store import StoreError
from dragoman.accounts.sync import AccountSync
from dragoman.audit import Actor
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.logins import WrongCodes
from dragoman.edge.rates import PerMinute
from dragoman.edge.record import Record
from dragoman.http.addresses import Proxies, counted
from dragoman.keys.admins import Role
from dragoman.keys.ring import Denied
from dragoman.protocols.base import to_json
from dragoman.sign_in import pages, tokens
from dragoman.sign_in.grants import (
    CLIENTS,
    CODE_S,
    INTERVAL_S,
    Redirect,
    Visit,
    is_challenge,
    is_loopback_redirect,
    new_secret,
    user_code_of,
)
from dragoman.sign_in.jose import Flawed
from dragoman.sign_in.key_sets import ProviderAway
from dragoman.sign_in.provider import Provider, ProviderRefuses
from dragoman.sign_in.sign_ins import (
    Asking,
    Busy,
    InvalidGrant,
    NotAllowed,
    Opened,
    SignIns,
)
from dragoman.storage.encryption import AesGcmCipher

_log = logging.getLogger("dragoman.gateway")

T = TypeVar("T")
Handler = Callable[[IncomingRequest, Caller, Record], Awaitable[None]]
Form = Mapping[str, str]

DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
METADATA_PATH: Final = "/.well-known/oauth-authorization-server"
MOST_BEGUN: Final = 1000
"""Sign-ins that one address may begin in ten minutes, at one worker."""
_MOST_ADDRESSES = 4096
_LONGEST_STATE = 1024
_MOST_FORM_BYTES = 32 * 1024
_COOKIE = "dragoman_sign_in"
_NO_STORE = [(b"cache-control", b"no-store"), (b"pragma", b"no-cache")]
_NOT_REACHED = (
    "The company's sign-in cannot be reached now. Try again in a minute; whoever runs this gateway "
    "finds the reason in its log."
)
_GONE = "This sign-in has expired or was used already. Start it anew in your program."


class BadForm(Exception):
    """A request that is not as OAuth wants it. The message says what is wrong with it."""


class SignInEndpoints:
    """The endpoints of one configuration."""

    def __init__(
        self,
        provider: Provider,
        account_sync: AccountSync,
        cipher: AesGcmCipher,
        proxies: Proxies,
        wrong_codes: WrongCodes,
    ) -> None:
        self.provider = provider
        self._settings = provider.settings
        self._base = self._settings.public_url.rstrip("/")
        self._sync = account_sync
        self._cipher = cipher
        self._proxies = proxies
        self._wrong_codes = wrong_codes
        is_secure = self._base.startswith("https:")
        # With this prefix, no page below the same domain can set it.
        self._cookie = f"__Host-{_COOKIE}" if is_secure else _COOKIE
        self._flags = "; Secure" if is_secure else ""
        self._begun = PerMinute(_MOST_ADDRESSES, window_s=CODE_S)
        self._store_failing_since: float | None = None
        self.tokens = tokens.AccessTokens(self._base, account_sync.people.signing_keys, cipher)

    def handlers(self) -> dict[str, Mapping[str, Handler]]:
        """What serves each path, by method."""
        served: dict[str, dict[str, Handler]] = {
            METADATA_PATH: {"GET": self._metadata},
            "/oauth/device_authorization": {"POST": self._device_authorization},
            "/oauth/token": {"POST": self._token},
            "/oauth/revoke": {"POST": self._revoke},
            "/oauth/authorize": {"GET": self._authorize},
            "/oauth/callback": {"GET": self._callback},
            "/oauth/approve": {"POST": self._approve},
            "/oauth/dashboard": {"GET": self._dashboard},
            "/device": {"GET": self._code_page, "POST": self._enter_code},
        }
        return {
            path: {method: _checked(handler) for method, handler in methods.items()}
            for path, methods in served.items()
        }

    async def start(self) -> None:
        """Make sure that there is a signing key, and that the cipher is ready."""
        with suppress(StoreError):
            actor = Actor("gateway", "gateway")
            found = await self._sync.ask(
                lambda store: self._sign_ins_of(store.people, actor).ensure_signing_key(self._base)
            )
            self._sync.people.signing_keys |= {key.id: key for key in found}

    async def _metadata(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        base = self._base
        incoming.reply(
            200,
            to_json(
                {
                    "issuer": base,
                    "authorization_endpoint": f"{base}/oauth/authorize",
                    "device_authorization_endpoint": f"{base}/oauth/device_authorization",
                    "token_endpoint": f"{base}/oauth/token",
                    "revocation_endpoint": f"{base}/oauth/revoke",
                    "response_types_supported": ["code"],
                    "grant_types_supported": [
                        DEVICE_GRANT,
                        "refresh_token",
                        "authorization_code",
                    ],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none"],
                    "revocation_endpoint_auth_methods_supported": ["none"],
                    "gateway_protocol_version": 1,
                }
            ),
        )

    async def _device_authorization(
        self, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> None:
        form = await self._form(incoming)
        client = form.get("client_id", form.get("surface", "")).replace("_", "-")
        client = client if client in CLIENTS else "claude-code"
        try:
            self._count_begun(incoming)
            code, grant = await self._ask(incoming, lambda sign_ins: sign_ins.begin_device(client))
        except (Busy, StoreError):
            _refuse(incoming, 503, "temporarily_unavailable")
            return
        uri = f"{self._base}/device"
        answer: dict[str, Any] = {
            "device_code": code,
            "user_code": grant.user_code,
            "verification_uri": uri,
            "verification_uri_complete": f"{uri}?user_code={grant.user_code}",
            "expires_in": int(CODE_S),
            "interval": INTERVAL_S,
        }
        if self._settings.login_notice:
            answer["login_notice"] = self._settings.login_notice
        incoming.reply(200, to_json(answer), _NO_STORE)

    async def _token(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        form = await self._form(incoming)
        grant = _needed(form, "grant_type")
        if grant == "refresh_token":
            await self._refresh(incoming, _needed(form, "refresh_token"))
        elif grant == DEVICE_GRANT:
            await self._poll(incoming, _needed(form, "device_code"))
        elif grant == "authorization_code":
            await self._redeem(incoming, form)
        else:
            _refuse(incoming, 400, "unsupported_grant_type")

    async def _poll(self, incoming: IncomingRequest, code: str) -> None:
        try:
            found = await self._ask(incoming, lambda sign_ins: sign_ins.poll(code))
        except NotAllowed as error:
            _refuse(incoming, 400, "access_denied", str(error))
        except StoreError:
            _refuse(incoming, 400, "slow_down")
        else:
            if isinstance(found, str):
                _refuse(incoming, 400, found)
            else:
                await self._give(incoming, found)

    async def _redeem(self, incoming: IncomingRequest, form: Form) -> None:
        names = ("code", "client_id", "redirect_uri", "code_verifier")
        code, client, uri, verifier = (_needed(form, name) for name in names)
        try:
            opened = await self._ask(
                incoming, lambda sign_ins: sign_ins.redeem(code, client, uri, verifier)
            )
        except (InvalidGrant, NotAllowed):
            _refuse(incoming, 400, "invalid_grant")
        except StoreError:
            _refuse(incoming, 400, "temporarily_unavailable")
        else:
            await self._give(incoming, opened)

    async def _refresh(self, incoming: IncomingRequest, token: str) -> None:
        try:
            try:
                opened, asking = await self._ask(
                    incoming, lambda sign_ins: sign_ins.begin_refresh(token)
                )
            except StoreError:
                opened = self._from_memory(token)
            else:
                self._store_failing_since = None
                if asking is not None:
                    opened = await self._confirmed(incoming, opened, asking)
        except InvalidGrant as error:
            _refuse(incoming, 401, "invalid_grant", str(error))
            return
        await self._give(incoming, opened)

    async def _confirmed(self, incoming: IncomingRequest, opened: Opened, asking: Asking) -> Opened:
        """What was opened, once the provider has confirmed its person, or cannot.

        Raises:
            InvalidGrant: the person may not sign in any more.
        """
        id = opened.session.id
        try:
            granted = await self.provider.renew(asking.granted)
        except ProviderRefuses as error:
            reason = str(error)
            await self._quietly(incoming, lambda sign_ins: sign_ins.end(id, "refuse refresh"))
            raise InvalidGrant(reason) from None
        except ProviderAway as error:
            _log.warning("the identity provider cannot be asked about a person: %s", error)
            await self._quietly(incoming, lambda sign_ins: sign_ins.unconfirmed(id))
            return opened
        person = await self._quietly(incoming, lambda sign_ins: sign_ins.renewed(id, granted))
        return opened if person is None else Opened(opened.session, person, opened.refresh_token)

    def _from_memory(self, token: str) -> Opened:
        """What a refresh token gives while the store cannot be used: an access token, and itself.

        Raises:
            InvalidGrant: it is not known to be valid, or the store is away for too long.
        """
        now = time.time()
        if self._store_failing_since is None:
            self._store_failing_since = now
        if now - self._store_failing_since > self._settings.idp_grace_s:
            raise InvalidGrant("the store cannot be used for too long")
        people = self._sync.people
        id = tokens.session_of(token)
        session = None if id is None else people.session(id)
        person = None if session is None else people.person(session.person)
        if session is None or person is None or people.rule_for(person) is None:
            raise InvalidGrant("the store cannot be used, and it is not known here")
        kept = self._sign_ins_of(None, Actor("", "gateway")).secrets_of(session)
        found = tokens.presented(session, kept.key, token, now)
        if found not in (tokens.Presented.CURRENT, tokens.Presented.RECENT):
            raise InvalidGrant("it was replaced before")
        return Opened(session, person, token)

    async def _give(self, incoming: IncomingRequest, opened: Opened) -> None:
        """Answer with the tokens of a session."""
        access = await self._access_token(incoming, opened)
        if access is None:
            _refuse(incoming, 400, "temporarily_unavailable")
            return
        answer = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": self._settings.token_s,
            "refresh_token": opened.refresh_token,
        }
        if opened.person.identity.email:
            answer["email"] = opened.person.identity.email
        incoming.reply(200, to_json(answer), _NO_STORE)

    async def _access_token(self, incoming: IncomingRequest, opened: Opened) -> str | None:
        now, known = time.time(), self._sync.people.signing_keys
        if self.tokens.is_due(now):
            found = await self._quietly(
                incoming, lambda sign_ins: sign_ins.ensure_signing_key(self._base)
            )
            known |= {key.id: key for key in found or ()}
        return self.tokens.issue(opened.session.id, opened.person, now, self._settings.token_s)

    async def _revoke(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        token = (await self._form(incoming)).get("token", "")
        session = None
        try:
            if (found := self.tokens.session_of(token.encode(), time.time())) is not None:
                session = found[0]
        except Denied:
            pass
        if session is not None:
            await self._quietly(incoming, lambda sign_ins: sign_ins.end(session, "sign_out"))
        else:
            await self._quietly(incoming, lambda sign_ins: sign_ins.end_by(token, "sign_out"))
        incoming.reply(200, b"", _NO_STORE)

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
        if self._wrong_codes.is_over(self._address(incoming)):
            text = "Too many wrong codes came from your address. Try again in ten minutes."
            _message(incoming, "Too many wrong codes", text, 429)
            return
        if not await self._begin(incoming, lambda sign_ins: sign_ins.enter(code, digest)):
            self._wrong_codes.failed(self._address(incoming))
            problem = "There is no such code, or it has expired."
            _page(incoming, pages.code_page(_csrf(browser), problem=problem), 400)

    async def _authorize(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        try:
            query = _pairs(incoming.query)
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

    async def begin_dashboard(self, incoming: IncomingRequest, code: str) -> Opened | None:
        """The session of a person who returns to the dashboard with a code; None if it is none.

        Raises:
            StoreError: the store cannot be used.
        """
        browser = tokens.digest(self._browser_cookie(incoming) or "")
        try:
            opened = await self._ask(
                incoming, lambda sign_ins: sign_ins.begin_dashboard(code, browser)
            )
        except (InvalidGrant, NotAllowed):
            return None
        await self._sync.exchanged()
        return opened

    async def dashboard_role(self, session: str) -> tuple[str, Role] | None:
        """The name and the role of whoever has a session of the dashboard; None if it has ended, or
        the person has none."""
        people = self._sync.people
        found = people.session(session)
        if found is None:
            await self._sync.exchanged()  # it may have begun at another worker
            found = people.session(session)
        person = None if found is None else people.person(found.person)
        rule = None if person is None else people.rule_for(person)
        if person is None or rule is None or rule.role is None or not rule.enabled:
            return None
        return person.name, rule.role

    async def end_dashboard(self, incoming: IncomingRequest, session: str) -> None:
        """End a session of the dashboard."""
        await self._quietly(incoming, lambda sign_ins: sign_ins.end(session, "sign_out"))

    async def _begin(
        self, incoming: IncomingRequest, begin: Callable[[SignIns], tuple[str, Visit] | None]
    ) -> bool:
        """Begin a visit, and send the browser to the provider, or say that this is not possible
        now. False: there is no visit, and no answer yet."""
        try:
            self._count_begun(incoming)
            begun = await self._ask(incoming, begin)
            if begun is None:
                return False
            state, visit = begun
            url = await self.provider.sign_in_url(state, visit.nonce, visit.verifier)
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
            begun = await self._ask(incoming, lambda sign_ins: sign_ins.returned(state, digest))
            if begun is None:
                _message(incoming, "Sign-in refused", _GONE, 400)
                return
            if not code:
                await self._ask(incoming, lambda sign_ins: sign_ins.refused(begun))
                text = "You were not signed in at the company's account."
                _message(incoming, "Not signed in", text, 403)
                return
            try:
                granted = await self.provider.exchange(code, begun.nonce, begun.verifier)
            except (ProviderRefuses, Flawed) as error:
                _log.error("a sign-in at the identity provider is refused: %s", error)
                await self._ask(incoming, lambda sign_ins: sign_ins.refused(begun))
                text = "The company's sign-in has given an answer that this gateway refuses."
                _message(incoming, "Sign-in refused", text, 403)
                return
            found = await self._ask(incoming, lambda sign_ins: sign_ins.signed_in(state, granted))
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
            shown = await self._quietly(
                incoming, lambda sign_ins: sign_ins.dashboard_code(state, visit)
            )
            # After the # it is sent to nobody.
            _redirect(incoming, f"{self._base}/ui#sign-in={shown or 'failed'}")
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
            decided = await self._ask(
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

    async def _ask(self, incoming: IncomingRequest, work: Callable[[SignIns], T]) -> T:
        actor = Actor("nobody", "gateway", self._address(incoming))
        return await self._sync.ask(lambda store: work(self._sign_ins_of(store.people, actor)))

    def _sign_ins_of(self, store: Any, actor: Actor) -> SignIns:
        return SignIns(store, self._cipher, self._settings, actor)

    async def _quietly(self, incoming: IncomingRequest, work: Callable[[SignIns], T]) -> T | None:
        """As `_ask`; None if the store cannot be used."""
        try:
            return await self._ask(incoming, work)
        except StoreError:
            return None

    async def _form(self, incoming: IncomingRequest) -> Form:
        """The form that a program sends.

        Raises:
            BadForm: it names something twice.
        """
        return _pairs(await incoming.body(_MOST_FORM_BYTES))

    async def _page_form(self, incoming: IncomingRequest) -> Form | None:
        """The form that a page of this gateway sent; None if it was another page, which is
        answered."""
        form = _pairs(await incoming.body(_MOST_FORM_BYTES))
        browser = self._browser_cookie(incoming)
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
            return origin.decode("latin-1").rstrip("/") == self._base or site == b"same-origin"
        return site == b"same-origin"

    def _browser(self, incoming: IncomingRequest) -> str:
        """The secret that a browser has in its cookie, which it is given if it has none."""
        found = self._browser_cookie(incoming)
        if found is None:
            found = new_secret()
            cookie = f"{self._cookie}={found}; HttpOnly; SameSite=Lax; Path=/; Max-Age=3600"
            incoming.shared.append((b"set-cookie", f"{cookie}{self._flags}".encode()))
        return found

    def _browser_cookie(self, incoming: IncomingRequest) -> str | None:
        for part in incoming.headers.get(b"cookie", b"").split(b";"):
            name, _, value = part.strip().partition(b"=")
            if name == self._cookie.encode() and value:
                return value.decode("latin-1")
        return None

    def _count_begun(self, incoming: IncomingRequest) -> None:
        """
        Raises:
            Busy: the address begins too many sign-ins, which would leave no room for others.
        """
        if self._begun.count(counted(self._address(incoming)), MOST_BEGUN):
            raise Busy

    def _address(self, incoming: IncomingRequest) -> str:
        return self._proxies.client(incoming.address, incoming.headers)


def _checked(handler: Handler) -> Handler:
    """A handler that answers a request that is not as OAuth wants it."""

    async def serve(incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        try:
            await handler(incoming, caller, record)
        except BadForm as error:
            _refuse(incoming, 400, "invalid_request", str(error))

    return serve


def _pairs(data: bytes) -> Form:
    """The members of a form or query.

    Raises:
        BadForm: it is none, or has a member twice.
    """
    try:
        pairs = parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise BadForm("The request is no form.") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadForm("The request names something twice.")
    return found


def _needed(form: Form, name: str) -> str:
    if not form.get(name):
        raise BadForm(f"{name} is missing")
    return form[name]


def _csrf(browser: str) -> str:
    """The token of the forms of a browser: whoever makes the browser send a form does not know
    it."""
    return hashlib.sha256(f"csrf\0{browser}".encode()).hexdigest()


def _refuse(incoming: IncomingRequest, status: int, error: str, about: str = "") -> None:
    answer = {"error": error, **({"error_description": about} if about else {})}
    incoming.reply(status, to_json(answer), _NO_STORE)


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
