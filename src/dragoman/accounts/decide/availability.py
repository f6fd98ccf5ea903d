"""Which accounts of one upstream can be chosen: which are out, busy, avoided, or at rest for a
model, until when, and how many are so for which reason. Pure.

Reasons are counted when an account's state changes, so that a storm of requests that cannot be
served does not look at every account each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from heapq import heappop, heappush
from math import inf

from msgspec import Struct

from dragoman.accounts.decide.allow_lists import AllowLists
from dragoman.accounts.decide.decisions import active_rest, on_trial
from dragoman.accounts.decide.members import BUSY, Member, MemberQueue
from dragoman.accounts.decide.states import FOREVER, Rest

TRIED = "already tried for this request"
OTHER_MODELS = "not for this model"
"""Reasons of a shortage that are no state of an account."""

_MOST_SHORTAGES = 256
"""Models whose shortage is remembered until something changes."""

_ON_TRIAL = Rest(FOREVER, BUSY)
"""The rest for a model of an account while a request in flight shows whether it serves it."""


class Shortage(Struct, frozen=True):
    """Why no account can be chosen: each reason with its number of accounts, not before when one of
    them may be used again, in seconds of the clock (None: nobody knows), the number of those that
    are merely busy, and of those that serve the model at all.
    """

    reasons: tuple[tuple[str, int], ...] = ()
    soonest: float | None = None
    busy: int = 0
    serving: int = 0


class ModelRests:
    """Accounts that rest for one model but not for all of them.

    `hard` are those that cannot be chosen for it, `ends` when they return, `why` their number by
    reason, `also_busy` how many of them are busy besides; `soft` is the queue of those that are
    only avoided, `size` the number of all. `queue` is that of the other accounts that serve the
    model, built once many rest.
    """

    __slots__ = ("also_busy", "ends", "hard", "queue", "size", "soft", "why")

    def __init__(self, model: str) -> None:
        self.hard: set[Member] = set()
        self.ends = MemberQueue(lambda member: member.model_rests[model].until, ranked=False)
        self.soft = MemberQueue(lambda member: member.model_rests[model].until)
        self.why: Counter[str] = Counter()
        self.also_busy = 0
        self.size = 0
        self.queue: MemberQueue | None = None


class _ListCounts:
    """The accounts of one allow-list: how many, why they serve no model by reason, and when those
    that are out come back."""

    __slots__ = ("ends", "reasons", "size")

    def __init__(self) -> None:
        self.size = 0
        self.reasons: Counter[str] = Counter()
        self.ends = MemberQueue(_out_end, ranked=False)


class Availability:
    """Which accounts of a rotation can be chosen.

    `by_model` has the models for which some accounts rest, `avoided` the accounts that are avoided
    for every model; `size` and `out` are how many there are, and how many of them serve no model.
    `next_alarm` is when the next rest ends, infinity if none does.
    """

    def __init__(self, allow_lists: AllowLists) -> None:
        self._allow_lists = allow_lists
        self._by_list: dict[int, _ListCounts] = {}
        self._alarms: list[tuple[float, int, Member]] = []
        self.next_alarm = inf
        self._alarm_count = 0
        self._version = 0
        self._shortages: dict[str, tuple[int, Shortage]] = {}
        self.by_model: dict[str, ModelRests] = {}
        self.avoided = MemberQueue(_soft_end)
        self.size = 0
        self.out = 0

    def add(self, member: Member) -> None:
        """Add an account; whether it can be chosen is found out by `refresh`."""
        self._by_list.setdefault(member.allow_list, _ListCounts()).size += 1
        self.size += 1
        self._version += 1

    def remove(self, member: Member) -> list[str]:
        """Remove an account. Returns the models for which it rested."""
        freed = self._update(member, "", None, False, None, {})
        entry = self._by_list[member.allow_list]
        entry.size -= 1
        if not entry.size:
            del self._by_list[member.allow_list]
        self.size -= 1
        self._version += 1
        return freed

    def due(self, now: float) -> Iterable[Member]:
        """Accounts of which a rest ended by `now`; each is to be refreshed."""
        alarms = self._alarms
        while self.next_alarm <= now:
            member = heappop(alarms)[2]
            self.next_alarm = alarms[0][0] if alarms else inf
            yield member

    def refresh(self, member: Member, now: float) -> list[str]:
        """Find out whether an account can be chosen. Returns the models for which it rests no
        longer."""
        state = member.state
        rest = active_rest(state, "", now)
        out, until, soft = "", None, None
        model_rests: dict[str, Rest] = _NOTHING
        if rest is not None and not rest.soft:
            out, until = rest.why, rest.until
        else:
            soft, other = rest, member.avoidance
            if (
                other is not None
                and other.until > now
                and (soft is None or soft.until < other.until)
            ):
                soft = other
            if state.cooling:
                model_rests = self._find_model_rests(member, soft, now)
        if out and not member.out:
            member.background = member.in_flight_elsewhere
        return self._update(member, out, until, self._is_busy(member, now), soft, model_rests)

    def recount(self, member: Member, now: float) -> None:
        """Find out whether an account is busy, where nothing else has changed."""
        busy = self._is_busy(member, now)
        if busy != member.busy:
            self._update(
                member, member.out, member.out_until, busy, member.soft, member.model_rests
            )

    def _find_model_rests(self, member: Member, soft: Rest | None, now: float) -> dict[str, Rest]:
        state, model_rests = member.state, {}
        for model in state.cooling:
            if not model:
                continue
            rest = active_rest(state, model, now)
            if rest is None:
                if model in member.trials and on_trial(state, model, now):
                    model_rests[model] = _ON_TRIAL
            elif not (soft is not None and rest.soft) and self.serves(member, model):
                model_rests[model] = rest
        return model_rests

    def _is_busy(self, member: Member, now: float) -> bool:
        most = member.settings.max_concurrent
        if most is not None and member.in_flight + member.in_flight_elsewhere >= most:
            return True
        if "" not in member.trials and member.in_flight_elsewhere <= member.background:
            return False
        state = member.state
        return bool(state.exhausted or state.cooling) and on_trial(state, "", now)

    def _update(
        self,
        member: Member,
        out: str,
        until: float | None,
        busy: bool,
        soft: Rest | None,
        model_rests: dict[str, Rest],
    ) -> list[str]:
        """Record whether an account can be chosen, and count why it cannot."""
        freed: list[str] = []
        if until != member.out_until:
            ends = self._by_list[member.allow_list].ends
            ends.discard(member)
            self._version += 1
            member.out_until = until
            if until is not None and until < FOREVER:
                ends.add(member)
                self._alarm(member, until)
        label = out or (BUSY if busy else "")
        if label != member.reason or model_rests != member.model_rests:
            self._version += 1
            was, member.reason = member.reason, label
            reasons = self._by_list[member.allow_list].reasons
            if was:
                reasons[was] -= 1
                if not reasons[was]:
                    del reasons[was]
            if label:
                reasons[label] += 1
            if model_rests or member.model_rests:
                freed = self._set_model_rests(member, was, model_rests)
        if soft != member.soft:
            self.avoided.discard(member)
            member.dropped_from.pop(self.avoided, None)
            member.soft = soft
            if soft is not None:
                self.avoided.add(member)
                self._alarm(member, soft.until)
        self.out += bool(out) - bool(member.out)
        member.out, member.busy, member.blocked = out, busy, bool(label)
        return freed

    def _set_model_rests(self, member: Member, was: str, model_rests: dict[str, Rest]) -> list[str]:
        before = member.model_rests
        for model, rest in before.items():
            entry = self.by_model[model]
            entry.size -= 1
            if rest.soft:
                entry.soft.discard(member)
                member.dropped_from.pop(entry.soft, None)
            else:
                entry.hard.discard(member)
                entry.ends.discard(member)
                entry.also_busy -= was == BUSY
                entry.why[rest.why] -= 1
                if not entry.why[rest.why]:
                    del entry.why[rest.why]
        member.model_rests = model_rests
        for model, rest in model_rests.items():
            entry = self.by_model.get(model) or self.by_model.setdefault(model, ModelRests(model))
            entry.size += 1
            if rest.soft:
                entry.soft.add(member)
            else:
                entry.hard.add(member)
                if rest.until < FOREVER:
                    entry.ends.add(member)
                entry.also_busy += member.reason == BUSY
                entry.why[rest.why] += 1
            if rest is not before.get(model):
                self._alarm(member, rest.until)
        return [model for model in before if model not in model_rests]

    def serves(self, member: Member, model: str) -> bool:
        """Whether the account's allow-list names the model; empty for any."""
        return member.allow_list in self._allow_lists.serving(model).lists

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
        version, shortage = self._shortages.get(model, (-1, Shortage()))
        if version != self._version:
            if len(self._shortages) >= _MOST_SHORTAGES:
                self._shortages.clear()
            shortage = self._count(model)
            self._shortages[model] = self._version, shortage
        found = [members[name] for name in set(tried) if name in members]
        return self._without_tried(shortage, model, found) if found else shortage

    def _count(self, model: str) -> Shortage:
        counts: Counter[str] = Counter()
        serving = 0
        ends: list[float] = []
        for number in self._allow_lists.serving(model).lists:
            entry = self._by_list[number]
            counts.update(entry.reasons)
            serving += entry.size
            first = entry.ends.first()
            if first is not None and first.out_until is not None:
                ends.append(first.out_until)
        model_rests = self.by_model.get(model)
        if model_rests is not None:
            counts.update(model_rests.why)
            counts[BUSY] -= model_rests.also_busy
            first = model_rests.ends.first()
            if first is not None:
                ends.append(first.model_rests[model].until)
        counts[OTHER_MODELS] = self.size - serving
        return Shortage(_sorted(counts), min(ends, default=None), counts[BUSY], serving)

    def _without_tried(self, shortage: Shortage, model: str, tried: list[Member]) -> Shortage:
        counts = Counter(dict(shortage.reasons))
        for member in tried:
            if member.out or not self.serves(member, model):
                continue
            rest = member.model_rests.get(model)
            if rest is not None and not rest.soft and rest.why != BUSY:
                continue
            if member.busy or (rest is not None and rest.why == BUSY):
                counts[BUSY] -= 1
            counts[TRIED] += 1
        return Shortage(_sorted(counts), shortage.soonest, counts[BUSY], shortage.serving)


_NOTHING: dict[str, Rest] = {}


def _sorted(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((why, count) for why, count in counts.items() if count))


def _soft_end(member: Member) -> float:
    assert member.soft is not None
    return member.soft.until


def _out_end(member: Member) -> float:
    assert member.out_until is not None
    return member.out_until
