"""What the tests of this protocol share: reading and writing with ordinary settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.events import Event
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.names import ToolNames
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.requests import (
    CustomTool,
    FunctionTool,
    JsonSchema,
    Request,
    Thinking,
    ToolRef,
    Turn,
)
from dragoman.protocols.anthropic_messages import CODEC
from dragoman.protocols.base import Inbound, Outbound, Reply
from dragoman.protocols.settings import make_capabilities
from dragoman.sse import Decoder, encode
from tests import folded
from tests.folded import Response

KNOB = LossKind.KNOB
CONTENT = LossKind.CONTENT
CONVERTED = LossKind.CONVERTED
REPAIRED = LossKind.REPAIRED

NAME = "anthropic_messages"
SEALER = Sealer()
DEFAULTS = Options()
PLAIN = Capabilities()
OLD_VERSION = make_capabilities(anthropic_version="2023-06-01")

THINKS = Request(model="m", turns=(), thinking=Thinking(mode="adaptive"))
"""A client that enabled thinking."""
QUIET = Request(model="m", turns=())
"""A client that did not."""
WANTS_JSON = Request(model="m", turns=(), output_format=JsonSchema(schema={"type": "object"}))


def body_of(**fields: Any) -> dict[str, Any]:
    """A request body: the required fields and those given."""
    base = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    return {**base, **fields}


def read(sealer: Sealer = SEALER, **fields: Any) -> Request:
    """Read a request with these fields."""
    return CODEC.translate.read_request(body_of(**fields), sealer)


def extras(request: Request) -> set[tuple[str, LossKind]]:
    """What of a request has no canonical home."""
    return {(extra.path, extra.kind) for extra in request.extras}


def refusal(**fields: Any) -> str | None:
    """The path at which a request with these fields is refused."""
    try:
        read(**fields)
    except InvalidRequest as error:
        return error.fault.param
    return None


def request_of(*turns: Turn, **fields: Any) -> Request:
    """A canonical request."""
    return Request(model="m", turns=turns, **fields)


def write(
    request: Request,
    options: Options = DEFAULTS,
    capabilities: Capabilities = PLAIN,
) -> tuple[dict[str, Any], set[tuple[str, LossKind]]]:
    """The body for an upstream, and the losses."""
    ledger = Ledger()
    refs = [
        ToolRef(tool.name, isinstance(tool, CustomTool), tool.namespace)
        for tool in request.tools
        if isinstance(tool, FunctionTool | CustomTool)
    ]
    outbound = Outbound(
        model="upstream-model",
        names=ToolNames(refs, CODEC.translate.tool_name_limit),
        ledger=ledger,
        sealer=SEALER,
        options=options,
        capabilities=capabilities,
    )
    body = CODEC.translate.write_request(request, outbound)
    assert msgspec.json.decode(msgspec.json.encode(body)) == body
    return body, {(loss.path, loss.kind) for loss in ledger}


def inbound(ledger: Ledger | None = None, **fields: Any) -> Inbound:
    """What a reader of answers needs."""
    return Inbound(sealer=SEALER, ledger=Ledger() if ledger is None else ledger, **fields)


def reply(request: Request = THINKS, ledger: Ledger | None = None, **fields: Any) -> Reply:
    """What a writer of answers needs."""
    return Reply(
        request=request,
        id="msg_1",
        created=7,
        model="m",
        ledger=Ledger() if ledger is None else ledger,
        sealer=SEALER,
        mint=lambda prefix: prefix + "minted",
        **fields,
    )


def read_stream(data: bytes, given: Inbound | None = None, chunk: int = 0) -> list[Event]:
    """The events of a stream, its bytes cut every `chunk` bytes."""
    reader = CODEC.translate.stream_reader(given or inbound())
    decoder = Decoder()
    size = chunk or len(data) or 1
    frames = [
        frame
        for start in range(0, len(data), size)
        for frame in decoder.feed(data[start : start + size])
    ]
    frames += decoder.finish()
    events = [event for frame in frames for event in reader.read(frame)]
    return [*events, *reader.finish()]


def read_events(*events: dict[str, Any], given: Inbound | None = None) -> list[Event]:
    """The canonical events of wire events."""
    return read_stream(b"".join(sse(event) for event in events), given)


def sse(event: dict[str, Any]) -> bytes:
    """An event as the service writes it."""
    return encode(msgspec.json.encode(event), str(event["type"]).encode())


def write_stream(events: Iterable[Event], given: Reply | None = None) -> bytes:
    """The stream a client is sent for canonical events."""
    writer = CODEC.translate.answer_writer(given or reply(), True)
    return b"".join([writer.write(event) for event in events])


def wire_events(data: bytes) -> list[dict[str, Any]]:
    """The events of a written stream; each has its name as its type."""
    decoder = Decoder()
    events = []
    for frame in [*decoder.feed(data), *decoder.finish()]:
        event = msgspec.json.decode(frame.data)
        assert frame.event.decode() == event["type"]
        events.append(event)
    return events


def written_events(events: Iterable[Event], given: Reply | None = None) -> list[dict[str, Any]]:
    """The wire events for canonical ones."""
    return wire_events(write_stream(events, given))


def read_whole(body: dict[str, Any], given: Inbound | None = None) -> list[Event]:
    """The events of a whole answer."""
    return list(CODEC.translate.read_response(body, given or inbound()))


def write_whole(response: Response, given: Reply | None = None) -> dict[str, Any]:
    """The client's whole answer."""
    return folded.write_whole(CODEC, response, given or reply())


def whole_of(events: Iterable[Event], given: Reply | None = None) -> dict[str, Any]:
    """The whole answer a client is sent for canonical events."""
    writer = CODEC.translate.answer_writer(given or reply(), False)
    assert not b"".join([writer.write(event) for event in events])
    return writer.answer()


def message(*content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A whole answer of an upstream."""
    base = {
        "id": "msg_up",
        "type": "message",
        "role": "assistant",
        "model": "upstream-model",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }
    return {**base, **fields}


def stream_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The stream in which an upstream would have sent a whole answer."""
    start = {**body, "content": [], "stop_reason": None, "stop_sequence": None}
    start.pop("stop_details", None)
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(body["content"]):
        head, deltas = _taken_apart(block)
        events.append({"type": "content_block_start", "index": index, "content_block": head})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    stop = {name: body.get(name) for name in ("stop_reason", "stop_sequence", "stop_details")}
    events.append({"type": "message_delta", "delta": stop, "usage": body["usage"]})
    return [*events, {"type": "message_stop"}]


def _taken_apart(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            text = block["text"]
            deltas = [{"type": "text_delta", "text": piece} for piece in _halves(text)]
            deltas += [
                {"type": "citations_delta", "citation": citation}
                for citation in block.get("citations", ())
            ]
            return {"type": "text", "text": ""}, deltas
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": piece}
                for piece in _halves(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use":
            text = msgspec.json.encode(block["input"]).decode() if block["input"] else ""
            deltas = [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in ("", *_halves(text))
            ]
            return {**block, "input": {}}, deltas
    return block, []


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]
