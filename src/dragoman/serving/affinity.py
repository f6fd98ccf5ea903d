"""The conversation of a request, so that it can stay with one account: the one that has its prompt
cache and can read its reasoning.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from dragoman.canonical.blocks import Reasoning
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.requests import Request
from dragoman.protocols.base import AnswerNames, Codec
from dragoman.sse import Decoder
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
_MOST_CONVERSATIONS = 10_000


class ConversationKeys(Struct, frozen=True):
    """Digests that stand for one conversation.

    The account of the conversation is looked up under `lookup`; empty: any account may answer.
    Once an account has answered, it is remembered under the `aliases` as well. `named` is whether
    the client itself names its conversations. If it does not, two that begin alike have the
    same digests, and `account`, the one whose reasoning the request brings back, takes precedence
    over what is remembered; empty if none is known.
    """

    lookup: bytes = b""
    aliases: tuple[bytes, ...] = ()
    named: bool = False
    account: str = ""


NO_KEYS = ConversationKeys()


def conversation_keys(
    headers: Mapping[bytes, bytes], request: ClientRequest, client: str, upstream: str, native: bool
) -> ConversationKeys:
    """The digests of a request's conversation, for the client key `client` at `upstream`.

    The first of these that the request has identifies it: the answer it goes on from, where the
    upstream stores answers (`native`), since only the account that made it has it; a session
    header; the member in which clients of the protocol name their conversation; the beginning of
    the conversation, which is not looked up for its first request: an equal beginning is no reason
    to load the same account.
    """
    passthrough = request.codec.passthrough
    previous = _string_member(request, passthrough.continues) if native else ""
    named = b""
    if sessions := _ANY_SESSION.intersection(headers):
        session = headers[min(sessions, key=_SESSION_HEADERS.index)]
        named = digest(client, upstream, "session", session)
    elif key := _string_member(request, passthrough.conversation):
        named = digest(client, upstream, "cache", key.encode("utf-8", "replace"))
    if previous:
        return ConversationKeys(
            response_digest(client, upstream, previous), (named,) if named else (), named=True
        )
    if named:
        return ConversationKeys(named, named=True)
    beginning = request.beginning()
    found = digest(client, upstream, "beginning", beginning.text)
    return ConversationKeys(b"", (found,)) if beginning.is_all else ConversationKeys(found)


def reasoning_account(request: Request, origin: str) -> str:
    """The tag of the account that made the latest reasoning in a request for an upstream of the
    protocol `origin`; empty if the reasoning names none."""
    for turn in reversed(request.turns):
        for block in reversed(turn.blocks):
            if type(block) is Reasoning and block.opaque is not None:
                opaque = block.opaque
                if opaque.account and opaque.origin == origin:
                    return opaque.account
    return ""


def digest(client: str, upstream: str, kind: str, value: bytes) -> bytes:
    """16 bytes that identify a conversation and reveal nothing of it."""
    return hashlib.blake2b(_space(client, upstream, kind) + value, digest_size=16).digest()


@lru_cache(maxsize=1024)
def _space(client: str, upstream: str, kind: str) -> bytes:
    return f"{client}\0{upstream}\0{kind}\0".encode()


def response_digest(client: str, upstream: str, name: str) -> bytes:
    """The digest of a response's id."""
    return digest(client, upstream, "response", name.encode("utf-8", "replace"))


def names_in(codec: Codec, data: bytes) -> AnswerNames:
    """What an answer of a protocol is known by, from all of it or the beginning of its stream."""
    if not data.startswith(b"{"):
        frame = next(iter(Decoder().feed(data)), None)
        data = b"" if frame is None else frame.data
    return codec.translate.answer_names(data)


def _string_member(request: ClientRequest, name: str) -> str:
    if name not in request.members:
        return ""
    try:
        value = request.member(name)
    except InvalidRequest:
        return ""
    return value if isinstance(value, str) else ""


class ForeignReasoning:
    """How many pieces of reasoning at the beginning of each conversation were made by accounts that
    had it before. Needed where the reasoning itself does not name its account. Kept in the process;
    another worker learns of it by an upstream's refusal.
    """

    __slots__ = ("_foreign",)

    def __init__(self) -> None:
        self._foreign: OrderedDict[bytes, int] = OrderedDict()

    def count(self, key: bytes) -> int:
        """How many pieces of the conversation are not its account's."""
        return self._foreign.get(key, 0) if key else 0

    def record(self, key: bytes, pieces: int) -> None:
        """So many pieces were left out for the conversation's account."""
        if not key:
            return
        self._foreign[key] = pieces
        self._foreign.move_to_end(key)
        if len(self._foreign) > _MOST_CONVERSATIONS:
            self._foreign.popitem(last=False)
