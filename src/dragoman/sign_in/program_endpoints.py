"""The endpoints that programs call: metadata, registration, device codes, tokens and their
revocation (RFC 6749, 7009, 7591, 8414, 8628)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from dragoman.accounts.store import StoreError
from dragoman.audit import Actor
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.jsontext import object_of
from dragoman.keys.ring import Denied
from dragoman.protocols.base import to_json
from dragoman.sign_in import tokens
from dragoman.sign_in.base import (
    MOST_FORM_BYTES,
    NO_STORE,
    EndpointContext,
    Form,
    Handler,
    needed,
    refuse,
)
from dragoman.sign_in.grants import (
    CLIENTS,
    CODE_S,
    INTERVAL_S,
    MCP_CLIENT,
    is_loopback_redirect,
)
from dragoman.sign_in.sign_ins import Busy, InvalidGrant, NotAllowed, Opened

DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
METADATA_PATH: Final = "/.well-known/oauth-authorization-server"


class ProgramEndpoints:
    """What a program calls to be let in, and to stay."""

    def __init__(self, context: EndpointContext) -> None:
        self._context = context
        self._store_failing_since: float | None = None

    def handlers(self) -> dict[str, Mapping[str, Handler]]:
        """What serves each path, by method."""
        return {
            METADATA_PATH: {"GET": self._metadata},
            "/oauth/device_authorization": {"POST": self._device_authorization},
            "/oauth/token": {"POST": self._token},
            "/oauth/revoke": {"POST": self._revoke},
            "/oauth/register": {"POST": self._register},
        }

    async def _metadata(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        base = self._context.base
        incoming.reply(
            200,
            to_json(
                {
                    "issuer": base,
                    "authorization_endpoint": f"{base}/oauth/authorize",
                    "device_authorization_endpoint": f"{base}/oauth/device_authorization",
                    "token_endpoint": f"{base}/oauth/token",
                    "revocation_endpoint": f"{base}/oauth/revoke",
                    "registration_endpoint": f"{base}/oauth/register",
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

    async def _register(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """Register a client of MCP (RFC 7591). All have one id, and nothing is stored: what a
        client says of itself proves nothing, and its redirects are checked when it uses them."""
        asked = object_of(await incoming.body(MOST_FORM_BYTES)) or {}
        given = asked.get("redirect_uris")
        uris = given if isinstance(given, list) else []
        if not uris or not all(is_loopback_redirect(str(uri)) for uri in uris):
            refuse(incoming, 400, "invalid_redirect_uri", "It must be /callback on loopback.")
            return
        registered = {
            "client_id": MCP_CLIENT,
            "client_name": CLIENTS[MCP_CLIENT],
            "redirect_uris": uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        incoming.reply(201, to_json(registered), NO_STORE)

    async def _device_authorization(
        self, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> None:
        form = await self._context.form(incoming)
        client = form.get("client_id", form.get("surface", "")).replace("_", "-")
        client = client if client in CLIENTS else "claude-code"
        try:
            self._context.count_begun(incoming)
            code, grant = await self._context.ask(
                incoming, lambda sign_ins: sign_ins.begin_device(client)
            )
        except (Busy, StoreError):
            refuse(incoming, 503, "temporarily_unavailable")
            return
        uri = f"{self._context.base}/device"
        answer: dict[str, Any] = {
            "device_code": code,
            "user_code": grant.user_code,
            "verification_uri": uri,
            "verification_uri_complete": f"{uri}?user_code={grant.user_code}",
            "expires_in": int(CODE_S),
            "interval": INTERVAL_S,
        }
        if self._context.settings.login_notice:
            answer["login_notice"] = self._context.settings.login_notice
        incoming.reply(200, to_json(answer), NO_STORE)

    async def _token(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        form = await self._context.form(incoming)
        grant = needed(form, "grant_type")
        if grant == "refresh_token":
            await self._refresh(incoming, needed(form, "refresh_token"))
        elif grant == DEVICE_GRANT:
            await self._poll(incoming, needed(form, "device_code"))
        elif grant == "authorization_code":
            await self._redeem(incoming, form)
        else:
            refuse(incoming, 400, "unsupported_grant_type")

    async def _poll(self, incoming: IncomingRequest, code: str) -> None:
        try:
            found = await self._context.ask(incoming, lambda sign_ins: sign_ins.poll(code))
        except NotAllowed as error:
            refuse(incoming, 400, "access_denied", str(error))
        except StoreError:
            refuse(incoming, 400, "slow_down")
        else:
            if isinstance(found, str):
                refuse(incoming, 400, found)
            else:
                await self._give(incoming, found)

    async def _redeem(self, incoming: IncomingRequest, form: Form) -> None:
        names = ("code", "client_id", "redirect_uri", "code_verifier")
        code, client, uri, verifier = (needed(form, name) for name in names)
        try:
            opened = await self._context.ask(
                incoming, lambda sign_ins: sign_ins.redeem(code, client, uri, verifier)
            )
        except (InvalidGrant, NotAllowed):
            refuse(incoming, 400, "invalid_grant")
        except StoreError:
            refuse(incoming, 400, "temporarily_unavailable")
        else:
            await self._give(incoming, opened)

    async def _refresh(self, incoming: IncomingRequest, token: str) -> None:
        try:
            try:
                opened, asking = await self._context.ask(
                    incoming, lambda sign_ins: sign_ins.begin_refresh(token)
                )
            except StoreError:
                opened = self._from_memory(token)
            else:
                self._store_failing_since = None
                if asking is not None:
                    person = await self._context.confirmed(incoming, opened.session.id, asking)
                    opened = replace(opened, person=person or opened.person)
        except InvalidGrant as error:
            refuse(incoming, 401, "invalid_grant", str(error))
            return
        await self._give(incoming, opened)

    def _from_memory(self, token: str) -> Opened:
        """What a refresh token gives while the store cannot be used: an access token, and itself.

        Raises:
            InvalidGrant: it is not known to be valid, or the store is away for too long.
        """
        now = time.time()
        if self._store_failing_since is None:
            self._store_failing_since = now
        if now - self._store_failing_since > self._context.settings.idp_grace_s:
            raise InvalidGrant("the store cannot be used for too long")
        people = self._context.sync.people
        id = tokens.session_of(token)
        session = None if id is None else people.session(id)
        person = None if session is None else people.person(session.person)
        if session is None or person is None or people.rule_for(person) is None:
            raise InvalidGrant("the store cannot be used, and it is not known here")
        kept = self._context.sign_ins_of(None, Actor("", "gateway")).secrets_of(session)
        found = tokens.presented(session, kept.key, token, now)
        if found not in (tokens.Presented.CURRENT, tokens.Presented.RECENT):
            raise InvalidGrant("it was replaced before")
        return Opened(session, person, token)

    async def _give(self, incoming: IncomingRequest, opened: Opened) -> None:
        """Answer with the tokens of a session."""
        access = await self._access_token(incoming, opened)
        if access is None:
            refuse(incoming, 400, "temporarily_unavailable")
            return
        answer = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": self._context.settings.token_s,
            "refresh_token": opened.refresh_token,
        }
        if opened.person.identity.email:
            answer["email"] = opened.person.identity.email
        incoming.reply(200, to_json(answer), NO_STORE)

    async def _access_token(self, incoming: IncomingRequest, opened: Opened) -> str | None:
        context, now = self._context, time.time()
        if context.tokens.is_due(now):
            found = await context.quietly(
                incoming, lambda sign_ins: sign_ins.ensure_signing_key(context.base)
            )
            context.sync.people.signing_keys |= {key.id: key for key in found or ()}
        life_s = context.settings.token_s
        return context.tokens.issue(opened.session.id, opened.person, now, life_s)

    async def _revoke(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        context, session = self._context, None
        token = (await context.form(incoming)).get("token", "")
        try:
            if (found := context.tokens.session_of(token.encode(), time.time())) is not None:
                session = found[0]
        except Denied:
            pass
        if session is not None:
            await context.quietly(incoming, lambda sign_ins: sign_ins.end(session, "sign_out"))
        else:
            await context.quietly(incoming, lambda sign_ins: sign_ins.end_by(token, "sign_out"))
        incoming.reply(200, b"", NO_STORE)
