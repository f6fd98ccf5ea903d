"""The authorization server of one configuration (RFC 6749, 7009, 7636, 8252, 8414, 8628)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from dragoman.accounts.store import StoreError
from dragoman.accounts.sync import AccountSync
from dragoman.audit import Actor
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.logins import WrongCodes
from dragoman.http.addresses import Proxies
from dragoman.keys.admins import Role
from dragoman.sign_in.base import EndpointContext, Handler, checked
from dragoman.sign_in.page_endpoints import PageEndpoints
from dragoman.sign_in.program_endpoints import ProgramEndpoints
from dragoman.sign_in.provider import Provider
from dragoman.sign_in.sign_ins import InvalidGrant, NotAllowed, Opened
from dragoman.sign_in.tokens import digest
from dragoman.storage.encryption import AesGcmCipher


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

    def handlers(self) -> dict[str, Mapping[str, Handler]]:
        """What serves each path, by method."""
        served = {**self._programs.handlers(), **self._pages.handlers()}
        return {
            path: {method: checked(handler) for method, handler in methods.items()}
            for path, methods in served.items()
        }

    async def start(self) -> None:
        """Make sure that there is a signing key, and that the cipher is ready."""
        with suppress(StoreError):
            context, actor = self._context, Actor("gateway", "gateway")
            found = await context.sync.ask(
                lambda store: context.sign_ins_of(store.people, actor).ensure_signing_key(
                    context.base
                )
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

    async def dashboard_role(self, session: str) -> tuple[str, Role] | None:
        """The name and the role of whoever has a session of the dashboard; None if it has ended, or
        the person has none."""
        people = self._context.sync.people
        found = people.session(session)
        if found is None:
            await self._context.sync.exchanged()  # it may have begun at another worker
            found = people.session(session)
        person = None if found is None else people.person(found.person)
        rule = None if person is None else people.rule_for(person)
        if person is None or rule is None or rule.role is None or not rule.enabled:
            return None
        return person.name, rule.role

    async def end_dashboard(self, incoming: IncomingRequest, session: str) -> None:
        """End a session of the dashboard."""
        await self._context.quietly(incoming, lambda sign_ins: sign_ins.end(session, "sign_out"))
