"""The pieces of the pipeline, one protocol at a time, for tests that join them themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
from msgspec.structs import replace

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.events import Event
from dragoman.canonical.losses import Ledger, Policy
from dragoman.canonical.names import ToolNames
from dragoman.canonical.requests import Request
from dragoman.canonical.tools import ToolRestorer
from dragoman.protocols import CODECS
from dragoman.protocols.base import Inbound, Outbound, Reply
from dragoman.protocols.settings import make_options
from dragoman.sse import Decoder
from dragoman.translation import Call, tool_names
from tests import folded
from tests.folded import Response, fold
from tests.library import translate_request, with_path
from tests.losses.clients import asking

LATEST = "google_interactions"
PROTOCOLS = tuple(name for name in CODECS if name != LATEST)
CELLS = tuple(itertools.product(PROTOCOLS, PROTOCOLS))
CROSSINGS = tuple(itertools.permutations(PROTOCOLS, 2))
LATEST_CROSSINGS = tuple(
    pair
    for other in ("anthropic_messages", "openai_responses")
    for pair in ((LATEST, other), (other, LATEST))
)
"""Pairs of the latest protocol with those that have most in them: the others would take as long
again, and have the same reader and writer."""
TOWARD_LATEST = tuple((client, LATEST) for client in PROTOCOLS)
_TURNS = {"openai_chat": "messages", "google_generate_content": "contents", LATEST: "input"}
LENIENT = make_options(policy=Policy.LENIENT)
STRICT = make_options(policy=Policy.STRICT)
NO_NAMES = ToolNames((), 64)


def says_nothing(upstream: str, written: dict[str, Any]) -> bool:
    """Whether a request has no turns where it is to have some."""
    return written.get(_TURNS.get(upstream, "messages")) == []


def counting() -> Callable[[str], str]:
    """Ids that count, so that two runs give the same ones."""
    numbers = itertools.count()
    return lambda prefix: f"{prefix}{next(numbers)}"


@contextmanager
def same_ids() -> Iterator[None]:
    """Ids and times that do not differ between runs."""
    with patch("dragoman.translation.call.mint", counting()), patch("time.time", lambda: 7.0):
        yield


def reply(protocol: str, stream: bool = False) -> Reply:
    """What a writer of the protocol needs for an answer in which everything may be shown."""
    codec = CODECS[protocol]
    return Reply(
        request=read_request(protocol, asking(protocol, stream)),
        id=codec.endpoint.id_prefix + "1",
        created=5,
        model="filler",
        ledger=Ledger(),
        sealer=Sealer(),
        mint=counting(),
        options=LENIENT,
    )


def inbound() -> Inbound:
    """What a reader needs."""
    return Inbound(sealer=Sealer(), ledger=Ledger(), options=LENIENT)


def write_stream(protocol: str, events: Iterable[Event]) -> bytes:
    """The bytes of a stream of the protocol."""
    writer = CODECS[protocol].translate.answer_writer(reply(protocol, stream=True), True)
    return b"".join([writer.write(event) for event in events])


def read_stream(protocol: str, stream: bytes) -> list[Event]:
    """The events of a stream of the protocol."""
    reader = CODECS[protocol].translate.stream_reader(inbound())
    decoder = Decoder()
    frames = [*decoder.feed(stream), *decoder.finish()]
    events = [*(event for frame in frames for event in reader.read(frame)), *reader.finish()]
    return restored(events)


def restored(events: Iterable[Event]) -> list[Event]:
    """The events with the client's own tools in them."""
    restorer = ToolRestorer(NO_NAMES)
    return [changed for event in events for changed in restorer.push(event)]


def write_whole(protocol: str, answer: Response) -> dict[str, Any]:
    """The body of an answer, through JSON as it would come over the network."""
    body = folded.write_whole(CODECS[protocol], answer, reply(protocol))
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    return decoded


def read_whole(protocol: str, body: dict[str, Any]) -> Response:
    """An answer body, folded."""
    events = CODECS[protocol].translate.read_response(msgspec.json.encode(body), inbound())
    return fold(restored(events))


def write_request(protocol: str, request: Request, ledger: Ledger | None = None) -> dict[str, Any]:
    """The body of a request of the protocol."""
    codec = CODECS[protocol]
    body = codec.translate.write_request(
        request,
        Outbound(
            model=request.model,
            names=tool_names(request, codec),
            ledger=Ledger() if ledger is None else ledger,
            sealer=Sealer(),
            options=LENIENT,
        ),
    )
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    if codec.endpoint.operation_for("m", stream=False) is not None:  # the path says them
        decoded["model"] = request.model
        if request.stream:
            decoded["stream"] = True
    return decoded


def read_request(protocol: str, body: dict[str, Any]) -> Request:
    """A request body in canonical form."""
    codec = CODECS[protocol]
    encoded, path = with_path(protocol, msgspec.json.encode(body))
    request = codec.translate.read_request(encoded, Sealer())
    operation = codec.endpoint.operation_of(*(path or "").partition("?")[::2])
    if operation is not None and operation.model is not None:
        request = replace(request, model=operation.model, stream=bool(operation.stream))
    return request


def call(client: str, upstream: str, stream: bool = False) -> Call:
    """A call on its way back."""
    body = msgspec.json.encode(asking(client, stream))
    return translate_request(client, upstream, body, options=LENIENT, created=5)


def translated(client: str, upstream: str, chunks: Iterable[bytes]) -> bytes:
    """The client's stream for an upstream's stream that comes in chunks."""
    with same_ids():
        stream = call(client, upstream, stream=True).open_stream()
        shown = [stream.feed(chunk) for chunk in chunks]
        return b"".join([*shown, stream.finish()])
