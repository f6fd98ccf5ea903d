"""Which account of one upstream serves a request. Pure: the time is an argument.

`Rotation.choose` costs the same however many accounts there are, and however many of them rest, are
busy or are disabled: nothing is scanned. Accounts wait in queues
(`dragoman.accounts.decide.members`). There is one queue for all models that the same allow-lists
name, and one for each model for which more than a few accounts rest. An account that is found to be
out is dropped from the queue, and put back when that ends; so the cost of dropping it was paid when
it was put in.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from itertools import islice
from math import inf, nextafter

from dragoman.accounts.decide.allow_lists import AllowLists, ServingLists
from dragoman.accounts.decide.availability import Availability, ModelRests, Shortage
from dragoman.accounts.decide.decisions import on_trial
from dragoman.accounts.decide.members import Choice, Entry, Member, MemberQueue, MemberSettings
from dragoman.accounts.decide.ordering import LeastRecentlyUsed, Order
from dragoman.accounts.decide.states import AccountState, Rest

_MOST_QUEUES = 64
"""Queues in memory; others are built again when they are needed."""
_FEW = 8
"""Accounts at rest for a model that a choice passes over rather than keep a queue for the model."""
_AT_ONCE = 1024
"""Ends of rests that one choice looks at, unless it finds no account: where thousands end at the
same moment, as quotas do at midnight, the next choices share the work."""
_CLOCK_SLACK = 60.0
"""Seconds by which the clock may be set back without everything being looked at again."""


class Rotation:
    """The accounts of one upstream, in the order of their use.

    Accounts are called by their names. `order` ranks those that can be chosen.
    """

    def __init__(self, settings: Iterable[MemberSettings] = (), order: Order | None = None) -> None:
        self._order: Order = LeastRecentlyUsed() if order is None else order
        self.members: dict[str, Member] = {}
        self._allow_lists = AllowLists()
        self._availability = Availability(self._allow_lists)
        self._queues: dict[ServingLists | ModelRests, tuple[MemberQueue, ServingLists]] = {}
        self._ordinal = 0
        self._stamp = 0.0
        self._now = -inf
        for entry in settings:
            self.define(entry, 0.0)

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def member(self, name: str) -> Member:
        """The account of that name.

        Raises:
            KeyError: there is none.
        """
        return self.members[name]

    def choose(
        self,
        model: str,
        tried: Container[str],
        now: float,
        pinned: str = "",
        *,
        stays: bool = True,
    ) -> Choice | None:
        """The account that serves a request for `model` (empty: any) and is not in `tried`; None if
        none can. It is marked as used, and has one request more in flight until `returned`.

        `pinned` is preferred if it can be chosen as well as others; unless it `stays`, not to those
        of a lower priority number. Accounts that are merely to be
        avoided come last: of the lowest priority number, that whose rest ends first.
        """
        if not self._now <= now < self._availability.next_alarm:
            self._advance(now)
        model_rests = self._availability.by_model.get(model)
        member = favourite = None
        if pinned and pinned not in tried:
            favourite = self.members.get(pinned)
            if favourite is not None and not self._availability.serves(favourite, model):
                favourite = None
            elif favourite is not None:
                if self._availability.next_alarm <= now:
                    self._refresh(favourite, now)
                if self._is_ready(favourite, model):
                    member = favourite
        if member is None or not stays:
            first = self._first_ready(model, model_rests, tried)
            if member is None or (first is not None and first.priority < member.priority):
                member = first
        if member is None:
            if self._availability.next_alarm <= now:
                return self.choose(model, tried, now, pinned, stays=stays)
            if favourite is not None and self._may_serve(favourite, model_rests):
                member = favourite
            else:
                member = self._first_avoided(model, model_rests, tried)
            if member is None:
                return None
        return self._take(member, model, now)

    def can_serve(self, name: str, model: str, now: float) -> bool:
        """Whether `choose` could choose this account."""
        if not self._now <= now < self._availability.next_alarm:
            self._advance(now)
        member = self.members.get(name)
        if member is None or not self._availability.serves(member, model):
            return False
        return self._may_serve(member, self._availability.by_model.get(model))

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
        """The request of a choice is no trial any more. Harmless if called twice."""
        member = choice.member
        if choice.trial is not None and member.trials.get(choice.trial) is choice:
            del member.trials[choice.trial]
            self._refresh(member, self._now)

    def define(self, settings: MemberSettings, now: float, former: Member | None = None) -> Member:
        """Add an account, or change its settings: its state remains.

        `former` is what `withdraw` returned for an account that comes back. Its state
        starts anew, but its requests in flight are still its own.
        """
        member = self.members.get(settings.name)
        if member is not None:
            self._remove(member)
            if settings.balance != member.settings.balance:
                member.balance = settings.balance
        else:
            member = Member(settings, self._ordinal) if former is None else former
            self._ordinal += 1
            member.state, member.balance = AccountState(settings.name), settings.balance
            member.quota_used = 0.0
        member.settings, member.priority = settings, settings.priority
        self._add(member)
        self._refresh(member, self._reach(now))
        return member

    def withdraw(self, name: str) -> Member:
        """Remove an account; its requests in flight end as usual.

        Raises:
            KeyError: there is none of that name.
        """
        member = self.members[name]
        self._remove(member)
        member.removed = True
        return member

    def put(self, name: str, state: AccountState, now: float) -> None:
        """What is known of the account has changed."""
        member = self.members[name]
        member.state = state
        self._refresh(member, self._reach(now))

    def avoid(self, name: str, rest: Rest | None, now: float) -> None:
        """Avoid the account for a reason that is none of its own (None: no longer)."""
        member = self.members[name]
        member.avoidance = rest
        self._refresh(member, self._reach(now))

    def used_elsewhere(self, name: str, at: float) -> None:
        """Another worker chose the account at that time."""
        member = self.members[name]
        member.used = max(member.used, at)

    def in_flight_elsewhere(self, name: str, count: int) -> None:
        """The requests that other workers have in flight with the account."""
        member = self.members[name]
        fewer = count < member.in_flight_elsewhere
        member.in_flight_elsewhere = count
        member.background = min(member.background, count)
        self._recount(member)
        if fewer and self._order.improves:
            self._moved_up(member)

    def balance(self, name: str, balance: float | None) -> None:
        """The tokens that are left to the account."""
        member = self.members[name]
        if balance != member.balance:
            member.balance = balance
            self._moved_up(member)

    def quota(self, name: str, used: float) -> None:
        """The share of the account's quota that is used."""
        member = self.members[name]
        if used != member.quota_used:
            member.quota_used = used
            self._moved_up(member)

    def left(self, now: float) -> int:
        """How many accounts serve some model. Where thousands of rests have just ended, the number
        is reached over the next calls."""
        if self._availability.next_alarm <= now:
            self._advance(now)
        return len(self.members) - self._availability.out

    def usable(self, now: float) -> bool:
        """Whether any account serves some model."""
        while self._availability.out == len(self.members) and self._availability.next_alarm <= now:
            self._advance(now)
        return self._availability.out < len(self.members)

    def next_wake(self) -> float | None:
        """When the next rest ends, in seconds of the clock; None: none will by itself."""
        alarm = self._availability.next_alarm
        return None if alarm == inf else alarm

    def shortage(self, model: str, tried: Collection[str] = ()) -> Shortage:
        """Why `choose` has just found no account: the reasons of all accounts of the upstream."""
        return self._availability.shortage(model, tried, self.members)

    # Choosing

    def _first_ready(
        self, model: str, model_rests: ModelRests | None, tried: Container[str]
    ) -> Member | None:
        serving = self._allow_lists.serving(model)
        owner: ServingLists | ModelRests = serving
        if model_rests is not None and (model_rests.queue is not None or model_rests.size > _FEW):
            owner = model_rests
        if (queue := owner.queue) is None:
            queue = self._build(owner, serving, model)
        passed_over: list[Entry] = []
        while (member := queue.first()) is not None:
            if member.blocked or member.soft is not None:
                queue.drop()
                member.dropped_from[queue] = None
            elif model_rests is not None and model in member.model_rests:
                if owner is model_rests:
                    queue.drop()
                else:
                    passed_over.append(queue.skip())
            elif member.name in tried:
                passed_over.append(queue.skip())
            else:
                break
        for entry in passed_over:
            queue.restore(entry)
        return member

    def _first_avoided(
        self, model: str, model_rests: ModelRests | None, tried: Container[str]
    ) -> Member | None:
        best: tuple[int, float, int, Member] | None = None
        queues = [self._availability.avoided] if self._availability.avoided.current else []
        if model_rests is not None:
            queues.append(model_rests.soft)
        for queue in queues:
            passed_over: list[Entry] = []
            while (member := queue.first()) is not None:
                if member.blocked:
                    queue.drop()
                    member.dropped_from[queue] = None
                elif (
                    member.name in tried
                    or (model_rests is not None and member in model_rests.hard)
                    or member.allow_list not in self._allow_lists.serving(model).lists
                ):
                    passed_over.append(queue.skip())
                else:
                    found = (member.priority, queue.key(member), member.ordinal, member)
                    best = found if best is None or found < best else best
                    break
            for entry in passed_over:
                queue.restore(entry)
        return None if best is None else best[3]

    def _is_ready(self, member: Member, model: str) -> bool:
        return not member.blocked and member.soft is None and model not in member.model_rests

    def _may_serve(self, member: Member, model_rests: ModelRests | None) -> bool:
        return not member.blocked and (model_rests is None or member not in model_rests.hard)

    def _take(self, member: Member, model: str, now: float) -> Choice:
        if self._order.counts:
            self._order.chosen(member)
        last = member.used if member.used > self._stamp else self._stamp
        member.used = self._stamp = now if now > last else nextafter(last, inf)
        member.in_flight += 1
        state = member.state
        if state.exhausted is not None or state.cooling:
            for scope in ("", model):
                if on_trial(state, scope, now):
                    choice = member.trials[scope] = Choice(member, scope)
                    self._refresh(member, now)
                    return choice
        if member.settings.max_concurrent is not None:
            self._recount(member)
        return member.choice

    # Queues

    def _build(
        self, owner: ServingLists | ModelRests, serving: ServingLists, model: str
    ) -> MemberQueue:
        queue = MemberQueue(self._order.key)
        ready: list[Member] = []
        for member in self.members.values():
            if member.allow_list not in serving.lists:
                continue
            if member.blocked or member.soft is not None:
                member.dropped_from[queue] = None
            elif owner is serving or model not in member.model_rests:
                ready.append(member)
        queue.fill(ready)
        owner.queue = queue
        self._queues[owner] = queue, serving
        if len(self._queues) > _MOST_QUEUES:
            self._drop_queue(next(iter(self._queues)))
        return queue

    def _drop_queue(self, owner: ServingLists | ModelRests) -> None:
        queue, _ = self._queues.pop(owner)
        owner.queue = None
        for member in self.members.values():
            member.dropped_from.pop(queue, None)

    def _drop_queues(self) -> None:
        """Models are named by other allow-lists than before."""
        while self._queues:
            self._drop_queue(next(iter(self._queues)))

    def _moved_up(self, member: Member) -> None:
        """The account's key may have become smaller."""
        for queue, _ in self._queues.values():
            if member in queue.current:
                queue.add(member)

    # Accounts that come and go

    def _add(self, member: Member) -> None:
        member.allow_list, new = self._allow_lists.add(member.settings.models)
        member.removed = False
        if new:
            self._drop_queues()
        self._availability.add(member)
        self.members[member.name] = member
        self._order.joined(member)
        for queue, serving in self._queues.values():
            if member.allow_list in serving.lists:
                queue.add(member)

    def _remove(self, member: Member) -> None:
        for model in self._availability.remove(member):
            self._rejoin(member, model)
        member.dropped_from.clear()
        for queue, _ in self._queues.values():
            queue.discard(member)
        del self.members[member.name]
        if self._allow_lists.remove(member.allow_list):
            self._drop_queues()

    # Whether accounts can be chosen

    def _reach(self, now: float) -> float:
        """The latest time that a caller gave. Rests that end by then are ended when it matters."""
        if now > self._now:
            self._now = now
        return self._now

    def _advance(self, now: float) -> None:
        """End the rests that are over at `now`, the first to end first."""
        if now < self._now - _CLOCK_SLACK:
            self._now = now
            for member in self.members.values():
                self._refresh(member, now)
        self._now = max(self._now, now)
        for member in islice(self._availability.due(now), _AT_ONCE):
            self._refresh(member, now)

    def _refresh(self, member: Member, now: float) -> None:
        """Find out whether an account can be chosen, and put it in the queues it belongs in."""
        if member.removed:
            return
        was_out = member.out
        for model in self._availability.refresh(member, now):
            self._rejoin(member, model)
        if was_out and not member.out:
            self._order.joined(member)
        self._requeue(member)

    def _recount(self, member: Member) -> None:
        """The account has another number of requests in flight than before."""
        if not member.removed:
            self._availability.recount(member, self._now)
            self._requeue(member)

    def _requeue(self, member: Member) -> None:
        if not member.blocked and member.dropped_from:
            for queue in member.dropped_from:
                queue.add(member)
            member.dropped_from.clear()

    def _rejoin(self, member: Member, model: str) -> None:
        """The account no longer rests for the model."""
        entry = self._availability.by_model[model]
        self._order.joined(member)
        if not entry.size:
            if entry.queue is not None:
                self._drop_queue(entry)
            del self._availability.by_model[model]
        elif entry.queue is not None and member not in entry.queue.current:
            entry.queue.add(member)
