"""Which conversation a request belongs to, so that it can stay with one account: the one that holds
its prompt cache, and that can read its reasoning.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from dragoman.canonical.errors import InvalidRequest
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols.anthropic_messages.request_reader import threads_unsupported
from dragoman.translation import ClientRequest

_SESSION_HEADERS = (
    b"x-claude-code-session-id",
    b"session-id",
    b"session_id",
    b"thread-id",
    b"x-session-affinity",
    b"x-session-id",
    b"x-conversation-id",
    b"conversation_id",
)
"""Headers in which clients name their session, the first that is there counts: Claude Code's,
Codex's, opencode's, and what others use."""

_ANY_SESSION = frozenset(_SESSION_HEADERS)
_MOST_SEAMS = 10_000


class Pins(Struct, frozen=True):
    """Digests of one conversation.

    `pin` is where its account is looked up, empty while that does not matter; `also` are further
    ones under which the account is to be remembered once it has answered.
    """

    pin: bytes = b""
    also: tuple[bytes, ...] = ()


NO_PINS = Pins()


def pins_of(
    headers: Mapping[bytes, bytes], request: ClientRequest, client: str, upstream: str, native: bool
) -> Pins:
    """The digests of a request's conversation, for the client key `client` at `upstream`.

    The first of these names it: `previous_response_id` where the upstream stores responses
    (`native`), for only the account that made a response knows it; a session header;
    `prompt_cache_key`; what the conversation begins with, which is not looked up in its first
    request: an equal beginning is no reason to burden the same account.
    """
    previous = _text(request, "previous_response_id") if native else ""
    named = b""
    if not _ANY_SESSION.isdisjoint(headers):
        session = next(headers[name] for name in _SESSION_HEADERS if name in headers)
        named = digest(client, upstream, "session", session)
    elif key := _text(request, "prompt_cache_key"):
        named = digest(client, upstream, "cache", key.encode("utf-8", "replace"))
    if previous:
        return Pins(response_digest(client, upstream, previous), (named,) if named else ())
    if named:
        return Pins(named)
    beginning = request.beginning()
    found = digest(client, upstream, "beginning", beginning.text)
    return Pins(b"", (found,)) if beginning.is_all else Pins(found)


def digest(client: str, upstream: str, kind: str, value: bytes) -> bytes:
    """16 bytes that stand for a conversation, and tell nothing of it."""
    return hashlib.blake2b(_space(client, upstream, kind) + value, digest_size=16).digest()


@lru_cache(maxsize=1024)
def _space(client: str, upstream: str, kind: str) -> bytes:
    return f"{client}\0{upstream}\0{kind}\0".encode()


def response_digest(client: str, upstream: str, name: str) -> bytes:
    """The digest of a response's id."""
    return digest(client, upstream, "response", name.encode("utf-8", "replace"))


def check_thread(request: ClientRequest) -> None:
    """Refuse a conversation that one account of several would hold for itself.

    The requests that go on with it hold only what is new, so nothing would lead them there.

    Raises:
        InvalidRequest: in the words after which the SDKs go on with whole histories.
    """
    raw = request.members.get("thread")
    if raw is not None and bytes(raw) != b"null":
        raise threads_unsupported()


class _Identified(Struct):
    id: Any = None


_identified = decoder(_Identified)


def response_id(body: bytes) -> str:
    """The id of a whole response, empty if it has none."""
    try:
        name = _identified(body).id
    except JsonError:
        return ""
    return name if isinstance(name, str) else ""


def _text(request: ClientRequest, name: str) -> str:
    if name not in request.members:
        return ""
    try:
        value = request.member(name)
    except InvalidRequest:
        return ""
    return value if isinstance(value, str) else ""


class Seams:
    """Where conversations went over to another account: how many pieces of reasoning at their
    beginning were made by accounts before. Where nothing tells whose a piece is, this does. Kept
    in the process; a worker that does not know of a seam learns of it by an upstream's refusal.
    """

    __slots__ = ("_seams",)

    def __init__(self) -> None:
        self._seams: OrderedDict[bytes, int] = OrderedDict()

    def at(self, pin: bytes) -> int:
        """The pieces of the conversation that are not its account's."""
        return self._seams.get(pin, 0) if pin else 0

    def note(self, pin: bytes, pieces: int) -> None:
        """So many pieces were left out for the conversation's account."""
        if not pin:
            return
        self._seams[pin] = pieces
        self._seams.move_to_end(pin)
        if len(self._seams) > _MOST_SEAMS:
            self._seams.popitem(last=False)
