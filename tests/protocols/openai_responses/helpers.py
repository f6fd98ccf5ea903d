"""What the tests of this protocol share: reading and writing with ordinary settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dragoman.canonical.blocks import Block
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.events import Event
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.names import ToolNames
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.requests import (
    CustomTool,
    FunctionTool,
    Request,
    ToolRef,
    Turn,
)
from dragoman.protocols.base import Inbound, Outbound, Reply
from dragoman.protocols.openai_responses import CODEC
from dragoman.sse import Decoder
from tests.folded import Response, write_whole

KNOB = LossKind.KNOB
CONTENT = LossKind.CONTENT
CONVERTED = LossKind.CONVERTED
REPAIRED = LossKind.REPAIRED

SEALER = Sealer()
DEFAULTS = Options()
MODERN = Capabilities()
JsonObject = dict[str, Any]


def body_of(**fields: Any) -> JsonObject:
    """A request body: the required fields and those given."""
    return {"model": "m", "input": "hi", **fields}


def read(**fields: Any) -> Request:
    """Read a request with these fields."""
    return CODEC.translate.read_request(body_of(**fields), SEALER)


def read_items(*items: JsonObject) -> Request:
    """Read a request with these input items."""
    return read(input=list(items))


def extras(request: Request) -> dict[str, LossKind]:
    """What of a request has no canonical home."""
    return {extra.path: extra.kind for extra in request.extras}


def user(*blocks: Block) -> Turn:
    """A turn of the user, at a path."""
    return Turn(role="user", blocks=blocks, path="messages[0]")


def assistant(*blocks: Block) -> Turn:
    """A turn of the model, at a path."""
    return Turn(role="assistant", blocks=blocks, path="messages[1]")


class Written:
    """A written request and what was lost on the way."""

    def __init__(
        self,
        request: Request,
        options: Options = DEFAULTS,
        capabilities: Capabilities = MODERN,
    ) -> None:
        refs = [
            ToolRef(tool.name, isinstance(tool, CustomTool))
            for tool in request.tools
            if isinstance(tool, FunctionTool | CustomTool)
        ]
        ledger = Ledger()
        outbound = Outbound(
            model="upstream-model",
            names=ToolNames(refs, CODEC.translate.tool_name_limit),
            ledger=ledger,
            sealer=SEALER,
            options=options,
            capabilities=capabilities,
        )
        self.body = CODEC.translate.write_request(request, outbound)
        self.losses = {loss.path: loss.kind for loss in ledger}

    @property
    def input(self) -> list[JsonObject]:
        """The input items."""
        items: list[JsonObject] = self.body["input"]
        return items


def write(
    *turns: Turn,
    options: Options = DEFAULTS,
    capabilities: Capabilities = MODERN,
    **fields: Any,
) -> Written:
    """Write a request of these turns and canonical fields."""
    return Written(Request(model="m", turns=turns, **fields), options, capabilities)


def inbound(ledger: Ledger | None = None, account: str = "") -> Inbound:
    """What a reader needs."""
    # An empty ledger is falsy.
    return Inbound(sealer=SEALER, ledger=Ledger() if ledger is None else ledger, account=account)


def counter() -> Callable[[str], str]:
    """Mints ids that count up for each prefix: `msg_1`, `msg_2`, `fc_1`."""
    seen: Counter[str] = Counter()

    def mint(prefix: str) -> str:
        seen[prefix] += 1
        return f"{prefix}{seen[prefix]}"

    return mint


def reply(
    source: JsonObject | None = None,
    options: Options = DEFAULTS,
    ledger: Ledger | None = None,
) -> Reply:
    """What the writer of an answer needs; `source` is the client's body."""
    return Reply(
        request=Request(model="m", turns=(), source=source or {}),
        id="resp_1",
        created=1,
        model="m",
        ledger=Ledger() if ledger is None else ledger,
        sealer=SEALER,
        mint=counter(),
        options=options,
    )


def stream_of(events: Iterable[JsonObject], named: bool = True) -> bytes:
    """Wire events as an upstream would send them, numbered."""
    written = b""
    for number, event in enumerate(events):
        data = msgspec.json.encode({"sequence_number": number, **event})
        if named:
            written += b"event: " + event["type"].encode() + b"\n"
        written += b"data: " + data + b"\n\n"
    return written


def read_stream(stream: bytes, ledger: Ledger | None = None, account: str = "") -> list[Event]:
    """The events of an upstream's stream, to its end."""
    reader = CODEC.translate.stream_reader(inbound(ledger, account))
    decoder = Decoder()
    frames = [*decoder.feed(stream), *decoder.finish()]
    events = [event for frame in frames for event in reader.read(frame)]
    return [*events, *reader.finish()]


def write_stream(events: Iterable[Event], to: Reply | None = None) -> bytes:
    """The client's stream."""
    writer = CODEC.translate.answer_writer(to or reply(), True)
    return b"".join([writer.write(event) for event in events])


def decoded(stream: bytes) -> list[JsonObject]:
    """The data of a stream's events, without a last `[DONE]`."""
    frames = Decoder().feed(stream)
    return [msgspec.json.decode(frame.data) for frame in frames if frame.data != b"[DONE]"]


def write_response(response: Response, to: Reply | None = None) -> JsonObject:
    """The client's whole answer."""
    return write_whole(CODEC, response, to or reply())
