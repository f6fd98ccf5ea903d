"""What the tests of this protocol share: reading and writing with ordinary settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from pydantic import TypeAdapter

from dragoman.canonical.blocks import Block
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.events import Ended, Event, Failed
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.names import ToolNames
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.requests import CustomTool, FunctionTool, Request, ToolRef, Turn
from dragoman.protocols.base import Inbound, Outbound, Reply
from dragoman.protocols.openai_chat import CODEC
from dragoman.sse import Decoder
from tests.folded import Response, fold

KNOB = LossKind.KNOB
CONTENT = LossKind.CONTENT
CONVERTED = LossKind.CONVERTED
REPAIRED = LossKind.REPAIRED

SEALER = Sealer()
DEFAULTS = Options()
ORDINARY = Capabilities()
HI = {"role": "user", "content": "hi"}
PLAIN = Request(model="m", turns=())
WITH_USAGE = Request(model="m", turns=(), stream=True, include_usage=True)

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQK"
PNG_URL = f"data:image/png;base64,{PNG}"
PDF_URL = f"data:application/pdf;base64,{PDF}"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
STRICT = {**SCHEMA, "required": ["a"], "additionalProperties": False}
"""The same as the service's strict mode takes it."""

Losses = set[tuple[str, LossKind]]


def read(*messages: dict[str, Any], **fields: Any) -> Request:
    """Read a request with these messages (or an ordinary one) and fields."""
    body = {"model": "m", "messages": list(messages) or [HI], **fields}
    return CODEC.translate.read_request(body, SEALER)


def blocks_of(message: dict[str, Any]) -> tuple[Block, ...]:
    """The blocks of one message."""
    return read(message).turns[0].blocks


def extras(request: Request) -> Losses:
    """What of a request has no canonical home."""
    return {(extra.path, extra.kind) for extra in request.extras}


def refusal(*messages: Any, **fields: Any) -> str | None:
    """The path at which a request is refused."""
    body = {"model": "m", "messages": list(messages) or [HI], **fields}
    try:
        CODEC.translate.read_request(body, SEALER)
    except InvalidRequest as error:
        return error.fault.param
    return None


def outbound(
    request: Request,
    ledger: Ledger,
    options: Options = DEFAULTS,
    capabilities: Capabilities = ORDINARY,
) -> Outbound:
    """What the writer of a request needs."""
    refs = [
        ToolRef(tool.name, isinstance(tool, CustomTool), tool.namespace)
        for tool in request.tools
        if isinstance(tool, FunctionTool | CustomTool)
    ]
    return Outbound(
        model="upstream-model",
        names=ToolNames(refs, CODEC.translate.tool_name_limit),
        ledger=ledger,
        sealer=SEALER,
        options=options,
        capabilities=capabilities,
    )


def write(
    *turns: Turn,
    options: Options = DEFAULTS,
    capabilities: Capabilities = ORDINARY,
    **fields: Any,
) -> tuple[dict[str, Any], Losses]:
    """The body for an upstream, and the losses."""
    request = Request(model="m", turns=turns or (user(),), **fields)
    ledger = Ledger()
    body = CODEC.translate.write_request(request, outbound(request, ledger, options, capabilities))
    assert msgspec.json.decode(msgspec.json.encode(body)) == body
    return body, {(loss.path, loss.kind) for loss in ledger}


def check_request(body: dict[str, Any]) -> None:
    """Hold a body against the SDK's own types.

    pydantic validates the items of an `Iterable` only when they are asked for.
    """
    _exhaust(_PARAMS.validate_python(body))


def _exhaust(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _exhaust(item)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for item in value:
            _exhaust(item)


_PARAMS = TypeAdapter(CompletionCreateParamsBase)


def user(*blocks: Block, **fields: Any) -> Turn:
    """A turn of the user's."""
    return Turn(role="user", blocks=blocks, **fields)


def assistant(*blocks: Block, **fields: Any) -> Turn:
    """A turn of the model's."""
    return Turn(role="assistant", blocks=blocks, path="a", **fields)


def inbound(ledger: Ledger | None = None, **fields: Any) -> Inbound:
    """What a reader of answers needs."""
    return Inbound(sealer=SEALER, ledger=Ledger() if ledger is None else ledger, **fields)


def reply(request: Request = PLAIN, ledger: Ledger | None = None, **fields: Any) -> Reply:
    """What a writer of answers needs."""
    return Reply(
        request=request,
        id="chatcmpl-1",
        created=7,
        model="m",
        ledger=Ledger() if ledger is None else ledger,
        sealer=SEALER,
        mint=lambda prefix: prefix + "minted",
        **fields,
    )


def read_stream(data: bytes, given: Inbound | None = None) -> list[Event]:
    """The events of a stream."""
    reader = CODEC.translate.stream_reader(given or inbound())
    decoder = Decoder()
    frames = [*decoder.feed(data), *decoder.finish()]
    events = [event for frame in frames for event in reader.read(frame)]
    return [*events, *reader.finish()]


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, **choice: Any
) -> dict[str, Any]:
    """A chunk with one choice, as the service writes it."""
    made = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish, **choice}
    return {**HEAD, "choices": [made]}


HEAD = {"id": "up_1", "object": "chat.completion.chunk", "created": 5, "model": "up"}
ROLE = chunk({"role": "assistant", "content": "", "refusal": None})
DONE = b"data: [DONE]\n\n"


def sse(*chunks: dict[str, Any], done: bool = True) -> bytes:
    """Chunks as a stream."""
    frames = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return b"".join(frames) + (DONE if done else b"")


def read_chunks(
    *chunks: dict[str, Any], given: Inbound | None = None, done: bool = True
) -> list[Event]:
    """The events of chunks after the first one with the role."""
    return read_stream(sse(ROLE, *chunks, done=done), given)


def fold_chunks(*chunks: dict[str, Any], given: Inbound | None = None) -> Response:
    """The answer that chunks make."""
    return fold(read_chunks(*chunks, given=given))


def completion(
    message: dict[str, Any], finish: str | None = "stop", **fields: Any
) -> dict[str, Any]:
    """A whole answer, as the service writes it."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    head = {"id": "up_1", "object": "chat.completion", "created": 5, "model": "up"}
    return {**head, "choices": [choice], **fields}


def write_stream(events: Iterable[Event], given: Reply | None = None) -> bytes:
    """The bytes of a stream."""
    writer = CODEC.translate.answer_writer(given or reply(), True)
    return b"".join([writer.write(event) for event in events])


def frames_of(stream: bytes) -> list[Any]:
    """The frames of a written stream, which must be of the one form every reader knows."""
    *frames, rest = stream.split(b"\n\n")
    assert rest == b""
    assert all(frame.startswith(b"data: ") and b"\n" not in frame for frame in frames)
    assert frames[-1] == b"data: [DONE]"
    return [json.loads(frame[6:]) for frame in frames[:-1]]


def deltas_of(stream: bytes) -> list[Any]:
    """The deltas of a written stream."""
    return [frame["choices"][0]["delta"] for frame in frames_of(stream) if frame["choices"]]


def fragment(at: int | None = 0, text: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk with one fragment of a tool call; `name` goes into its function."""
    function = {} if text is None else {"arguments": text}
    if "name" in fields:
        function["name"] = fields.pop("name")
    head = {} if at is None else {"index": at}
    return chunk({"tool_calls": [{**head, **fields, "function": function}]})


def first_fragment(at: int | None, call_id: str, name: str, text: str = "") -> dict[str, Any]:
    """The official first fragment of a call."""
    return fragment(at, text, id=call_id, type="function", name=name)


STOP = chunk({}, "stop")
CALLS = chunk({}, "tool_calls")


def failure(events: list[Event]) -> str:
    """The message with which events fail."""
    assert isinstance(events[-1], Failed)
    assert not any(isinstance(event, Failed | Ended) for event in events[:-1])
    return events[-1].fault.message
