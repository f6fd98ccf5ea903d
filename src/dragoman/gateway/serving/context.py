"""One request on its way: where it goes, what the client is being shown, and what became of it."""

from __future__ import annotations

from typing import Protocol

from dragoman.accounts.pool import Lease
from dragoman.gateway.edge.auth import Caller
from dragoman.gateway.edge.delivery import Delivery
from dragoman.gateway.edge.errors import Headers
from dragoman.gateway.edge.record import Record, losses_header
from dragoman.gateway.edge.visit import Visit
from dragoman.gateway.serving.affinity import NO_KEYS
from dragoman.gateway.serving.attempts import Attempts
from dragoman.gateway.serving.routing import Target
from dragoman.translation import AnswerStream, Call, ClientRequest, Outcome

FALLBACK_HEADER = b"x-dragoman-upstream"
"""Header that names the upstream when it is not that of the model's route."""


class AnswerRecorder(Protocol):
    """Whoever stores an answer, or knows who does. `only` is the one account that can answer, empty
    if any can; `response_id` the id that the response is to have, None if it brings its own."""

    @property
    def only(self) -> str: ...

    @property
    def response_id(self) -> str | None: ...

    async def begun(self, account: str, answer_id: str) -> None:
        """The account of that name answers by that id, which the client was not told yet."""

    async def whole(self, body: bytes) -> bytes:
        """An answer is whole. Returns what the client is to be given."""

    async def stream(self, data: bytes) -> bytes:
        """These are the last events of a stream. Returns what the client is to be given."""


class RequestContext:
    """What belongs to one request on its way. `recorder` stores its answer, None if it is not to be
    stored.

    `target` is where it goes now, `call` how it is said there. There, `has_choice` tells whether
    more than one account can be asked, and `keys` are the digests of the conversation. `stream` is
    what the client is being shown, once it has begun; `call` and `request`, which hold the bodies,
    are let go then: a stream may be long.
    """

    __slots__ = (
        "attempts",
        "call",
        "caller",
        "delivery",
        "fell_back",
        "has_choice",
        "keys",
        "ledger",
        "outcome",
        "record",
        "recorder",
        "request",
        "stream",
        "target",
        "visit",
    )

    def __init__(
        self,
        visit: Visit,
        caller: Caller,
        record: Record,
        request: ClientRequest,
        attempts: Attempts,
        recorder: AnswerRecorder | None = None,
    ) -> None:
        self.visit = visit
        self.caller = caller
        self.record = record
        self.request = request
        self.attempts = attempts
        self.recorder = recorder
        self.delivery: Delivery | None = None
        self.stream: AnswerStream | None = None
        self.outcome = Outcome()
        self.fell_back = False
        self.has_choice = False
        self.keys = NO_KEYS

    def retarget(self, target: Target, call: Call) -> None:
        """The request goes to `target`, as `call` says it."""
        self.target = target
        self.call = call
        self.ledger = call.ledger
        record = self.record
        record.upstream, record.upstream_model = target.upstream.name, target.model
        self.update_headers()

    def update_headers(self) -> None:
        """The headers have changed: a stream whose head is not out yet will have them."""
        if self.delivery is not None:
            self.delivery.announce(self.headers())

    def headers(self) -> Headers:
        """The headers of the answer: what was lost so far, and who gives it if that is not whom
        the route names."""
        headers = losses_header(tuple(self.ledger))
        if self.fell_back:
            headers.append((FALLBACK_HEADER, self.target.upstream.name.encode()))
        return headers

    def remember_account(self, lease: Lease) -> None:
        """The account of the lease has answered: the conversation is with it."""
        for digest in self.keys.aliases:
            lease.pin(digest)

    def start_stream(self, stream: AnswerStream) -> None:
        """From here on the client is shown `stream`; no other account can be tried."""
        self.stream = stream
        del self.call, self.request
