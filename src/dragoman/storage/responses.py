"""The port of stored responses: what a Responses client may ask for later by an id.

A stored response is one turn: the items its client added, the items of the answer, and the id of
the turn before. A conversation is its turns, walked back. All methods may block, and are called
from one thread that is not the event loop's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
FINISHED: frozenset[ResponseStatus] = frozenset({"completed", "incomplete", "failed", "cancelled"})
"""Statuses that do not change any more."""


class Item(Struct, frozen=True):
    """An input or output item: its id, and the whole of it as JSON."""

    id: str
    body: bytes


class Items(Struct, frozen=True):
    """Items of one turn in order: a JSON array of them, and the ids by which single ones can be
    asked for."""

    body: bytes = b"[]"
    ids: tuple[str, ...] = ()


class StoredResponse(Struct, frozen=True, kw_only=True):
    """One turn. `owner` is the client's name: nobody else ever sees it.

    `response` is the response object as the client was shown it last, `input` the items this turn
    added to the conversation, `output` those of the answer with all reasoning state, also where
    the client was shown less. Times are Unix seconds. `background` tells that it runs, or ran,
    without its client, and `taken` how often another worker took it over: what the former one
    says of it does not count any more.
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
    """A background response whose worker died: the request that it answers, as it was kept, and the
    number of its last event, -1 if there is none."""

    stored: StoredResponse
    request: bytes
    last: int


class Turn(Struct, frozen=True):
    """What one turn of a conversation holds: items as JSON, of input and output."""

    id: str
    status: ResponseStatus
    input: tuple[bytes, ...]
    output: tuple[bytes, ...]


class StoredEvent(Struct, frozen=True):
    """One event of a background response: its sequence number, and the frame that tells it."""

    sequence: int
    frame: bytes


class TooLarge(Exception):
    """A response is larger than may be kept."""


class ResponseStore(Protocol):
    """Stored responses. Every method raises `StoreError` when the store cannot be used, and has
    then changed nothing. An id that is unknown, deleted, expired or another owner's is None."""

    def put(self, stored: StoredResponse, events: Sequence[StoredEvent] = ()) -> None:
        """Keep a response, or what became of one, and with it the last of its events. One that is
        finished does not change any more.

        Raises:
            TooLarge: it exceeds the limit of one, or of all even after older ones were dropped.
        """

    def put_all(
        self, some: Sequence[tuple[StoredResponse, Sequence[StoredEvent]]]
    ) -> list[TooLarge | None]:
        """Keep several in one transaction, each as by `put`. Returns for each why it is not kept,
        None if it is."""

    def get(self, response: str, owner: str) -> StoredResponse | None:
        """The response of that id."""

    def conversation(self, response: str, owner: str) -> list[Turn] | None:
        """The turns that lead to a response, and its own as the last. Turns that were deleted or
        expired are part of it as long as a later one is kept."""

    def item(self, item: str, owner: str) -> Item | None:
        """The item of that id, in whichever response."""

    def delete(self, response: str, owner: str) -> bool:
        """Drop a response. What later turns build on goes with the last of them. Returns whether
        there was one."""

    def keep_request(self, response: str, request: bytes) -> None:
        """Keep what a background response answers until that is finished."""

    def append(self, response: str, events: Sequence[StoredEvent], taken: int = 0) -> bool:
        """Add events of a background response, and say that whoever runs it is alive; `taken` is as
        in `StoredResponse`. Returns whether it is to go on: it was neither cancelled, deleted nor
        taken over since."""

    def events(self, response: str, owner: str, after: int, limit: int) -> list[StoredEvent]:
        """Events with a sequence number above `after`, in order."""

    def last_event(self, response: str, owner: str) -> StoredEvent | None:
        """The event with the highest sequence number."""

    def cancel(self, response: str, owner: str) -> StoredResponse | None:
        """Ask whoever runs a background response to stop. Returns it as it is then."""

    def claim(self, response: str, owner: str, claimed: bool) -> bool:
        """Say that the tool calls of a response are being answered, or, with False, that they were
        not after all. Returns whether that was not so already; a claim that led to no response in
        an hour does not count."""

    def save_owner(self, names: Sequence[str], owner: str, account: str, expires: float) -> None:
        """Remember which account's service keeps responses and items of these names."""

    def owning_account(self, name: str, owner: str) -> str | None:
        """The account whose service keeps what has that name."""

    def forget_owner(self, name: str, owner: str) -> None:
        """Forget where that is kept."""

    def leave(self, stored: StoredResponse) -> bool:
        """Say that nobody runs a background response any more. Returns whether another may take it
        over."""

    def take_over(self, now: float, most: int) -> list[LeftResponse]:
        """Take over background responses that nobody runs any more, so many at most: each is given
        out once, soon after its worker died, if its request was kept."""

    def abandoned(self, now: float) -> list[StoredResponse]:
        """Background responses that are not finished, that nobody runs any more, and that nobody
        may take over."""

    def sweep(self, now: float) -> int:
        """Drop what is too old, a bounded amount at a time. Returns how many were dropped."""

    def close(self) -> None:
        """Close the store. Harmless when it was closed before."""
