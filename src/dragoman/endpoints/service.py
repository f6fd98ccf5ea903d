"""What serves endpoints, made when the first request comes: most gateways serve answers alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.endpoints.faces import FACES
from dragoman.endpoints.parts import Parts
from dragoman.endpoints.table import Row, Way
from dragoman.serving.bound_notes import Noted

if TYPE_CHECKING:
    from dragoman.endpoints.batches import Batches
    from dragoman.endpoints.call import EndpointCall
    from dragoman.endpoints.exchange import EndpointExchange

Serve = Callable[["EndpointCall"], Awaitable[None]]


def _serving(way: Way, exchange: EndpointExchange) -> Serve:
    """What serves the rows of a way."""
    if way == "held":
        from dragoman.endpoints.held import HeldBodies

        return HeldBodies(exchange).serve
    if way == "relayed":
        from dragoman.endpoints.relayed import RelayedBodies

        return RelayedBodies(exchange).serve
    if way == "bound":
        from dragoman.endpoints.bound import BoundThings

        return BoundThings(exchange).serve
    if way == "socket":
        from dragoman.endpoints.realtime.sockets import RealtimeSockets

        return RealtimeSockets(exchange).serve
    from dragoman.endpoints.realtime.calls import RealtimeCalls

    return RealtimeCalls(exchange).serve


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

        # A path of several vendors implies no shape of errors.
        incoming.codec = FACES[row.face] or incoming.codec
        serve = self._serving.get(row.way)
        if serve is None:
            serve = self._serving[row.way] = _serving(row.way, self._made())
        return serve(EndpointCall(row, parameters, incoming, caller, record))

    async def uploader(self, incoming: IncomingRequest) -> str:
        """The name of the client whose upload the query of a request has; empty if it has none."""
        from dragoman.endpoints.google_uploads import upload_name

        name = upload_name(incoming.query)
        bound = await self._parts.upstreams.ids.of_anyone(name) if name else None
        return "" if bound is None else Noted.of(bound.details).by or bound.owner

    def batches(self) -> Batches:
        """The batches of clients."""
        from dragoman.endpoints.batches import Batches

        return Batches(self._parts)

    def _made(self) -> EndpointExchange:
        if self._exchange is None:
            from dragoman.endpoints.exchange import EndpointExchange

            self._exchange = EndpointExchange(self._parts)
        return self._exchange
