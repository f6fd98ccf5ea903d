"""Parley: an invented protocol, unlike the three in what they have in common.

- The model and whether the answer is streamed stand in the URL:
  `POST /p1/models/{model}:answer`, `:pieces` for a stream, `:weigh` to count. A stream is one JSON
  array, or with `?as=frames` events. `/p0` is an older version, with the same paths.
- The key is sent as `x-parley-key`, or in the query as `pass`; `x-parley-edition` names the
  edition, which is a capability.
- A request has `rules`, `lines` (`from` human, machine or tool), `tools`, `bounds` (`most`, the
  output limit, is nested there) and `heat`. To be counted it is nested itself, in `weighed`.
- An answer has `says`, an `end` and what was `spent`; a stream says the same in pieces, and ends by
  closing. A failure is `{"trouble": {"kind", "words"}}`, also with status 200.
- Calls have no ids: a result names its tool, and results of one tool are in the order of calls.
- Opaque state (`proof`) stands on thoughts, calls and texts.
- Streams have no comments and no other fields than `data`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.blocks import Block, Opaque, Reasoning, Text, ToolCall, ToolResult
from dragoman.canonical.call_ids import made_id
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest, UpstreamError
from dragoman.canonical.events import (
    Closed,
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Metered,
    Opened,
    Sealed,
    Started,
)
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.grammar import State, step
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.requests import Extra, FunctionTool, Request, Role, Turn
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import (
    OFFICIAL,
    AnswerNames,
    Beginning,
    Codec,
    Counting,
    Endpoint,
    Inbound,
    ModelList,
    Operation,
    Outbound,
    Passed,
    Passthrough,
    Rendered,
    Reply,
    Translate,
    to_json,
)
from dragoman.protocols.fields import JsonObject, checker, decode_object
from dragoman.protocols.json_array import ARRAY
from dragoman.protocols.matching import Watch
from dragoman.protocols.traced_settings import settings_at
from dragoman.sse import Frame, encode

NAME = "parley"
EDITION = "x-parley-edition"

Members = Mapping[str, Raw]


class ParleyOptions(Struct, frozen=True, kw_only=True):
    """How Parley clients are answered."""

    farewell: bool = True
    """Say goodbye at the end of streams."""


class ParleyCapabilities(Struct, frozen=True, kw_only=True):
    """What one Parley upstream accepts and needs."""

    edition: str = "second"
    """Value of the `x-parley-edition` header."""


# --- where it is called ---------------------------------------------------------------------------

_PATH = re.compile(r"/models/(?P<model>[^:]+):(?P<verb>answer|pieces|weigh)")


def read_path(path: str, query: str) -> Operation | None:
    """What a client asks for."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    verb = found["verb"]
    return Operation(
        name=f"/models:{verb}",
        counts=verb == "weigh",
        model=found["model"],
        stream=verb == "pieces",
        form=None if "as=frames" in query.split("&") else ARRAY,
    )


def _read_models(body: bytes) -> list[JsonObject]:
    return [{"id": entry["title"]} for entry in msgspec.json.decode(body)["titles"]]


def _read_count(body: bytes) -> int | None:
    count: int | None = msgspec.json.decode(body).get("weight")
    return count


def _counted(body: bytes, model: str) -> bytes:
    return b'{"weighed":%b}' % body


def _uncounted(members: Members) -> Members:
    """A request to be counted as one to be answered."""
    return jsontext.members(bytes(members["weighed"])) if "weighed" in members else members


class _Bounds(Struct, omit_defaults=True):
    most: int | None = None
    """The most words of an answer."""


_bounds = jsontext.decoder(_Bounds)


def limits(members: Members) -> int | None:
    """The output limit, which is nested."""
    try:
        return _bounds(members["bounds"]).most if "bounds" in members else None
    except jsontext.JsonError:
        return None


def limited(members: Members, most: int) -> Members:
    """The members with an output limit of at most `most`."""
    given = limits(members)
    if given is not None and given <= most:
        return members
    return {**members, "bounds": Raw(to_json(_Bounds(most)))}


def completed(capabilities: Capabilities, base_url: str, model: str) -> Capabilities:
    """Models of the first generation know the first edition only."""
    own = capabilities.of(ParleyCapabilities)
    if not model.startswith("old-") or own.edition != "second":
        return capabilities
    own = ParleyCapabilities(edition="first")
    return replace(capabilities, own={**capabilities.own, ParleyCapabilities: own})


ENDPOINT = Endpoint(
    path="/models",
    version="/p1",
    versions=("/p0",),
    read_path=read_path,
    locate=lambda model, stream: f"/models/{model}:{'pieces?as=frames' if stream else 'answer'}",
    id_prefix="parley-",
    auth="x-parley-key",
    key_headers=(b"x-parley-key",),
    key_parameter="pass",
    sign=EDITION.encode(),
    headers=lambda able: {EDITION: able.of(ParleyCapabilities).edition},
    counting=Counting(
        path="/models:weigh",
        locate=lambda model: f"/models/{model}:weigh",
        completed=_uncounted,
        write_request=_counted,
        read=_read_count,
        write=lambda count: {"weight": count},
    ),
    models=ModelList(
        path="/titles",
        read=_read_models,
        write_model=lambda name, owner, told: {"title": name, "house": owner},
        write_list=lambda models, query: {"titles": models},
    ),
    names_no_model=frozenset({"rules", "lines", "bounds", "heat"}),
    capabilities=ParleyCapabilities,
    completed=completed,
    settings=settings_at({"bounds.most": "max_tokens", "heat": "temperature"}),
    limits=limits,
    limited=limited,
    tier=lambda members: None,
)


# --- requests -------------------------------------------------------------------------------------

_ROLES: Mapping[str, Role] = {"human": "user", "machine": "assistant", "tool": "user"}
_KNOWN = ("rules", "lines", "tools", "bounds", "heat")


def read_request(text: bytes, sealer: Sealer) -> Request:
    """The request of a Parley client."""
    body = decode_object(text)
    lines = body.get("lines")
    if not isinstance(lines, list):
        raise InvalidRequest.at("lines", "must be a list")
    calls = _Calls()
    return Request(
        model="",
        instructions=(Text(text=body["rules"], path="rules"),) if "rules" in body else (),
        turns=tuple(
            _read_line(line, f"lines[{at}]", sealer, calls) for at, line in enumerate(lines)
        ),
        tools=tuple(
            FunctionTool(
                name=tool["name"],
                description=tool.get("about"),
                schema=tool.get("takes"),
                path=f"tools[{at}]",
            )
            for at, tool in enumerate(body.get("tools", ()))
        ),
        max_output_tokens=body.get("bounds", {}).get("most"),
        temperature=body.get("heat"),
        include_usage=True,
        extras=tuple(
            Extra(name, value, LossKind.KNOB) for name, value in body.items() if name not in _KNOWN
        ),
        paths={"max_output_tokens": "bounds.most", "temperature": "heat"},
    )


class _Calls:
    """Ids for the calls of a conversation: the same in all its requests."""

    def __init__(self) -> None:
        self._open: dict[str, list[str]] = {}
        self._count = 0

    def made(self, name: str) -> str:
        """The id of a call of the tool."""
        self._count += 1
        call = made_id("call_", f"{self._count}:{name}")
        self._open.setdefault(name, []).append(call)
        return call

    def answered(self, name: str) -> str:
        """The id of the first call of the tool without a result."""
        calls = self._open.get(name)
        return calls.pop(0) if calls else made_id("call_", name)


def _read_line(line: JsonObject, path: str, sealer: Sealer, calls: _Calls) -> Turn:
    speaker = str(line.get("from"))
    if speaker not in _ROLES:
        raise InvalidRequest.at(f"{path}.from", "must be human, machine or tool")
    blocks: list[Block] = []
    if "thought" in line:
        proof = line["thought"].get("proof", "")
        sealed = sealer.open(proof)
        own = Reasoning(parts=(line["thought"]["text"],), opaque=Opaque(NAME, proof), path=path)
        blocks.append(own if sealed is None else sealed)
    if line.get("text"):
        blocks.append(Text(text=line["text"], path=f"{path}.text"))
    if "proof" in line:
        opaque = Opaque(NAME, line["proof"], anchor="previous")
        blocks.append(Reasoning(opaque=opaque, path=f"{path}.proof"))
    for at, call in enumerate(line.get("calls", ())):
        where = f"{path}.calls[{at}]"
        if "proof" in call:
            opaque = Opaque(NAME, call["proof"], anchor="next")
            blocks.append(Reasoning(opaque=opaque, path=f"{where}.proof"))
        name, arguments = call["tool"], to_json(call["with"]).decode()
        blocks.append(ToolCall(id=calls.made(name), name=name, arguments=arguments, path=where))
    if speaker == "tool":
        said = Text(text=line["result"], path=f"{path}.result")
        call_id = calls.answered(line["tool"])
        blocks = [ToolResult(call_id=call_id, content=(said,), path=path)]
    return Turn(role=_ROLES[speaker], blocks=tuple(blocks), path=path)


def write_request(request: Request, outbound: Outbound) -> JsonObject:
    """The request for a Parley upstream."""
    body: JsonObject = {}
    if request.instructions:
        body["rules"] = "\n\n".join(text.text for text in request.instructions)
    called = {
        block.id: outbound.names.outward(block.name, block.namespace)
        for turn in request.turns
        for block in turn.blocks
        if isinstance(block, ToolCall)
    }
    body["lines"] = [line for turn in request.turns for line in _write_turn(turn, called, outbound)]
    tools = [tool for tool in request.tools if isinstance(tool, FunctionTool)]
    if tools:
        body["tools"] = [
            {
                "name": outbound.names.outward(tool.name, tool.namespace),
                "about": tool.description,
                "takes": tool.schema,
            }
            for tool in tools
        ]
    if request.max_output_tokens is not None:
        body["bounds"] = {"most": request.max_output_tokens}
    if request.temperature is not None:
        body["heat"] = request.temperature
    for name in ("top_p", "top_k", "service_tier", "metadata", "user", "verbosity"):
        if getattr(request, name) is not None:
            outbound.ledger.add(request.path_of(name), LossKind.KNOB, "has no counterpart upstream")
    for extra in request.extras:
        outbound.ledger.add(extra.path, extra.kind, extra.detail)
    return body


def _write_turn(turn: Turn, called: Mapping[str, str], outbound: Outbound) -> Iterator[JsonObject]:
    line: JsonObject = {"from": "machine" if turn.role == "assistant" else "human"}
    proof: JsonObject = {}
    for block in turn.blocks:
        match block:
            case Text():
                line["text"] = line.get("text", "") + block.text
            case ToolCall():
                arguments = msgspec.json.decode(block.arguments or "{}")
                call = {"tool": called[block.id], "with": arguments, **proof}
                line.setdefault("calls", []).append(call)
                proof = {}
            case ToolResult():
                said = "".join(part.text for part in block.content if isinstance(part, Text))
                yield {"from": "tool", "tool": called.get(block.call_id, ""), "result": said}
            case Reasoning(opaque=Opaque(origin=origin) as opaque) if origin == NAME:
                if opaque.anchor == "next":
                    proof = {"proof": opaque.data}
                elif opaque.anchor:
                    line["proof"] = opaque.data
                else:
                    line["thought"] = {"text": block.text, "proof": opaque.data}
            case _:
                kind = LossKind.KNOB if isinstance(block, Reasoning) else LossKind.CONTENT
                outbound.ledger.add(block.path, kind, "has no counterpart upstream")
    if len(line) > 1:
        yield line


# --- answers --------------------------------------------------------------------------------------

_ENDS = {
    "done": FinishReason.STOP,
    "tools": FinishReason.TOOL_CALLS,
    "limit": FinishReason.LENGTH,
    "blocked": FinishReason.CONTENT_FILTER,
}
_WORDS = {reason: word for word, reason in _ENDS.items()} | {FinishReason.STOP_SEQUENCE: "done"}


class StreamReader:
    """Reads a Parley stream."""

    def __init__(self, inbound: Inbound) -> None:
        self._account = inbound.account
        self._open: type[Block] | None = None
        self._blocks = 0
        self._name = ""
        self._ended = self._failed = False

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame."""
        try:
            return list(self.said(msgspec.json.decode(frame.data)))
        except (msgspec.DecodeError, KeyError, TypeError):
            raise UpstreamError.unreadable("a frame is not of the protocol") from None

    def finish(self) -> Iterable[Event]:
        """The end of the bytes."""
        if self._failed:
            return []
        if self._ended:
            return [Ended()]
        return [Failed(UpstreamError.unreadable("it broke off").fault)]

    def said(self, frame: JsonObject) -> Iterator[Event]:
        """The events of one object of the stream."""
        if "trouble" in frame:
            self._failed = True
            yield Failed(_fault(frame["trouble"], None))
            return
        if "title" in frame:
            self._name = frame["name"]
            yield Started(frame["name"], frame["title"])
        for piece in frame.get("says", ()):
            yield from self._piece(piece)
        if "end" in frame:
            self._ended = True
            yield from self._close()
            yield Finished(Finish(_ENDS[frame["end"]]))
            spent = frame["spent"]
            yield Metered(Usage(input=spent["in"], output=spent["out"]))

    def _piece(self, piece: JsonObject) -> Iterator[Event]:
        if "call" in piece:
            call = piece["call"]
            yield from self._switch(None)
            yield from self._proof(call, "next")
            call_id = made_id("call_", f"{self._name}:{self._blocks}")
            yield from self._switch(ToolCall(id=call_id, name=call["tool"]))
            yield Delta(self._blocks, to_json(call["with"]).decode())
        elif "thought" in piece:
            yield from self._switch(Reasoning(style="raw"))
            yield Delta(self._blocks, piece["thought"])
            if "proof" in piece:
                yield Sealed(self._blocks, Opaque(NAME, piece["proof"], account=self._account))
        else:
            if piece["text"]:
                yield from self._switch(Text(text=""))
                yield Delta(self._blocks, piece["text"])
            yield from self._proof(piece, "previous")

    def _proof(self, holder: JsonObject, anchor: Literal["next", "previous"]) -> Iterator[Event]:
        """The opaque state on a call or a text, as a block of its own beside it."""
        if "proof" in holder:
            yield from self._close()
            yield from self._switch(Reasoning(style="raw"))
            opaque = Opaque(NAME, holder["proof"], account=self._account, anchor=anchor)
            yield Sealed(self._blocks, opaque)
            yield from self._close()

    def _switch(self, head: Block | None) -> Iterator[Event]:
        """Go on with a block of the kind of `head`: the open one, if it is of that kind."""
        if head is not None and self._open is type(head):
            return
        yield from self._close()
        if head is not None:
            self._open = type(head)
            self._blocks += 1
            yield Opened(self._blocks, head)

    def _close(self) -> Iterator[Event]:
        if self._open is not None:
            self._open = None
            yield Closed(self._blocks)


def read_response(body: bytes, inbound: Inbound) -> Iterable[Event]:
    """The events of a whole answer: what its stream would say in one frame."""
    answer = inbound.decode_body(body)
    reader = StreamReader(inbound)
    frames = answer if isinstance(answer, list) else [answer]
    try:
        return [*(event for frame in frames for event in reader.said(frame)), *reader.finish()]
    except (KeyError, TypeError):
        raise UpstreamError.unreadable("it is not of the protocol") from None


class AnswerWriter:
    """Writes an answer for a Parley client."""

    long_texts = ()

    def __init__(self, reply: Reply, streamed: bool) -> None:
        self._streamed = streamed
        self._sealer = reply.sealer
        self._farewell = reply.options.of(ParleyOptions).farewell
        self._state = State.NEW
        self._answer: JsonObject = {"name": reply.id, "title": reply.model}
        self._says: list[JsonObject] = []
        self._block: Block = Text(text="")
        self._text = ""
        self._proof: JsonObject = {}

    def write(self, event: Event) -> bytes:
        """The frames of one event."""
        self._state = step(self._state, event)
        match event:
            case Started():
                return self._frame(self._answer)
            case Opened():
                self._block, self._text = event.block, ""
            case Delta() if isinstance(self._block, ToolCall):
                self._text += event.text
            case Delta():
                kind = "thought" if isinstance(self._block, Reasoning) else "text"
                return self._say({kind: event.text})
            case Sealed():
                opaque = event.opaque
                if opaque.origin != NAME:
                    sealed = self._sealer.seal(Reasoning(opaque=opaque))
                    return self._say({"thought": "", "proof": sealed})
                self._proof = {"proof": opaque.data}
                if opaque.anchor == "next":
                    return b""
                return self._say({"text" if opaque.anchor else "thought": "", **self._taken()})
            case Closed() if isinstance(self._block, ToolCall):
                with_ = msgspec.json.decode(self._text)
                call = {"tool": self._block.name, "with": with_, **self._taken()}
                return self._say({"call": call})
            case Finished():
                self._answer["end"] = _WORDS.get(event.finish.reason, "limit")
            case Metered():
                spent = event.usage
                self._answer["spent"] = {"in": spent.input, "out": spent.output}
            case Failed():
                return encode(to_json(_trouble(event.fault)))
            case Ended():
                self._answer.setdefault("spent", {"in": 0, "out": 0})
                last = {name: self._answer[name] for name in ("end", "spent")}
                return self._frame(last | ({"farewell": "BYE"} if self._farewell else {}))
        return b""

    def answer(self) -> JsonObject:
        """The whole answer."""
        return {**self._answer, "says": self._says}

    def keepalive(self) -> bytes:
        """A frame that says nothing."""
        return KEEPALIVE

    def _taken(self) -> JsonObject:
        proof, self._proof = self._proof, {}
        return proof

    def _say(self, piece: JsonObject) -> bytes:
        if not self._streamed:
            self._says.append(piece)
        return self._frame({"says": [piece]})

    def _frame(self, value: JsonObject) -> bytes:
        return encode(to_json(value)) if self._streamed else b""


KEEPALIVE = b'data: {"says":[]}\n\n'


# --- errors ---------------------------------------------------------------------------------------

_KINDS = {
    "nonsense": (400, FaultKind.INVALID_REQUEST),
    "stranger": (401, FaultKind.UNAUTHENTICATED),
    "unknown": (404, FaultKind.MODEL_NOT_FOUND),
    "busy": (429, FaultKind.RATE_LIMITED),
    "broken": (500, FaultKind.UPSTREAM_FAILED),
}


def _fault(trouble: JsonObject, status: int | None) -> Fault:
    _, kind = _KINDS.get(trouble["kind"], _KINDS["broken"])
    return Fault(kind, trouble["words"], code=trouble["kind"])


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """An error answer of an upstream."""
    try:
        return _fault(msgspec.json.decode(body)["trouble"], status)
    except (msgspec.DecodeError, KeyError, TypeError):
        return Fault(FaultKind.UPSTREAM_FAILED, f"The upstream answered {status}.")


def is_own_error(body: bytes) -> bool:
    """Whether a body is an error in the protocol's words."""
    return isinstance((jsontext.object_of(body) or {}).get("trouble"), dict)


def answer_names(data: bytes) -> AnswerNames:
    """What an answer is known by."""
    value = jsontext.object_of(data) or {}
    return AnswerNames(value.get("name", ""), value.get("title", ""))


def _trouble(fault: Fault) -> JsonObject:
    kinds = {kind: word for word, (_, kind) in _KINDS.items()}
    return {"trouble": {"kind": kinds.get(fault.kind, "broken"), "words": fault.message}}


def write_error(fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
    """A fault as a Parley client sees it."""
    body = _trouble(fault)
    status, _ = _KINDS[body["trouble"]["kind"]]
    return Rendered(fault.status or status, body)


TRANSLATE = Translate(
    read_request=read_request,
    write_request=write_request,
    read_response=read_response,
    stream_reader=StreamReader,
    answer_writer=AnswerWriter,
    read_error=read_error,
    write_error=write_error,
    is_own_error=is_own_error,
    answer_names=answer_names,
    keepalive=KEEPALIVE,
    tool_name_limit=40,
    taken_stops=lambda stops: (),
    options=ParleyOptions,
)


# --- pass-through ---------------------------------------------------------------------------------


class _Shape(Struct):
    lines: list[dict[str, Any]] | None = None
    weighed: dict[str, Any] | None = None


class Matcher(Watch):
    """Follows a stream that is passed through."""

    def __init__(
        self,
        model: str | None,
        include_usage: bool,
        shown: Mapping[str, Any] = {},
        choices: int = 1,
        /,
    ) -> None:
        super().__init__()
        self._model = model
        self._frames: list[Frame] = []
        self._is_complete = False

    def match(self, frame: Frame) -> bytes | None:
        """The bytes to pass on."""
        value: JsonObject = msgspec.json.decode(frame.data)
        if "trouble" in value:
            return None
        self._frames.append(frame)
        self.begun = self.begun or bool(value.get("says"))
        self._is_complete = self._is_complete or "end" in value
        if "spent" in value:
            self.usage = Usage(input=value["spent"]["in"], output=value["spent"]["out"])
        if self._model is not None and "title" in value:
            return encode(to_json({**value, "title": self._model}))
        return frame.raw

    def finish(self) -> bytes | None:
        """The bytes are over, and so is the answer if its end was told."""
        self.ended = self._is_complete
        return b"" if self.ended else None

    def hand_over(self, read: Callable[[Frame], object], writer: object) -> None:
        """Give the reader what was passed on."""
        for frame in self._frames:
            read(frame)


def match_response(
    body: bytes, model: str, shown: Mapping[str, Any] = {}, choices: int = 1, /
) -> Passed | None:
    """A whole answer under the name that the client asked for."""
    value = msgspec.json.decode(body)
    if isinstance(value, list) or "trouble" in value:
        return None
    spent = value["spent"]
    usage = Usage(input=spent["in"], output=spent["out"])
    return Passed(to_json({**value, "title": model}), usage, "")


def beginning(members: Members) -> Beginning:
    """What stays the same in a conversation."""
    members = _uncounted(members)
    lines = msgspec.json.decode(members["lines"], type=list[Raw])
    return Beginning(bytes(members.get("rules", b"")) + bytes(lines[0]), len(lines) == 1)


def _as_is(members: Members, *_: object) -> Members:
    return members


def _without_reasoning(members: Members, ledger: Ledger, most: int) -> tuple[Members, int]:
    return members, 0


def _forward(members: Members, model: str, capabilities: Capabilities) -> bytes:
    return to_json(members)


_fitted: Callable[[Members, Any, Capabilities, Ledger, bool], Members] = _as_is
_without_envelopes: Callable[[Members, object, Ledger], Members] = _as_is

PASSTHROUGH = Passthrough(
    check=checker(_Shape),
    without_envelopes=_without_envelopes,
    without_reasoning=_without_reasoning,
    fitted=_fitted,
    beginning=beginning,
    forward_request=_forward,
    match_response=match_response,
    least={"lines": [{"from": "human", "says": [{"text": "."}]}]},
    matcher=Matcher,
)

CODEC = Codec(NAME, ENDPOINT, TRANSLATE, PASSTHROUGH)
"""The protocol, both ways."""
