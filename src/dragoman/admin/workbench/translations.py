"""A request in every protocol, with what is lost and what each policy says. Nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest, Refused
from dragoman.canonical.losses import Loss, Policy
from dragoman.canonical.options import Capabilities, Options
from dragoman.protocols import CODECS, ProtocolName
from dragoman.translation import ClientRequest, translate_request

_UNNAMED = "unknown"
"""The model in a path where no target names one."""


class Verdict(Struct, frozen=True):
    """Whether a policy lets a request pass; if not, the error that the client gets, and the paths
    at fault."""

    passes: bool
    message: str = ""
    paths: tuple[str, ...] = ()


class Translated(Struct, frozen=True):
    """A request as an upstream of one protocol is sent it.

    `body` is its JSON text, None if there is no translation whatever the policy. `losses` are those
    of the lenient policy, which are all.
    """

    protocol: str
    body: str | None
    losses: tuple[Loss, ...]
    verdicts: Mapping[str, Verdict]


class Toward(Struct, frozen=True):
    """The target whose options apply: its protocol, its name of the model, and what it can do."""

    protocol: str
    model: str
    options: Options
    capabilities: Capabilities


def translations(
    body: bytes, client: ProtocolName, toward: Toward | None, envelope_key: bytes
) -> tuple[list[Translated], bytes]:
    """Translate the request `body` of a `client` to each of the other protocols, with the defaults
    unless there is a target. In the form of what `LargeBodies.run` calls.

    Raises:
        InvalidRequest: it is no request of that protocol.
    """
    endpoint = CODECS[client].endpoint
    model = _UNNAMED if toward is None else toward.model
    operation = endpoint.operation_for(model, stream=False)
    ClientRequest(client, body, operation=operation).read(Sealer(envelope_key))
    path = endpoint.version + unquote(endpoint.path_for(model, stream=False))
    found = [
        _translated(client, cast(ProtocolName, protocol), body, path, toward, envelope_key)
        for protocol in CODECS
        if protocol != client
    ]
    return found, b""


def _translated(
    client: ProtocolName,
    protocol: ProtocolName,
    body: bytes,
    path: str,
    toward: Toward | None,
    envelope_key: bytes,
) -> Translated:
    options = Options() if toward is None else toward.options
    at = toward if toward is not None and toward.protocol == protocol else None
    made: str | None = None
    losses: tuple[Loss, ...] = ()
    verdicts = {}

    for policy in Policy:
        try:
            call = translate_request(
                client,
                protocol,
                body,
                model=None if at is None else at.model,
                options=replace(options, policy=policy),
                capabilities=None if at is None else at.capabilities,
                path=path,
                envelope_key=envelope_key,
            )
        except InvalidRequest as error:
            fault = error.fault
            named = () if fault.param is None else (fault.param,)
            paths = error.paths if isinstance(error, Refused) else named
            verdicts[policy.value] = Verdict(False, fault.message, paths)
        else:
            verdicts[policy.value] = Verdict(True)
            if policy is Policy.LENIENT:
                made, losses = call.body.decode(), call.losses
    return Translated(protocol, made, losses, verdicts)
