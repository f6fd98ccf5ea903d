"""One request to an endpoint while it is served."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import Fault
from dragoman.canonical.losses import Ledger
from dragoman.canonical.usage import Units, Usage, consistent
from dragoman.edge.auth import Caller
from dragoman.edge.delivery import Delivery
from dragoman.edge.errors import Headers
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record, losses_header
from dragoman.endpoints.members import Members
from dragoman.endpoints.pricing import charge_of
from dragoman.endpoints.table import Row
from dragoman.endpoints.uploads import Upload
from dragoman.endpoints.usage import Measured, with_images
from dragoman.prices.rates import dollars
from dragoman.serving.attempts import Attempts
from dragoman.serving.context import COST_HEADER, FALLBACK_HEADER
from dragoman.serving.limits.responses import budget_headers
from dragoman.serving.limits.use import amounts_spent
from dragoman.serving.plan import Plan
from dragoman.serving.resolver import LONGEST_MODEL
from dragoman.translation.estimate import estimate_bytes

_NO_UNITS = Units()


@dataclass(slots=True, eq=False)
class EndpointCall:
    """One request to the endpoint `row`, whose path has these `parameters`.

    - `members` are the top-level members of its body, decoded when they are asked for, `size` is
      how many bytes it has.
    - `model` is the client's name of the model, once that is found; `plans` are where it may go, in
      order, and `plan` is the one that is asked.
    - `only` is the name of the one account that may be asked, `first` of the one that is asked
      before others, empty for any.
    - `upload` is the body that is passed on while it comes, None for one that is held.
    - `is_called`: an upstream has the request, and has not failed.
    - `measured` is what it used, None until an upstream has reported it. `events` of its answer
      were passed on by then.
    - `takes_numbers`: the upstream of the plan refuses embeddings in base64.
    """

    row: Row
    parameters: Mapping[str, str]
    incoming: IncomingRequest
    caller: Caller
    record: Record
    model: str = ""
    members: Members = field(default_factory=partial(Members, {}))
    size: int = 0
    stream: bool = False
    only: str = ""
    first: str = ""
    upload: Upload | None = None
    plans: Sequence[Plan] = ()
    plan: Plan = field(init=False)
    attempts: Attempts | None = None
    delivery: Delivery | None = None
    ledger: Ledger = field(default_factory=Ledger)
    is_called: bool = False
    measured: Measured | None = None
    events: int = 0
    takes_numbers: bool = False
    _fell_back: bool = False
    _noted: Measured | None = None
    """What is recorded of it."""

    @property
    def can_repeat(self) -> bool:
        """Whether the body can be sent again, where the row allows that."""
        return self.upload is None or self.upload.can_repeat

    def names(self, model: str) -> None:
        """The client names this model."""
        self.model, self.record.model = model, model[:LONGEST_MODEL]

    def follow(self, plan: Plan) -> None:
        """Send the request where `plan` leads."""
        self.plan, self.ledger, self.takes_numbers = plan, Ledger(), False
        self._fell_back = plan is not self.plans[0]
        record, target = self.record, plan.target
        record.upstream, record.upstream_model = target.upstream.name, target.model

    @property
    def wants_usage(self) -> bool:
        """Whether the client asked for the usage in its stream."""
        options = self.members.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    def begins(self, lease: Lease) -> None:
        """A good answer begins: the attempt is not ended any more by its time limit."""
        now = time.perf_counter()
        self.record.first_at = now
        if self.attempts is not None:
            self.attempts.begun()
        lease.began(now - self.record.sent_at, stream=self.stream)

    def forget_attempt(self) -> None:
        """No upstream has the request: what a failed one reported is no part of the next answer."""
        self.is_called, self.measured, self.events = False, None, 0

    def measure(self, answer: Mapping[str, Any]) -> None:
        """Record the usage that an answer, or an event of one, reports."""
        measured = None if self.row.usage is None else self.row.usage(answer)
        if measured is not None and self.row.unit == "characters":
            characters = self.row.asked(self.members).units.characters
            measured = replace(measured, units=replace(measured.units, characters=characters))
        if measured is not None and self.measured is not None and self.row.unit == "images":
            measured = with_images(self.measured, measured)
        self.measured = measured or self.measured

    def settle(self) -> None:
        """The request is over: what it used is recorded, else estimated."""
        self.note_usage()
        self.record.losses = tuple(self.ledger)

    def note_usage(self) -> None:
        """Record what the request used and what that costs, as far as it is known."""
        if self.measured is None and self.is_called:
            self.measured = self._estimated()
        measured, record, plan = self.measured, self.record, self.plan
        if measured is None or measured is self._noted:
            return
        self._noted = measured
        usage = consistent(measured.usage)
        if usage is not measured.usage:
            measured = replace(measured, usage=usage)
        record.usage, record.estimated = usage, measured.estimated
        if measured.units != _NO_UNITS:
            record.units = measured.units
        record.charge = charge_of(self.row, plan, measured, time.time())

    def _estimated(self) -> Measured:
        asked = self.row.asked(self.members)
        if self.row.unit != "tokens":
            return asked
        usage = Usage(input=estimate_bytes(self.size), output=self.events)
        admitted = self.record.admitted
        if admitted is not None and self.incoming.gone:
            # What else the upstream did is not known: all counts that was reserved for it.
            usage = admitted.expected.at_least(usage)
        return Measured(usage, asked.units, estimated=True)

    def headers(self) -> Headers:
        """Headers of the answer: the losses, the upstream if it is a fallback, and where that is
        shown what the answer costs, once it is known."""
        headers = losses_header(tuple(self.ledger)) if self.ledger else []
        if self._fell_back:
            headers.append((FALLBACK_HEADER, self.plan.upstream.name.encode()))
        record = self.record
        if self.plan.shows_cost and record.charge is not None and record.charge.cost is not None:
            headers.append((COST_HEADER, dollars(record.cost or 0).encode()))
            if record.admitted is not None:
                spent = amounts_spent(record.admitted, record)
                headers += budget_headers(record.admitted, spent)
        return headers

    def fail(self, fault: Fault) -> None:
        """Answer with an error in the client's shape."""
        self.record.fail(fault)
        self.incoming.fail(fault)
