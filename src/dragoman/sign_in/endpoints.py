"""The authorization server of one configuration (RFC 6749, 7009, 7636, 8252, 8414, 8628)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from dragoman.accounts.store import StoreError
from dragoman.accounts.sync import AccountSync
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.logins import WrongCodes
from dragoman.edge.rates import PerMinute
from dragoman.edge.record import Record
from dragoman.http.addresses import Proxies
from dragoman.keys.admins import Role
from dragoman.keys.people import StoredPerson
from dragoman.protocols.base import to_json
from dragoman.sign_in.base import EndpointContext, Handler, checked
from dragoman.sign_in.page_endpoints import PageEndpoints
from dragoman.sign_in.program_endpoints import ProgramEndpoints
from dragoman.sign_in.provider import Provider
from dragoman.sign_in.sign_ins import InvalidGrant, NotAllowed, Opened
from dragoman.sign_in.tokens import digest
from dragoman.storage.encryption import AesGcmCipher

_MOST_SESSIONS = 1024
"""Sessions of the dashboard of which a worker remembers that it asked about them just now."""
_RESOURCES: Final = "/.well-known/oauth-protected-resource"


class SignInEndpoints:
    """The endpoints of one configuration, and the sessions of people in the dashboard."""

    def __init__(
        self,
        provider: Provider,
        account_sync: AccountSync,
        cipher: AesGcmCipher,
        proxies: Proxies,
        wrong_codes: WrongCodes,
    ) -> None:
        self._context = EndpointContext(provider, account_sync, cipher, proxies)
        self.provider = provider
        self.tokens = self._context.tokens
        self._programs = ProgramEndpoints(self._context)
        self._pages = PageEndpoints(self._context, wrong_codes)
        self._confirmed = PerMinute(_MOST_SESSIONS)

    def handlers(self) -> dict[str, Mapping[str, Handler]]:
        """What serves each path, by method."""
        served = {**self._programs.handlers(), **self._pages.handlers()}
        return {
            path: {method: checked(handler) for method, handler in methods.items()}
            for path, methods in served.items()
        }

    def protect(self, path: str) -> tuple[str, Handler, bytes]:
        """The path of the metadata of what is at `path` (RFC 9728), what serves them, and the
        challenge that leads there whoever calls `path` without a token."""
        base, place = self._context.base, f"{_RESOURCES}{path}"
        answer = to_json(
            {
                "resource": f"{base}{path}",
                "authorization_servers": [base],
                "bearer_methods_supported": ["header"],
            }
        )

        async def metadata(incoming: IncomingRequest, caller: Caller, record: Record) -> None:
            incoming.reply(200, answer)

        return place, metadata, f'Bearer resource_metadata="{base}{place}"'.encode()

    async def start(self) -> None:
        """Make sure that there is a signing key, and that the cipher is ready."""
        with suppress(StoreError):
            context = self._context
            found = await context.ask(
                None, lambda sign_ins: sign_ins.ensure_signing_key(context.base)
            )
            context.sync.people.signing_keys |= {key.id: key for key in found}

    async def begin_dashboard(self, incoming: IncomingRequest, code: str) -> Opened | None:
        """The session of a person who returns to the dashboard with a code; None if it is none.

        Raises:
            StoreError: the store cannot be used.
        """
        browser = digest(self._pages.browser_cookie(incoming) or "")
        try:
            opened = await self._context.ask(
                incoming, lambda sign_ins: sign_ins.begin_dashboard(code, browser)
            )
        except (InvalidGrant, NotAllowed):
            return None
        await self._context.sync.exchanged()
        return opened

    async def dashboard_role(self, id: str) -> tuple[str, Role] | None:
        """The name and the role of whoever has a session of the dashboard; None if it has ended, or
        the person has none. The provider is asked about the person as often as about those whose
        programs have a session."""
        people = self._context.sync.people
        session = people.session(id)
        if session is None:
            await self._context.sync.exchanged()  # it may have begun at another worker
            session = people.session(id)
        person = None if session is None else people.person(session.person)
        if session is None or person is None:
            return None
        if time.time() - session.renewed >= self._context.settings.token_s and not (
            self._confirmed.count(id, 1)
        ):
            try:
                person = await self._confirm(id) or person
            except InvalidGrant:
                return None
        rule = people.rule_for(person)
        if rule is None or rule.role is None or not rule.enabled:
            return None
        return person.name, rule.role

    async def _confirm(self, id: str) -> StoredPerson | None:
        """The person of a session, if the provider was asked, and answered.

        Raises:
            InvalidGrant: the session has ended.
        """
        asking = await self._context.quietly(None, lambda sign_ins: sign_ins.begin_confirming(id))
        return None if asking is None else await self._context.confirmed(None, id, asking)

    async def end_dashboard(self, incoming: IncomingRequest, session: str) -> None:
        """End a session of the dashboard."""
        await self._context.quietly(incoming, lambda sign_ins: sign_ins.end(session, "sign_out"))
