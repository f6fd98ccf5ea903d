"""The context of one request: where it goes, what the client is sent, and the outcome."""

from __future__ import annotations

from dragoman.accounts.pool import Lease
from dragoman.gateway.edge.auth import Caller
from dragoman.gateway.edge.delivery import Delivery
from dragoman.gateway.edge.errors import Headers
from dragoman.gateway.edge.incoming import IncomingRequest
from dragoman.gateway.edge.record import Record, losses_header
from dragoman.gateway.serving.affinity import NO_KEYS
from dragoman.gateway.serving.attempts import Attempts
from dragoman.gateway.serving.recorder import AnswerRecorder
from dragoman.gateway.serving.routing import Target
from dragoman.translation import AnswerStream, Call, ClientRequest, Outcome

FALLBACK_HEADER = b"x-dragoman-upstream"
"""Header that names the upstream when it is not that of the model's route."""


class RequestContext:
    """What belongs to one request while it is served.

    - `recorder` records the answer, None if it is not to be stored.
    - `target` is where the request goes, `call` the request as translated for it.
    - `has_choice`: more than one account of the target's upstream can be asked.
    - `keys` are the keys of the conversation there.
    - `stream` is the answer that the client is sent, once it has begun. `call` and `request`, which
      hold the bodies, are released then: a stream may be long.
    """

    __slots__ = (
        "attempts",
        "call",
        "caller",
        "delivery",
        "fell_back",
        "has_choice",
        "incoming",
        "keys",
        "ledger",
        "outcome",
        "record",
        "recorder",
        "request",
        "stream",
        "target",
    )

    def __init__(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        request: ClientRequest,
        attempts: Attempts,
        recorder: AnswerRecorder | None = None,
    ) -> None:
        self.incoming = incoming
        self.caller = caller
        self.record = record
        self.request = request
        self.attempts = attempts
        self.recorder = recorder
        self.delivery: Delivery | None = None
        self.stream: AnswerStream | None = None
        self.outcome = Outcome()
        self.has_choice = False
        self.keys = NO_KEYS

    def retarget(self, target: Target, call: Call, *, is_fallback: bool = False) -> None:
        """Send the request to `target`, translated as in `call`."""
        self.target = target
        self.call = call
        self.fell_back = is_fallback
        self.ledger = call.ledger
        record = self.record
        record.upstream, record.upstream_model = target.upstream.name, target.model
        self.update_headers()

    def update_headers(self) -> None:
        """Give the current headers to a stream whose head was not sent yet."""
        if self.delivery is not None:
            self.delivery.announce(self.headers())

    def headers(self) -> Headers:
        """Headers of the answer: the losses so far, and the upstream if it is a fallback."""
        headers = losses_header(tuple(self.ledger)) if self.ledger else []
        if self.fell_back:
            headers.append((FALLBACK_HEADER, self.target.upstream.name.encode()))
        return headers

    def remember_account(self, lease: Lease) -> None:
        """The account of the lease has answered: remember it for the whole conversation."""
        for key in self.keys.aliases:
            lease.pin(key)

    def start_stream(self, stream: AnswerStream) -> None:
        """The client is sent `stream` from here on; no other account can be tried."""
        self.stream = stream
        del self.call, self.request
