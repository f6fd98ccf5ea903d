"""Operations of the workbench: a request in each protocol, and how it is answered when it is
sent."""

from __future__ import annotations

import re
from typing import Annotated, cast

from msgspec import Meta, Struct

from dragoman.admin.call import Call
from dragoman.admin.replies import EventStream, Refusal
from dragoman.admin.workbench.sending import MOST_AT_ONCE, Sending, SendRequest
from dragoman.admin.workbench.translations import Toward, Translated, translations
from dragoman.audit import Change
from dragoman.canonical.errors import DragomanError
from dragoman.canonical.losses import Policy
from dragoman.config import settings
from dragoman.operations.inputs import InvalidInput
from dragoman.operations.openapi import Events
from dragoman.operations.operation import Http, operation, operations_in
from dragoman.protocols import ProtocolName
from dragoman.serving.routing import Router, Target

_SCENARIO = re.compile(r"[a-z_]{1,40}(\?[\x21-\x7e]{0,400})?")
_MOST_OUTPUT = 1024
_SENDING = "workbench.send"

ModelName = Annotated[str, Meta(min_length=1, max_length=1024)]


class Translate(Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """A request of the protocol `from`, as a text, and the name of a model whose route's options
    apply; without one the defaults."""

    source: settings.ProtocolName
    body: str
    model: ModelName | None = None


class Translations(Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """A request in each other protocol; `upstream`, the protocol that it `speaks` and `policy` are
    those of the model."""

    source: str
    upstream: str | None
    speaks: str | None
    policy: Policy | None
    targets: list[Translated]


class Send(Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """A request to send: to the route of `model`, by default that of the body; or with `scenario`
    to a simulator of the protocol `to`."""

    source: settings.ProtocolName
    body: str
    model: Annotated[str, Meta(max_length=1024)] | None = None
    policy: Policy | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=10**7)] = _MOST_OUTPUT
    scenario: str | None = None
    to: settings.ProtocolName | None = None


@operation("workbench.translate", "viewer", Http("POST", "translate"))
async def _translate(call: Call, asked: Translate) -> Translations:
    """Translate a request to each protocol, with what is lost. Nothing is sent."""
    bench = call.gateway.bench
    target = None if asked.model is None else _target(bench.router, asked.model)
    toward = None
    if target is not None:
        protocol = target.upstream.protocol
        toward = Toward(protocol, target.model, target.options, target.capabilities)
    source = cast(ProtocolName, asked.source)
    # As often as there are targets and policies: in another process, whatever its size.
    targets, _ = await bench.large.run(
        translations, _encoded(asked.body), source, toward, bench.envelope_key
    )
    return Translations(
        source=asked.source,
        upstream=None if target is None else target.upstream.name,
        speaks=None if target is None else target.upstream.protocol,
        policy=None if target is None else target.options.policy,
        targets=targets,
    )


@operation(
    "workbench.send",
    "admin",
    Http("POST", "workbench/send"),
    output=Events,
    audit=("send request",),
)
async def _send(call: Call, asked: Send) -> EventStream:
    """Send a request, and show how it is answered as it happens."""
    wanted = _request_of(asked)
    if wanted.model:
        _target(call.gateway.bench.router, wanted.model)
    running = call.gateway.observed.running
    if running[_SENDING] >= MOST_AT_ONCE:
        raise Refusal(503, "overloaded", "Too many requests are being sent.")
    running[_SENDING] += 1

    def close() -> None:
        running[_SENDING] -= 1

    try:
        sending = Sending(call.gateway.bench, wanted)
        place = {"scenario": wanted.scenario} if wanted.scenario else {"model": wanted.model}
        after = {"from": wanted.source, **place}
        await call.record(
            Change(action="send", kind="request", name=sending.request_id, after=after)
        )
    except BaseException:
        close()
        raise
    return EventStream(sending.run, close)


def _target(router: Router, model: str) -> Target:
    try:
        return router.resolve(model)
    except DragomanError:
        raise InvalidInput.of("model", "no route matches it") from None


def _request_of(asked: Send) -> SendRequest:
    """What is to be sent.

    Raises:
        InvalidInput: a field is wrong.
    """
    scenario = asked.scenario or ""
    if scenario:
        if not _SCENARIO.fullmatch(scenario):
            message = "expected the name of a scenario, such as text?words=20"
            raise InvalidInput.of("scenario", message)
        if asked.to is None:
            raise InvalidInput.of("to", "required with scenario")
    return SendRequest(
        source=cast(ProtocolName, asked.source),
        body=_encoded(asked.body),
        model=asked.model or "",
        policy="" if asked.policy is None else asked.policy.value,
        most_output=asked.max_tokens,
        to=cast(ProtocolName, asked.to) if scenario else None,
        scenario=scenario,
    )


def _encoded(body: str) -> bytes:
    return body.encode("utf-8", "surrogatepass")


OPERATIONS = operations_in(globals())
