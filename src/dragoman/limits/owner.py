"""The owner of the limits of one machine. Pure: messages and the time are given.

- A request is admitted at all of its limits or at none. What it may come to is reserved, and is
  either used or free again once it is settled. What is used and what is reserved together never
  exceed a limit, so neither does what is admitted.
- Requests count as used from the moment they are admitted, and are taken back if no upstream was
  reached. Tokens and costs are reserved while a request is under way, and used once it is over.
- A worker whose connection has ended has nothing under way: what it had reserved is free again.
  What it had settled stays used as far as rows of usage tell of it: what was in no batch that was
  being written is taken back; of a batch that was, the store tells whether it was written.
- Where machines share limits, each is lent slices of them and lends on to its workers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from dragoman.config.limits import Limit
from dragoman.config.windows import Rolling, Window
from dragoman.limits.balances import Balance, Slice
from dragoman.limits.counters import CounterState
from dragoman.limits.messages import (
    Admit,
    Asked,
    Claim,
    Define,
    Defined,
    Granted,
    Look,
    Reached,
    Refused,
    Restore,
    Retire,
    Settle,
    SharedState,
    State,
    States,
    Unknown,
    Writing,
)

MOST_AMOUNT: Final = 10**16
"""What is counted at once at most, whatever an upstream reports: sums must fit 64 bits."""

LEAST_OUTPUT: Final = 256
"""Tokens of output for which a request that is clamped is still worth sending."""

SHARES: Final = (50, 80, 100)
"""Percent of a limit that are reported when they are reached."""

_HOUR_S: Final = 3600

_MOST_IDLE: Final = 100_000
"""Balances from which on idle ones are dropped."""


_Amounts = dict[tuple[int, int], int]
"""Amounts by the number of the limit and the second in which they were counted as used, 0 of those
that are not: what is no longer in a window cannot be taken back from it."""


class _Peer(Struct):
    """What one worker has: what it has reserved; what it has settled that is in no row of usage,
    and what of that is being written, by the writer of this name."""

    reserved: _Amounts = field(default_factory=dict)
    settled: _Amounts = field(default_factory=dict)
    writing: _Amounts = field(default_factory=dict)
    writer: str = ""
    mark: float = 0.0


class _Doubt(Struct, frozen=True):
    """What a writer that is gone may have written after its batch with this mark."""

    mark: float
    amounts: _Amounts


class Owner:
    """The limits of one machine. `make_balance` makes that of a limit from a number, the name of
    its ledger and the limit; it is another where machines share limits. Limits are numbered from
    `first` on."""

    def __init__(
        self, make_balance: Callable[[int, str, Limit], Balance] = Balance, first: int = 1
    ) -> None:
        self.balances: dict[int, Balance] = {}
        self._make_balance = make_balance
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._last_number = first - 1
        self._most = _MOST_IDLE
        """Balances from which on idle ones are looked for: of all, so not for each that is new."""
        self._peers: dict[object, _Peer] = {}
        self._doubts: dict[str, _Doubt] = {}
        self._retired: dict[int, None] = {}
        """Slices of limits that are in force no more."""
        self._dropped: list[Slice] = []
        self._inherited: dict[str, CounterState] = {}
        self._stale: set[int] = set()
        """Limits of which rows of usage tell more than is counted here."""
        self.reached: list[Reached] = []
        """Shares of limits that were reached, until somebody takes them."""

    def define(self, message: Define, now: float) -> Defined:
        """See `Define`."""
        numbers, empty = [], []
        for name, limit in message.limits:
            number = self._numbers.get(name)
            if number is None:
                if len(self.balances) >= self._most:
                    self._drop(list(self.balances), now)
                    self._most = max(_MOST_IDLE, 2 * len(self.balances))
                self._last_number = number = self._last_number + 1
                self._numbers[name], self._names[number] = number, name
                self.balances[number] = self._make_balance(number, name, limit)
            balance = self.balances[number]
            balance.limit = limit
            if isinstance(balance, Slice):
                balance.is_retired = False
                self._retired.pop(number, None)
            numbers.append(number)
            if not balance.is_restored:
                empty.append(number)
        return Defined(tuple(numbers), tuple(empty))

    def restore(self, message: Restore, now: float) -> None:
        """See `Restore`: whoever comes first tells."""
        balance = self.balances.get(message.number)
        if balance is None or balance.is_restored:
            return
        balance.is_restored = True
        self._stale.discard(message.number)
        counted, known = balance.used(now), balance.counter.state()
        balance.counter.restore(message.used, now)
        inherited = self._inherited.pop(balance.name, None)
        if inherited is not None:
            balance.counter.take(inherited)
        for peer in self._peers.values():
            # What is in no row yet, if it was counted before.
            balance.use(now, _sum_of(peer.settled, message.number))
            if balance.counts_at_once:
                balance.use(now, _sum_of(peer.reserved, message.number))
        for doubt in self._doubts.values():
            # Rows may tell of it or not; it is taken back if it was not written.
            balance.use(now, _sum_of(doubt.amounts, message.number))
        if balance.used(now) < counted:
            # Of a batch that was written meanwhile, or is being written, rows did not tell yet.
            balance.counter.take(known)

    def inherit(self, states: Mapping[str, CounterState]) -> None:
        """Go on from the counters of an owner before, as `short_windows` returned them."""
        self._inherited.update(states)

    def read_anew(self, ended: Mapping[str, CounterState], now: float) -> None:
        """The gateway before this one has ended, beside which this one has counted: what it counted
        is in rows of usage, which are read once no batch of them is being written; of short windows
        it is in `ended`."""
        rest = dict(ended)
        for number, balance in self.balances.items():
            if isinstance(balance, Slice):
                continue
            if is_short(balance.window):
                if (state := rest.pop(balance.name, None)) is not None:
                    balance.counter.merge(state, now)
            elif balance.is_restored:
                self._stale.add(number)
        self._inherited.update(rest)
        self._begin_reading(self._stale)

    def _begin_reading(self, numbers: Iterable[int]) -> None:
        """Have rows of usage read of those of these limits that are stale: whoever asks next does
        it. What is in a batch that is being written may be in rows or not, so it is waited for."""
        written = {number for peer in self._peers.values() for number, _ in peer.writing}
        for number in self._stale.intersection(numbers) - written:
            self.balances[number].is_restored = False

    def short_windows(self, now: float) -> dict[str, CounterState]:
        """The counters of windows of which rows of usage cannot tell."""
        return {
            one.name: one.counter.state()
            for one in self.balances.values()
            if isinstance(one.window, Rolling) and is_short(one.window) and one.counter.advance(now)
        }

    def retire(self, message: Retire) -> None:
        """See `Retire`."""
        for number in message.numbers:
            balance = self.balances.get(number)
            if isinstance(balance, Slice):
                balance.is_retired = True
                self._retired[number] = None
            elif balance is not None:
                # What rows of usage cannot tell is only known here.
                balance.is_restored = balance.is_restored and is_short(balance.window)

    def take_dropped(self, now: float) -> Sequence[Slice]:
        """Drop the slices of limits that are in force no more, once their use is reported and
        nothing is held of them. Returns those that were dropped since the last call."""
        if self._retired:
            self._drop(list(self._retired), now)
        dropped, self._dropped = self._dropped, []
        return dropped

    def admit(self, peer: object, message: Admit, now: float) -> Granted | Refused | Unknown:
        """See `Admit`. Of several limits that refuse, the one that does so longest is reported:
        a client that waits for it is not refused by another."""
        balances: list[Balance] = []
        amounts: list[int] = []
        for claim in message.claims:
            balance = self.balances.get(claim.number)
            if balance is None or not balance.is_restored:
                return Unknown()
            balance.amount, balance.enforced = claim.most, claim.enforced
            balances.append(balance)
            amounts.append(claim.amount)
        clamped = 0
        if message.longest:
            output, clamped = fitting_output(message, [one.left_of_all(now) for one in balances])
            amounts = [_amount_of(claim, output, message.output) for claim in message.claims]
        refused: Refused | None = None
        before: list[int] = []
        exceeded: list[int] = []
        for balance, amount in zip(balances, amounts, strict=True):
            used = balance.used(now)
            if amount > balance.room(used, now):
                place = len(before)
                if not balance.enforced:
                    exceeded.append(place)
                elif refused is None or balance.free_at(now, amount) > refused.free_at:
                    free_at, left_of_all = balance.free_at(now, amount), balance.left_of_all(now)
                    resets_at = balance.resets_at(now)
                    refused = Refused(place, amount, left_of_all, used, free_at, resets_at)
            before.append(used)
        if refused is not None:
            return refused
        held, second = self._peer(peer).reserved, int(now)
        left, after = [], []
        for balance, amount, used in zip(balances, amounts, before, strict=True):
            key = balance.number, 0
            if balance.counts_at_once:
                key = balance.number, second
                self._use(balance, now, amount)
                used += amount
            else:
                balance.reserved += amount
            held[key] = held.get(key, 0) + amount
            after.append(used)
            left.append(balance.amount - used - balance.elsewhere - balance.reserved)
        return Granted(now, tuple(amounts), tuple(left), tuple(after), clamped, tuple(exceeded))

    def amounts(self, message: Admit, now: float) -> list[tuple[Balance, int]]:
        """What a request comes to at each of its limits."""
        balances = [self.balances[claim.number] for claim in message.claims]
        output, _ = fitting_output(message, [one.left_of_all(now) for one in balances])
        return [
            (balance, _amount_of(claim, output, message.output))
            for balance, claim in zip(balances, message.claims, strict=True)
        ]

    def settle(self, peer: object, message: Settle, now: float) -> None:
        """See `Settle`."""
        known = self._peer(peer) if message.is_stored else self._peers.get(peer, _Peer())
        held, settled = known.reserved, known.settled
        for one in message.limits:
            balance = self.balances.get(one.number)
            if balance is None:
                continue
            counts_at_once, spent = balance.counts_at_once, min(one.spent, MOST_AMOUNT)
            key = one.number, int(message.at) if counts_at_once else 0
            # Less than it says if it was reserved over a connection that has ended.
            reserved = held.pop(key, 0)
            if reserved > one.reserved:
                held[key], reserved = reserved - one.reserved, one.reserved
            if counts_at_once:
                if reserved > spent:
                    balance.take_back(message.at, reserved - spent)
                elif spent > reserved:
                    self._use(balance, now, spent - reserved)
            else:
                balance.reserved -= reserved
                if balance.window is None:
                    continue
                key = one.number, int(now)
                self._use(balance, now, spent)
            if message.is_stored and spent:
                settled[key] = settled.get(key, 0) + spent

    def writing(self, peer: object, message: Writing) -> None:
        """See `Writing`."""
        known = self._peer(peer)
        known.writer, known.mark = message.writer, message.mark
        known.writing, known.settled = known.settled, {}
        if self._stale:
            for number, _ in known.writing:
                if number in self._stale:
                    # Rows that are being read may tell of it or not: they are not taken.
                    self.balances[number].is_restored = True

    def written(self, peer: object, *, done: bool) -> None:
        """See `Written`."""
        known = self._peer(peer)
        if not done:
            for place, amount in known.writing.items():
                known.settled[place] = known.settled.get(place, 0) + amount
        written, known.writing = known.writing, {}
        if self._stale:
            self._begin_reading([number for number, _ in written])

    @property
    def doubts(self) -> Collection[str]:
        """Writers that are gone of which it is not known whether their latest batch was written."""
        return self._doubts.keys()

    def resolve(self, writer: str, mark: float) -> None:
        """The latest batch of a writer that is gone has this mark in the store."""
        doubt = self._doubts.pop(writer, None)
        if doubt is not None and doubt.mark == mark:
            self._take_back(doubt.amounts)

    def gone(self, peer: object) -> None:
        """A worker's connection has ended."""
        known = self._peers.pop(peer, None)
        if known is None:
            return
        for (number, second), amount in known.reserved.items():
            balance = self.balances[number]
            if balance.counts_at_once:
                balance.take_back_oldest(second, amount)
            else:
                balance.reserved -= amount
        self._take_back(known.settled)
        if known.writing:
            self._doubts[known.writer] = _Doubt(known.mark, known.writing)

    def look(self, message: Look, now: float) -> States:
        """See `Look`."""
        return States(tuple([self._state(one, now) for one in message.limits]))

    def shared(self, now: float) -> tuple[SharedState, ...]:
        """The limits of which slices are lent to this machine."""
        return tuple(
            [
                SharedState(
                    one.name,
                    one.limit,
                    one.amount,
                    one.used(now),
                    max(0, min(one.amount, one.left(now))),
                    one.elsewhere,
                    one.machines,
                    one.held_by,
                )
                for one in self.balances.values()
                if isinstance(one, Slice)
            ]
        )

    def _peer(self, name: object) -> _Peer:
        known = self._peers.get(name)
        if known is None:
            known = self._peers[name] = _Peer()
        return known

    def _use(self, balance: Balance, now: float, amount: int) -> None:
        """Count something as used, and record the shares that are reached by it."""
        if not amount:
            return
        before = balance.use(now, amount)
        after = before + amount
        if after * 100 >= SHARES[0] * balance.amount:
            for share in SHARES:
                if before * 100 < share * balance.amount <= after * 100:
                    self.reached.append(Reached(balance.number, share))

    def _take_back(self, amounts: _Amounts) -> None:
        for (number, second), amount in amounts.items():
            if number in self.balances:
                self.balances[number].take_back_oldest(second, amount)

    def _state(self, asked: Asked, now: float) -> State | None:
        number = self._numbers.get(asked.name)
        if number is None or not self.balances[number].is_restored:
            return None
        balance = self.balances[number]
        balance.amount = asked.most
        return state_of(balance, asked.amount, now)

    def _drop(self, numbers: Iterable[int], now: float) -> None:
        """Drop those of these balances that are idle."""
        in_use = {
            number
            for peer in self._peers.values()
            for amounts in (peer.reserved, peer.settled, peer.writing)
            for number, _ in amounts
        }
        for number in numbers:
            balance = self.balances[number]
            # Rows of usage tell what was used of one that is not restored.
            if number in in_use or (balance.is_restored and not balance.is_idle(now)):
                continue
            del self.balances[number], self._numbers[self._names.pop(number)]
            self._retired.pop(number, None)
            self._stale.discard(number)
            if isinstance(balance, Slice):
                self._dropped.append(balance)


def is_short(window: Window | None) -> bool:
    """Whether rows of usage, which are sums of hours, cannot tell what was used in a window."""
    return window is None or (isinstance(window, Rolling) and window.seconds < _HOUR_S)


def state_of(balance: Balance, amount: int, now: float) -> State:
    """The state of a limit, and when `amount` more would be admitted."""
    return State(
        used=balance.used(now),
        reserved=balance.reserved,
        left=balance.left_of_all(now),
        free_at=balance.free_at(now, amount),
        resets_at=balance.resets_at(now),
        exhausted_at=balance.exhausted_at(now),
    )


def reached(used: int, most: int) -> int:
    """The highest of the shares of a limit, in percent, that is used; 0 if none is."""
    return max((share for share in SHARES if used * 100 >= share * most), default=0)


def fitting_output(message: Admit, left: Sequence[int]) -> tuple[int, int]:
    """The output that is reserved for, and the output limit of each answer with which the request
    fits what is left of the limits that clamp; 0 if it is to be taken as it is, since it fits, or
    too little is left to be worth sending."""
    fits = message.longest
    for claim, room in zip(message.claims, left, strict=True):
        by_output = claim.amount - claim.plain
        if claim.clamps and by_output > 0:
            fits = min(fits, (room - claim.plain) * message.output // by_output)
    each = fits // message.answers
    if fits == message.longest or each < LEAST_OUTPUT:
        return message.output, 0
    return min(message.output, each * message.answers), each


def _amount_of(claim: Claim, output: int, asked: int) -> int:
    """What a request comes to at a limit with so much output, if it asked for more."""
    if output == asked:
        return claim.amount
    return claim.plain + (claim.amount - claim.plain) * output // asked


def _sum_of(amounts: _Amounts, number: int) -> int:
    return sum(amount for (one, _), amount in amounts.items() if one == number)
