"""`/admin/guides`: how clients are pointed at this instance; `/admin/doctor`: whether they get from
it what they need."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import msgspec

from dragoman.admin.calls import (
    STREAMED,
    AdminRoute,
    Call,
    Note,
    Refusal,
    Reply,
    bad,
    first,
    only,
    read_object,
)
from dragoman.audit import Change
from dragoman.config import Config
from dragoman.edge.incoming import while_connected
from dragoman.http import ClientGone
from dragoman.lab.doctor import PROTOCOLS, NoModel, Unreachable, examine
from dragoman.lab.doctor.report import Finding
from dragoman.lab.guides import GUIDES, Guide, base_url, filled, model_name
from dragoman.operations.keys import KeyAdministration, Unknown
from dragoman.serving.routing import Router

T = TypeVar("T")

_KEY_S = 600
"""Seconds that a key of the doctor's lives, should it not be removed."""
_KEY_REQUESTS = 100
_SETTLED_S = 0.2
_ANY_MODEL = "MODEL"


class AskKeys(Protocol):
    """Calls a function with the administration of client keys, in the thread of the store."""

    def __call__(self, work: Callable[[KeyAdministration], T], /) -> Awaitable[T]: ...


class ClientRoutes:
    """What serves the paths about clients. `is_open` tells whether anybody may call without a
    key; `note` writes down who has the doctor run."""

    def __init__(
        self, config: Config, router: Router, ask: AskKeys, is_open: Callable[[], bool], note: Note
    ) -> None:
        self._config = config
        self._router = router
        self._ask = ask
        self._is_open = is_open
        self._note = note
        self._running = False

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [
            AdminRoute("guides", {"GET": self._guides}),
            AdminRoute("doctor", {"POST": self._doctor}),
        ]

    async def _guides(self, call: Call) -> Reply:
        query, models = call.query, _models(self._config, self._router)
        only(query, "url", "model")
        try:
            url = base_url(query.get("url") or self._own_url(call))
        except ValueError as error:
            bad(str(error), "url")
        try:
            model = model_name(query.get("model") or (models[0] if models else _ANY_MODEL))
        except ValueError as error:
            bad(str(error), "model")
        return 200, {
            "url": url,
            "model": model,
            "models": models,
            "guides": [_filled(guide, url, model) for guide in GUIDES],
        }

    def _own_url(self, call: Call) -> str:
        """The address by which the operator reaches this instance."""
        headers = call.incoming.headers
        if origin := headers.get(b"origin"):
            return origin.decode("latin-1")
        scheme = "https" if self._config.server.tls_certificate else "http"
        return f"{scheme}://{headers.get(b'host', b'127.0.0.1').decode('latin-1')}"

    async def _doctor(self, call: Call) -> Reply:
        only(call.query)
        asked = await read_object(call.incoming, may_be_empty=True)
        model, protocols = asked.pop("model", None), asked.pop("protocols", list(PROTOCOLS))
        if asked:
            bad("There is no such field.", first(asked))
        if model is not None and (not isinstance(model, str) or not model):
            bad("The name of a model is expected.", "model")
        if not isinstance(protocols, list) or not protocols or not set(protocols) <= set(PROTOCOLS):
            bad(f"Expected some of {', '.join(PROTOCOLS)}.", "protocols")
        if self._running:
            raise Refusal(409, "conflict", "The doctor is at work already.")
        self._running = True
        try:
            url = base_url(self._own_url(call))
        except ValueError as error:
            self._running = False
            bad(str(error))
        try:
            await self._note(Change(action="run", kind="doctor", after={"protocols": protocols}))
            name = "" if self._is_open() else f"doctor-{secrets.token_hex(4)}"
            key = await self._make_key(name) if name else ""
            try:
                call.incoming.start(200, STREAMED)
                await while_connected(
                    call.incoming, self._examine(call, url, key, model, protocols)
                )
                call.incoming.end()
            finally:
                if name:
                    with suppress(Unknown):
                        await self._ask(lambda keys: keys.remove([name]))
        except ClientGone:
            pass  # as pages do
        finally:
            self._running = False
        return None

    async def _make_key(self, name: str) -> str:
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + _KEY_S))
        fields = {
            "note": "of a doctor that was run from the dashboard",
            "expires": ends,
            "limits": [{"kind": "requests", "amount": _KEY_REQUESTS, "window": "total"}],
        }
        made = await self._ask(lambda keys: keys.add(name, fields))
        # The other workers learn of it with their next exchange with the store.
        await asyncio.sleep(2 * self._config.storage.sync_s + _SETTLED_S)
        return made.secret

    async def _examine(
        self, call: Call, url: str, key: str, model: str | None, protocols: list[str]
    ) -> None:
        lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

        async def work() -> None:
            try:
                findings = await examine(
                    url, key, model, protocols, lambda line: lines.put_nowait({"doing": line})
                )
            except Unreachable as error:
                lines.put_nowait({"failed": f"nothing answers at {url}: {error}"})
            except NoModel as error:
                lines.put_nowait({"failed": f"{error}: name one"})
            except ValueError as error:
                lines.put_nowait({"failed": str(error)})
            else:
                for finding in findings:
                    lines.put_nowait(_told(finding))
                lines.put_nowait({"broken": findings.broken})
            finally:
                lines.put_nowait(None)

        task = asyncio.create_task(work())
        try:
            while (line := await lines.get()) is not None:
                await call.incoming.write(b"data: %b\n\n" % msgspec.json.encode(line))
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _told(finding: Finding) -> dict[str, Any]:
    check = finding.check
    return {
        "check": check.id,
        "what": check.what,
        "state": finding.state.lower().replace(" ", "_"),
        "problem": finding.problem,
        "breaks": check.breaks,
        "remedy": check.remedy,
    }


def _filled(guide: Guide, url: str, model: str) -> dict[str, Any]:
    def fill(text: str) -> str:
        return filled(text, url, "the value of DRAGOMAN_KEY", model)

    return {
        "name": guide.name,
        "speaks": guide.speaks,
        "setup": [{"where": where, "text": fill(text)} for where, text in guide.setup],
        "works": fill(guide.works),
        "lost": fill(guide.lost),
        "notes": fill(guide.notes),
    }


def _models(config: Config, router: Router) -> list[str]:
    """The models that the configuration spells out, and that lead somewhere."""
    names = [route.match for route in config.routes if "*" not in route.match]
    names += config.models.aliases
    names += [
        f"{upstream.name}/{model}"
        for upstream in config.upstreams
        for model in upstream.models or ()
    ]
    return [name for name in dict.fromkeys(names) if router.knows(name)][:_MOST_MODELS]


_MOST_MODELS = 200
