"""A good answer of an endpoint on its way to the client: events, bytes as they come, or a body."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.masking import Mask
from dragoman.config import Server
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.streams import deliver_bytes, deliver_events
from dragoman.serving.answers import MOST_BYTES, beginning, is_stream
from dragoman.serving.failures import failed_call, unusable
from dragoman.upstream.errors import CallError
from dragoman.upstream.response import UpstreamResponse

_JSON = "application/json"


async def deliver(
    call: EndpointCall,
    lease: Lease,
    answer: UpstreamResponse,
    mask: Mask,
    server: Server,
    read: Callable[[bytes], bytes],
) -> None:
    """Deliver a good answer: a stream of events, bytes as they come, or a whole body, of which
    `read` makes the client's and records the usage in it. It is closed.

    Raises:
        Failure: nothing of it was sent to the client.
    """
    with reading(call, answer, mask):
        first = await beginning(answer) if call.stream else b""
        if call.stream and is_stream(answer, first, "text/event-stream"):
            await deliver_events(call, lease, answer, first, server)
        elif _is_passed(call, answer):
            await deliver_bytes(call, lease, answer, first)
        else:
            body = first + await answer.read(MOST_BYTES, call.incoming.reserve)
            _reply(call, lease, answer, read(mask.secrets_in(body)))


async def read_part(call: EndpointCall, answer: UpstreamResponse, mask: Mask) -> bytes:
    """The body of a good answer that is one of several. It is closed.

    Raises:
        Failure: it broke off.
    """
    with reading(call, answer, mask):
        return mask.secrets_in(await answer.read(MOST_BYTES, call.incoming.reserve))


class reading:  # noqa: N801 (it is used as a function)
    """Within it a good answer is read, which is closed at the end.

    Raises:
        Failure: it broke off or is unusable, and nothing of it was sent to the client.
        CallError: it broke off after that.
    """

    __slots__ = ("_answer", "_call", "_mask")

    def __init__(self, call: EndpointCall, answer: UpstreamResponse, mask: Mask) -> None:
        self._call = call
        self._answer = answer
        self._mask = mask

    def __enter__(self) -> None:
        """Begin to read."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End it."""
        call = self._call
        call.record.bytes_down = self._answer.received
        self._answer.close()
        if isinstance(error, CallError) and not call.incoming.status:
            raise failed_call(error, call.plan.upstream.name) from None
        if isinstance(error, UpstreamError):
            raise unusable(self._mask.fault(error.fault)) from None


def _is_passed(call: EndpointCall, answer: UpstreamResponse) -> bool:
    """Whether an answer is passed on as it comes, as it is no JSON."""
    may_be = call.row.stream == "bytes" or call.row.way == "relayed"
    return may_be and not answer.headers.get("content-type", _JSON).startswith(_JSON)


def _reply(call: EndpointCall, lease: Lease, answer: UpstreamResponse, body: bytes) -> None:
    call.begins(lease)
    lease.succeeded(0.0 if call.measured is None else call.measured.usage.total)
    call.note_usage()
    media = answer.headers.get("content-type", _JSON).encode("latin-1")
    call.incoming.reply(200, body, call.headers(), b"content-type: %b\r\n" % media)
