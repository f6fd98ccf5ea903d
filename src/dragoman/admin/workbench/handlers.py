"""`/admin/translate`: what becomes of a request in each protocol; `/admin/workbench/send`: what is
said when it is sent."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

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
from dragoman.admin.workbench.sending import MOST_AT_ONCE, Bench, Sending, Wish
from dragoman.admin.workbench.translations import translations
from dragoman.audit import Change
from dragoman.canonical.errors import DragomanError
from dragoman.canonical.losses import Policy
from dragoman.edge.incoming import while_connected
from dragoman.http import ClientGone
from dragoman.protocols import CODECS, ProtocolName
from dragoman.serving.routing import Target

_SCENARIO = re.compile(r"[a-z_]{1,40}(\?[\x21-\x7e]{0,400})?")
_MOST_OUTPUT = 1024


class WorkbenchRoutes:
    """What serves the workbench. `envelope_key` opens the reasoning that clients send back."""

    def __init__(self, bench: Bench, envelope_key: bytes, note: Note) -> None:
        self._bench = bench
        self._router = bench.router
        self._envelope_key = envelope_key
        self._note = note
        self._running = 0

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [
            AdminRoute("translate", {"POST": self._translate}, reads=frozenset({"POST"})),
            AdminRoute("workbench/send", {"POST": self._send}),
        ]

    async def _send(self, call: Call) -> Reply:
        only(call.query)
        wish = _wish(await read_object(call.incoming))
        if wish.model:
            self._target(wish.model)
        if self._running >= MOST_AT_ONCE:
            raise Refusal(503, "overloaded", "As many requests are being sent as may be.")
        self._running += 1
        try:
            sending = Sending(self._bench, wish)
            where = {"scenario": wish.scenario} if wish.scenario else {"model": wish.model}
            after = {"from": wish.source, **where}
            await self._note(
                Change(action="send", kind="request", name=sending.request_id, after=after)
            )
            call.incoming.start(200, STREAMED)
            await while_connected(call.incoming, sending.run(call.incoming.write))
            call.incoming.end()
        except ClientGone:
            pass  # as pages do
        finally:
            self._running -= 1
        return None

    async def _translate(self, call: Call) -> Reply:
        only(call.query)
        asked = await read_object(call.incoming)
        source, body = read_pasted(asked)
        model = asked.pop("model", None)
        if asked:
            bad("There is no such field.", first(asked))
        target = None if model is None else self._target(model)
        made = await asyncio.to_thread(translations, source, body, target, self._envelope_key)
        upstream = None if target is None else target.upstream
        return 200, {
            "from": source,
            "upstream": None if upstream is None else upstream.name,
            "speaks": None if upstream is None else upstream.protocol,
            "policy": None if target is None else target.options.policy,
            "targets": made,
        }

    def _target(self, model: Any) -> Target:
        if not isinstance(model, str) or not 0 < len(model) <= 1024:
            bad("The name of a model is expected.", "model")
        try:
            return self._router.resolve(model)
        except DragomanError:
            raise Refusal(400, "invalid_request", "No route leads there.", "model") from None


def _wish(asked: dict[str, Any]) -> Wish:
    """What is to be sent.

    Raises:
        Refusal: it cannot be.
    """
    source, body = read_pasted(asked)
    texts = {name: asked.pop(name, None) or "" for name in ("model", "policy", "to", "scenario")}
    most = asked.pop("max_tokens", _MOST_OUTPUT)
    if asked:
        bad("There is no such field.", first(asked))
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > 1024:
            bad("A text is expected.", name)
    if texts["policy"] and texts["policy"] not in tuple(Policy):
        bad(f"Expected one of {', '.join(Policy)}.", "policy")
    if type(most) is not int or not 1 <= most <= 10**7:
        bad("Expected a number of tokens.", "max_tokens")
    scenario, to = texts["scenario"], texts["to"]
    if scenario:
        if not _SCENARIO.fullmatch(scenario):
            bad("Expected the name of a scenario, such as text?words=20.", "scenario")
        if to not in CODECS:
            bad(f"Expected one of {', '.join(CODECS)}.", "to")
    return Wish(
        source=source,
        body=body,
        model=texts["model"],
        policy=texts["policy"],
        most_output=most,
        to=cast(ProtocolName, to) if scenario else None,
        scenario=scenario,
    )


def read_pasted(asked: dict[str, Any]) -> tuple[ProtocolName, bytes]:
    """The protocol and the text of a request that was pasted, which are taken out of what was
    asked.

    Raises:
        Refusal: they are none.
    """
    source, body = asked.pop("from", None), asked.pop("body", None)
    if not isinstance(source, str) or source not in CODECS:
        bad(f"Expected one of {', '.join(CODECS)}.", "from")
    if not isinstance(body, str):
        bad("The request is expected as a text of JSON.", "body")
    return cast(ProtocolName, source), body.encode("utf-8", "surrogatepass")
