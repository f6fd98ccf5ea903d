"""One request of a client to an MCP server, from its message to its answer."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping
from contextlib import nullcontext, suppress

from msgspec import Struct

from dragoman.accounts.credentials.account_credentials import NoCredential
from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.config.names import matches
from dragoman.edge.auth import Caller
from dragoman.edge.delivery import Delivery
from dragoman.edge.errors import Headers, refusal, rendered
from dragoman.edge.incoming import SMALL, IncomingRequest, while_connected
from dragoman.edge.record import FailedAttempt, Record
from dragoman.jsontext import JsonError
from dragoman.mcp import messages
from dragoman.mcp.events import EventSplitter, EventTooLarge, data_of, with_data
from dragoman.mcp.messages import Answer, BadMessage, Message, error_answer
from dragoman.mcp.servers import Method, Server
from dragoman.mcp.session_ids import SessionIds
from dragoman.mcp.streams import Streams
from dragoman.serving.limits.admission import Admission
from dragoman.sse import COMMENT
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError, UpstreamTimeout
from dragoman.upstream.response import UpstreamResponse

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of a message of a client. The SDKs of servers take no more."""
MOST_ANSWER_BYTES = 32 * 1024 * 1024
MOST_EVENT_BYTES = 8 * 1024 * 1024
"""Bytes of one event of a stream."""
_MOST_ERROR_BYTES = 64 * 1024
_LONGEST_SUBJECT = 200

SESSION = "mcp-session-id"
_PLACE = "last-event-id"
_METHOD, _NAME = "mcp-method", "mcp-name"
_PASSED = (b"accept", b"content-type")
_ACCEPT = "application/json, text/event-stream"
_EVENTS, _JSON = "text/event-stream", "application/json"

_GONE = "There is no such session, or it is not this client's."
_TOOL_FAILED = "tool_failed"
_RPC_ERROR = "rpc_error"


class Parts(Struct, frozen=True):
    """What requests are served with. Streams are sent a comment after `keepalive_s` seconds of
    silence."""

    client: UpstreamClient
    admission: Admission
    session_ids: SessionIds
    keepalive_s: float
    streams: Streams


class Exchange:
    """One request. `caller` may use tools that match one of `tools`, of which there is one."""

    def __init__(
        self,
        parts: Parts,
        server: Server,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        tools: tuple[str, ...],
    ) -> None:
        self._parts = parts
        self._server = server
        self._incoming = incoming
        self._caller = caller
        self._record = record
        self._tools = tools
        self._filters = "*" not in tools
        self._message = Message("", None, "", b"")
        self._is_lasting = False
        """Whether the answer is a stream of notifications, which lasts until somebody ends it."""
        self._answer: Answer | None = None

    async def post(self) -> None:
        """Pass a message on, and its answer back."""
        record = self._record
        try:
            message = self._message = messages.read_message(await self._incoming.body(MOST_BYTES))
        except BadMessage as error:
            record.fail(Fault(FaultKind.INVALID_REQUEST, str(error)))
            self._incoming.reply(400, error_answer(error.id, error.code, str(error)))
            return
        self._is_lasting = message.method == messages.LISTEN
        if message.id is not None and message.method:
            subject = message.tool or message.method
            record.model = f"{self._server.account}/{subject[:_LONGEST_SUBJECT]}"
            record.upstream_model = subject[:_LONGEST_SUBJECT]
        if message.tool and not self._allows(message.tool):
            text = f"The tool {message.tool[:_LONGEST_SUBJECT]} may not be used with this key."
            record.fail(Fault(FaultKind.FORBIDDEN, text))
            answer = error_answer(message.id, messages.INVALID_PARAMS, text)
            self._incoming.reply(200 if message.id else 400, answer)
            return
        await self._guarded("POST")

    async def other(self, method: Method) -> None:
        """Pass a GET of the server's stream on, or the DELETE of a session."""
        self._is_lasting = method == "GET"
        await self._guarded(method)

    async def _guarded(self, method: Method) -> None:
        """Serve the request while the client is connected, and answer errors as JSON-RPC has
        them."""
        try:
            await while_connected(self._incoming, self._admitted(method))
        except DragomanError as error:
            self._record.error = self._record.error or error.fault.kind
            if self._incoming.status:
                raise  # The connection is broken off.
            if not self._record.attempts:
                self._record.refusal = error.fault.message
            fail(self._incoming, error.fault, self._message.id)

    async def _admitted(self, method: Method) -> None:
        parts, name = self._parts, self._caller.name
        if self._message.method in messages.CALLS:
            await parts.admission.admit_call(self._incoming, self._caller, self._record)
        with parts.streams.room_for(name) if self._is_lasting else nullcontext():
            await self._exchange(method)

    async def _exchange(self, method: Method) -> None:
        server, record, message = self._server, self._record, self._message
        headers = self._headers()
        record.upstream = server.account
        if message.method in messages.CALLS:
            record.account, record.attempts = server.account, 1
        record.sent_at = time.perf_counter()
        record.bytes_up = len(message.body)
        try:
            once = message.method == messages.CALL_TOOL
            answer = await server.send(self._parts.client, method, headers, message.body, once=once)
        except NoCredential as error:
            text = f"The gateway has no credential for the MCP server {server.name}: {error}."
            raise self._failed("unauthorised", text) from None
        except CallError as error:
            raise self._lost(error) from None
        streams = self._parts.streams
        try:
            with streams.opened(answer) if self._is_lasting else nullcontext():
                async with answer:
                    await self._deliver(answer)
        except CallError as error:
            raise self._lost(error) from None
        except (JsonError, EventTooLarge) as error:
            text = f"The MCP server {server.name} has answered what cannot be passed on: {error}."
            raise self._failed("bad_answer", text) from None
        finally:
            record.bytes_down = answer.received
        self._settle()

    def _headers(self) -> Mapping[str, str]:
        """The headers of the client that are passed on: those of the protocol, and no others.

        Raises:
            DragomanError: the session is not this client's, or a header contradicts the message.
        """
        given, found = self._incoming.headers, {"accept": _ACCEPT}
        for name, value in given.items():
            if name in _PASSED or name.startswith(b"mcp-"):
                found[name.decode("latin-1")] = value.decode("latin-1")
        for header, said in ((_METHOD, self._message.method), (_NAME, self._message.tool)):
            if said and found.get(header, said) not in (said, _encoded(said)):
                # What is before a server may go by its headers.
                message = f"The header {header} names something else than the message."
                raise refusal(FaultKind.INVALID_REQUEST, message)
        if SESSION in found:
            bound = found[SESSION]
            id = self._parts.session_ids.open(self._server.name, self._caller.name, bound)
            if id is None:
                raise refusal(FaultKind.NOT_FOUND, _GONE)
            found[SESSION] = id
        if (place := given.get(_PLACE.encode())) is not None:
            if SESSION not in found:
                # Without a session, a place may be in a stream of another client.
                message = "Last-Event-ID needs the Mcp-Session-Id of the session of the stream."
                raise refusal(FaultKind.INVALID_REQUEST, message)
            found[_PLACE] = place.decode("latin-1")
        return found

    async def _deliver(self, answer: UpstreamResponse) -> None:
        """Answer the client."""
        status = answer.status
        media = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        headers = self._answered_session(answer)
        if status in (401, 403, 407) or 300 <= status < 400:
            refused = "refuses the gateway" if status >= 400 else "leads elsewhere"
            raise self._failed(f"status_{status}", f"{self._who} {refused} ({status}).")
        if not answer.is_good:
            await self._deliver_error(answer, media, headers)
        elif media == _EVENTS:
            await self._stream(answer, headers)
        elif media == _JSON:
            body = await answer.read(MOST_ANSWER_BYTES, self._incoming.reserve)
            shown = body if self._message.id is None else self._seen(body)
            self._incoming.reply(status, shown, headers)
        elif status in (202, 204) or self._message.id is None:
            self._incoming.reply(status, b"", headers)
        else:
            raise self._failed("bad_answer", f"{self._who} has answered {media or 'nothing'}.")

    async def _deliver_error(self, answer: UpstreamResponse, media: str, headers: Headers) -> None:
        """Answer with the server's error, in its own words if it is one of JSON-RPC."""
        status = answer.status
        is_own = media == _JSON
        if not is_own and status >= 500:
            raise self._failed(f"status_{status}", f"{self._who} has failed ({status}).")
        for name in ("allow", "retry-after"):
            if (value := answer.headers.get(name)) is not None:
                headers.append((name.encode(), value.encode("latin-1")))
        if is_own:
            body = self._server.masked(await answer.read(_MOST_ERROR_BYTES))
        else:
            code = messages.UNKNOWN_SESSION if status == 404 else messages.SERVER_ERROR
            body = error_answer(self._message.id, code, f"{self._who} has answered {status}.")
        if status >= 500:
            self._record.error = FaultKind.UPSTREAM_FAILED
            self._note_failure(f"status_{status}", status)
        elif status != 405:  # A server need not offer a stream, nor end sessions.
            self._record.error = FaultKind.INVALID_REQUEST
        self._incoming.reply(status, body, headers)

    async def _stream(self, answer: UpstreamResponse, headers: Headers) -> None:
        """Pass events on as they come, as fast as the client reads them."""
        delivery = Delivery(
            self._incoming,
            headers,
            keepalive=lambda: COMMENT,
            keepalive_s=self._parts.keepalive_s,
            commit_after_s=0,
        )
        events, reserved = EventSplitter(MOST_EVENT_BYTES), SMALL
        try:
            await delivery.write(b"")
            try:
                async for chunk in answer:
                    if whole := events.feed(chunk):
                        await delivery.write(b"".join(map(self._seen_event, whole)))
                    if events.held > reserved:
                        self._incoming.reserve(events.held - reserved)
                        reserved = events.held
            except CallError:
                if not self._is_lasting:
                    raise
                if not self._parts.streams.was_drained(answer):
                    return  # It is broken off as the server's was: such streams end now and then.
            await delivery.end()
        finally:
            delivery.close()

    def _seen_event(self, event: bytes) -> bytes:
        """What is passed on of an event."""
        if not (self._filters or self._message.method in messages.CALLS):
            return event
        data = data_of(event)
        if not data:
            return event
        shown = self._seen(data)
        return event if shown is data else with_data(event, shown)

    def _seen(self, data: bytes) -> bytes:
        """What is passed on of a message of the server.

        Raises:
            JsonError: tools would have to be left out, and it cannot be read.
        """
        if self._message.id is not None:
            with suppress(JsonError):
                self._answer = messages.read_answer(data) or self._answer
        if self._filters and self._message.method in ("", messages.LIST_TOOLS):
            return messages.with_allowed_tools(data, self._allows)
        return data

    def _settle(self) -> None:
        """Record what became of the request, by the answer to it."""
        answer = self._answer
        if answer is None or answer.is_good or self._record.error:
            return
        if answer.code in messages.CALLERS_CODES:
            self._record.error = FaultKind.INVALID_REQUEST
            return
        self._record.error = _RPC_ERROR if answer.code else _TOOL_FAILED
        self._note_failure(self._record.error, 200)

    def _allows(self, tool: str) -> bool:
        return any(matches(pattern, tool) for pattern in self._tools)

    def _answered_session(self, answer: UpstreamResponse) -> Headers:
        """The header with the session that the server gave, as the client is to know it."""
        id = answer.headers.get(SESSION)
        if id is None:
            return []
        bound = self._parts.session_ids.bind(self._server.name, self._caller.name, id)
        if bound is None:
            raise self._failed("bad_answer", f"{self._who} has given an id that is none.")
        return [(SESSION.encode(), bound.encode())]

    @property
    def _who(self) -> str:
        return f"The MCP server {self._server.name}"

    def _lost(self, error: CallError) -> DragomanError:
        """The error where there is no whole answer."""
        is_late = isinstance(error, UpstreamTimeout)
        kind = FaultKind.UPSTREAM_TIMEOUT if is_late else FaultKind.UPSTREAM_FAILED
        cause = error.cause.replace("_", " ")
        return self._failed(error.cause, f"{self._who} does not answer: {cause}.", kind)

    def _failed(
        self, cause: str, message: str, kind: FaultKind = FaultKind.UPSTREAM_FAILED
    ) -> DragomanError:
        """The error where the server is at fault, once that is recorded."""
        self._note_failure(cause, 0)
        return DragomanError(Fault(kind, message))

    def _note_failure(self, cause: str, status: int) -> None:
        record, account = self._record, self._server.account
        sent = record.sent_at or time.perf_counter()
        ms = round((time.perf_counter() - sent) * 1000, 1)
        failed = FailedAttempt(
            account,
            account,
            record.upstream_model,
            cause,
            status,
            time.time(),
            ms,
            bytes_up=record.bytes_up,
            bytes_down=record.bytes_down,
        )
        record.account, record.attempts, record.failed = account, 1, (failed,)


def fail(incoming: IncomingRequest, fault: Fault, id: bytes | None = None) -> None:
    """Answer with an error as JSON-RPC has it, to the request of this id."""
    status, _, headers = rendered(incoming.codec, fault, incoming.request_id)
    code = _CODES.get(fault.kind, messages.SERVER_ERROR)
    incoming.reply(status, error_answer(id, code, fault.message), headers)


def _encoded(value: str) -> str:
    """A value as it stands in a header that could not have it as it is."""
    return f"=?base64?{b64encode(value.encode()).decode()}?="


_CODES: Mapping[str, int] = {
    FaultKind.INVALID_REQUEST: messages.INVALID_REQUEST,
    FaultKind.NOT_FOUND: messages.UNKNOWN_SESSION,
    FaultKind.INTERNAL: messages.INTERNAL_ERROR,
}
