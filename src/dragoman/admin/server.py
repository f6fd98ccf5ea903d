"""`/admin`: the operations over HTTP, with keys of their own.

Plain JSON in and out; errors are `{"error": {"type", "message", "param"}}`. It shares no limit, key
or format with the clients' endpoints, so that clients cannot lock an operator out.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, NoReturn
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import asdict

from dragoman import jsontext
from dragoman.accounts.store import StoreError
from dragoman.admin.call import Call
from dragoman.admin.gateway import Gateway
from dragoman.admin.operators import check_json
from dragoman.admin.repeated import HEADER as IDEMPOTENCY_KEY
from dragoman.admin.repeated import RepeatedPosts
from dragoman.admin.replies import EVENTS, EventStream, Operator, Refusal, Reply
from dragoman.admin.routes import Endpoint, Route, Routes
from dragoman.admin.table import OPERATIONS
from dragoman.audit import Actor
from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.edge.auth import presented_key
from dragoman.edge.errors import Headers, fault_of
from dragoman.edge.incoming import IncomingRequest, while_connected
from dragoman.http import ClientGone
from dragoman.jsontext import JsonError
from dragoman.operations.accounts import MOST_BAD_ROWS
from dragoman.operations.errors import BadFile, Conflict, ImportRejected, NoModel, Unknown
from dragoman.operations.inputs import (
    Check,
    InvalidInput,
    bare,
    fields_of,
    from_texts,
    literal_secret,
    path_field,
    read_input,
    shortened,
)
from dragoman.operations.operation import Operation, Text, Upload
from dragoman.serving.large_body_tasks import holds_more_values

_log = logging.getLogger("dragoman.gateway")

_NOBODY = Operator("", "viewer")
_REMOVED = {
    "/limits/simulate": "a limit of mode shadow counts what it would refuse, without refusing",
}
"""Ends of paths that former versions had, and what to do instead."""
_BODY_BYTES = 1024 * 1024
_MOST_VALUES = 20_000
_BODY_BYTES_OF_ANYONE = 4 * 1024
"""Bytes of a body that are read before it is determined who calls."""
_COMPRESSED_FROM = 16 * 1024
"""Bytes from which on an answer is compressed, if the client accepts that."""
_IN_THREAD_FROM = 64 * 1024
"""Bytes from which on it is compressed in a thread."""

_STATUS_OF_KIND = {
    FaultKind.TOO_LARGE: (413, "too_large"),
    FaultKind.UNSUPPORTED_MEDIA_TYPE: (415, "unsupported_media_type"),
    FaultKind.REQUEST_TIMEOUT: (408, "timeout"),
    FaultKind.INVALID_REQUEST: (400, "invalid_request"),
    FaultKind.CONFLICT: (409, "conflict"),
    FaultKind.UNPROCESSABLE: (422, "unprocessable"),
    FaultKind.OVERLOADED: (503, "overloaded"),
}

_ROUTES = Routes(OPERATIONS)


class Admin:
    """Serves `/admin` of one worker, with one configuration."""

    def __init__(self, gateway: Gateway, repeated: RepeatedPosts) -> None:
        self._gateway = gateway
        self._repeated = repeated
        self._operators = gateway.operators

    async def admits(self, incoming: IncomingRequest) -> bool:
        """Whether a request to read comes from an operator."""
        try:
            await self._operators.identify(incoming)
        except (Refusal, StoreError):
            return False
        return True

    async def serve(
        self, incoming: IncomingRequest, address: str, count_wrong_key: Callable[[str], float]
    ) -> str:
        """Answer one request of a client at `address`, whatever it is. Returns the kind of error,
        empty if there was none. `count_wrong_key` counts one of that address, and returns for how
        many seconds there were too many.

        Raises:
            ClientGone: the caller left.
        """
        headers: Headers = [(b"cache-control", b"no-store")]
        try:
            await self._answer(incoming, address, headers)
        except ClientGone:
            raise
        except Exception as error:
            if incoming.status:
                raise
            refusal = _refusal_of(error, incoming.request_id)
            if _is_sign_in(incoming) and refusal.status < 500:
                wait = await self._operators.count_refusal(address)
            elif refusal.status == 401 and presented_key(incoming.headers) is not None:
                wait = count_wrong_key(address)
            else:
                wait = 0.0
            if wait:
                headers.append((b"retry-after", b"%d" % (int(wait) + 1)))
                message = f"{refusal} There were too many such attempts from this address."
                refusal = Refusal(429, "rate_limited", message)
            elif refusal.status == 401:
                headers.append((b"www-authenticate", b"Bearer"))
            if refusal.status == 405:
                headers.append((b"allow", str(refusal.more["allow"]).encode()))
            body: dict[str, object] = {
                "type": refusal.kind,
                "message": str(refusal),
                "param": refusal.param,
                **refusal.more,
            }
            incoming.reply(refusal.status, msgspec.json.encode({"error": body}), headers)
            return refusal.kind
        return ""

    async def _answer(self, incoming: IncomingRequest, address: str, headers: Headers) -> None:
        path, method = incoming.path.removeprefix("/admin").removeprefix("/"), incoming.method
        found = _ROUTES.find(path, method)
        endpoint = None if found is None else found[0].methods.get(method)
        if endpoint is not None and endpoint.operation.role == "anyone":
            operator = _NOBODY
        else:
            operator = await self._operators.identify(incoming)
        for end, instead in _REMOVED.items():
            if path.endswith(end):
                raise Refusal(410, "gone", f"This was removed: {instead}.")
        if found is None:
            raise Refusal(404, "not_found", "There is nothing at this path.")
        route, names = found
        if endpoint is None:
            allowed = ", ".join(route.methods)
            message = f"{shortened(method)} is not allowed here."
            raise Refusal(405, "method_not_allowed", message, more={"allow": allowed})
        if endpoint.operation.role == "admin" and operator.role != "admin":
            message = f"{operator.name} is a viewer, and may not do this."
            raise Refusal(403, "forbidden", message)
        if _has_body(incoming) and (operator.session is not None or operator is _NOBODY):
            check_json(incoming)
        if operator is _NOBODY and b"content-encoding" in incoming.headers:
            message = "The body must be sent as it is, without a content encoding."
            raise Refusal(415, "unsupported_media_type", message, "content-encoding")
        check = _check_for(route, method, incoming.headers.get(b"if-match", b""))
        actor = Actor(operator.name, "admin", address)
        call = Call(self._gateway, incoming, operator, actor, check)

        async def reply_to() -> Reply | None:
            values = await self._values(endpoint, names, incoming)
            output = await _run(endpoint.operation, call, read_input(kind, values))
            if isinstance(output, EventStream):
                await _stream(incoming, output)
                return None
            return _reply(endpoint, incoming, output)

        kind = endpoint.operation.input
        if method == "POST" and operator is not _NOBODY and incoming.headers.get(IDEMPOTENCY_KEY):
            reply = await self._repeated.answer(call, reply_to)
        else:
            reply = await reply_to()
        if reply is not None:
            await _send(incoming, reply, headers)

    async def _values(
        self, endpoint: Endpoint, names: Mapping[str, str], incoming: IncomingRequest
    ) -> dict[str, Any]:
        """The values of the input by field: of the path, the query and the body."""
        operation, http = endpoint.operation, endpoint.http
        known = fields_of(operation.input)
        names = {path_field(operation.input, name): text for name, text in names.items()}
        others = [name for name in known if name not in names and name not in http.fixed]
        in_query = others if http.method in ("GET", "DELETE") else http.query
        texts = _query(incoming.query)
        for name in texts:
            if name not in in_query:
                problem = f"There is no such parameter; there is {', '.join(in_query) or 'none'}."
                _refuse(problem, shortened(name))
        values = {**http.defaults, **from_texts(operation.input, texts, time.time())}
        in_body = [name for name in others if name not in in_query and name != http.file]
        if http.file:
            media = incoming.headers.get(b"content-type", b"").decode("latin-1")
            body = await incoming.body(self._gateway.config.server.body_limit_bytes)
            values[http.file] = Upload(body, media=media)
        elif in_body:
            is_needed = http.method == "PATCH" or any(known[name].required for name in in_body)
            most = _BODY_BYTES_OF_ANYONE if operation.role == "anyone" else _BODY_BYTES
            fields = await _object(incoming, most, is_needed=is_needed)
            for name in names.keys() & fields.keys():
                if fields.pop(name) != names[name]:
                    _refuse("It is given by the path, and cannot be changed.", name)
            for name in (http.fixed.keys() | values.keys()) & fields.keys():
                _refuse("There is no such field.", name)
            values |= fields
        for name, text in names.items():
            values[name] = _of_path(bare(known[name].type), text)
        return values | dict(http.fixed)


async def _run(operation: Operation, call: Call, asked: Any) -> Any:
    """The output of an operation."""
    if operation.prepare is not None:
        ready = await asyncio.to_thread(operation.prepare, literal_secret, asked)
    else:
        ready = asked
    if operation.in_store:
        output = await call.in_store(lambda context: operation.run(context, ready))
        if operation.audit and call.gateway.sync is not None:
            # Whoever is answered may count on it, at this worker.
            await call.gateway.sync.exchanged()
    else:
        output = await operation.run(call, ready)
    if operation.finish is None:
        return output
    return await asyncio.to_thread(operation.finish, asked, output)


async def _stream(incoming: IncomingRequest, output: EventStream) -> None:
    """Answer with server-sent events."""
    try:
        incoming.start(200, EVENTS)
        await while_connected(incoming, output.run(incoming.write))
        incoming.end()
    except ClientGone:
        pass  # as pages do
    finally:
        output.close()


def _reply(endpoint: Endpoint, incoming: IncomingRequest, output: Any) -> Reply:
    """The reply that an output is sent as."""
    http, version = endpoint.http, endpoint.operation.version
    if isinstance(output, Reply):
        return output
    if isinstance(output, Text):
        return Reply(output.data, output.media.encode())
    if http.only:
        (output,) = output
    body = msgspec.json.encode(output)
    if http.method != "GET":
        return Reply(body, status=http.status)
    tag = _tag(body if version is None else msgspec.json.encode(version(output)))
    headers = ((b"etag", tag),)
    if version is None and _names(incoming.headers.get(b"if-none-match", b""), tag):
        return Reply(b"", status=304, headers=headers)
    return Reply(body, headers=headers)


async def _send(incoming: IncomingRequest, reply: Reply, headers: Headers) -> None:
    body = reply.data
    headers += reply.headers
    if len(body) > _COMPRESSED_FROM:
        headers.append((b"vary", b"accept-encoding"))
        if b"gzip" in incoming.headers.get(b"accept-encoding", b"").lower():
            headers.append((b"content-encoding", b"gzip"))
            large = len(body) > _IN_THREAD_FROM
            body = await asyncio.to_thread(_compressed, body) if large else _compressed(body)
    media = b"content-type: %b\r\n" % reply.media
    incoming.reply(reply.status, body, headers, media)


def _is_sign_in(incoming: IncomingRequest) -> bool:
    return incoming.method == "POST" and incoming.path == "/admin/session"


def _has_body(incoming: IncomingRequest) -> bool:
    return incoming.headers.get(b"content-length", b"0") != b"0"


def _compressed(body: bytes) -> bytes:
    compressor = zlib.compressobj(1, wbits=31)
    return compressor.compress(body) + compressor.flush()


def _of_path(kind: Any, text: str) -> Any:
    """The value of a field in a path.

    Raises:
        Refusal: it is none, so there is nothing there.
    """
    if kind is int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 4):
            raise Refusal(404, "not_found", "There is nothing at this path.")
        return int(text)
    return text if kind is str else [text]


def _query(raw: bytes) -> dict[str, str]:
    """The parameters of a query, the last one of each name."""
    try:
        return dict(
            parse_qsl(
                raw.decode("latin-1"), keep_blank_values=True, errors="strict", max_num_fields=50
            )
        )
    except ValueError:
        _refuse("The query cannot be read.")


async def _object(incoming: IncomingRequest, most: int, *, is_needed: bool) -> dict[str, Any]:
    """The JSON object in a body of at most `most` bytes; `{}` for none, unless one is needed.

    Raises:
        Refusal: it is none.
        DragomanError: it cannot be read.
    """
    body = await incoming.body(most)
    if not is_needed and not body.strip():
        return {}
    if holds_more_values(body, _MOST_VALUES):
        message = f"The body contains more than {_MOST_VALUES} values."
        raise Refusal(413, "too_large", message)
    try:
        value = jsontext.decode(body)
    except JsonError:
        _refuse("The body is not JSON.")
    if not isinstance(value, dict):
        _refuse("The body must be a JSON object.")
    return value


def _refuse(message: str, param: str | None = None) -> NoReturn:
    raise Refusal(400, "invalid_request", message, param)


def _check_for(route: Route, method: str, wanted: bytes) -> Check | None:
    """What makes sure that a thing is, when it is changed, as it was when it was read with one of
    the `wanted` tags.

    Raises:
        Refusal: this method has no such check.
    """
    if method == "GET" or not wanted:
        return None
    shown = route.methods.get("GET")
    version = None if shown is None else shown.operation.version
    if version is None or method != "PATCH":
        message = "If-Match goes with PATCH of a single thing alone."
        raise Refusal(412, "changed", message, "if-match")

    def check(output: Any) -> None:
        if not _names(wanted, _tag(msgspec.json.encode(version(output)))):
            message = "It was changed meanwhile: read it again."
            raise Refusal(412, "changed", message, "if-match")

    return check


def _tag(body: bytes) -> bytes:
    return b'"%b"' % blake2b(body, digest_size=12).hexdigest().encode()


def _names(header: bytes, tag: bytes) -> bool:
    """Whether a header of tags has this one. Proxies that compress an answer make its tag weak."""
    tags = [one.strip().removeprefix(b"W/") for one in header.split(b",")]
    return tag in tags or b"*" in tags


def _refusal_of(error: Exception, request_id: str) -> Refusal:
    match error:
        case Refusal():
            return error
        case NoModel():
            return Refusal(400, "invalid_request", str(error), "model")
        case Unknown():
            return Refusal(404, "not_found", str(error), "name")
        case Conflict():
            return Refusal(409, "conflict", str(error), error.field or None)
        case InvalidInput():
            faults = [asdict(fault) for fault in error.faults]
            first = error.faults[0].field
            return Refusal(400, "invalid_request", str(error), first or None, {"faults": faults})
        case ImportRejected():
            more = {"rows": error.rows, "bad": error.bad[:MOST_BAD_ROWS]}
            return Refusal(400, "bad_rows", str(error), more=more)
        case BadFile():
            return Refusal(400, "invalid_request", str(error))
        case StoreError():
            _log.error("request %s: %s", request_id, error)
            return Refusal(503, "store_unavailable", "The store cannot be used now.")
        case DragomanError():
            fault = error.fault
            status, kind = _STATUS_OF_KIND.get(fault.kind, (500, "internal"))
            return Refusal(status, kind, fault.message, fault.param)
        case _:
            return Refusal(500, "internal", fault_of(error, request_id).message)
