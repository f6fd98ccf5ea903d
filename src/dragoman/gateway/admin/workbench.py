"""`/admin/translate`: what becomes of a request in each protocol."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from dragoman.canonical.errors import DragomanError
from dragoman.gateway.admin.calls import (
    AdminRoute,
    Call,
    Refusal,
    Reply,
    bad,
    first,
    only,
    read_object,
)
from dragoman.gateway.serving.routing import Router, Target
from dragoman.gateway.workbench.translations import translations
from dragoman.protocols import CODECS, ProtocolName


class WorkbenchRoutes:
    """What serves the workbench. `router` finds whose options apply, `envelope_key` opens the
    reasoning that clients send back."""

    def __init__(self, router: Router, envelope_key: bytes) -> None:
        self._router = router
        self._envelope_key = envelope_key

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [AdminRoute("translate", {"POST": self._translate}, reads=frozenset({"POST"}))]

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
