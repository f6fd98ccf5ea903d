"""Which account of one upstream serves a request. Pure: told the time, it performs no I/O.

`Rotation.choose` costs the same however many accounts there are, and however many of them rest,
are busy or are disabled: nothing is scanned. Accounts wait in lanes (`dragoman.accounts.members`).
There is one lane for every audience, which are the accounts that serve the same models, and one for
each model for which more than a few accounts rest. Who is found to be out drops from the lane, and
is put back when that ends; so what a choice drops was paid for when it was put in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Container, Iterable
from itertools import islice
from math import inf, nextafter

from msgspec import Struct

from dragoman.accounts.audience import Audience, Audiences
from dragoman.accounts.decisions import on_trial
from dragoman.accounts.members import Entry, Lane, Member, Terms
from dragoman.accounts.ordering import LeastRecentlyUsed, Order
from dragoman.accounts.standings import Apart, Shortage, Standings
from dragoman.accounts.states import AccountState, Rest

_MOST_LANES = 64
"""Lanes that are kept; others are built again when they are asked for."""
_FEW = 8
"""Accounts at rest for a model that a choice passes over rather than keep a lane for the model."""
_AT_ONCE = 1024
"""Ends of rests that one choice looks at, unless it finds no account: where thousands end at the
same moment, as quotas do at midnight, the next choices share the work."""
_CLOCK_SLACK = 60.0
"""Seconds by which the clock may be set back without everything being looked at again."""


class Choice(Struct, frozen=True, gc=False):
    """The account chosen. `trial` is the model (empty: every model) for which the request is to
    show whether the account can be used again, None if it need not.
    """

    member: Member
    trial: str | None = None


class Rotation:
    """The accounts of one upstream, in the order of their use.

    Accounts are called by their names. `order` says who comes first of those that can be chosen.
    """

    def __init__(self, terms: Iterable[Terms] = (), order: Order | None = None) -> None:
        self._order: Order = LeastRecentlyUsed() if order is None else order
        self._members: dict[str, Member] = {}
        self._audiences = Audiences()
        self._standings = Standings(self._audiences)
        self._lanes: OrderedDict[Audience | str, tuple[Lane, Audience]] = OrderedDict()
        self._ordinal = 0
        self._stamp = 0.0
        self._now = -inf
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
        if not self._now <= now < self._standings.next_alarm:
            self._advance(now)
        apart = self._standings.apart.get(model)
        favourite = None
        if pinned and pinned not in tried:
            favourite = self._members.get(pinned)
            if favourite is not None and not self._standings.serves(favourite, model):
                favourite = None
            elif favourite is not None and self._standings.next_alarm <= now:
                self._look(favourite, now)
        if favourite is not None and self._is_ready(favourite, model):
            return self._take(favourite, model, now)
        member = self._first_ready(model, apart, tried)
        if member is None:
            if self._standings.next_alarm <= now:
                return self.choose(model, tried, now, pinned)
            if favourite is not None and self._may_serve(favourite, apart):
                member = favourite
            else:
                member = self._first_avoided(model, apart, tried)
        return None if member is None else self._take(member, model, now)

    def can_serve(self, name: str, model: str, now: float) -> bool:
        """Whether `choose` could choose this account."""
        if not self._now <= now < self._standings.next_alarm:
            self._advance(now)
        member = self._members.get(name)
        if member is None or not self._standings.serves(member, model):
            return False
        return self._may_serve(member, self._standings.apart.get(model))

    def returned(self, choice: Choice) -> None:
        """The request of a choice ended, however it did."""
        member = choice.member
        member.in_flight -= 1
        if choice.trial is not None:
            self.end_trial(choice)
        if member.busy:
            self._recount(member)
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

        `former` is what `withdraw` returned for an account that comes back. Nothing is held against
        it any more, but its requests in flight are still its own.
        """
        member = self._members.get(terms.name)
        if member is not None:
            self._leave(member)
            if terms.balance != member.terms.balance:
                member.balance = terms.balance
        else:
            member = Member(terms, self._ordinal) if former is None else former
            self._ordinal += 1
            member.state, member.balance = AccountState(terms.name), terms.balance
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
        self._recount(member)
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
        while self._standings.out == len(self._members) and self._standings.next_alarm <= now:
            self._advance(now)
        return self._standings.out < len(self._members)

    def next_wake(self) -> float | None:
        """When the next rest ends, in seconds of the clock; None: none will by itself."""
        alarm = self._standings.next_alarm
        return None if alarm == inf else alarm

    def shortage(self, model: str, tried: Collection[str] = ()) -> Shortage:
        """Why `choose` has just found no account: the reasons of all accounts of the upstream."""
        return self._standings.shortage(model, tried, self._members)

    # Choosing

    def _first_ready(self, model: str, apart: Apart | None, tried: Container[str]) -> Member | None:
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
        self, model: str, apart: Apart | None, tried: Container[str]
    ) -> Member | None:
        best: tuple[int, float, int, Member] | None = None
        lanes = [self._standings.avoided] if self._standings.avoided.inside else []
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

    def _may_serve(self, member: Member, apart: Apart | None) -> bool:
        return not member.barred and (apart is None or member not in apart.hard)

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
            self._recount(member)
        return Choice(member)

    # Lanes

    def _lane(self, model: str, apart: Apart | None) -> Lane:
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
            self._standings.apart[key].lane = None
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
        member.audience, new = self._audiences.join(member.terms.models)
        member.gone = False
        if new:
            self._drop_lanes()
        self._standings.join(member)
        self._members[member.name] = member
        self._order.joined(member)
        for lane, audience in self._lanes.values():
            if member.audience in audience.classes:
                lane.add(member)

    def _leave(self, member: Member) -> None:
        for model in self._standings.leave(member):
            self._rejoin(member, model)
        member.missing.clear()
        for lane, _ in self._lanes.values():
            lane.discard(member)
        del self._members[member.name]
        if self._audiences.leave(member.audience):
            self._drop_lanes()

    # Where accounts stand

    def _reach(self, now: float) -> float:
        """The latest time that was told. What ends by then is looked at when it matters."""
        if now > self._now:
            self._now = now
        return self._now

    def _advance(self, now: float) -> None:
        """Time has come to `now`: rests that ended by then are over, the first to end first."""
        if now < self._now - _CLOCK_SLACK:
            self._now = now
            for member in self._members.values():
                self._look(member, now)
        self._now = max(self._now, now)
        for member in islice(self._standings.due(now), _AT_ONCE):
            self._look(member, now)

    def _look(self, member: Member, now: float) -> None:
        """Find out where an account stands, and put it where it belongs."""
        if member.gone:
            return
        was_out = member.out
        for model in self._standings.look(member, now):
            self._rejoin(member, model)
        if was_out and not member.out:
            self._order.joined(member)
        self._put_back(member)

    def _recount(self, member: Member) -> None:
        """The account has another number of requests in flight than before."""
        if not member.gone:
            self._standings.recount(member, self._now)
            self._put_back(member)

    def _put_back(self, member: Member) -> None:
        if not member.barred and member.missing:
            for lane in member.missing:
                lane.add(member)
            member.missing.clear()

    def _rejoin(self, member: Member, model: str) -> None:
        """The account no longer stands apart for the model."""
        entry = self._standings.apart[model]
        self._order.joined(member)
        if not entry.size:
            if entry.lane is not None:
                self._drop_lane(model)
            del self._standings.apart[model]
        elif entry.lane is not None and member not in entry.lane.inside:
            entry.lane.add(member)
