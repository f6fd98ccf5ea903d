"""A request that has ended, as the request log and traces receive it."""

from __future__ import annotations

from msgspec import Struct

from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record

_LONGEST = 200


class FinishedRequest(Struct, frozen=True, gc=False):
    """A request that has ended.

    `at` is when, in Unix seconds; `seconds` is how long it took, `first_byte_s` when the head of
    its answer was sent, from its beginning, None without an answer. `route` is the bounded name
    that metrics use, `path` the beginning of the path as it came. `protocol` is the client's.
    """

    record: Record
    at: float
    seconds: float
    first_byte_s: float | None
    request_id: str
    protocol: str
    method: str
    host: bytes
    route: str
    path: str
    status: int
    user_agent: bytes


def finished_request(
    incoming: IncomingRequest,
    record: Record,
    at: float,
    seconds: float,
    first_byte_s: float | None,
    route: str,
) -> FinishedRequest:
    """The finished request of `incoming` and its `record`."""
    headers = incoming.headers
    return FinishedRequest(
        record,
        at,
        seconds,
        first_byte_s,
        incoming.request_id,
        incoming.codec.name,
        incoming.method,
        headers.get(b"host", b""),
        route,
        incoming.path[:_LONGEST],
        incoming.status,
        headers.get(b"user-agent", b"")[:_LONGEST],
    )
