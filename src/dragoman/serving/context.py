"""The context of one request: where it goes, what the client is sent, and the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from dragoman.accounts.pool import Lease, LeaseRequest
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.usage import Usage, consistent
from dragoman.edge.auth import Caller
from dragoman.edge.delivery import Delivery
from dragoman.edge.errors import Headers
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import InVain, Record, losses_header
from dragoman.prices.lookup import Charge
from dragoman.prices.rates import dollars
from dragoman.serving.affinity import NO_KEYS, ConversationKeys
from dragoman.serving.attempts import Attempts
from dragoman.serving.large import LargeBodies
from dragoman.serving.learnt import NOTHING, Corrected
from dragoman.serving.limits.budget_use import notice_headers
from dragoman.serving.limits.responses import budget_headers
from dragoman.serving.limits.use import amounts_spent
from dragoman.serving.plan import Plan
from dragoman.serving.recorder import AnswerRecorder
from dragoman.serving.searches import Rounds
from dragoman.translation import AnswerStream, Call, ClientRequest, Outcome
from dragoman.translation.estimate import (
    LONG_BODY,
    estimate_bytes,
    estimate_output,
    least_prompt,
    text_bytes,
)
from dragoman.translation.streams import completed

COST_HEADER = b"x-dragoman-cost-usd"
"""Header with the cost of a whole answer, in US dollars."""

FALLBACK_HEADER = b"x-dragoman-upstream"
"""Header that names the upstream when it is not that of the model's route."""


@dataclass(slots=True, eq=False)
class RequestContext:
    """What belongs to one request while it is served.

    - `recorder` records the answer, None if it is not to be stored.
    - `plan` is where the request goes and how, `call` the request as translated for it.
    - `attempts` decides what follows a failed attempt, None while there was none.
    - `has_choice`: more than one account of the plan's upstream can be asked.
    - `keys` are the keys of the conversation there, `wanted` the lease that it asks for, `only`
      the name of the one account that can answer, empty if any can.
    - `large` works on large bodies.
    - `is_called`: an upstream has the request, and has not failed.
    - `reading` is the stream that is read, also before anything of it is sent.
    - `stream` is the answer that the client is sent, once it has begun. `call` and `request`, which
      hold the bodies, are released then, or once more than thoughts was sent where another account
      may go on from these: a stream may be long. `asked` is how much they asked.
    - `least_prompt` are the tokens that an upstream counts at least if it reads a long prompt
      whole.
    - `rounds` are the further calls of the upstream where the model has searches made, else None.
    - `corrected` is what refusals have corrected of capabilities, by target, since the request was
      first translated for its plan.
    - `on_settled` is called once all is known that the request used, if it is set.
    - `thought` are the first events of an answer that broke off while it only thought.
    """

    incoming: IncomingRequest
    caller: Caller
    record: Record
    request: ClientRequest
    large: LargeBodies
    recorder: AnswerRecorder | None = None
    plan: Plan = field(init=False)
    wanted: LeaseRequest = field(init=False)
    only: str = field(init=False)
    call: Call = field(init=False)
    ledger: Ledger = field(init=False)
    keys: ConversationKeys = field(init=False)
    has_choice: bool = field(init=False)
    fell_back: bool = field(init=False)
    corrected: Corrected = field(init=False)
    attempts: Attempts | None = None
    is_called: bool = False
    rounds: Rounds | None = None
    outcome: Outcome = field(default_factory=Outcome)
    reading: AnswerStream | None = None
    delivery: Delivery | None = None
    stream: AnswerStream | None = None
    asked: int = field(init=False)
    least_prompt: int = field(init=False)
    thought: bytes = b""
    on_settled: Callable[[Record], object] | None = None
    _noted: Usage | None = None
    """The usage that is recorded, as it was reported."""

    def follow(self, plan: Plan, call: Call, *, is_fallback: bool = False) -> None:
        """Send the request where `plan` leads, translated as in `call`."""
        self.plan, self.wanted = plan, plan.wanted
        self.call = call
        self.corrected = NOTHING
        self.only = plan.only or ("" if self.recorder is None else self.recorder.only)
        self.fell_back = is_fallback
        self.keys, self.has_choice = NO_KEYS, False
        self.ledger = call.ledger
        record, target = self.record, plan.target
        record.upstream, record.upstream_model = target.upstream.name, target.model
        if self.delivery is not None:
            self.update_headers()

    def said(self) -> bytes:
        """What the client had a part in of all that the upstream was sent."""
        return b"\n".join(
            [self.call.body, self.plan.target.model.encode(), *self.incoming.headers.values()]
        )

    def update_headers(self) -> None:
        """Give the current headers to a stream whose head was not sent yet."""
        if self.delivery is not None:
            self.delivery.announce(self.headers())

    def headers(self) -> Headers:
        """Headers of the answer: the losses so far, the upstream if it is a fallback, what the
        answer costs where that is shown, once it is known, and how its client stands with its
        budgets."""
        headers = losses_header(tuple(self.ledger)) if self.ledger.losses else []
        if self.fell_back:
            headers.append((FALLBACK_HEADER, self.plan.upstream.name.encode()))
        charge, admitted = self.record.charge, self.record.admitted
        is_priced = charge is not None and charge.cost is not None
        if is_priced and self.plan.shows_cost:
            headers.append((COST_HEADER, dollars(self.record.cost or 0).encode()))
        if admitted is not None and admitted.rules.budgets:
            if is_priced and self.plan.shows_cost:
                headers += budget_headers(admitted, amounts_spent(admitted, self.record))
            headers += notice_headers(self.incoming, admitted, self.record)
        return headers

    def forget_attempt(self) -> None:
        """No upstream has the request: what a failed one reported is no part of the next answer."""
        self.outcome, self.reading, self.is_called = Outcome(), None, False

    def read_from(self, stream: AnswerStream) -> None:
        """The answer is read from `stream`."""
        self.reading, self.outcome = stream, stream.outcome

    def settle(self) -> None:
        """The request is over: what an upstream did for it without reporting it is estimated in the
        outcome, for whoever accounts for it, and all of it recorded."""
        outcome = self.outcome
        if outcome.finish is not None:
            self.record.finish = outcome.finish.reason
        unreported = 0 if self.reading is None else self.reading.unreported
        if self.is_called and (outcome.usage is None or not outcome.ended or unreported):
            self._estimate(outcome, unreported)
        self.note_usage()
        if self.ledger.losses:
            self.record.losses = tuple(self.ledger)
        if self.on_settled is not None:
            self.on_settled(self.record)

    def _estimate(self, outcome: Outcome, unreported: int = 0) -> None:
        """Complete the usage of an answer that was not reported whole. What was reported counts
        where it can be all of it: some report at an answer's beginning how long it is by then.
        `unreported` answers went before it, of which nothing was reported; each had the prompt at
        least."""
        output_bytes = outcome.text_bytes if self.reading is None else self.reading.text_bytes
        output, reported = estimate_output(output_bytes), outcome.usage
        if reported is not None and not unreported and output <= 2 * reported.output:
            return
        prompt = estimate_bytes(self._asked_bytes)
        usage = completed(reported, prompt, output)
        usage = replace(usage, input=usage.input + unreported * prompt)
        admitted = self.record.admitted
        has_left = self.incoming.gone and not self.incoming.is_moved
        if admitted is not None and has_left and not outcome.ended:
            # What else the upstream did is not known: all counts that was reserved for it.
            usage = admitted.expected.at_least(usage)
        outcome.usage, outcome.estimated = usage, True

    def note_usage(self) -> None:
        """Record what the answer used and what that costs, as far as it is known."""
        record, reported = self.record, self.outcome.usage
        if reported is None or reported is self._noted:
            return
        usage = consistent(self._believed(reported))
        charge = self._charge(usage)
        if charge.cost is None and charge.basis.prices:
            usage = self._believed(Usage())
            charge = self._charge(usage)
        self._noted = reported
        self._note_cut(reported)
        record.usage, record.charge, record.estimated = usage, charge, self.outcome.estimated

    def _note_cut(self, reported: Usage) -> None:
        """Report a prompt of which the upstream counts so little that it has cut it."""
        if self.stream is not None:
            least = self.least_prompt
        else:
            least = least_prompt(self.call.body, reported.input)
        if 0 < reported.input < least and not self.outcome.estimated:
            detail = (
                "the upstream counts much less than was sent: it has cut the conversation without a"
                " word, its window may be too small"
            )
            self.ledger.add("body", LossKind.CONTENT, detail)

    def _charge(self, usage: Usage) -> Charge:
        """What an answer costs: by the price of the model that answered, where the request named
        several; where it is not known which did, by that of the dearest."""
        plan, admitted, now = self.plan, self.record.admitted, time.time()
        charge = plan.quote.charge(usage, now)
        if admitted is None or not admitted.expected.named:
            return charge
        upstream, prices, answered = plan.upstream.name, plan.prices, self.record.answered[1]
        if answered == plan.target.model:
            return charge
        if answered:
            other = prices.charge(upstream, answered, usage, now)
            if other.cost is not None:
                return other
        others = [prices.charge(upstream, one, usage, now) for one in admitted.expected.named]
        return max([charge, *others], key=lambda one: one.cost or 0)

    def _believed(self, usage: Usage) -> Usage:
        """Usage with estimates for what cannot be: there is no prompt of no tokens, and no text."""
        if usage.input and usage.output:
            return usage
        output_bytes = self.outcome.text_bytes if self.reading is None else self.reading.text_bytes
        prompt, output = usage.input, usage.output or estimate_output(output_bytes)
        if not prompt:
            prompt = estimate_bytes(self._asked_bytes)
        if (prompt, output) != (usage.input, usage.output):
            self.outcome.estimated = True
        return replace(usage, input=prompt, output=output)

    @property
    def _asked_bytes(self) -> int:
        return self.asked if self.stream is not None else text_bytes(self.call.body)

    def note_in_vain(self, lease: Lease) -> None:
        """The answer of this lease was paid for and is of no use: record what it used."""
        if self.reading is not None and self.reading.thinks:
            self._estimate(self.outcome)
        record, usage = self.record, self.outcome.usage
        charge = None
        if usage is not None:
            usage = consistent(self._believed(usage))
            charge = self._charge(usage)
        model = record.upstream_model[:200]
        one = InVain(record.upstream, lease.account.name, model, usage, charge)
        record.in_vain = (*record.in_vain, one)

    def start_stream(self, stream: AnswerStream) -> None:
        """The client is sent `stream` from here on; no other account can be tried, unless it
        `may_go_on`."""
        self.stream = stream
        body = self.call.body
        self.asked = len(body) if len(body) <= LONG_BODY else text_bytes(body)
        self.least_prompt = least_prompt(body)

    @property
    def may_go_on(self) -> bool:
        """Whether another account may be asked if the stream breaks off while it only thinks."""
        return (
            self.call.passes_through
            and self.call.codec.passthrough.continuation is not None
            and self.recorder is None
        )

    def release(self) -> None:
        """No other account is tried: the bodies are let go, unless there may be further calls."""
        if self.rounds is None:
            del self.call, self.request

    def go_on_from(self, thought: bytes) -> None:
        """The stream broke off while it only thought: another goes on from its first events."""
        self.thought, self.stream = thought, None
