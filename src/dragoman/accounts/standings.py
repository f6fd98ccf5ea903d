"""Where the accounts of one upstream stand: who is out, busy, avoided or apart for a model, until
when, and how many are so for which reason. Pure.

Reasons are counted as accounts move, so that a storm of requests that cannot be served does not
look at every account each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from heapq import heappop, heappush
from math import inf

from msgspec import Struct

from dragoman.accounts.audience import Audiences
from dragoman.accounts.decisions import on_trial, standing
from dragoman.accounts.members import BUSY, Lane, Member
from dragoman.accounts.states import FOREVER, Rest

TRIED = "already tried for this request"
OTHER_MODELS = "not for this model"
"""Reasons of a shortage that are no state of an account."""

_MOST_TOLD = 256
"""Models whose shortage is remembered until something changes."""

_ON_TRIAL = Rest(FOREVER, BUSY)
"""Stands apart an account whose request in flight shows whether it can be used for the model."""


class Shortage(Struct, frozen=True):
    """Why no account can be chosen: each reason with its number of accounts, not before when one of
    them may be used again, in seconds of the clock (None: nobody knows), the number of those that
    are merely busy, and of those that serve the model at all.
    """

    reasons: tuple[tuple[str, int], ...] = ()
    soonest: float | None = None
    busy: int = 0
    serving: int = 0


class Apart:
    """Accounts that cannot, or should not, be chosen for one model though they may for others.

    `hard` are those that cannot, `ends` when they return, `why` their number by reason, `hidden`
    how many of them are busy besides; `soft` is where the others wait, `size` the number of all.
    `lane` is kept once there are many.
    """

    __slots__ = ("ends", "hard", "hidden", "lane", "size", "soft", "why")

    def __init__(self, model: str) -> None:
        self.hard: set[Member] = set()
        self.ends = Lane(lambda member: member.apart[model].until, ranked=False)
        self.soft = Lane(lambda member: member.apart[model].until)
        self.why: Counter[str] = Counter()
        self.hidden = 0
        self.size = 0
        self.lane: Lane | None = None


class _Class:
    """The accounts of one allow-list: how many, why they serve no model by reason, and when those
    that are out come back."""

    __slots__ = ("ends", "reasons", "size")

    def __init__(self) -> None:
        self.size = 0
        self.reasons: Counter[str] = Counter()
        self.ends = Lane(_out_end, ranked=False)


class Standings:
    """Where each account stands.

    `apart` has the models for which some stand apart, `avoided` those that are avoided for every
    model; `size` and `out` are how many there are, and how many of them serve no model.
    `next_alarm` is when the next rest ends, infinity if none does.
    """

    def __init__(self, audiences: Audiences) -> None:
        self._audiences = audiences
        self._classes: dict[int, _Class] = {}
        self._alarms: list[tuple[float, int, Member]] = []
        self.next_alarm = inf
        self._alarm_count = 0
        self._version = 0
        self._told: dict[str, tuple[int, Shortage]] = {}
        self.apart: dict[str, Apart] = {}
        self.avoided = Lane(_soft_end)
        self.size = 0
        self.out = 0

    def join(self, member: Member) -> None:
        """An account came; where it stands is found out by `look`."""
        self._classes.setdefault(member.audience, _Class()).size += 1
        self.size += 1
        self._version += 1

    def leave(self, member: Member) -> list[str]:
        """An account goes. Returns the models for which it stood apart."""
        freed = self._settle(member, "", None, False, None, {})
        entry = self._classes[member.audience]
        entry.size -= 1
        if not entry.size:
            del self._classes[member.audience]
        self.size -= 1
        self._version += 1
        return freed

    def due(self, now: float) -> Iterable[Member]:
        """Accounts of which a rest ended by `now`; each is to be looked at."""
        alarms = self._alarms
        while self.next_alarm <= now:
            member = heappop(alarms)[2]
            self.next_alarm = alarms[0][0] if alarms else inf
            yield member

    def look(self, member: Member, now: float) -> list[str]:
        """Find out where an account stands. Returns the models for which it stands apart no
        longer."""
        state = member.state
        rest = standing(state, "", now)
        out, until, soft = "", None, None
        apart: dict[str, Rest] = _NOTHING
        if rest is not None and not rest.soft:
            out, until = rest.why, rest.until
        else:
            soft, held = rest, member.held
            if held is not None and held.until > now and (soft is None or soft.until < held.until):
                soft = held
            if state.cooling:
                apart = self._find_apart(member, soft, now)
        if out and not member.out:
            member.background = member.elsewhere
        return self._settle(member, out, until, self._is_busy(member, now), soft, apart)

    def recount(self, member: Member, now: float) -> None:
        """Find out whether an account is busy, where nothing else has changed."""
        busy = self._is_busy(member, now)
        if busy != member.busy:
            self._settle(member, member.out, member.out_until, busy, member.soft, member.apart)

    def _find_apart(self, member: Member, soft: Rest | None, now: float) -> dict[str, Rest]:
        state, apart = member.state, {}
        for model in state.cooling:
            if not model:
                continue
            rest = standing(state, model, now)
            if rest is None:
                if model in member.trials and on_trial(state, model, now):
                    apart[model] = _ON_TRIAL
            elif not (soft is not None and rest.soft) and self.serves(member, model):
                apart[model] = rest
        return apart

    def _is_busy(self, member: Member, now: float) -> bool:
        most = member.terms.max_concurrent
        if most is not None and member.in_flight + member.elsewhere >= most:
            return True
        if "" not in member.trials and member.elsewhere <= member.background:
            return False
        state = member.state
        return bool(state.exhausted or state.cooling) and on_trial(state, "", now)

    def _settle(
        self,
        member: Member,
        out: str,
        until: float | None,
        busy: bool,
        soft: Rest | None,
        apart: dict[str, Rest],
    ) -> list[str]:
        """Note where an account stands, and count why it cannot be chosen."""
        freed: list[str] = []
        if until != member.out_until:
            ends = self._classes[member.audience].ends
            ends.discard(member)
            self._version += 1
            member.out_until = until
            if until is not None and until < FOREVER:
                ends.add(member)
                self._alarm(member, until)
        label = out or (BUSY if busy else "")
        if label != member.label or apart != member.apart:
            self._version += 1
            was, member.label = member.label, label
            reasons = self._classes[member.audience].reasons
            if was:
                reasons[was] -= 1
                if not reasons[was]:
                    del reasons[was]
            if label:
                reasons[label] += 1
            if apart or member.apart:
                freed = self._set_apart(member, was, apart)
        if soft != member.soft:
            self.avoided.discard(member)
            member.missing.pop(self.avoided, None)
            member.soft = soft
            if soft is not None:
                self.avoided.add(member)
                self._alarm(member, soft.until)
        self.out += bool(out) - bool(member.out)
        member.out, member.busy, member.barred = out, busy, bool(label)
        return freed

    def _set_apart(self, member: Member, was: str, apart: dict[str, Rest]) -> list[str]:
        before = member.apart
        for model, rest in before.items():
            entry = self.apart[model]
            entry.size -= 1
            if rest.soft:
                entry.soft.discard(member)
                member.missing.pop(entry.soft, None)
            else:
                entry.hard.discard(member)
                entry.ends.discard(member)
                entry.hidden -= was == BUSY
                entry.why[rest.why] -= 1
                if not entry.why[rest.why]:
                    del entry.why[rest.why]
        member.apart = apart
        for model, rest in apart.items():
            entry = self.apart.get(model) or self.apart.setdefault(model, Apart(model))
            entry.size += 1
            if rest.soft:
                entry.soft.add(member)
            else:
                entry.hard.add(member)
                if rest.until < FOREVER:
                    entry.ends.add(member)
                entry.hidden += member.label == BUSY
                entry.why[rest.why] += 1
            if rest is not before.get(model):
                self._alarm(member, rest.until)
        return [model for model in before if model not in apart]

    def serves(self, member: Member, model: str) -> bool:
        """Whether the account's allow-list names the model; empty for any."""
        return member.audience in self._audiences.of(model).classes

    def _alarm(self, member: Member, at: float) -> None:
        if at < FOREVER:
            self._alarm_count += 1
            heappush(self._alarms, (at, self._alarm_count, member))
            self.next_alarm = self._alarms[0][0]

    def shortage(
        self, model: str, tried: Collection[str], members: Mapping[str, Member]
    ) -> Shortage:
        """Why no account serves the model: the reasons of all. `tried` are those that the request
        has tried."""
        version, told = self._told.get(model, (-1, Shortage()))
        if version != self._version:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            told = self._count(model)
            self._told[model] = self._version, told
        found = [members[name] for name in set(tried) if name in members]
        return self._without_tried(told, model, found) if found else told

    def _count(self, model: str) -> Shortage:
        counts: Counter[str] = Counter()
        serving = 0
        ends: list[float] = []
        for number in self._audiences.of(model).classes:
            entry = self._classes[number]
            counts.update(entry.reasons)
            serving += entry.size
            first = entry.ends.first()
            if first is not None and first.out_until is not None:
                ends.append(first.out_until)
        apart = self.apart.get(model)
        if apart is not None:
            counts.update(apart.why)
            counts[BUSY] -= apart.hidden
            first = apart.ends.first()
            if first is not None:
                ends.append(first.apart[model].until)
        counts[OTHER_MODELS] = self.size - serving
        return Shortage(_told(counts), min(ends, default=None), counts[BUSY], serving)

    def _without_tried(self, told: Shortage, model: str, tried: list[Member]) -> Shortage:
        counts = Counter(dict(told.reasons))
        for member in tried:
            if member.out or not self.serves(member, model):
                continue
            rest = member.apart.get(model)
            if rest is not None and not rest.soft and rest.why != BUSY:
                continue
            if member.busy or (rest is not None and rest.why == BUSY):
                counts[BUSY] -= 1
            counts[TRIED] += 1
        return Shortage(_told(counts), told.soonest, counts[BUSY], told.serving)


_NOTHING: dict[str, Rest] = {}


def _told(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((why, count) for why, count in counts.items() if count))


def _soft_end(member: Member) -> float:
    assert member.soft is not None
    return member.soft.until


def _out_end(member: Member) -> float:
    assert member.out_until is not None
    return member.out_until
