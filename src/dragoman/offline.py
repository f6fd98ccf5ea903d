"""Translation of an answer without the request it belongs to: from a file, or in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec.structs import replace

from dragoman.canonical.blocks import Text
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.losses import Loss, Policy
from dragoman.canonical.options import Options
from dragoman.canonical.requests import Request, Thinking, Turn
from dragoman.protocols import CODECS
from dragoman.sse import Decoder
from dragoman.translation import Call, CallSettings, ClientRequest

UNNAMED = "unknown"
"""The model's name where neither the caller nor the answer names one."""

_ANY_ANSWER = Request(
    model="",
    turns=(Turn(role="user", blocks=(Text(text="(not known)"),)),),
    max_output_tokens=65536,
    include_usage=True,
    thinking=Thinking(mode="adaptive"),
)
"""A request whose answer may contain anything: usage in streams, and reasoning."""


def answer(
    body: bytes,
    upstream: str,
    client: str,
    *,
    model: str | None = None,
    request: bytes | None = None,
) -> tuple[bytes, tuple[Loss, ...]]:
    """Translate a whole answer of protocol `upstream` for a client of protocol `client`.

    `request` is the client's request, if it is known; the answer has its model. Otherwise the model
    is `model`, or the one in the answer itself.

    Raises:
        InvalidRequest: `request` is malformed.
        UpstreamError: the answer is an error, unreadable, or of another protocol.
    """
    call = _call(upstream, client, request, model or _model_in(upstream, body), stream=False)
    asked = len(call.losses)
    return call.translate_response(body), call.losses[asked:]


class Stream:
    """A translation of a streamed answer.

    Iterating gives the client's bytes as the upstream's `chunks` come. Afterwards `losses` has
    what was lost.

    Raises, while it is iterated:
        InvalidRequest: `request` is malformed.
        UpstreamError: the answer ended in an error, which the client was sent in its own form.
    """

    def __init__(
        self,
        chunks: Iterable[bytes],
        upstream: str,
        client: str,
        *,
        model: str | None = None,
        request: bytes | None = None,
    ) -> None:
        self.losses: tuple[Loss, ...] = ()
        self._chunks = chunks
        self._protocols = upstream, client
        self._model = model
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        chunks = iter(self._chunks)
        head: list[bytes] = []
        model = self._model
        if model is None and self._request is None:
            head, model = _read_model(chunks, self._protocols[0])
        call = _call(*self._protocols, self._request, model, stream=True)
        asked = len(call.losses)
        stream = call.open_stream()
        for chunk in chain(head, chunks):
            yield stream.feed(chunk)
        yield stream.finish()
        self.losses = call.losses[asked:]
        if stream.outcome.fault is not None:
            raise UpstreamError(stream.outcome.fault)


def _call(
    upstream: str, client: str, request: bytes | None, model: str | None, *, stream: bool
) -> Call:
    model = model or UNNAMED
    if request is None:
        asked = ClientRequest.of(client, replace(_ANY_ANSWER, model=model, stream=stream))
    else:
        operation = CODECS[client].endpoint.operation_for(model, stream)
        asked = ClientRequest(client, request, operation=operation)
    # The request was sent before; its losses do not matter here.
    options = Options(policy=Policy.LENIENT, show_reasoning="always")
    return Call(asked, upstream, CallSettings(options=options))


def _read_model(chunks: Iterator[bytes], upstream: str) -> tuple[list[bytes], str | None]:
    """Read `chunks` up to the first event; give them back with the model it names."""
    decoder, head = Decoder(), list[bytes]()
    for chunk in chunks:
        head.append(chunk)
        for frame in decoder.feed(chunk):
            return head, _model_in(upstream, frame.data)
    return head, None


def _model_in(upstream: str, data: bytes) -> str | None:
    """The model that an answer, or the first event of its stream, names."""
    return CODECS[upstream].translate.answer_names(data).model or None
