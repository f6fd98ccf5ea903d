"""What the endpoints of a sign-in share: the store and the provider, forms, and errors of OAuth."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from dragoman.accounts.store import StoreError
from dragoman.accounts.sync import AccountSync
from dragoman.audit import Actor
from dragoman.edge.auth import Caller
from dragoman.edge.errors import Headers
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.rates import PerMinute
from dragoman.edge.record import Record
from dragoman.http.addresses import Proxies, counted
from dragoman.keys.people import StoredPerson
from dragoman.protocols.base import to_json
from dragoman.sign_in.grants import CODE_S
from dragoman.sign_in.key_sets import ProviderAway
from dragoman.sign_in.provider import Provider, ProviderRefuses
from dragoman.sign_in.sign_ins import Asking, Busy, InvalidGrant, SignIns
from dragoman.sign_in.tokens import AccessTokens
from dragoman.storage.encryption import AesGcmCipher

_log = logging.getLogger("dragoman.gateway")

T = TypeVar("T")
Handler = Callable[[IncomingRequest, Caller, Record], Awaitable[None]]
Form = Mapping[str, str]

MOST_BEGUN: Final = 1000
"""Sign-ins that one address may begin in ten minutes, at one worker."""
_MOST_ADDRESSES = 4096
MOST_FORM_BYTES: Final = 32 * 1024
_GATEWAY = Actor("gateway", "gateway")
NO_STORE: Final[Headers] = [(b"cache-control", b"no-store"), (b"pragma", b"no-cache")]


class BadForm(Exception):
    """A request that is not as OAuth wants it. The message says what is wrong with it."""


class EndpointContext:
    """What the endpoints of one configuration use. `base` is the address of the gateway, `tokens`
    are its access tokens."""

    def __init__(
        self,
        provider: Provider,
        account_sync: AccountSync,
        cipher: AesGcmCipher,
        proxies: Proxies,
    ) -> None:
        self.provider = provider
        self.settings = provider.settings
        self.base = self.settings.public_url.rstrip("/")
        self.sync = account_sync
        self._cipher = cipher
        self._proxies = proxies
        self._begun = PerMinute(_MOST_ADDRESSES, window_s=CODE_S)
        self.tokens = AccessTokens(self.base, account_sync.people.signing_keys, cipher)

    async def ask(self, incoming: IncomingRequest | None, work: Callable[[SignIns], T]) -> T:
        """The result of work on the store, for a request (None: for the gateway itself).

        Raises:
            StoreError: the store cannot be used.
        """
        actor = _GATEWAY
        if incoming is not None:
            actor = Actor("nobody", "gateway", self.address(incoming))
        return await self.sync.ask(lambda store: work(self.sign_ins_of(store.people, actor)))

    async def quietly(
        self, incoming: IncomingRequest | None, work: Callable[[SignIns], T]
    ) -> T | None:
        """As `ask`; None if the store cannot be used."""
        try:
            return await self.ask(incoming, work)
        except StoreError:
            return None

    async def confirmed(
        self, incoming: IncomingRequest | None, id: str, asking: Asking
    ) -> StoredPerson | None:
        """The person of a session as the provider knows it now; None if the provider, or the store,
        cannot be asked.

        Raises:
            InvalidGrant: the person may not sign in any more, or that goes on for too long.
        """
        try:
            granted = await self.provider.renew(asking.granted)
        except ProviderRefuses as error:
            reason = str(error)
            await self.quietly(incoming, lambda sign_ins: sign_ins.end(id, "refuse refresh"))
            raise InvalidGrant(reason) from None
        except ProviderAway as error:
            _log.warning("the identity provider cannot be asked about a person: %s", error)
            await self.quietly(incoming, lambda sign_ins: sign_ins.unconfirmed(id))
            return None
        return await self.quietly(incoming, lambda sign_ins: sign_ins.renewed(id, granted))

    def sign_ins_of(self, store: Any, actor: Actor) -> SignIns:
        """The sign-ins in a store, for `actor`."""
        return SignIns(store, self._cipher, self.settings, actor)

    async def form(self, incoming: IncomingRequest) -> Form:
        """The form that a program sends.

        Raises:
            BadForm: it names something twice.
        """
        return pairs_in(await incoming.body(MOST_FORM_BYTES))

    def count_begun(self, incoming: IncomingRequest) -> None:
        """Count a sign-in that begins.

        Raises:
            Busy: the address begins too many sign-ins, which would leave no room for others.
        """
        if self._begun.count(counted(self.address(incoming)), MOST_BEGUN):
            raise Busy

    def address(self, incoming: IncomingRequest) -> str:
        """The address of the client, behind the proxies that are trusted."""
        return self._proxies.client(incoming.address, incoming.headers)


def checked(handler: Handler) -> Handler:
    """A handler that answers a request that is not as OAuth wants it."""

    async def serve(incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        try:
            await handler(incoming, caller, record)
        except BadForm as error:
            refuse(incoming, 400, "invalid_request", str(error))

    return serve


def pairs_in(data: bytes) -> Form:
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


def needed(form: Form, name: str) -> str:
    """A member of a form.

    Raises:
        BadForm: it is missing.
    """
    if not form.get(name):
        raise BadForm(f"{name} is missing")
    return form[name]


def refuse(incoming: IncomingRequest, status: int, error: str, about: str = "") -> None:
    """Answer with an error of OAuth."""
    answer = {"error": error, **({"error_description": about} if about else {})}
    incoming.reply(status, to_json(answer), NO_STORE)
