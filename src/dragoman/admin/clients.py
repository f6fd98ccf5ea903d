"""Operations for clients: how they are configured for this instance, and whether they get from it
what they need."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dragoman.admin.call import Call
from dragoman.admin.replies import EventStream, Refusal, Write
from dragoman.audit import Change
from dragoman.config import Config
from dragoman.config.limits import Limit
from dragoman.http import Request
from dragoman.lab.doctor import PROTOCOLS, NoModel, Unreachable, examine
from dragoman.lab.doctor.report import Finding
from dragoman.lab.guides import GUIDES, Guide, base_url, filled, model_name
from dragoman.operations.errors import Unknown
from dragoman.operations.inputs import InvalidInput
from dragoman.operations.openapi import Events
from dragoman.operations.operation import Command, Http, operation, operations_in
from dragoman.serving.routing import Router

_KEY_S = 600
"""Seconds after which a key of the doctor's expires, should it not be removed."""
_KEY_REQUESTS = 100
_SETTLED_S = 0.2
_ANY_MODEL = "MODEL"
_DOCTOR = "doctor.run"


class AskGuides(Struct, frozen=True):
    """The address of this instance, by default the one that is called, and a model."""

    url: str | None = None
    model: str | None = None


class SetupStep(Struct, frozen=True):
    """A piece of a client's configuration."""

    where: str
    text: str


class GuideView(Struct, frozen=True):
    """How one client is configured for this instance."""

    name: str
    speaks: tuple[str, ...]
    setup: list[SetupStep]
    works: str
    lost: str
    notes: str


class Guides(Struct, frozen=True):
    """How clients are configured for this instance, and the models it has names for."""

    url: str
    model: str
    models: list[str]
    guides: list[GuideView]


class RunDoctor(Struct, frozen=True):
    """The model to ask for, by default the first that is listed, and the protocols to check."""

    model: Annotated[str, Meta(min_length=1)] | None = None
    protocols: Annotated[tuple[str, ...], Meta(min_length=1)] = tuple(PROTOCOLS)


class CheckResult(Struct, frozen=True):
    """The outcome of one check."""

    check: str
    what: str
    state: str
    problem: str
    breaks: str
    remedy: str


@operation("guides.list", "viewer", Http("GET", "guides"), command=Command("guide", is_own=True))
async def _guides(call: Call, asked: AskGuides) -> Guides:
    """Show how each client is configured for this instance."""
    models = _models(call.gateway.config, call.gateway.bench.router)
    try:
        url = base_url(asked.url or _own_url(call))
    except ValueError as error:
        raise InvalidInput.of("url", str(error)) from None
    try:
        model = model_name(asked.model or (models[0] if models else _ANY_MODEL))
    except ValueError as error:
        raise InvalidInput.of("model", str(error)) from None
    return Guides(url, model, models, [_filled(guide, url, model) for guide in GUIDES])


def _listener(call: Call) -> str:
    """The address on which this instance was called: no header of the call says where else a fresh
    key would go.

    Raises:
        Refusal: it is a Unix socket.
    """
    received = call.incoming.received
    transport = received.transport if isinstance(received, Request) else None
    name = None if transport is None else transport.get_extra_info("sockname")
    if not isinstance(name, tuple):
        message = "The gateway listens on a Unix socket: run `dragoman doctor URL` instead."
        raise Refusal(409, "conflict", message)
    host, port = name[:2]
    return f"{_scheme(call)}://{f'[{host}]' if ':' in host else host}:{port}"


def _tls(call: Call) -> ssl.SSLContext | None:
    """What trusts the certificate of this instance, whatever its names; None without one."""
    certificate = call.gateway.config.server.tls_certificate
    if certificate is None:
        return None
    context = ssl.create_default_context(cafile=certificate)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    return context


def _scheme(call: Call) -> str:
    return "https" if call.gateway.config.server.tls_certificate else "http"


def _own_url(call: Call) -> str:
    """The address by which the operator reaches this instance."""
    headers = call.incoming.headers
    if origin := headers.get(b"origin"):
        return origin.decode("latin-1")
    return f"{_scheme(call)}://{headers.get(b'host', b'127.0.0.1').decode('latin-1')}"


@operation(
    "doctor.run",
    "admin",
    Http("POST", "doctor"),
    output=Events,
    audit=("run doctor", "add key", "remove key"),
    command=Command("doctor", is_own=True),
)
async def _doctor(call: Call, asked: RunDoctor) -> EventStream:
    """Find out why a client shows nothing."""
    if not set(asked.protocols) <= set(PROTOCOLS):
        raise InvalidInput.of("protocols", f"expected some of {', '.join(PROTOCOLS)}")
    running = call.gateway.observed.running
    if running[_DOCTOR]:
        raise Refusal(409, "conflict", "The doctor is running already.")
    url = _listener(call)
    running[_DOCTOR] = 1
    try:
        after = {"protocols": list(asked.protocols)}
        change = Change(action="run", kind="doctor", after=after)
        await call.record(change, needs_store=False)
    except BaseException:
        del running[_DOCTOR]
        raise
    return EventStream(
        lambda write: _examine(call, url, asked, write), lambda: running.pop(_DOCTOR)
    )


async def _examine(call: Call, url: str, asked: RunDoctor, write: Write) -> None:
    name = "" if call.gateway.keys.is_open else f"doctor-{secrets.token_hex(4)}"
    key = await _make_key(call, name) if name else ""
    lines: asyncio.Queue[object] = asyncio.Queue()
    task = asyncio.create_task(_find(url, key, asked, lines, _tls(call)))
    try:
        while (line := await lines.get()) is not None:
            await write(b"data: %b\n\n" % msgspec.json.encode(line))
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        if name:
            with suppress(Unknown):
                await call.in_store(lambda context: context.keys.remove([name]))


async def _find(
    url: str,
    key: str,
    asked: RunDoctor,
    lines: asyncio.Queue[object],
    tls: ssl.SSLContext | None,
) -> None:
    """Run the checks, and report what is done and found; None at the end."""

    def report(line: str) -> None:
        lines.put_nowait({"doing": line})

    try:
        findings = await examine(url, key, asked.model, asked.protocols, report, tls)
    except Unreachable as error:
        lines.put_nowait({"failed": f"nothing answers at {url}: {error}"})
    except NoModel as error:
        lines.put_nowait({"failed": f"{error}: name one"})
    except ValueError as error:
        lines.put_nowait({"failed": str(error)})
    else:
        for finding in findings:
            lines.put_nowait(_result(finding))
        lines.put_nowait({"broken": findings.broken})
    finally:
        lines.put_nowait(None)


async def _make_key(call: Call, name: str) -> str:
    fields = {
        "note": "of a doctor that was run from the dashboard",
        "expires": datetime.fromtimestamp(int(time.time()) + _KEY_S, UTC),
        "limits": (Limit(kind="requests", amount=_KEY_REQUESTS, window="total"),),
    }
    made = await call.in_store(lambda context: context.keys.add(name, fields))
    # The other workers learn of it with their next exchange with the store.
    await asyncio.sleep(2 * call.gateway.config.storage.sync_s + _SETTLED_S)
    return made.secret


def _result(finding: Finding) -> CheckResult:
    check = finding.check
    return CheckResult(
        check.id,
        check.what,
        finding.state.lower().replace(" ", "_"),
        finding.problem,
        check.breaks,
        check.remedy,
    )


def _filled(guide: Guide, url: str, model: str) -> GuideView:
    def fill(text: str) -> str:
        return filled(text, url, "the value of DRAGOMAN_KEY", model)

    return GuideView(
        guide.name,
        guide.speaks,
        [SetupStep(where, fill(text)) for where, text in guide.setup],
        fill(guide.works),
        fill(guide.lost),
        fill(guide.notes),
    )


def _models(config: Config, router: Router) -> list[str]:
    """The models that the configuration names, and that a route matches."""
    names = [route.match for route in config.routes if "*" not in route.match]
    names += [alias for alias in config.models.aliases if "*" not in alias]
    names += [
        f"{upstream.name}/{model}"
        for upstream in config.upstreams
        for model in upstream.models or ()
    ]
    return [name for name in dict.fromkeys(names) if router.knows(name)][:_MOST_MODELS]


_MOST_MODELS = 200


OPERATIONS = operations_in(globals())
