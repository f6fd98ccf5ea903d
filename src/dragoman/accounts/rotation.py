"""Which account of one upstream serves a request. Pure: told the time, it performs no I/O.

`Rotation.choose` costs the same however many accounts there are, and however many of them rest,
are busy or are disabled: nothing is scanned. Accounts wait in lanes (`dragoman.accounts.lanes`).
There is one lane for every audience, which are the accounts that serve the same models, and one for
each model for which more than a few accounts rest. Who is found to be out drops from the lane, and
is put back when that ends; so what a choice drops was paid for when it was put in.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Container, Iterable
from heapq import heappop, heappush
from math import inf, nextafter

from msgspec import Struct

from dragoman.accounts.audience import Audience, Audiences
from dragoman.accounts.decisions import on_trial, standing
from dragoman.accounts.lanes import Entry, Lane
from dragoman.accounts.members import BUSY, Member, Terms
from dragoman.accounts.ordering import LeastRecentlyUsed, Order
from dragoman.accounts.states import FOREVER, AccountState, Rest

TRIED = "already tried for this request"
OTHER_MODELS = "not for this model"
"""Reasons of a shortage that are no state of an account."""

_MOST_LANES = 64
"""Lanes that are kept; others are built again when they are asked for."""
_FEW = 8
"""Accounts at rest for a model that a choice passes over rather than keep a lane for the model."""
_MOST_TOLD = 256
"""Models whose shortage is remembered until something changes."""
_CLOCK_SLACK = 60.0
"""Seconds by which the clock may be set back without everything being looked at again."""

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


class Choice(Struct, frozen=True, gc=False):
    """The account chosen. `trial` is the model (empty: every model) for which the request is to
    show whether the account can be used again, None if it need not.
    """

    member: Member
    trial: str | None = None


class _Apart:
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


class Rotation:
    """The accounts of one upstream, in the order of their use.

    Accounts are called by their names. `order` says who comes first of those that can be chosen.
    """

    def __init__(self, terms: Iterable[Terms] = (), order: Order | None = None) -> None:
        self._order: Order = LeastRecentlyUsed() if order is None else order
        self._members: dict[str, Member] = {}
        self._audiences = Audiences()
        self._class_reasons: dict[int, Counter[str]] = {}
        self._class_sizes: Counter[int] = Counter()
        self._class_ends: dict[int, Lane] = {}
        self._lanes: OrderedDict[Audience | str, tuple[Lane, Audience]] = OrderedDict()
        self._avoided = Lane(_soft_end)
        self._apart: dict[str, _Apart] = {}
        self._alarms: list[tuple[float, int, Member]] = []
        self._alarm_count = 0
        self._ordinal = 0
        self._out = 0
        self._stamp = 0.0
        self._now = -inf
        self._version = 0
        self._told: dict[str, tuple[int, Shortage]] = {}
        for entry in terms:
            self.define(entry, 0.0)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def member(self, name: str) -> Member:
        """The account of that name.

        Raises:
            KeyError: there is none.
        """
        return self._members[name]

    def choose(
        self, model: str, tried: Container[str], now: float, pinned: str = ""
    ) -> Choice | None:
        """The account that serves a request for `model` (empty: any) and is not in `tried`; None if
        none can. It is marked as used, and has one request more in flight until `returned`.

        `pinned` is preferred if it can be chosen as well as others. Accounts that are merely to be
        avoided come last: of the lowest priority number, that whose rest ends first.
        """
        if not self._now <= now < self._next_alarm():
            self._advance(now)
        apart = self._apart.get(model)
        favourite = None
        if pinned and pinned not in tried:
            favourite = self._members.get(pinned)
            if favourite is not None and not self._serves(favourite, model):
                favourite = None
        if favourite is not None and self._is_ready(favourite, model):
            return self._take(favourite, model, now)
        member = self._first_ready(model, apart, tried)
        if member is None:
            if favourite is not None and self._may_serve(favourite, apart):
                member = favourite
            else:
                member = self._first_avoided(model, apart, tried)
        return None if member is None else self._take(member, model, now)

    def can_serve(self, name: str, model: str, now: float) -> bool:
        """Whether `choose` could choose this account."""
        if not self._now <= now < self._next_alarm():
            self._advance(now)
        member = self._members.get(name)
        if member is None or not self._serves(member, model):
            return False
        return self._may_serve(member, self._apart.get(model))

    def returned(self, choice: Choice) -> None:
        """The request of a choice ended, however it did."""
        member = choice.member
        member.in_flight -= 1
        if choice.trial is not None:
            self.end_trial(choice)
        if member.busy:
            self._look(member, self._now)
        if self._order.improves:
            self._moved_up(member)

    def end_trial(self, choice: Choice) -> None:
        """The request of a choice no longer shows anything. Harmless if it is told twice."""
        member = choice.member
        if choice.trial is not None and member.trials.get(choice.trial) is choice:
            del member.trials[choice.trial]
            self._look(member, self._now)

    def define(self, terms: Terms, now: float, former: Member | None = None) -> Member:
        """Add an account, or change what it is set up for: what is known of it remains.

        `former` is what `withdraw` returned for an account that comes back.
        """
        member = self._members.get(terms.name)
        if member is not None:
            self._leave(member)
        else:
            member = former or Member(terms, self._ordinal)
            self._ordinal += 1
        if terms.balance != member.terms.balance:
            member.balance = terms.balance
        member.terms, member.priority = terms, terms.priority
        self._join(member)
        self._look(member, self._reach(now))
        return member

    def withdraw(self, name: str) -> Member:
        """Remove an account; its requests in flight end as usual.

        Raises:
            KeyError: there is none of that name.
        """
        member = self._members[name]
        self._leave(member)
        member.gone = True
        return member

    def put(self, name: str, state: AccountState, now: float) -> None:
        """What is known of the account has changed."""
        member = self._members[name]
        member.state = state
        self._look(member, self._reach(now))

    def hold(self, name: str, rest: Rest | None, now: float) -> None:
        """Avoid the account for a reason that is none of its own (None: no longer)."""
        member = self._members[name]
        member.held = rest
        self._look(member, self._reach(now))

    def used_elsewhere(self, name: str, at: float) -> None:
        """Another worker chose the account at that time."""
        member = self._members[name]
        member.used = max(member.used, at)

    def in_flight_elsewhere(self, name: str, count: int) -> None:
        """The requests that other workers have in flight with the account."""
        member = self._members[name]
        fewer = count < member.elsewhere
        member.elsewhere = count
        member.background = min(member.background, count)
        self._look(member, self._now)
        if fewer and self._order.improves:
            self._moved_up(member)

    def balance(self, name: str, balance: float | None) -> None:
        """The tokens that are left to the account."""
        member = self._members[name]
        if balance != member.balance:
            member.balance = balance
            self._moved_up(member)

    def usable(self, now: float) -> bool:
        """Whether any account serves some model."""
        if now >= self._next_alarm():
            self._advance(now)
        return self._out < len(self._members)

    def next_wake(self) -> float | None:
        """When the next rest ends, in seconds of the clock; None: none will by itself."""
        return self._alarms[0][0] if self._alarms else None

    def shortage(self, model: str, tried: Collection[str] = ()) -> Shortage:
        """Why `choose` has just found no account: the reasons of all accounts of the upstream."""
        version, told = self._told.get(model, (-1, Shortage()))
        if version != self._version:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            told = self._count(model)
            self._told[model] = self._version, told
        return self._without_tried(told, model, tried) if tried else told

    # Choosing

    def _first_ready(
        self, model: str, apart: _Apart | None, tried: Container[str]
    ) -> Member | None:
        lane = self._lane(model, apart)
        passed_over: list[Entry] = []
        own = apart is not None and lane is apart.lane
        while (member := lane.first()) is not None:
            if member.barred or member.soft is not None:
                lane.drop()
                member.missing[lane] = None
            elif apart is not None and model in member.apart:
                if own:
                    lane.drop()
                else:
                    passed_over.append(lane.set_aside())
            elif member.name in tried:
                passed_over.append(lane.set_aside())
            else:
                break
        for entry in passed_over:
            lane.back(entry)
        return member

    def _first_avoided(
        self, model: str, apart: _Apart | None, tried: Container[str]
    ) -> Member | None:
        best: tuple[int, float, int, Member] | None = None
        lanes = [self._avoided] if self._avoided.inside else []
        if apart is not None:
            lanes.append(apart.soft)
        for lane in lanes:
            passed_over: list[Entry] = []
            while (member := lane.first()) is not None:
                if member.barred:
                    lane.drop()
                    member.missing[lane] = None
                elif (
                    member.name in tried
                    or (apart is not None and member in apart.hard)
                    or member.audience not in self._audiences.of(model).classes
                ):
                    passed_over.append(lane.set_aside())
                else:
                    found = (member.priority, lane.key(member), member.ordinal, member)
                    best = found if best is None or found < best else best
                    break
            for entry in passed_over:
                lane.back(entry)
        return None if best is None else best[3]

    def _is_ready(self, member: Member, model: str) -> bool:
        return not member.barred and member.soft is None and model not in member.apart

    def _may_serve(self, member: Member, apart: _Apart | None) -> bool:
        return not member.barred and (apart is None or member not in apart.hard)

    def _serves(self, member: Member, model: str) -> bool:
        return member.audience in self._audiences.of(model).classes

    def _take(self, member: Member, model: str, now: float) -> Choice:
        self._order.chosen(member)
        last = max(self._stamp, member.used)
        member.used = self._stamp = now if now > last else nextafter(last, inf)
        member.in_flight += 1
        state = member.state
        if state.exhausted is not None or state.cooling:
            for scope in ("", model):
                if on_trial(state, scope, now):
                    choice = member.trials[scope] = Choice(member, scope)
                    self._look(member, now)
                    return choice
        if member.terms.max_concurrent is not None:
            self._look(member, now)
        return Choice(member)

    # Lanes

    def _lane(self, model: str, apart: _Apart | None) -> Lane:
        if apart is not None and apart.lane is not None:
            self._lanes.move_to_end(model)
            return apart.lane
        audience = self._audiences.of(model)
        if apart is not None and apart.size > _FEW:
            lane = self._build(model, audience, model)
            apart.lane = lane
            return lane
        found = self._lanes.get(audience)
        if found is None:
            return self._build(audience, audience, None)
        self._lanes.move_to_end(audience)
        return found[0]

    def _build(self, key: Audience | str, audience: Audience, model: str | None) -> Lane:
        lane = Lane(self._order.key)
        ready: list[Member] = []
        for member in self._members.values():
            if member.audience not in audience.classes:
                continue
            if member.barred or member.soft is not None:
                member.missing[lane] = None
            elif model is None or model not in member.apart:
                ready.append(member)
        lane.fill(ready)
        self._lanes[key] = lane, audience
        if len(self._lanes) > _MOST_LANES:
            self._drop_lane(next(iter(self._lanes)))
        return lane

    def _drop_lane(self, key: Audience | str) -> None:
        lane, _ = self._lanes.pop(key)
        if isinstance(key, str):
            self._apart[key].lane = None
        for member in self._members.values():
            member.missing.pop(lane, None)

    def _drop_lanes(self) -> None:
        """Models have other audiences than before."""
        while self._lanes:
            self._drop_lane(next(iter(self._lanes)))

    def _moved_up(self, member: Member) -> None:
        """The account's key may have become smaller."""
        for lane, _ in self._lanes.values():
            if member in lane.inside:
                lane.add(member)

    # Accounts that come and go

    def _join(self, member: Member) -> None:
        number, new = self._audiences.join(member.terms.models)
        member.audience, member.gone = number, False
        if new:
            self._class_reasons[number] = Counter()
            self._class_ends[number] = Lane(_out_end, ranked=False)
            self._drop_lanes()
        self._class_sizes[number] += 1
        self._members[member.name] = member
        self._order.joined(member)
        for lane, audience in self._lanes.values():
            if number in audience.classes:
                lane.add(member)
        self._version += 1

    def _leave(self, member: Member) -> None:
        self._settle(member, "", None, False, None, {})
        self._avoided.discard(member)
        member.missing.clear()
        for lane, _ in self._lanes.values():
            lane.discard(member)
        del self._members[member.name]
        number = member.audience
        self._class_sizes[number] -= 1
        if self._audiences.leave(number):
            del self._class_reasons[number], self._class_ends[number], self._class_sizes[number]
            self._drop_lanes()
        self._version += 1

    # Where accounts stand

    def _next_alarm(self) -> float:
        return self._alarms[0][0] if self._alarms else inf

    def _reach(self, now: float) -> float:
        """The latest time that was told. What ends by then is looked at when it matters."""
        if now > self._now:
            self._now = now
        return self._now

    def _advance(self, now: float) -> None:
        """Time has come to `now`: rests that ended by then are over."""
        if now < self._now - _CLOCK_SLACK:
            self._now = now
            for member in self._members.values():
                self._look(member, now)
        self._now = max(self._now, now)
        alarms = self._alarms
        while alarms and alarms[0][0] <= now:
            member = heappop(alarms)[2]
            if not member.gone:
                self._look(member, now)

    def _look(self, member: Member, now: float) -> None:
        """Find out where an account stands, and put it where it belongs."""
        if member.gone:
            return
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
        self._settle(member, out, until, self._is_busy(member, now), soft, apart)

    def _find_apart(self, member: Member, soft: Rest | None, now: float) -> dict[str, Rest]:
        state, apart = member.state, {}
        for model in state.cooling:
            if not model:
                continue
            rest = standing(state, model, now)
            if rest is None:
                if model in member.trials and on_trial(state, model, now):
                    apart[model] = _ON_TRIAL
            elif not (soft is not None and rest.soft) and self._serves(member, model):
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
    ) -> None:
        """Put an account where it belongs, and count why it cannot be chosen."""
        before = member.out
        if until != member.out_until:
            ends = self._class_ends[member.audience]
            ends.discard(member)
            member.out_until = until
            if until is not None and until < FOREVER:
                ends.add(member)
                self._alarm(member, until)
        label = out or (BUSY if busy else "")
        if label != member.label or apart != member.apart:
            self._version += 1
            was, member.label = member.label, label
            reasons = self._class_reasons[member.audience]
            if was:
                reasons[was] -= 1
                if not reasons[was]:
                    del reasons[was]
            if label:
                reasons[label] += 1
            if apart or member.apart:
                self._set_apart(member, was, apart)
        if soft != member.soft:
            self._avoided.discard(member)
            member.missing.pop(self._avoided, None)
            member.soft = soft
            if soft is not None:
                self._avoided.add(member)
                self._alarm(member, soft.until)
        self._out += bool(out) - bool(before)
        member.out, member.busy, member.barred = out, busy, bool(label)
        if before and not out:
            self._order.joined(member)
        if not label and member.missing:
            for lane in member.missing:
                lane.add(member)
            member.missing.clear()

    def _set_apart(self, member: Member, was: str, apart: dict[str, Rest]) -> None:
        before = member.apart
        for model, rest in before.items():
            entry = self._apart[model]
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
            entry = self._apart.get(model) or self._apart.setdefault(model, _Apart(model))
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
        for model in before:
            if model not in apart:
                self._rejoin(member, model)

    def _rejoin(self, member: Member, model: str) -> None:
        """The account no longer stands apart for the model."""
        entry = self._apart[model]
        self._order.joined(member)
        if not entry.size:
            if entry.lane is not None:
                self._drop_lane(model)
            del self._apart[model]
        elif entry.lane is not None and member not in entry.lane.inside:
            entry.lane.add(member)

    def _alarm(self, member: Member, at: float) -> None:
        if at < FOREVER:
            self._alarm_count += 1
            heappush(self._alarms, (at, self._alarm_count, member))

    # Shortage

    def _count(self, model: str) -> Shortage:
        counts: Counter[str] = Counter()
        serving = 0
        ends: list[float] = []
        for number in self._audiences.of(model).classes:
            counts.update(self._class_reasons[number])
            serving += self._class_sizes[number]
            first = self._class_ends[number].first()
            if first is not None and first.out_until is not None:
                ends.append(first.out_until)
        apart = self._apart.get(model)
        if apart is not None:
            counts.update(apart.why)
            counts[BUSY] -= apart.hidden
            first = apart.ends.first()
            if first is not None:
                ends.append(first.apart[model].until)
        counts[OTHER_MODELS] = len(self._members) - serving
        return Shortage(_told(counts), min(ends, default=None), counts[BUSY], serving)

    def _without_tried(self, told: Shortage, model: str, tried: Iterable[str]) -> Shortage:
        counts = Counter(dict(told.reasons))
        for name in set(tried):
            member = self._members.get(name)
            if member is None or member.out or not self._serves(member, model):
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
