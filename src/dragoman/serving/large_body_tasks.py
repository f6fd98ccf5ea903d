"""The work on large bodies that another process does: functions of a body that give a result, which
is small, and a body. `LargeBodies` has them called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Raw, Struct

from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.canonical.losses import Ledger, Loss
from dragoman.protocols.base import Operation
from dragoman.serving.answers import translate_whole
from dragoman.translation import Call, CallSettings, ClientRequest, Outcome
from dragoman.translation.client_request import Outline

_MOST_LOSSES = 2000
_MOST_MEMBERS = 2000
MOST_VALUES = 50_000
"""The loop of the other process takes a result over in one step, so its parts are limited in
number: losses that are reported one by one, top-level members, names of tools and what the answer
repeats of the request. 50,000 take about ten milliseconds."""
_SLICE = 256 * 1024
"""Bytes that are parted at quotes at once: all of the parts together would take much memory."""


class Source(Struct, frozen=True):
    """What a client's request is made of, but for its body; `mended` and `is_lowered` as in
    `ClientRequest`."""

    protocol: str
    operation: Operation | None
    shown: Mapping[str, Any]
    mended: bool = False
    is_lowered: bool = False


class Given(Struct, frozen=True):
    """What an upstream's whole answer was turned into. `losses` are those of the answer, `id` is
    the answer's own, for later requests."""

    outcome: Outcome
    losses: tuple[Loss, ...]
    id: str


_last: tuple[bytes, Source, ClientRequest] | None = None
"""The request that was read last: what follows is often about the same."""


def request_of(body: bytes, source: Source) -> ClientRequest:
    """The request of a body.

    Raises:
        InvalidRequest: as `ClientRequest`.
    """
    global _last
    if _last is None or _last[1] != source or _last[0] != body:
        _last = None  # One at a time: it may be large.
        read = ClientRequest(source.protocol, body, source.shown, source.operation)
        read.mended = read.mended or source.mended
        read.is_lowered = source.is_lowered
        _last = body, source, read
    return _last[2]


def outlined(body: bytes, source: Source, most_values: int | None = None) -> tuple[Outline, bytes]:
    """The outline of a request, and its body if that was mended.

    Raises:
        InvalidRequest: as `ClientRequest`.
        DragomanError: TOO_LARGE, also where the body holds more than `most_values` values.
    """
    if most_values is not None and holds_more_values(body, most_values):
        raise too_large(f"The request body holds more than {most_values} values.")
    request = request_of(body, source)
    if len(request.members) > _MOST_MEMBERS:
        raise too_large(f"The request body has more than {_MOST_MEMBERS} members.")
    return request.outline(), request.body if request.mended else b""


def translated(
    body: bytes, source: Source, upstream: str, settings: CallSettings
) -> tuple[Call, bytes]:
    """The call of a request, to be completed, and its body.

    Raises:
        InvalidRequest: as `Call`.
        DragomanError: TOO_LARGE.
    """
    request = request_of(body, source)
    call = Call(request, upstream, settings)
    call.reduce()
    if not call.passes_through:
        repeated = request.for_answer(settings.sealer).source
        if len(call.names) + _values(repeated, MOST_VALUES) > MOST_VALUES:
            raise too_large("The request declares too many tools, or repeated settings.")
    call.ledger.shorten(_MOST_LOSSES)
    return call, call.body


class Dropping(NamedTuple):
    """The parameters of `Call.drop_reasoning`."""

    bound: bool
    moved: bool
    least: int


def reduced(
    body: bytes,
    source: Source,
    upstream: str,
    settings: CallSettings,
    account: str,
    dropping: Dropping,
) -> tuple[tuple[int, Ledger], bytes]:
    """What `Call.drop_reasoning` does for `account`: how many pieces were left out, and the ledger
    and body if there were some.

    Raises:
        Refused: the policy does not allow the loss.
    """
    call = Call(request_of(body, source), upstream, settings)
    call.account = account
    left_out = call.drop_reasoning(**dropping._asdict())
    if not left_out:
        return (0, Ledger()), b""
    call.ledger.shorten(_MOST_LOSSES)
    return (left_out, call.ledger), call.body


def answered(body: bytes, call: Call, streamed: bool) -> tuple[Given, bytes]:
    """An upstream's whole answer, given whole or as a stream, without secrets of the account.

    Raises:
        UpstreamError: as `Call.translate_response`.
    """
    outcome, before = Outcome(), len(call.ledger)
    made = translate_whole(call, body, outcome, streamed=streamed)
    call.ledger.shorten(before + _MOST_LOSSES)
    return Given(
        outcome, tuple(call.ledger)[before:], call.codec.translate.answer_names(body).id
    ), made


def holds_more_values(body: bytes, most: int) -> bool:
    """Whether JSON text holds more than `most` values: commas, and beginnings of objects and lists,
    outside of its strings. Nothing is decoded, as that takes a hundred bytes for each value."""
    if _marks(body) <= most:
        return False
    # What is between every other pair of quotes is a string, but for quotes that are escaped.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    found = parity = 0
    for start in range(0, len(plain), _SLICE):
        pieces = plain[start : start + _SLICE].split(b'"')
        found += _marks(b"".join(pieces[parity::2]))
        if found > most:
            return True
        parity ^= (len(pieces) - 1) & 1
    return False


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"{") + text.count(b"[")


def too_large(message: str) -> DragomanError:
    """The error for a body that takes too much to translate."""
    return DragomanError(Fault(FaultKind.TOO_LARGE, message))


def _values(value: Any, most: int) -> int:
    """How many values a JSON value holds, and about how many if there are more than `most`, or
    they are not decoded."""
    if type(value) is Raw:
        return 1 + _marks(bytes(value))
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    count = 1
    for one in inner:
        count += _values(one, most - count)
        if count > most:
            break
    return count
