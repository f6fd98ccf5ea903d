"""Realtime sessions as the vendor serves them: events over WebSocket, client secrets, and calls
whose media goes elsewhere."""

import asyncio
import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from dragoman.http import Budget, Request
from dragoman.http.clock import Clock
from dragoman.http.websocket import (
    Accepted,
    BadHandshake,
    CloseCode,
    WebSocket,
    WebSocketLimits,
    accept,
    text_frame,
)
from dragoman.lab.simulator.errors import ApiError, openai_error
from dragoman.lab.simulator.handlers import RequestContext
from dragoman.lab.simulator.view import JsonObject

PATH = "/v1/realtime"
AZURE_PATH = "/openai/realtime"
"""Sessions of Azure's older form."""
_LIMITS = WebSocketLimits(message_bytes=16 * 1024 * 1024)
_SECRET = "ek_"
_SECRET_S = 600.0
_SDP = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=simulated\r\n"
_TRANSCRIPT = "one two three"
_WORDS = ("This", " is", " said", " aloud.")


@dataclass(slots=True)
class Call:
    """A call: its session, and the connections that watch it."""

    session: JsonObject
    watching: list["SimulatedSession"] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Realtime:
    """What the vendor holds: secrets of clients with their sessions and ends, calls by id, and the
    open sessions. ``handshakes`` are their queries and headers; ``received`` are the messages of
    all sessions, as they came. With a ``handshake_fault`` all handshakes are answered by that
    status."""

    secrets: dict[str, tuple[JsonObject, float]] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    open: list["SimulatedSession"] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    handshakes: list[tuple[dict[str, str], Mapping[str, str]]] = field(default_factory=list)
    handshake_fault: int = 0

    async def serve(self, context: RequestContext, request: Request) -> None:
        """Answer a request below ``/v1/realtime``."""
        record, secret = context.record, self._secret(context)
        below = record.path.removeprefix(AZURE_PATH).removeprefix(PATH).strip("/").split("/")
        match record.method, below:
            case "GET", [""]:
                self._open(context, request, secret)
            case "POST", ["client_secrets"]:
                session = _session(record.json.get("session"))
                value = f"ek_sim_{len(self.secrets)}"
                expires = time.time() + _SECRET_S
                self.secrets[value] = session, expires
                answer = {"value": value, "expires_at": int(expires), "session": session}
                await self._answer(context, 200, msgspec.json.encode(answer))
            case "POST", ["calls"]:
                name = f"rtc_sim{len(self.calls)}"
                self.calls[name] = Call(secret or _session({}))
                headers = [("location", f"{PATH}/calls/{name}")]
                await self._answer(context, 201, _SDP.encode(), headers, "application/sdp")
            case "POST", ["calls", name, action] if name in self.calls:
                self.calls[name].actions.append(action)
                await self._answer(context, 200, b"")
            case _:
                raise ApiError(404, f"Invalid URL ({record.method} {record.path})", code="unknown")

    def _secret(self, context: RequestContext) -> JsonObject | None:
        """The session of the client secret that a request has; None if it has an API key."""
        value = _bearer(context.headers)
        if not value.startswith(_SECRET):
            return None
        session, expires = self.secrets.get(value, ({}, 0.0))
        if time.time() >= expires:
            raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key")
        return session

    async def _answer(
        self,
        context: RequestContext,
        status: int,
        body: bytes,
        headers: list[tuple[str, str]] | None = None,
        media: str = "application/json",
    ) -> None:
        given = [("content-type", media), *context.common_headers(), *(headers or ())]
        await context.reply.whole(status, given, body)

    def _open(self, context: RequestContext, request: Request, secret: JsonObject | None) -> None:
        if self.handshake_fault:
            raise ApiError(self.handshake_fault, "No session can be opened.", code="server_error")
        query = dict(parse_qsl(context.record.query))
        call = self.calls.get(query.get("call_id", ""))
        if "call_id" in query and call is None:
            raise ApiError(404, "No session for this call_id.", code="call_id_not_found")
        try:
            accepted = accept(request, _LIMITS)
        except BadHandshake as bad:
            raise ApiError(bad.status, bad.message, code="websockets") from None
        context.record.status = 101
        self.handshakes.append((query, context.headers))
        session = secret or _session({"model": query.get("model") or query.get("deployment")})
        if call is not None:
            session = call.session
        made = SimulatedSession(self, session, accepted, request.budget)
        if call is not None:
            call.watching.append(made)
        request.switch_to(made)


class SimulatedSession(WebSocket):
    """One session. ``turns`` counts its answers; ``answering``: one was begun and not ended."""

    def __init__(
        self, realtime: Realtime, session: JsonObject, accepted: Accepted, budget: Budget
    ) -> None:
        super().__init__(accepted, Clock(asyncio.get_running_loop()), budget)
        self._realtime = realtime
        self.session = session
        self.turns = 0
        self.answering = False
        self._events = 0
        self._audio = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._realtime.open.append(self)
        self.tell("session.created", session=self.session)

    def tell(self, kind: str, **members: Any) -> None:
        """Send an event."""
        self._events += 1
        event = {"type": kind, "event_id": f"event_{self._events}", **members}
        self.send(text_frame(msgspec.json.encode(event)))

    def on_message(self, data: bytes) -> None:
        self._realtime.received.append(data)
        try:
            event = msgspec.json.decode(data)
            kind = event["type"]
        except (msgspec.DecodeError, KeyError, TypeError):
            self._refuse("The event is not valid JSON with a type.")
            return
        match kind:
            case "session.update":
                self.session |= event["session"]
                self.tell("session.updated", session=self.session)
            case "conversation.item.create":
                item = {"id": f"item_{self._events}", **event["item"]}
                self.tell("conversation.item.added", item=item)
                self.tell("conversation.item.done", item=item)
            case "input_audio_buffer.append":
                self._audio += len(base64.b64decode(event["audio"]))
            case "input_audio_buffer.commit":
                self._commit()
            case "response.create":
                self.begin()
                if not (event.get("response") or {}).get("metadata", {}).get("hold"):
                    self.answer()
            case "response.cancel" if self.answering:
                self.finish("cancelled")
            case _:
                self._refuse(f"Invalid value: {kind!r}.")

    def begin(self) -> None:
        """Begin an answer."""
        self.answering = True
        self.turns += 1
        self.tell(
            "response.created", response={"id": f"resp_{self.turns}", "status": "in_progress"}
        )

    def answer(self) -> None:
        """Say the answer, and end it."""
        for word in _WORDS:
            named = {"response_id": f"resp_{self.turns}", "item_id": "item_answer"}
            audio = base64.b64encode(word.encode() * 100).decode()
            self.tell("response.output_audio.delta", **named, delta=audio)
            self.tell("response.output_audio_transcript.delta", **named, delta=word)
        self.finish("completed")

    def finish(self, status: str) -> None:
        """End the answer. The context grows with each turn."""
        self.answering = False
        turns = self.turns
        usage = {
            "total_tokens": 150 * turns + 30,
            "input_tokens": 150 * turns,
            "output_tokens": 30,
            "input_token_details": {
                "text_tokens": 100 * turns,
                "audio_tokens": 40 * turns,
                "image_tokens": 10 * turns,
                "cached_tokens": 60 * (turns - 1),
                "cached_tokens_details": {
                    "text_tokens": 50 * (turns - 1),
                    "audio_tokens": 10 * (turns - 1),
                },
            },
            "output_token_details": {"text_tokens": 10, "audio_tokens": 20},
        }
        response = {"id": f"resp_{turns}", "object": "realtime.response", "status": status}
        self.tell("response.done", response={**response, "output": [], "usage": usage})

    def _commit(self) -> None:
        audio, self._audio = self._audio, 0
        self.tell("input_audio_buffer.committed", item_id="item_speech")
        given = (self.session.get("audio") or {}).get("input") or {}
        model = (given.get("transcription") or {}).get("model")
        if not model:
            return
        named = {"item_id": "item_speech", "content_index": 0}
        kind = "conversation.item.input_audio_transcription"
        self.tell(f"{kind}.delta", **named, delta=_TRANSCRIPT)
        if model == "whisper-1":
            usage: JsonObject = {"type": "duration", "seconds": audio / 48000}
        else:
            details = {"text_tokens": 0, "audio_tokens": 20}
            usage = {"type": "tokens", "input_tokens": 20, "output_tokens": 5, "total_tokens": 25}
            usage["input_token_details"] = details
        self.tell(f"{kind}.completed", **named, transcript=_TRANSCRIPT, usage=usage)

    def _refuse(self, message: str) -> None:
        error = openai_error(ApiError(400, message).failure("responses"))
        self.tell("error", error={**error, "event_id": None})

    def on_refusal(self, code: int) -> None:
        if code == CloseCode.MESSAGE_TOO_BIG:
            self._refuse("The message is too large.")

    def retire(self) -> None:
        self.close(CloseCode.GOING_AWAY)

    def cancel(self) -> None:
        self.close(CloseCode.GOING_AWAY)

    def on_end(self) -> None:
        self._realtime.open.remove(self)


def has_own_key(headers: Mapping[str, str]) -> bool:
    """Whether a request has a client secret, or a key in Azure's header."""
    return "api-key" in headers or _bearer(headers).startswith(_SECRET)


def _bearer(headers: Mapping[str, str]) -> str:
    return headers.get("authorization", "").partition(" ")[2]


def _session(given: Any) -> JsonObject:
    """A session with the members that are given, of those that are set."""
    members = {name: value for name, value in (given or {}).items() if value is not None}
    return {"type": "realtime", "object": "realtime.session", "id": "sess_sim", **members}
