"""The library call, and the checks of its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.options import Capabilities, Extensible, Options
from dragoman.protocols import CODECS, ProtocolName
from dragoman.protocols.base import PLAIN, Codec
from dragoman.protocols.presets import completed
from dragoman.protocols.settings import NOT_SETTINGS, checked, with_settings
from dragoman.translation.call import Call, CallSettings
from dragoman.translation.client_request import ClientRequest

E = TypeVar("E", bound=Extensible)


def translate_request(
    client: ProtocolName,
    upstream: ProtocolName,
    body: bytes | str | Mapping[str, Any],
    *,
    model: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    capabilities: Capabilities | Mapping[str, Any] | None = None,
    path: str | None = None,
    base_url: str = "",
    service: str = PLAIN,
    account: str = "",
    envelope_key: bytes = b"",
    response_id: str | None = None,
    created: int | None = None,
) -> Call:
    """Translate a request between two protocols. No I/O is done.

    Args:
        client: the protocol of the client, which wrote the request.
        upstream: the protocol of the upstream that is to answer it.
        body: the request: JSON as bytes or text, or as a mapping.
        model: the upstream's name of the model; None: the one that the client names.
        options: how requests and answers are translated, as `[options]` of a configuration: a
            mapping of their names, or an `Options`.
        capabilities: what the upstream accepts and needs, as `[upstreams.capabilities]`: a mapping
            of their names, or a `Capabilities`.
        path: the path that the client called, for protocols whose path names the model.
        base_url: the upstream's base URL, from which some capabilities follow.
        service: the form in which the upstream offers its protocol, as in a configuration.
        account: tags reasoning state with the account that it will be bound to.
        envelope_key: authenticates the envelopes in which reasoning of one vendor travels through
            clients of another; empty: they are not authenticated.
        response_id: the id of the answer; None: a fresh one.
        created: Unix seconds of an answer whose upstream does not report its time; None: now.

    Returns:
        The call: what to send where, and the way back for its answer.

    Raises:
        ValueError: a protocol, service, option or capability does not exist, or has no such value;
            the model is no text.
        InvalidRequest: the request is malformed; the error names the field.
        Refused: the policy does not allow what would be lost.
    """
    source, target = _codec("client", client), _codec("upstream", upstream)
    if model is not None and not isinstance(model, str):
        raise ValueError(f"model must be text, not {model!r}")
    if not target.endpoint.offers(service):
        raise ValueError(f"service must be one that offers {target.name}, not {service!r}")
    able = _validated(Capabilities, capabilities)
    settings = CallSettings(
        model=model,
        options=_validated(Options, options),
        capabilities=completed(able, target.name, base_url, model or "", service)
        if base_url or service != PLAIN
        else able,
        service=service,
        sealer=Sealer(envelope_key),
        account=account,
        response_id=response_id,
        created=created,
    )
    called, _, query = (path or "").partition("?")
    operation = source.endpoint.operation_of(called, query)
    request = ClientRequest(source.name, _encoded(body), operation=operation)
    return Call(request, target.name, settings)


def _codec(side: str, name: object) -> Codec:
    codec = CODECS.get(name) if isinstance(name, str) else None
    if codec is None:
        raise ValueError(f"{side} must be one of {', '.join(CODECS)}, not {name!r}")
    return codec


def _validated(kind: type[E], given: E | Mapping[str, Any] | None) -> E:
    """The given settings, each of them validated."""
    if given is None:
        return kind()
    if isinstance(given, Mapping):
        return with_settings(kind(), checked(kind, given))
    if not isinstance(given, kind):
        raise ValueError(f"expected {kind.__name__} or a mapping of their names, not {given!r}")
    for part in (given, *given.own.values()):
        names = [name for name in part.__struct_fields__ if name not in NOT_SETTINGS]
        checked(kind, {name: getattr(part, name) for name in names})
    return given


def _encoded(body: bytes | str | Mapping[str, Any]) -> bytes:
    if isinstance(body, bytes):
        return body
    try:
        # The standard library refuses values unknown to JSON, which msgspec encodes as null.
        text = body if isinstance(body, str) else json.dumps(dict(body), allow_nan=False)
        return text.encode()
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest.at("", f"The request body cannot be JSON: {error}") from None
