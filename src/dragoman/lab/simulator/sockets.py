"""Responses over WebSocket, as the vendor serves them: lanes, prewarming, steering, a memory of the
connection, and its limits (WebSocket mode guide)."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from dragoman.http import Budget
from dragoman.http.clock import Clock
from dragoman.http.websocket import Accepted, CloseCode, WebSocket, WebSocketLimits, text_frame
from dragoman.lab.simulator.connection import Connection
from dragoman.lab.simulator.delivery import Reply
from dragoman.lab.simulator.errors import ApiError, openai_error
from dragoman.lab.simulator.handlers import Handlers, RequestContext
from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.lab.simulator.state import State
from dragoman.lab.simulator.steering import steer_by_model
from dragoman.lab.simulator.view import JsonObject
from dragoman.sse import Decoder

LIMITS = WebSocketLimits(message_bytes=16 * 1024 * 1024 - 1)
"""What the vendor was measured to take."""
_MOST_ACTIVE = 16
_MOST_LANES = 32
_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_OWN = ("type", "stream_id", "generate", "background", "background_options", "stream")
_ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@dataclass(slots=True)
class _Turn:
    """One ``response.create``: its members, and what was answered so far."""

    body: JsonObject
    lane: str
    prepares: bool
    previous: str | None
    known: list[Any] | None
    """The conversation up to the response it goes on from, if the connection remembers that."""
    answered: "_Answered | None" = None
    task: asyncio.Task[None] | None = None
    steers: list[list[Any]] = field(default_factory=list)
    pending: dict[str, list[Any]] = field(default_factory=dict)
    """Input that waits for the next request, by its id."""
    injected: list[Any] = field(default_factory=list)


class _Answered:
    """Stands for the request of HTTP whose answer goes out as messages."""

    def __init__(self, socket: "SimulatedSocket", turn: _Turn) -> None:
        self._socket = socket
        self._turn = turn
        self._decoder = Decoder()
        self._buffered: JsonObject | None = None
        self._status = 0
        self.response: JsonObject = {}
        self.number = 0
        """Of the next event."""
        self.over = False
        self.on_gone: Callable[[], object] | None = None

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport that faults break."""
        return self._socket.transport

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        """Send an error, or what a fault sends in place of an answer."""
        try:
            decoded = msgspec.json.decode(body)
        except msgspec.DecodeError:
            self._socket.send(text_frame(body))
            self._socket.close(CloseCode.INTERNAL_ERROR)
            return
        headers = {}
        for line in lines.decode("latin-1").splitlines():
            name, _, value = line.partition(": ")
            headers[name] = value
        event = {"type": "error", "status": status, "error": decoded["error"], "headers": headers}
        self.send(event)

    def start(self, status: int, lines: bytes = b"", length: int | None = None) -> None:
        """Start an answer."""
        self._status = status

    async def write(self, data: bytes) -> None:
        """Events."""
        for frame in self._decoder.feed(data):
            if frame.data.startswith(b"{"):
                self._pass(msgspec.json.decode(frame.data))
        await self._socket.drained()

    def end(self, data: bytes = b"") -> None:
        """The stream ends; without a terminal event the vendor's connection would break."""
        if self._buffered is not None:
            error = self._buffered.get("error") or {
                name: self._buffered.get(name) for name in ("type", "code", "message", "param")
            }
            self.send({"type": "error", "status": 500, "error": error})
        if not self.over:
            self._socket.close(CloseCode.INTERNAL_ERROR)

    def _pass(self, event: JsonObject) -> None:
        if event.get("type") == "error":
            self._buffered = event
            return
        self.number = event.get("sequence_number", self.number) + 1
        response = event.get("response")
        if isinstance(response, dict):
            response["previous_response_id"] = self._turn.previous
            self.response = response
        self.send(event)

    def send(self, event: JsonObject) -> None:
        """Send an event of the turn; nothing follows its terminal one."""
        if self.over:
            return
        self.over = event.get("type") in _ENDS
        if self.over:
            self._buffered = None
        self._socket.send_event(event, self._turn.lane)


class SimulatedSocket(WebSocket):
    """One connection. Requests of one lane follow each other; lanes go side by side."""

    def __init__(
        self,
        simulator: State,
        handlers: Handlers,
        context: RequestContext,
        accepted: Accepted,
        budget: Budget,
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(accepted, Clock(loop), budget)
        self._simulator = simulator
        self._handlers = handlers
        self._context = context
        self._waiting: list[_Turn] = []
        self._active: dict[str, _Turn] = {}
        self._lanes: set[str] = set()
        self._last: dict[str, tuple[str, list[Any]]] = {}
        """By lane, the id of its last response and the conversation with it."""
        self._until = time.monotonic() + simulator.socket_seconds
        self._retiring = False
        self._steers = 0
        self._pending: dict[str, list[Any]] = {}
        """By the id of a response, the input that goes before that of the request after it."""

    def send_event(self, event: JsonObject, lane: str = "") -> None:
        """Send an event."""
        self.send(text_frame(msgspec.json.encode({**event, "stream_id": lane} if lane else event)))

    def _fail(self, error: ApiError, lane: str = "") -> None:
        body = openai_error(error.failure("responses"))
        self.send_event({"type": "error", "status": error.status, "error": body}, lane)

    # What the client sends

    def on_message(self, data: bytes) -> None:
        try:
            event = msgspec.json.decode(data)
        except msgspec.DecodeError:
            self._fail(ApiError(400, "The message is not valid JSON."))
            return
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "response.create":
            self._create(event)
        elif kind == "response.steer":
            self._steer(event)
        elif kind == "response.inject":
            self._inject(event)
        elif kind != "response.processed":
            self._fail(ApiError(400, f"Unknown event type: {kind}", param="type"))

    def _create(self, event: JsonObject) -> None:
        lane = event.get("stream_id") or ""
        if event.get("stream_id") is not None and not _LANE.fullmatch(str(lane)):
            message = "Invalid stream_id."
            self._fail(ApiError(400, message, code="invalid_stream_id", param="stream_id"))
            return
        if lane and lane not in self._lanes and len(self._lanes) >= _MOST_LANES:
            code = "websocket_stream_limit_reached"
            message = "Too many streams on this connection."
            self._fail(ApiError(400, message, code=code, param="stream_id"), lane)
            return
        if self._retiring or time.monotonic() >= self._until:
            message = "This connection has reached its limit."
            self._fail(ApiError(400, message, code="websocket_connection_limit_reached"), lane)
            if not self._active:
                self.close(CloseCode.GOING_AWAY)
            return
        if event.get("background"):
            message = "background is not supported over WebSocket."
            self._fail(ApiError(400, message, param="background"), lane)
            return
        if lane:
            self._lanes.add(lane)
        body = {name: value for name, value in event.items() if name not in _OWN}
        options = body.get("prompt_cache_options")
        prepares = event.get("generate") is False
        if isinstance(options, dict) and options.pop("prewarm", False):
            prepares = True
        previous = body.get("previous_response_id")
        known = next((items for name, items in self._last.values() if name == previous), None)
        self._waiting.append(_Turn({**body, "stream": True}, lane, prepares, previous, known))
        self._start()

    def _steer(self, event: JsonObject) -> None:
        target, given = event.get("previous_response_id"), event.get("input")
        turns = [turn for turn in self._active.values() if turn.answered is not None]
        for turn in turns:
            answered = turn.answered
            if answered is not None and target and answered.response.get("id") == target:
                items = _items(given)
                if not items:
                    self._refuse_steer(event, "invalid_input", turn.lane)
                    return
                self._steers += 1
                steer = {"id": f"steer_sim{self._steers}", "previous_response_id": target}
                accepted = {
                    "type": "response.steer.accepted",
                    "sequence_number": answered.number,
                }
                answered.number += 1
                self.send_event({**accepted, "steer": steer}, turn.lane)
                if _waits(turn):
                    turn.pending[steer["id"]] = items
                    return
                turn.steers.append(items)
                if turn.task is not None:
                    turn.task.cancel()
                return
        ended = any(name == target for name, _ in self._last.values())
        self._refuse_steer(event, "response_already_completed" if ended else "response_not_found")

    def _inject(self, event: JsonObject) -> None:
        target, given = event.get("response_id"), _items(event.get("input"))
        for turn in self._active.values():
            answered = turn.answered
            if answered is not None and target and answered.response.get("id") == target and given:
                turn.injected += given
                created = {"type": "response.inject.created", "response_id": target}
                self.send_event({**created, "sequence_number": answered.number}, turn.lane)
                answered.number += 1
                return
        error = {"code": "response_not_found", "message": "There is no such response."}
        failed = {"type": "response.inject.failed", "response_id": target, "input": given}
        self.send_event({**failed, "sequence_number": 0, "error": error})

    def _refuse_steer(self, event: JsonObject, code: str, lane: str = "") -> None:
        steer = {name: event.get(name) for name in ("previous_response_id", "input")}
        error = {"type": "invalid_request_error", "code": code, "message": "It was not steered."}
        failed = {"type": "response.steer.failed", "sequence_number": 0}
        self.send_event({**failed, "steer": steer, "error": error}, lane)

    # Requests

    def _start(self) -> None:
        for turn in list(self._waiting):
            if turn.lane not in self._active and len(self._active) < _MOST_ACTIVE:
                self._waiting.remove(turn)
                self._active[turn.lane] = turn
                turn.task = asyncio.get_running_loop().create_task(self._run(turn))

    async def _run(self, turn: _Turn) -> None:
        answered = turn.answered = _Answered(self, turn)
        if turn.known is None:
            turn.known = next(
                (all_ for name, all_ in self._last.values() if name == turn.previous), None
            )
        queued = self._pending.pop(turn.previous or "", [])
        own = [*queued, *_items(turn.body.get("input"))]
        body = {**turn.body, "input": own} if queued else turn.body
        if turn.known is not None:
            body = {name: body[name] for name in body if name != "previous_response_id"}
            body["input"] = [*turn.known, *own]
        record = self._record(body)
        connection = Connection(answered)
        reply = Reply(answered, connection, record)
        context = replace(self._context, record=record, reply=reply, connection=connection)
        try:
            if turn.prepares:
                response = await self._handlers.prewarm(context)
                begun = {**response, "status": "in_progress", "output": [], "usage": None}
                for number, (kind, shown) in enumerate(
                    (("created", begun), ("completed", response))
                ):
                    event = {"type": f"response.{kind}", "sequence_number": number}
                    answered._pass({**event, "response": shown})
            else:
                await self._handlers.generate(context)
        except ApiError as error:
            self._drop_parent(turn)
            if not answered.over:
                answered.over = True
                self._fail(error, turn.lane)
        except asyncio.CancelledError:
            record.disconnected = self.closing
            if turn.steers and not self.closing:
                self._interrupt(turn, answered)
        finally:
            self._end_turn(turn, [*(turn.known or ()), *own])

    def _record(self, body: JsonObject) -> RecordedRequest:
        """A record of a request; its headers are those of the handshake."""
        opened = self._context.record
        number = self._simulator.received
        self._simulator.received += 1
        record = RecordedRequest(number, "POST", opened.path, opened.query, opened.headers)
        record.body = msgspec.json.encode(body)
        self._simulator.requests.add(record)
        return record

    def _interrupt(self, turn: _Turn, answered: _Answered) -> None:
        """End a response that was steered; another goes on from it, before what waits."""
        details = {"status": "incomplete", "incomplete_details": {"reason": "steered"}}
        response = {**answered.response, **details, "output": []}
        answered.response = response
        event = {"type": "response.incomplete", "sequence_number": answered.number}
        answered.send({**event, "response": response})
        steered = [item for items in turn.steers for item in items]
        body = {**turn.body, "input": steered, "previous_response_id": response["id"]}
        self._waiting.insert(0, _Turn(body, turn.lane, False, response["id"], None))

    def _end_turn(self, turn: _Turn, conversation: list[Any]) -> None:
        del self._active[turn.lane]
        response = {} if turn.answered is None else turn.answered.response
        if response.get("status") in ("completed", "incomplete"):
            output = [_without_id(item) for item in response["output"]]
            self._last[turn.lane] = response["id"], [*conversation, *output, *turn.injected]
            self._tell_pending(turn, response)
        elif not turn.steers:
            self._drop_parent(turn)
        if self.closing:
            return
        self._start()
        if self._retiring and not self._active:
            self.close(CloseCode.GOING_AWAY, "going away")

    def _tell_pending(self, turn: _Turn, response: JsonObject) -> None:
        stubs = [
            {"type": "function_call_output", "call_id": item["call_id"], "name": item["name"]}
            for item in response["output"]
            if item["type"] == "function_call"
        ]
        for name, items in turn.pending.items():
            self._pending.setdefault(response["id"], []).extend(items)
            self.send_event(
                {
                    "type": "response.steer.pending",
                    "sequence_number": 0 if turn.answered is None else turn.answered.number,
                    "steer": {"id": name, "previous_response_id": response["id"]},
                    "reason": "waiting_for_required_input",
                    "required_input": stubs,
                },
                turn.lane,
            )

    def _drop_parent(self, turn: _Turn) -> None:
        if self._last.get(turn.lane, ("", []))[0] == turn.previous:
            self._last.pop(turn.lane, None)

    # The end

    def on_refusal(self, code: int) -> None:
        if code == CloseCode.MESSAGE_TOO_BIG:
            self._fail(ApiError(413, "The message is too large."))

    def on_tick(self, now: float) -> None:
        if time.monotonic() >= self._until and not self._active:
            message = "This connection has reached its limit."
            self._fail(ApiError(400, message, code="websocket_connection_limit_reached"))
            self.close(CloseCode.GOING_AWAY)

    def retire(self) -> None:
        self._retiring = True
        if not self._active:
            self.close(CloseCode.GOING_AWAY, "going away")

    def cancel(self) -> None:
        for turn in self._active.values():
            if turn.task is not None:
                turn.task.cancel()

    def on_end(self) -> None:
        self._waiting.clear()
        for turn in list(self._active.values()):
            answered = turn.answered
            if answered is not None and answered.on_gone is not None:
                answered.on_gone()


def _waits(turn: _Turn) -> bool:
    """Whether the model's name selects that input for a turn waits for the next request."""
    _, options = steer_by_model(str(turn.body.get("model")))
    return options.get("steered") == "pending"


def _items(given: Any) -> list[Any]:
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}] if given else []
    return list(given) if isinstance(given, list) else []


def _without_id(item: JsonObject) -> JsonObject:
    """An item as a client would send it that stores nothing."""
    if item["type"] == "reasoning":
        return item
    return {name: value for name, value in item.items() if name != "id"}
