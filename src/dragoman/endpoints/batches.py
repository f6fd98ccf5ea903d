"""Batches: what they may cost is reserved when they are made, and what they came to is counted
once, when one is seen to have ended: by its client, or by the gateway, which looks after each."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError, InvalidRequest
from dragoman.canonical.usage import Usage, consistent, summed
from dragoman.config import Account, EndpointName
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest, InternalRequest
from dragoman.edge.record import Record
from dragoman.endpoints.batch_lines import LONGEST_LINE, Rename, Results, Share, in_turn, usage_of
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.faces import FACES
from dragoman.endpoints.google_batches import output_of
from dragoman.endpoints.parts import Parts
from dragoman.endpoints.table import Face
from dragoman.endpoints.vendors import endpoints_of, is_spoken
from dragoman.limits.rules import Expected, Rules
from dragoman.prices.lookup import Charge, Prices
from dragoman.prices.rates import BATCH
from dragoman.protocols.base import Codec, to_json
from dragoman.protocols.numbers import token_count
from dragoman.serving.answers import MOST_BYTES
from dragoman.serving.bindings import AsksStore, service_at
from dragoman.serving.bound_notes import BATCHES, Noted, things_in
from dragoman.serving.limits.admission import lasting
from dragoman.serving.limits.use import MOST_OUTPUT
from dragoman.serving.plan import Plan
from dragoman.storage.bound import BoundId
from dragoman.upstream.errors import BadAnswer, CallError

_log = logging.getLogger("dragoman.gateway")

FIRST_LOOK_S: Final = 300.0
"""Seconds after which the gateway looks at a batch whose end nobody has seen; then twice as
long each time, up to the longest."""
_LONGEST_WAIT_S: Final = 3600.0
_READ_S: Final = 900.0
"""Seconds in which all results of a batch are read; whoever sends them slower sends them without
end."""
_RESULT_BYTES: Final = LONGEST_LINE
"""Bytes of results for each request of a batch."""
_AT_ONCE: Final = 20
"""Batches that are looked at one after another."""
_RUNNING: Final = frozenset(
    {
        *("validating", "in_progress", "finalizing", "cancelling", "canceling"),
        *(f"BATCH_STATE_{state}" for state in ("UNSPECIFIED", "PENDING", "RUNNING")),
    }
)
PATHS: Final[Mapping[str, str]] = {
    "batch": "/batches",
    "message_batch": "/messages/batches",
    "google_batch": "/batches",
}
"""Paths of batches below the version, by their kinds."""
_FACES: Final[Mapping[str, Face]] = {"message_batch": "anthropic", "google_batch": "google"}


class _Endless(Exception):
    """There are more results than a batch can have."""


class Batches:
    """The batches of clients, with one configuration."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._upstreams = parts.upstreams
        self._bindings = parts.upstreams.ids
        self._reserved = parts.reserved

    def rename(
        self,
        caller: Caller,
        codec: Codec,
        chosen: list[Plan],
        capability: EndpointName = "batches",
    ) -> Rename:
        """What renames the models of the requests of a batch, or what else has this `capability`,
        in the form of the protocol `codec`. The first decides which upstream makes it: its plan is
        put into `chosen`."""

        def sent(model: str) -> str:
            plan = self._parts.plans.of(caller, model)
            upstream = plan.upstream
            if capability not in endpoints_of(upstream) or not is_spoken(codec, upstream):
                raise InvalidRequest.at("model", f"{plan.upstream.name} makes no {capability}")
            if plan.target.endpoints is not None and capability not in plan.target.endpoints:
                raise InvalidRequest.at("model", f"its route has no {capability}")
            if not chosen:
                chosen.append(plan)
            first = chosen[0].upstream
            if service_at(first.base_url) != service_at(plan.upstream.base_url):
                problem = f"it leads to {plan.upstream.name}, another one before to {first.name}"
                raise InvalidRequest.at("model", problem)
            return plan.target.model

        return sent

    async def reserve(self, call: EndpointCall, shares: Mapping[str, Share]) -> Record:
        """Reserve for a batch from the limits of its caller, which are lasting. Returns the record
        that holds what is reserved, for `keep` or `give_back`.

        Raises:
            DragomanError: a limit refuses it.
            ClientGone: the client left while it waited for its turn.
        """
        caller, upstream = call.caller, call.plan.upstream.name
        held = Record(caller=caller.name, team=caller.team, model=next(iter(shares), ""))

        def expect(rules: Rules) -> tuple[Expected, int]:
            given = output = cost = 0
            unknown, billed = False, False
            for share in shares.values():
                usage = self._estimated(caller.name, upstream, share)
                charge = batch_charge(call.plan.prices, upstream, share.sent, usage, share.requests)
                unknown, billed = unknown or charge.cost is None, billed or charge.billed
                given, output, cost = (
                    given + usage.input,
                    output + usage.output,
                    cost + (charge.cost or 0),
                )
            return Expected(given, output, cost=None if unknown else cost, billed=billed), 0

        if caller.is_limited:
            try:
                await self._parts.admission.admit_expected(
                    call.incoming, caller, held, call.plan.target, expect, among=lasting
                )
            finally:
                call.record.limit = held.limit
        return held

    def _estimated(self, caller: str, upstream: str, share: Share) -> Usage:
        """What the requests of a batch for one model may use."""
        estimates = self._parts.admission.expected
        given = estimates.input(caller, upstream, share.sent, share.bytes)
        output = share.output + share.unlimited * estimates.output(caller, share.sent)
        return Usage(input=given, output=min(output, MOST_OUTPUT))

    def keep(self, held: Record, owner: str, name: str) -> None:
        """A batch of that name was made, which is its owner's: what is reserved for it is held
        until it has ended."""
        if held.admitted is not None:
            self._reserved[owner, name] = held

    def give_back(self, held: Record) -> None:
        """No batch was made: what is reserved for it is given back, unless it is kept."""
        if held not in self._reserved.values():
            self._parts.admission.settle(held, time.time())

    async def look_due(self) -> None:
        """Look at the batches that are due, and count those that have ended. One of which it could
        never be known what it came to counts as it was reserved, once its time is over.

        Raises:
            DragomanError: the store cannot be used now.
        """
        store = self._bindings.store
        if store is None:
            return
        now = time.time()
        for bound in await store.ask(
            lambda store: store.bound.take_due(now, now + _LONGEST_WAIT_S, _AT_ONCE)
        ):
            is_known = await self.look(bound)
            if bound.expires > now:
                await self._postpone(bound, now)
            elif await self._settle(bound) and not is_known:
                account = self._bindings.account_of(bound)
                if account is not None:
                    used = self._most_of(bound, account)
                    await self._count(bound, account, used, estimated=True)

    async def look(self, bound: BoundId) -> bool:
        """Ask the service for a batch. If it has ended, it is counted, unless it was. Returns False
        if that cannot be known, or what it came to.

        Raises:
            DragomanError: the store cannot be used now.
        """
        account = self._bindings.account_of(bound)
        answer = None if account is None else await self._shown(account, bound)
        if account is None or answer is None:
            return False
        return await self.seen(bound, answer, account)

    async def release(self) -> None:
        """Give back what is reserved here for batches that another process has counted.

        Raises:
            DragomanError: the store cannot be used now.
        """
        for key in list(self._reserved):
            if not await self._is_due(*key) and key in self._reserved:
                self._parts.admission.settle(self._reserved.pop(key), time.time())

    async def seen(self, bound: BoundId, answer: Mapping[str, Any], account: Account) -> bool:
        """A batch was seen, as `answer` shows it. If it has ended, it is counted, unless it was.
        Returns False if what it came to cannot be known now.

        Raises:
            DragomanError: the store cannot be used now.
        """
        if bound.kind not in BATCHES or not has_ended(answer) or bound.due is None:
            return True
        noted = Noted.of(bound.details)
        things = things_in(answer, bound.kind, bound.owner, account.name, noted)
        await self._bindings.bind(things)
        estimated = False
        try:
            used = await self._used(bound, answer, account)
        except (_Endless, InvalidRequest, TimeoutError):
            _log.warning("the results of the batch %s are too large to be counted", bound.name)
            used, estimated = self._most_of(bound, account), True
        except (CallError, DragomanError) as error:
            _log.warning("the results of the batch %s cannot be read: %s", bound.name, error)
            return False
        if await self._settle(bound):
            await self._count(bound, account, used, estimated=estimated)
        return True

    def _most_of(self, bound: BoundId, account: Account) -> Mapping[str, tuple[Usage, int]]:
        """As `_used`, of a batch whose results cannot be read: all that was reserved for it."""
        noted = Noted.of(bound.details)
        most: dict[str, tuple[Usage, int]] = {}
        for one in shares_of(noted.shares).values():
            usage = self._estimated(noted.by or bound.owner, account.upstream, one)
            before, requests = most.get(one.sent, (Usage(), 0))
            most[one.sent] = summed(before, usage), requests + one.requests
        return most

    async def _used(
        self, bound: BoundId, answer: Mapping[str, Any], account: Account
    ) -> Mapping[str, tuple[Usage, int]]:
        """What a batch that has ended used of each model, by the upstream's names, and for how many
        requests.

        Raises:
            CallError: its results cannot be read.
            _Endless, InvalidRequest, TimeoutError: they are larger than results can be.
        """
        shares = Noted.of(bound.details).shares
        names = {str(share[0]): model for model, share in shares.items()}
        whole = usage_of(answer.get("usage"))
        counts = answer.get("request_counts")
        if len(names) == 1 and whole is not None and isinstance(counts, dict):
            return {next(iter(names)): (whole, token_count(counts.get("completed")) or 1)}
        results = Results(names)
        paths = [f"{_path_of(bound)}/results"]
        if bound.kind == "batch":
            file = answer.get("output_file_id")
            paths = [f"/files/{file}/content"] if isinstance(file, str) else []
        elif bound.kind == "google_batch":
            inlined, file = output_of(answer)
            for place, one in enumerate(inlined):
                await in_turn(place)
                results.line(to_json(one))
            paths = [f"/{file}:download?alt=media"] if file else []
        elif not answer.get("results_url"):
            paths = []
        most = _RESULT_BYTES * sum(share.requests for share in shares_of(shares).values())
        async with asyncio.timeout(_READ_S):
            for path in paths:
                await self._read(account, path, results, most)
        return {model: (usage, results.counts[model]) for model, usage in results.usage.items()}

    async def _read(self, account: Account, path: str, results: Results, most: int) -> None:
        builder = self._upstreams.builders.of(account)
        await builder.ready()
        async with await self._upstreams.client.send(
            builder.bodyless("GET", path, "", {"accept": "*/*"})
        ) as answer:
            if not answer.is_good:
                raise BadAnswer(f"the service answers with status {answer.status}")
            async for chunk in answer:
                most -= len(chunk)
                if most < 0:
                    raise _Endless
                results.lines.feed(chunk)
            results.lines.finish()

    async def _shown(self, account: Account, bound: BoundId) -> Mapping[str, Any] | None:
        """A batch as its service shows it; None if it does not."""
        builder = self._upstreams.builders.of(account)
        try:
            await builder.ready()
            path = _path_of(bound)
            async with await self._upstreams.client.send(
                builder.bodyless("GET", path, "")
            ) as answer:
                body = await answer.read(MOST_BYTES)
                return jsontext.object_of(body) if answer.is_good else None
        except (CallError, DragomanError):
            return None

    async def _count(
        self,
        bound: BoundId,
        account: Account,
        used: Mapping[str, tuple[Usage, int]],
        *,
        estimated: bool,
    ) -> None:
        """Count what a batch came to."""
        noted = Noted.of(bound.details)
        models = {str(share[0]): model for model, share in noted.shares.items()}
        caller = self._bindings.caller(noted.by or bound.owner)
        reserved = self._reserved.pop((bound.owner, bound.name), None)
        path = f"/v1{PATHS[bound.kind]}"
        plan = self._parts.plans.without_model(caller, account.upstream)
        for sent, (usage, requests) in used.items():
            record, reserved = reserved or Record(caller=caller.name, team=caller.team), None
            record.model, record.upstream, record.upstream_model = (
                models.get(sent, sent),
                account.upstream,
                sent,
            )
            record.account, record.attempts = account.name, 1
            record.estimated = estimated
            record.usage = replace(consistent(usage), tier=BATCH)
            record.charge = batch_charge(
                plan.prices, account.upstream, sent, record.usage, requests
            )
            if record.admitted is None and caller.is_limited:
                await self._parts.admission.adopt(caller, record)
            self._parts.record_end(_incoming(path, bound, self._parts), record)
        if reserved is not None:
            self._parts.admission.settle(reserved, time.time())

    async def is_running(self, bound: BoundId) -> bool:
        """Whether a batch was not seen to have ended.

        Raises:
            DragomanError: the store cannot be used now.
        """
        return await self._is_due(bound.owner, bound.name)

    async def _settle(self, bound: BoundId) -> bool:
        return await self._store.ask(lambda store: store.bound.settle(bound.name, bound.owner))

    async def _postpone(self, bound: BoundId, now: float) -> None:
        due = now + min(max(now - bound.created, FIRST_LOOK_S), _LONGEST_WAIT_S)
        await self._store.ask(lambda store: store.bound.postpone(bound.name, bound.owner, due))

    async def _is_due(self, owner: str, name: str) -> bool:
        return await self._store.ask(lambda store: store.bound.is_due(name, owner))

    @property
    def _store(self) -> AsksStore:
        """The store, without which there are no batches."""
        assert self._bindings.store is not None
        return self._bindings.store


def _path_of(bound: BoundId) -> str:
    """The path of a batch below the version."""
    return f"{PATHS[bound.kind]}/{bound.name.rpartition('/')[2]}"


def has_ended(answer: Mapping[str, Any]) -> bool:
    """Whether a batch, as its service shows it, has ended."""
    if isinstance(metadata := answer.get("metadata"), dict) and "state" in metadata:
        return answer.get("done") is True or metadata["state"] not in _RUNNING
    status = answer.get("status", answer.get("processing_status"))
    return isinstance(status, str) and status not in _RUNNING


def batch_charge(prices: Prices, upstream: str, model: str, usage: Usage, requests: int) -> Charge:
    """What so many requests of a batch cost together: by the batch price, or half of the usual one
    where none is known. Each counts as having an equal part of the prompt."""
    now = time.time()
    one = replace(usage, input=usage.input // max(requests, 1), tier=BATCH)
    basis, price = prices.quote(upstream, model, now).priced(BATCH, one.input)
    charge = prices.charge(upstream, model, one, now)
    if price is None or charge.cost is None:
        return charge
    cost = price.cost_of(usage, max(requests, 1))
    return replace(charge, basis=basis, cost=cost if price.tier == BATCH else cost // 2)


def shares_of(noted: Mapping[str, Sequence[Any]]) -> dict[str, Share]:
    """What is for each model of a batch, as it was noted."""
    return {model: Share(*share) for model, share in noted.items()}


def as_noted(shares: Mapping[str, Share]) -> Mapping[str, Sequence[Any]]:
    """The same to be noted."""
    return {
        model: [share.sent, share.requests, share.bytes, share.output, share.unlimited]
        for model, share in shares.items()
    }


def _incoming(path: str, bound: BoundId, parts: Parts) -> IncomingRequest:
    """The request that a batch is counted as."""
    codec = FACES[_FACES.get(bound.kind, "openai")]
    assert codec is not None
    incoming = IncomingRequest(InternalRequest(path, {}), codec, parts.clock(), path)
    incoming.status = 200
    return incoming
