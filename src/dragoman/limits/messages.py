"""The messages between workers and the owner of limits. Limits are called by the numbers that the
owner gave them with `Defined`; a number it does not know is answered with `Unknown`, and then they
are to be defined anew."""

from __future__ import annotations

from msgspec import Struct

from dragoman.config.limits import Limit
from dragoman.limits.balances import HeldBy
from dragoman.limits.counters import CounterState
from dragoman.limits.ledgers import Loan, Report


class Define(Struct, frozen=True):
    """Limits, each with the name of its ledger, answered with `Defined`."""

    limits: tuple[tuple[str, Limit], ...]


class Defined(Struct, frozen=True):
    """The numbers of the limits, and those of which `Restore` is to tell what was used before."""

    numbers: tuple[int, ...]
    empty: tuple[int, ...] = ()


class Restore(Struct, frozen=True):
    """What was used of a limit before it was defined, each with its time (Unix seconds)."""

    number: int
    used: tuple[tuple[float, int], ...]


class Retire(Struct, frozen=True):
    """Limits that are in force no more. Should they be again, what was used meanwhile is to be
    restored."""

    numbers: tuple[int, ...]


class Claim(Struct, array_like=True, frozen=True, gc=False):
    """What a request may come to at one limit, of which there is `most` in all. `plain` is the part
    of `amount` that does not depend on the request's output. Where it is refused, it may wait
    `queue_s` for its turn, with `queue_size` requests of its worker."""

    number: int
    amount: int
    most: int
    enforced: bool = True
    clamps: bool = False
    plain: int = 0
    queue_s: float = 0.0
    queue_size: int = 0


class Admit(Struct, frozen=True):
    """A request of `caller` asks to be admitted at all of its limits or at none, answered with
    `Granted`, `Refused` or `Unknown`. `output` is the output that is
    reserved for, and `longest` the longest that it may have, of `answers` answers together, which
    limits that clamp lower to what is left; 0 where none does. If it is refused and `awaits_room`,
    `Room` is reported once the limit that refused it may admit it."""

    caller: str
    claims: tuple[Claim, ...]
    output: int = 0
    longest: int = 0
    answers: int = 1
    awaits_room: bool = False


class Room(Struct, frozen=True):
    """A limit that has refused a request of the worker may admit one."""

    number: int


class Reached(Struct, frozen=True):
    """`percent` of a limit were reached within its window by what a worker has used."""

    number: int
    percent: int


class Granted(Struct, tag="granted", frozen=True):
    """A request is admitted at `at` (Unix seconds). Of each limit: what is reserved, what is left
    and what was used by then, as far as it is known. `clamped` is the output limit of each answer,
    0 where it stays as it is. `exceeded` are the places of limits that would have refused it if
    they were enforced."""

    at: float
    amounts: tuple[int, ...]
    left: tuple[int, ...]
    used: tuple[int, ...]
    clamped: int = 0
    exceeded: tuple[int, ...] = ()


class Refused(Struct, tag="refused", frozen=True):
    """A request is refused by the limit at this place, at which it would have counted `amount`, of
    which `left` were left and `used` used. `free_at` is when it would be admitted if nothing else
    were until then, `resets_at` when nothing of what is used counts any more (Unix seconds;
    infinity: never). `queue_is_full`: it may not wait, since so many do."""

    place: int
    amount: int
    left: int
    used: int
    free_at: float
    resets_at: float
    queue_is_full: bool = False


class Unknown(Struct, tag="unknown", frozen=True):
    """A limit is not defined, or not restored."""


class Settled(Struct, array_like=True, frozen=True, gc=False):
    """What a request had reserved at a limit, and what it came to."""

    number: int
    reserved: int
    spent: int


class Settle(Struct, frozen=True):
    """A request is over that was admitted at `at`. `is_stored`: a row of usage will tell of it."""

    at: float
    limits: tuple[Settled, ...]
    is_stored: bool


class Writing(Struct, frozen=True):
    """What was settled so far is about to be written to rows of usage, by the writer of this name
    in the store, whose latest batch there had the mark `mark`."""

    writer: str
    mark: float


class Written(Struct, frozen=True):
    """What was about to be written is in rows of usage; or is not, and is to be written later."""

    done: bool


class Gone(Struct, frozen=True):
    """Asks a worker for the mark of the latest batch in the store of a writer that is gone,
    answered with `Mark`."""

    writer: str


class Mark(Struct, frozen=True):
    """The mark of the latest batch of a writer; 0 if there is none."""

    mark: float


class Away(Struct, frozen=True):
    """Since when the database that several machines share is away (Unix seconds); 0 if it is
    not."""

    since: float


class Asked(Struct, array_like=True, frozen=True):
    """Asks for the state of a limit by the name of its ledger, of which there is `most` in all;
    and when `amount` more would be admitted."""

    name: str
    most: int
    amount: int = 0


class Look(Struct, frozen=True):
    """Asks for the states of limits, answered with `States`."""

    limits: tuple[Asked, ...]


class State(Struct, frozen=True):
    """The state of a limit: see `Balance` for what it tells."""

    used: int
    reserved: int
    left: int
    free_at: float
    resets_at: float
    exhausted_at: float


class States(Struct, frozen=True):
    """The states of limits, None of those that have no ledger here."""

    states: tuple[State | None, ...]


class LookShared(Struct, frozen=True):
    """Asks for the limits that this machine shares with others, answered with `Shared`."""


class SharedState(Struct, frozen=True):
    """A limit that machines share, by the name of its ledger: what all have used as far as it is
    known here, what this machine may still reserve, and what the others hold. `machines` are known,
    this one included."""

    name: str
    limit: Limit
    amount: int
    used: int
    here: int
    elsewhere: int
    machines: int
    held_by: HeldBy


class Shared(Struct, frozen=True):
    """The limits that this machine shares with others."""

    limits: tuple[SharedState, ...]


class Exchange(Struct, frozen=True):
    """Asks a worker to report to the ledgers of these names what this machine has used of limits,
    with what a ledger begins with that is new; answered with `Exchanged`."""

    reports: tuple[tuple[str, Limit, Report, CounterState], ...]


class Exchanged(Struct, frozen=True):
    """What is lent for each report, None for one that came late, and the time of the owner of all
    machines; or why the ledgers cannot be used."""

    loans: tuple[Loan | None, ...] = ()
    now: float = 0.0
    away: str = ""


class Leave(Struct, frozen=True):
    """A worker ends: what this machine was lent is given back if it is the last one. Answered with
    `Left`, once that is done."""


class Left(Struct, frozen=True):
    """The worker may end."""


Decision = Granted | Refused | Unknown
