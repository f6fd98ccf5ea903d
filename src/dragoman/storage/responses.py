"""The port of stored responses, which a Responses client can request later by id.

A stored response is one turn: the items its client added, the items of the answer, and the id of
the previous turn. A conversation is its turns, followed backwards. All methods may block, and are
called from one thread other than the event loop's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from dragoman.storage.bound import BoundIds

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
FINISHED: frozenset[ResponseStatus] = frozenset({"completed", "incomplete", "failed", "cancelled"})
"""Final statuses."""


class Item(Struct, frozen=True):
    """An input or output item: its id, and all of it as JSON."""

    id: str
    body: bytes


class Items(Struct, frozen=True):
    """Items of one turn in order: a JSON array, and the ids by which single items can be
    requested."""

    body: bytes = b"[]"
    ids: tuple[str, ...] = ()


class StoredResponse(Struct, frozen=True, kw_only=True):
    """One turn. `owner` is the client's name: no other client ever sees it.

    `response` is the response object as last sent to the client, `input` the items this turn added
    to the conversation, `output` those of the answer with all reasoning state, even if the client
    received less. Times are Unix seconds. `background` says that it runs, or ran, without its
    client, and `taken` how often another worker took it over: later reports of the former worker
    are ignored.
    """

    id: str
    owner: str
    created: float
    expires: float
    status: ResponseStatus
    response: bytes
    previous: str | None = None
    input: Items = Items()
    output: Items = Items()
    background: bool = False
    taken: int = 0


class LeftResponse(Struct, frozen=True):
    """A background response whose worker died: the stored request, and the number of its last
    event, -1 for none."""

    stored: StoredResponse
    request: bytes
    last: int


class Turn(Struct, frozen=True):
    """One turn of a conversation: its input and output items as JSON."""

    id: str
    status: ResponseStatus
    input: tuple[bytes, ...]
    output: tuple[bytes, ...]


class StoredEvent(Struct, frozen=True):
    """One event of a background response: its sequence number and its frame."""

    sequence: int
    frame: bytes


class TooLarge(Exception):
    """A response is too large to be stored."""


class ResponseStore(Protocol):
    """Stored responses. Every method raises `StoreError` if the store cannot be used, and has then
    changed nothing. For an id that is unknown, deleted, expired or another owner's, the result is
    None."""

    bound: BoundIds
    """Ids that upstreams gave out."""

    def put(self, stored: StoredResponse, events: Sequence[StoredEvent] = ()) -> None:
        """Store a response, or its new state, together with its last events. A finished response
        does not change any more.

        Raises:
            TooLarge: it exceeds the limit of one, or of all even after older ones were dropped.
        """

    def put_all(
        self, some: Sequence[tuple[StoredResponse, Sequence[StoredEvent]]]
    ) -> list[TooLarge | None]:
        """Store several in one transaction, each as by `put`. Returns for each why it was not
        stored, None if it was."""

    def get(self, response: str, owner: str) -> StoredResponse | None:
        """The response of that id."""

    def conversation(self, response: str, owner: str) -> list[Turn] | None:
        """The turns that lead to a response, and its own as the last. Deleted and expired turns are
        included while a later one is stored."""

    def item(self, item: str, owner: str) -> Item | None:
        """The item of that id, in any response."""

    def delete(self, response: str, owner: str) -> bool:
        """Delete a response. Its turn is dropped with the last turn that follows it. Returns
        whether it existed."""

    def keep_request(self, response: str, request: bytes) -> None:
        """Store the request of a background response until that is finished."""

    def append(self, response: str, events: Sequence[StoredEvent], taken: int = 0) -> bool:
        """Add events of a background response, and record that its worker is alive; `taken` is as
        in `StoredResponse`. Returns whether it is to continue: it was neither cancelled, deleted
        nor taken over."""

    def events(self, response: str, owner: str, after: int, limit: int) -> list[StoredEvent]:
        """Events with a sequence number above `after`, in order."""

    def last_event(self, response: str, owner: str) -> StoredEvent | None:
        """The event with the highest sequence number."""

    def cancel(self, response: str, owner: str) -> StoredResponse | None:
        """Ask the worker of a background response to stop. Returns its present state."""

    def claim(self, response: str, owner: str, claimed: bool) -> bool:
        """Record that the tool calls of a response are being answered, or, with False, that they
        are not after all. Returns whether that is a change; a claim without a response within an
        hour expires."""

    def leave(self, stored: StoredResponse) -> bool:
        """Record that no worker runs a background response any more. Returns whether another may
        take it over."""

    def take_over(self, now: float, most: int) -> list[LeftResponse]:
        """Take over at most `most` background responses without a worker: each is returned once,
        soon after its worker died, if its request was stored."""

    def abandoned(self, now: float) -> list[StoredResponse]:
        """Unfinished background responses without a worker that no worker may take over."""

    def sweep(self, now: float) -> int:
        """Drop expired responses, a bounded number at a time. Returns how many were dropped."""

    def close(self) -> None:
        """Close the store. Safe to call twice."""
