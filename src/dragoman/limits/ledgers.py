"""What one limit has lent to several machines. Pure: the ledger, a report and the owner's time are
given, and whoever calls has locked the ledger.

    a machine reports what it has used and what it asks for -> the ledger lends it more

- A machine may have used and reserved, in all that it ever did, no more than its ceiling. What lies
  between its ceiling and what it is known to have used is held by it, and counts against the limit
  as if it were used. So no more is ever admitted than the limit has, whatever messages are lost.
- Reports have sums since the machine began, and numbers: a lost one changes nothing that the next
  does not report again, and one that comes late is known by its number.
- All times are the owner's, whatever the clocks of machines say.
- A machine that reports nothing for `LOST_S` while others do is lost. What it held counts as used
  in its window, since nobody knows what it did with it; this is set right if it comes back. Slots
  of requests at one time are free again: such requests have ended with it.
- What is lent ahead of need is little, less the more of the limit is used, and nothing while
  another machine lacks something: near its end a limit is lent request by request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct, field, msgpack

from dragoman.config.windows import Fixed, Window
from dragoman.limits.counters import CLOCK_SLACK_S, Counter, CounterState

SLICE_S: Final = 10.0
"""Seconds for which a machine may admit requests after its last report."""

LOST_S: Final = 12.0
"""Seconds without a report after which a machine is lost."""

_SILENT_S: Final = 5.0
"""Seconds without any report after which the owner was away, rather than those that are silent."""

_PRESSED_S: Final = 1.0
"""Seconds for which all give back what they do not need after one could not be lent enough."""

_AHEAD: Final = 20
"""One part in so many of a limit is lent ahead of need at most, to all machines together."""

_SLOTS_AHEAD: Final = 8
"""The same for requests at one time, which come back."""

_REMEMBERED_S: Final = 3600.0
"""Seconds for which what a lost machine held can be set right if it comes back."""


class Holding(Struct):
    """What one machine holds: its ceiling and what it is known to have used, both since it began;
    what of the rest it has reserved; the number of its latest report, and when it is lost unless
    there is another. `charged` was counted as used at `lost_at` because it was lost."""

    ceiling: int
    spent: int
    until: float
    reserved: int = 0
    number: int = 0
    charged: int = 0
    lost_at: float = 0.0

    @property
    def held(self) -> int:
        """What counts against the limit, and is not known to be used."""
        return 0 if self.lost_at else max(0, self.ceiling - self.spent)


class Ledger(Struct):
    """One limit over all machines: what was used, None of a ledger that is new, and what each
    machine holds. `reported` is when a machine last reported, `pressed` until when all give back
    what they do not need, and `grace` until when none is lost."""

    counter: CounterState | None = None
    reported: float = 0.0
    pressed: float = 0.0
    grace: float = 0.0
    holdings: dict[str, Holding] = field(default_factory=dict)


class Report(Struct, frozen=True, kw_only=True):
    """What a machine reports. `spent` and `acknowledged` are what it has used since it began, and
    what of that the owner is known to know; `reserved` is under way. It keeps what it holds up to
    `ceiling`, and asks for `wanted` on top of what it has reserved, of which `least` is of use;
    `ahead` if it wants more than that, so as not to ask for each request. `amount` is the limit."""

    machine: str
    number: int
    amount: int
    spent: int
    acknowledged: int
    reserved: int
    ceiling: int
    wanted: int = 0
    least: int = 0
    ahead: bool = False


class Loan(Struct, frozen=True):
    """What a machine is lent: its new ceiling, and up to where what it used is known. The others
    hold `elsewhere`, of which they do not need `spare`; `machines` are known, this one included.
    `share` is what it may keep and not need. `pressed`: some could not be lent enough, and others
    had more than they need. `counter` has what all have used."""

    ceiling: int
    spent: int
    elsewhere: int
    spare: int
    share: int
    machines: int
    pressed: bool
    counter: CounterState


def lendable(free: int, wanted: int, least: int) -> int:
    """How much of what is free is lent to one who wants `wanted`, of which `least` is of use."""
    lent = min(wanted, free)
    return lent if lent > 0 and lent >= min(wanted, least) else 0


def lend(
    ledger: Ledger, report: Report, window: Window | None, now: float, seed: CounterState
) -> Loan | None:
    """Enter a report, and lend what is asked for as far as the limit has it. A ledger that is new
    begins with `seed`. None for a report that is not the latest of its machine: nothing is changed
    then."""
    known = ledger.holdings.get(report.machine)
    if known is not None and report.number <= known.number:
        return None
    if is_ahead(ledger, now):
        ledger.reported, ledger.pressed, ledger.grace = now, 0.0, now + LOST_S
        for one in ledger.holdings.values():
            one.until, one.lost_at = min(one.until, now + LOST_S), min(one.lost_at, now)
    # The clock of the owner may be put back, or be another's after it was restored elsewhere.
    now = max(now, ledger.reported)
    is_new = ledger.counter is None
    counter = Counter(Fixed(None) if window is None else window, ledger.counter or seed)
    own = known or Holding(report.acknowledged, report.acknowledged, 0.0)
    if own.lost_at:
        counter.take_back(own.lost_at, own.charged)
        own.charged, own.lost_at = 0, 0.0
    _drop_lost(ledger, report.machine, counter, window, now)
    used = report.spent - own.spent
    if used > 0 and window is not None and not is_new:  # the seed has it
        counter.add(now, used)
    own.spent, own.reserved, own.number = report.spent, report.reserved, report.number
    others = [one for name, one in ledger.holdings.items() if name != report.machine]
    elsewhere = sum(one.held for one in others)
    spare = sum(max(0, one.held - one.reserved) for one in others)
    needed = report.spent + report.reserved
    ceiling = max(report.ceiling, needed)
    free = report.amount - counter.advance(now) - elsewhere - (ceiling - report.spent)
    ahead = ceiling - needed
    pressed = False
    if (missing := report.wanted - ahead) > 0:
        lent = lendable(free, missing, report.least - ahead)
        ceiling, free = ceiling + lent, free - lent
        if lent < missing and spare > 0:
            pressed, ledger.pressed = True, now + _PRESSED_S
    share = 0
    if report.ahead and now >= ledger.pressed:
        parts = _SLOTS_AHEAD if window is None else _AHEAD
        machines = 1 + sum(not one.lost_at for one in others)
        share = min(report.amount // parts, max(0, free) // 2) // machines
        # There is little room where all of it was lent to fewer before, until these report.
        room = max(share // 4, report.amount // parts - spare)
        ceiling += max(0, min(share, room) - (ceiling - needed))
    own.ceiling, own.until = ceiling, now + LOST_S
    ledger.holdings[report.machine] = own
    ledger.reported, ledger.counter = now, counter.state()
    living = sum(not one.lost_at for one in ledger.holdings.values())
    pressed = pressed or now < ledger.pressed
    return Loan(ceiling, report.spent, elsewhere, spare, share, living, pressed, counter.state())


def is_ahead(ledger: Ledger, now: float) -> bool:
    """Whether the ledger is of a clock of its owner that was wrong, and is set right."""
    return ledger.reported > now + CLOCK_SLACK_S


def _drop_lost(
    ledger: Ledger, reporting: str, counter: Counter, window: Window | None, now: float
) -> None:
    """Count what lost machines held as used."""
    if ledger.holdings and now - ledger.reported > _SILENT_S:
        ledger.grace = now + LOST_S
    if now < ledger.grace:
        return
    for name, one in list(ledger.holdings.items()):
        if name == reporting or now < one.until:
            continue
        if one.lost_at:
            if now > one.lost_at + _REMEMBERED_S:
                del ledger.holdings[name]
        elif window is None or not one.held:
            del ledger.holdings[name]
        else:
            one.charged, one.lost_at = one.held, now
            counter.add(now, one.charged)


Decide = Callable[[Mapping[str, Ledger], float], None]
"""What is to be done with ledgers, given by their names with the time of their owner."""


class Ledgers(Protocol):
    """Where ledgers are stored. Methods block, and belong to one thread.

    Raises:
        Away: it cannot be used now; whether what was decided is stored, is not known.
    """

    def exchange(self, names: Sequence[str], decide: Decide) -> None:
        """Have something decided about the ledgers of these names, which are made if there are
        none, while nobody else does. The owner's time is of after the call, so that whatever
        happened before it was earlier."""

    def read(self, names: Sequence[str]) -> Mapping[str, Ledger]:
        """The ledgers of these names, of those that there are."""

    def abort(self) -> None:
        """Have the exchange fail that is under way. Any thread may call it."""

    def close(self) -> None:
        """Give everything up."""


class Away(Exception):
    """Ledgers cannot be used now. The message names no secret."""


def ledger_name(name: str) -> str:
    """The name of a ledger as it is stored: as a database can write it."""
    return name.encode(errors="backslashreplace").decode().replace("\0", "\\0")


def read_ledger(stored: bytes | None) -> Ledger:
    """The ledger as it was stored; a new one where there is none."""
    return _decoder.decode(stored) if stored else Ledger()


def write_ledger(ledger: Ledger) -> bytes:
    """The ledger as it is stored."""
    return _encoder.encode(ledger)


_decoder = msgpack.Decoder(Ledger)
_encoder = msgpack.Encoder()
