"""Authentication of callers: client keys in either vendor's header."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.config.access_rules import ANYONE
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.http.addresses import parse
from dragoman.keys.ring import Caller, Denial, Denied, KeyRing
from dragoman.protocols import CODECS
from dragoman.protocols.base import Endpoint

__all__ = ["Caller", "Guessed", "Keyring", "presented_key"]


class Guessed(DragomanError):
    """The key is missing, or was never valid."""


class Unsettled(DragomanError):
    """An access token of a session, or signed with a key, that is not known here: it may become
    known."""


class Keyring:
    """Identifies callers by the keys in `ring`. Without any key, everyone may call, unless
    `requires_key`.

    Keys of the store change while the gateway runs: where there was one once, nobody is served
    without a key.
    """

    __slots__ = ("_anyone", "_requires_key", "ring")

    def __init__(self, ring: KeyRing, *, requires_key: bool = False) -> None:
        self.ring = ring
        self._requires_key = requires_key
        self._anyone = Caller(ANYONE)

    @property
    def is_open(self) -> bool:
        """Whether everyone may call."""
        return self.ring.is_empty and self.ring.is_loaded and not self._requires_key

    def identify(self, headers: Mapping[bytes, bytes], address: str = "") -> Caller:
        """The caller whose key is in `headers` (lower-case names), at `address` (empty for a Unix
        socket).

        The key is in the header of any protocol that has one, else in `Authorization: Bearer`.

        Raises:
            DragomanError: UNAUTHENTICATED, FORBIDDEN where the key may not be used from there, or
                OVERLOADED where the store's keys were not read yet; the message does not contain
                the key.
        """
        if self.ring.is_empty:
            if self.is_open:
                return self._anyone
            if not self.ring.is_loaded and presented_key(headers) is None:
                raise self._denied(Denial.UNKNOWN)
        key = presented_key(headers)
        if key is None:
            message = f"No API key was given. Send it as {' or '.join(_ways())}."
            raise Guessed(_unauthenticated(message))
        now = time.time()
        try:
            caller = self.ring.find(key, now)
            if caller.is_checked:
                caller.check(now, parse(address) if caller.asks_address else None)
        except Denied as error:
            raise self._denied(error.denial, str(error)) from None
        return caller

    def digest_in(self, headers: Mapping[bytes, bytes]) -> bytes | None:
        """The digest of the secret with which a request was let in; None if it has none, or a
        client secret in its place."""
        key = presented_key(headers)
        if key is None or key.startswith(SECRET_PREFIX):
            return None
        try:
            return self.ring.digest_of(key, time.time())
        except Denied:
            return None

    def named(
        self,
        name: str,
        digest: bytes | None = None,
        address: str | None = None,
    ) -> Caller:
        """The caller of that name, for work that was begun with its key, from an `address`, or from
        wherever if that is None. With a `digest` (see `digest_in`), only as long as that secret is
        good: an access token may have lapsed since, but not its session.

        Raises:
            DragomanError: as `identify`.
        """
        if self.is_open:
            return self._anyone
        caller = self.ring.caller(name)
        if caller is not None and digest and not self.ring.is_good(digest, time.time()):
            raise self._denied(Denial.ENDED)
        if caller is None:
            raise self._denied(Denial.UNKNOWN)
        at = parse(address) if address is not None and caller.asks_address else None
        for denial in caller.denials(time.time(), at):
            if denial is not Denial.ELSEWHERE or address is not None:
                raise self._denied(denial)
        return caller

    def _denied(self, denial: Denial, text: str = "") -> DragomanError:
        if denial is Denial.UNKNOWN and not self.ring.is_loaded:
            message = "The stored keys cannot be read now."
            return refusal(FaultKind.OVERLOADED, message, code="server_error")
        if denial is Denial.ELSEWHERE:
            return refusal(FaultKind.FORBIDDEN, f"The API key {denial.value}.")
        if denial in _OF_TOKENS:
            return _refused_token(denial, f"The access token {text or denial.value}.")
        fault = _unauthenticated(f"The API key {denial.value}.")
        return (Guessed if denial in _GUESSED else DragomanError)(fault)


def presented_key(headers: Mapping[bytes, bytes]) -> bytes | None:
    """The key that a client sent, None if there is none. The headers of a protocol win over
    `Authorization: Bearer`, which all have, and that over those of other vendors' SDKs."""
    own, of_clouds = _key_headers(tuple(CODECS))
    for name in own:
        if name in headers and (key := headers[name].strip()):
            return key
    if b"authorization" in headers:
        scheme, _, token = headers[b"authorization"].strip().partition(b" ")
        if scheme.lower() == b"bearer" and (key := token.strip()):
            return key
    for name in of_clouds:
        if name in headers and (key := headers[name].strip()):
            return key
    return None


def take_key(incoming: IncomingRequest, endpoint: Endpoint) -> None:
    """Move a key from the query of a request to a header of its protocol, if it has no other."""
    kept = []
    for part in incoming.query.split(b"&"):
        name, _, value = part.partition(b"=")
        if unquote_to_bytes(name) != endpoint.key_parameter.encode():
            kept.append(part)
        elif presented_key(incoming.headers) is None:
            incoming.headers[endpoint.key_headers[0]] = unquote_to_bytes(value)
    incoming.query = b"&".join(kept)


def query_without_keys(query: bytes) -> bytes:
    """The query without the parameters in which clients of any protocol send keys."""
    secret = {codec.endpoint.key_parameter.encode() for codec in CODECS.values()}
    parts = query.split(b"&")
    return b"&".join(
        part for part in parts if unquote_to_bytes(part.partition(b"=")[0]) not in secret
    )


PROTOCOLS = b"sec-websocket-protocol"
SECRET_PREFIX = b"ek_drg_"
"""How client secrets of realtime begin. SDKs of browsers refuse keys that do not begin as those of
the vendor do."""
_KEY_PROTOCOL = b"openai-insecure-api-key."


def take_protocol_key(incoming: IncomingRequest) -> None:
    """Move a key from the subprotocols that a handshake offers, where browsers send it, to a
    header, if it has no other."""
    kept = []
    for offered in incoming.headers[PROTOCOLS].split(b","):
        name = offered.strip()
        if not name.startswith(_KEY_PROTOCOL):
            kept.append(name)
        elif presented_key(incoming.headers) is None:
            incoming.headers[b"authorization"] = b"Bearer " + name[len(_KEY_PROTOCOL) :]
    incoming.headers[PROTOCOLS] = b", ".join(kept)


def without_keys(headers: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The headers in which no client sends a secret that every client may send."""
    own, of_clouds = _key_headers(tuple(CODECS))
    secret = {*own, *of_clouds, *_SECRET_HEADERS}
    return {name: value for name, value in headers.items() if name not in secret}


_SECRET_HEADERS = (b"authorization", b"proxy-authorization", b"cookie", b"sec-websocket-protocol")
"""Browsers' SDKs put keys into the last."""


@lru_cache(maxsize=8)
def _key_headers(protocols: tuple[str, ...]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The headers in which clients of these protocols send keys, and those of clouds' SDKs."""
    endpoints = [CODECS[protocol].endpoint for protocol in protocols]
    return (
        tuple(name for endpoint in endpoints for name in endpoint.key_headers),
        tuple(name for endpoint in endpoints for name in endpoint.cloud_key_headers),
    )


def _ways() -> list[str]:
    """The headers in which a key can be sent."""
    headers, _ = _key_headers(tuple(CODECS))
    return ["'Authorization: Bearer KEY'", *(f"'{name.decode()}: KEY'" for name in headers)]


def _refused_token(denial: Denial, message: str) -> DragomanError:
    if denial is Denial.NO_RULE:
        return refusal(FaultKind.FORBIDDEN, message)
    if denial is Denial.KEYS_AWAY:
        return Unsettled(Fault(FaultKind.OVERLOADED, message, code="server_error"))
    fault = _unauthenticated(message)
    if denial is Denial.SIGNED_OUT:
        return Unsettled(fault)
    return (DragomanError if denial is Denial.LAPSED else Guessed)(fault)


_GUESSED = (Denial.UNKNOWN, Denial.MISTYPED)
_OF_TOKENS = (
    Denial.LAPSED,
    Denial.UNSIGNED,
    Denial.FLAWED,
    Denial.KEYS_AWAY,
    Denial.NO_RULE,
    Denial.SIGNED_OUT,
)


def _unauthenticated(message: str) -> Fault:
    return Fault(FaultKind.UNAUTHENTICATED, message, code="invalid_api_key")
