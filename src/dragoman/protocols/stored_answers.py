"""How answers of a protocol are stored, shown again and continued: what the response store needs to
know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec import Raw, Struct

from dragoman.canonical.errors import DragomanError, Fault, InvalidRequest
from dragoman.canonical.options import Options
from dragoman.protocols.fields import JsonObject
from dragoman.sse import Frame


class GivenItems(Struct, frozen=True):
    """The items that a request's input adds to the conversation: a JSON array as received, their
    ids, and the positions and ids of references to stored items."""

    body: bytes = b"[]"
    ids: tuple[str, ...] = ()
    references: tuple[tuple[int, str], ...] = ()


class NumberedEvent(NamedTuple):
    """An event of an answer that is made in the background: its number, and its data with that
    number in it."""

    number: int
    data: bytes


class AnswerCollector(Protocol):
    """What puts an answer together from the events of its stream, where the last one does not
    repeat it."""

    def take(self, frame: Frame) -> None:
        """Take the next event."""
        ...

    def items(self) -> bytes:
        """The items of the answer, as a JSON array."""
        ...


class StoredAnswers(Struct, frozen=True, kw_only=True):
    """The stored answers of one protocol, for its clients."""

    previous: str
    """Member with the id of the answer that a request continues."""
    items: str
    """Member of an answer with its items."""
    answer: str
    """Member of an event with the answer."""
    ends: frozenset[bytes]
    """Names of the events that end a stream with the answer."""
    given: Callable[[Raw | None], GivenItems | None]
    """The items of a request's input; None if that is none, which the request's reader reports."""
    whole: Callable[[Mapping[str, Raw], Iterable[bytes], GivenItems], dict[str, Raw]]
    """The members of a request as if its client had sent the whole conversation: earlier items as
    JSON without brackets, and those that it gave."""
    unstored: Callable[[Mapping[str, Raw]], dict[str, Raw]]
    """The members of a request for a service that is not to store its answer."""
    asks_service: Callable[[Mapping[str, Raw]], bool] = lambda members: False
    """Whether any service would take the members as a wish that it stores the answer."""
    previous_not_found: Callable[[str], DragomanError]
    """The error for an answer to be continued that is not there."""
    not_found: Callable[[str, str], DragomanError]
    """The error for an answer of that id that is not there, and why, if that is known."""
    queued: Callable[[str, int, JsonObject], JsonObject]
    """The answer to a queued request: its id, its time, and the client's body."""
    failed: Callable[[Fault], JsonObject]
    """The members that tell why an answer failed, beside its status."""
    number: Callable[[bytes, int, int], NumberedEvent | None]
    """The event in some data, by the number of the one before, and what its own number, if it has
    one, is too low by; None if it cannot be numbered."""
    last: Callable[[JsonObject, int], bytes]
    """The last event, of that number, of the stream of an answer that had none."""
    done: Callable[[Options], bytes] = lambda options: b""
    """What ends a stream after its last event."""
    collector: Callable[[], AnswerCollector] | None = None
    """None if the last event of a stream has the whole answer."""
    read_after: Callable[[Mapping[str, str]], int]
    """The number of the event after which a client wants the stream of an answer, from the query;
    -1 for all of it. Raises InvalidRequest."""
    unknown_event: Callable[[], InvalidRequest] | None = None
    """The error for an event to continue after that the stream does not have; None if nothing
    follows such a one."""
    shown: Callable[[JsonObject, bytes, Mapping[str, str]], JsonObject] | None = None
    """A stored answer as a client gets it by its id, from its input as JSON and the query; None if
    it is as it was."""
    deleted: Callable[[str], JsonObject]
    """What a client receives for a deleted answer."""
    cancels_finished: bool = False
    """Whether to cancel an answer that is over does nothing; otherwise it is an error."""


def whole_of(
    members: Mapping[str, Raw], previous: str, earlier: Iterable[bytes], given: GivenItems
) -> dict[str, Any]:
    """The function behind `StoredAnswers.whole` where the items of a request are its `input`."""
    whole = {name: raw for name, raw in members.items() if name != previous}
    own = given.body[1:-1]
    pieces = [*earlier, own] if own.strip() else earlier
    whole["input"] = Raw(b"[%b]" % b",".join(pieces))
    return whole
