"""A request as an upstream is sent it, and its answer as the client is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from dragoman import jsontext
from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.config import Server, Upstream
from dragoman.edge.incoming import IncomingRequest
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.members import Members, inserted, replaced, with_member
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json

Read = Callable[[Sequence[bytes]], bytes]
"""Makes the client's answer of those to all `bodies`, and records the usage in them. Raises
`UpstreamError` if they are unusable."""


class Wire(Struct, frozen=True):
    """A request as an upstream is sent it: `path` below the version of its protocol, or beside it
    if it `is_root`; several `bodies` are sent one after another. `read` reads whole answers."""

    path: str
    bodies: Sequence[bytes]
    read: Read
    is_root: bool = False


def renamed(call: EndpointCall, body: bytes, members: Members | None = None) -> bytes:
    """An answer, with these members if they are known, with the client's name of the model."""
    if call.plan.target.model == call.model:
        return body
    return replaced(body, "model", to_json(call.model), None if members is None else members.raw)


def passed(call: EndpointCall, body: bytes) -> Wire:
    """A request that is passed on as it is, with the upstream's name of the model."""
    model, row = call.plan.target.model, call.row
    if "model" in call.members.raw:
        # Of several members with this name a server may read another one than the gateway.
        is_doubtful = body.count(b'"model"') > 1 or body.find(b"\\u") >= 0
        if row.model != "path" and (model != call.model or is_doubtful):
            body = replaced(body, "model", to_json(model), call.members.raw)
    elif row.model == "json":
        body = inserted(body, "model", to_json(model))
    if row.asks_usage and call.stream and not call.wants_usage:
        options = call.members.get("stream_options")
        asked = to_json({**(options if isinstance(options, dict) else {}), "include_usage": True})
        body = with_member(body, "stream_options", asked, call.members.raw)
    path, is_root = path_at(call.plan.upstream, row.path, model)
    return Wire(path, [body], lambda answers: read_passed(call, answers[0]), is_root)


_ANSWERS = frozenset({"data", "results", "choices", "content", "embedding", "embeddings", "text"})


def read_passed(call: EndpointCall, body: bytes) -> bytes:
    """An answer that is passed on as it is, with the client's name of the model.

    Raises:
        UpstreamError: it is no JSON object, or an error.
    """
    members = members_of(body)
    call.measure(members)
    return renamed(call, body, members)


def members_of(body: bytes) -> Members:
    """The members of a whole answer.

    Raises:
        UpstreamError: it is no JSON object, or an error.
    """
    try:
        members = Members(jsontext.members(body))
    except JsonError:
        raise UpstreamError.unreadable("it is not a JSON object") from None
    if (error := members.get("error")) and members.keys().isdisjoint(_ANSWERS):
        message = error.get("message") if isinstance(error, dict) else error
        fault = Fault(FaultKind.UPSTREAM_FAILED, f"The upstream failed: {message}")
        raise UpstreamError(fault)
    return members


def path_at(upstream: Upstream, path: str, model: str) -> tuple[str, bool]:
    """Where an upstream has the endpoint of a path, and whether that is beside its version."""
    endpoint = upstream.endpoint
    if "{model}" in path:
        verb = path.rpartition(":")[2]
        located = endpoint.path_for(model, False)
        return f"{located.rpartition(':')[0]}:{verb}", False
    if not path.startswith("/v1/"):
        return path, True
    # What stands before the path of the protocol, where the service has it elsewhere.
    before = endpoint.path_for(model, False).removesuffix(endpoint.path)
    return before + path.removeprefix("/v1"), False


def gateway_url(incoming: IncomingRequest, server: Server) -> str:
    """The base URL at which a client calls the gateway, without a version."""
    own = b"https" if server.tls_certificate else b"http"
    scheme = incoming.headers.get(b"x-forwarded-proto", own).partition(b",")[0].strip()
    host = incoming.headers.get(b"host", b"").decode("latin-1")
    return f"{'https' if scheme == b'https' else 'http'}://{host}"
