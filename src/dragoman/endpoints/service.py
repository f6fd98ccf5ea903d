"""What serves endpoints, made when the first request comes: most gateways serve answers alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.endpoints.parts import Parts
from dragoman.endpoints.table import Row, Way

if TYPE_CHECKING:
    from dragoman.endpoints.batches import Batches
    from dragoman.endpoints.call import EndpointCall
    from dragoman.endpoints.exchange import EndpointExchange

Serve = Callable[["EndpointCall"], Awaitable[None]]


def _held(exchange: EndpointExchange) -> Serve:
    from dragoman.endpoints.held import HeldBodies

    return HeldBodies(exchange).serve


def _relayed(exchange: EndpointExchange) -> Serve:
    from dragoman.endpoints.relayed import RelayedBodies

    return RelayedBodies(exchange).serve


def _bound(exchange: EndpointExchange) -> Serve:
    from dragoman.endpoints.bound import BoundThings

    return BoundThings(exchange).serve


def _socket(exchange: EndpointExchange) -> Serve:
    from dragoman.endpoints.realtime.sockets import RealtimeSockets

    return RealtimeSockets(exchange).serve


def _calls(exchange: EndpointExchange) -> Serve:
    from dragoman.endpoints.realtime.calls import RealtimeCalls

    return RealtimeCalls(exchange).serve


WAYS: Mapping[Way, Callable[[EndpointExchange], Serve]] = {
    "held": _held,
    "relayed": _relayed,
    "bound": _bound,
    "socket": _socket,
    "calls": _calls,
}
"""What makes that which serves the rows of each way."""


class Endpoints:
    """Serves the rows of the table in one configuration."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._exchange: EndpointExchange | None = None
        self._serving: dict[Way, Serve] = {}

    def handler(
        self, row: Row, parameters: Mapping[str, str]
    ) -> Callable[[IncomingRequest, Caller, Record], Awaitable[None]]:
        """What serves requests to a row, whose path has these parameters."""
        return partial(self._serve, row, parameters)

    def _serve(
        self,
        row: Row,
        parameters: Mapping[str, str],
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
    ) -> Awaitable[None]:
        from dragoman.endpoints.call import EndpointCall

        serve = self._serving.get(row.way)
        if serve is None:
            serve = self._serving[row.way] = WAYS[row.way](self._made())
        return serve(EndpointCall(row, parameters, incoming, caller, record))

    def batches(self) -> Batches:
        """The batches of clients."""
        from dragoman.endpoints.batches import Batches

        return Batches(self._parts)

    def _made(self) -> EndpointExchange:
        if self._exchange is None:
            from dragoman.endpoints.exchange import EndpointExchange

            self._exchange = EndpointExchange(self._parts)
        return self._exchange
