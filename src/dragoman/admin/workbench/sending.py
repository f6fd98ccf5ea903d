"""A request of the workbench on its way: to a route of the gateway, or to a simulator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.pool import AccountPool
from dragoman.admin.workbench.tap import AnyFrame, Tap
from dragoman.canonical.losses import Loss
from dragoman.config import AccessRules, Account, Config, Secret, Upstream
from dragoman.edge.auth import Caller
from dragoman.edge.errors import fault_of
from dragoman.edge.incoming import IncomingRequest, InternalRequest
from dragoman.edge.record import CLIENT_GONE, Record
from dragoman.http import ClientGone
from dragoman.prices.lookup import Prices
from dragoman.protocols import CODECS, ProtocolName
from dragoman.serving.copies import ObservedClient
from dragoman.serving.exchange import Exchange
from dragoman.serving.large import LargeBodies
from dragoman.serving.plan import POLICY
from dragoman.serving.routing import Router
from dragoman.serving.upstream_requests import UpstreamRequestBuilders
from dragoman.serving.upstreams import Upstreams
from dragoman.upstream.client import UpstreamClient

CALLER = "workbench"
"""Name of the key that what is sent from here counts for."""

MOST_AT_ONCE = 4
"""Requests that one worker sends at a time."""


class SendRequest(Struct, frozen=True, kw_only=True):
    """What is to be sent.

    `model` is that of a route, or empty for the one in the body. With a `scenario` the request goes
    to a simulator of the protocol `to` instead. `policy` is the route's if it is empty.
    """

    source: ProtocolName
    body: bytes
    model: str = ""
    policy: str = ""
    most_output: int
    to: ProtocolName | None = None
    scenario: str = ""


class Done(Struct, frozen=True, tag_field="event", tag="done"):
    """The outcome of a request. `left_out` is how many frames were not sent."""

    at_ms: float
    id: str
    status: int
    error: str
    account: str
    upstream: str
    model: str
    attempts: int
    losses: tuple[Loss, ...]
    usage: object
    left_out: int


class ExchangeOf(Protocol):
    """Makes what answers requests by other routes, upstreams or prices."""

    def __call__(self, router: Router, upstreams: Upstreams, prices: Prices = ...) -> Exchange: ...


class Bench(Struct, frozen=True):
    """What requests are sent with: the parts of one configuration. `count` counts a request that
    has ended, `envelope_key` opens the reasoning that clients send back, `large` does what would
    keep others waiting."""

    config: Config
    router: Router
    upstreams: Upstreams
    prices: Prices
    exchange: ExchangeOf
    count: Callable[[IncomingRequest, Record], None]
    envelope_key: bytes
    large: LargeBodies


class Sending:
    """One request that is sent. Its frames come from `frames`."""

    def __init__(self, bench: Bench, wanted: SendRequest) -> None:
        self._bench = bench
        self._wanted = wanted
        self._tap = Tap()
        codec = CODECS[wanted.source]
        endpoint, model = codec.endpoint, _model(wanted)
        path = endpoint.version + endpoint.path
        # Where a path says whether an answer is streamed, it is: its events can be watched.
        operation = endpoint.operation_for(model, stream=True)
        body = wanted.body if operation is not None else _named(wanted.body, model)
        headers = {b"content-type": b"application/json"}
        if wanted.policy:
            headers[POLICY] = wanted.policy.encode()
        self._received = InternalRequest(path, headers, body)
        clock, options = bench.upstreams.client.clock, bench.config.options
        self._incoming = IncomingRequest(self._received, codec, clock, path, operation, options)
        self._incoming.observer = self._tap
        self._record = Record()
        self._caller = Caller(CALLER, rules=(AccessRules(max_output_tokens=wanted.most_output),))

    @property
    def request_id(self) -> str:
        """As the log of requests has it."""
        return self._incoming.request_id

    async def run(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Send it, and `write` each frame as it comes, as server-sent events. If it is cancelled
        here has left: the call upstream is ended."""
        work = asyncio.create_task(self._serve())
        try:
            while (frame := await self._tap.queue.get()) is not None:
                batch = [frame]
                while not self._tap.queue.empty() and len(batch) < 50:
                    following = self._tap.queue.get_nowait()
                    if following is None:
                        self._tap.queue.put_nowait(None)
                        break
                    batch.append(following)
                await write(b"".join(map(event, batch)))
            await write(event(self._done()))
        finally:
            self._received.leave()
            with suppress(asyncio.CancelledError):
                await work

    async def _serve(self) -> None:
        incoming, record = self._incoming, self._record
        try:
            if self._wanted.scenario:
                await self._simulated()
            else:
                bench = self._bench
                await self._answer(bench.exchange(bench.router, self._watched(bench.upstreams)))
        except ClientGone:
            record.error = CLIENT_GONE
        except Exception as error:
            fault = fault_of(error, incoming.request_id)
            record.error = fault.kind
            if not incoming.status:
                incoming.fail(fault)
        finally:
            record.caller = CALLER
            if not self._wanted.scenario:
                self._bench.count(incoming, record)
            self._tap.queue.put_nowait(None)

    async def _answer(self, exchange: Exchange) -> None:
        self._record.caller = CALLER
        await exchange.serve(self._incoming, self._caller, self._record)

    def _watched(self, upstreams: Upstreams) -> Upstreams:
        """The same upstreams, called by a client that records what they answer."""
        client = ObservedClient(upstreams.client, self._tap)
        return replace(upstreams, client=client)

    async def _simulated(self) -> None:
        """Ask a simulator, which is there for this request alone."""
        from dragoman.lab.simulator.testing import running_simulator  # large, and seldom needed

        simulator = running_simulator()
        running = await asyncio.to_thread(simulator.__enter__)
        try:
            config = _simulated(self._bench.config, running.base_url, self._wanted)
            async with UpstreamClient() as client:
                builders = UpstreamRequestBuilders(config.upstreams)
                upstreams = self._watched(Upstreams(AccountPool(config), builders, client))
                free = Prices({}, "simulated")
                await self._answer(self._bench.exchange(Router(config), upstreams, free))
        finally:
            await asyncio.to_thread(simulator.__exit__, None, None, None)

    def _done(self) -> Done:
        record = self._record
        return Done(
            at_ms=self._tap.milliseconds(),
            id=self.request_id,
            status=self._incoming.status,
            error=record.error,
            account=record.account,
            upstream=record.upstream,
            model=record.upstream_model,
            attempts=record.attempts,
            losses=tuple(record.losses),
            usage=record.usage,
            left_out=self._tap.left_out,
        )


def event(frame: AnyFrame | Done) -> bytes:
    """A frame as a server-sent event."""
    return b"data: %b\n\n" % msgspec.json.encode(frame)


def _model(wanted: SendRequest) -> str:
    """The model that is to be asked, empty for the one in the body."""
    return f"simulator/sim-{wanted.scenario}" if wanted.scenario else wanted.model


def _named(body: bytes, model: str) -> bytes:
    """The body, with the model that is to be asked, if that is not empty."""
    if not model:
        return body
    try:
        members: Mapping[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return body  # its reader says what is wrong
    return msgspec.json.encode({**members, "model": model})


def _simulated(config: Config, url: str, wanted: SendRequest) -> Config:
    """A configuration whose only upstream is a simulator."""
    assert wanted.to is not None
    return Config(
        server=config.server,
        options=config.options,
        upstreams=(Upstream(name="simulator", protocol=wanted.to, base_url=url),),
        accounts=(Account(name="simulated", upstream="simulator", key=Secret("sk-sim-bench")),),
    )
