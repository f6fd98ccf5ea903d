"""Records of the things that answers name: whose they are, at which account, and what they come
to."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from dragoman import jsontext
from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.edge.errors import Headers
from dragoman.edge.incoming import IncomingRequest
from dragoman.endpoints.batch_lines import Results
from dragoman.endpoints.batches import FIRST_LOOK_S, Batches, as_noted, has_ended
from dragoman.endpoints.bound_bodies import Sending, is_anthropic
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.exchange import EndpointExchange
from dragoman.endpoints.google_batches import COUNTED, shown_batch
from dragoman.endpoints.google_uploads import MODELS, UPLOAD_LIFE_S, answered_headers, begins_lines
from dragoman.endpoints.members import replaced
from dragoman.endpoints.streams import deliver_bytes
from dragoman.endpoints.table import Row
from dragoman.endpoints.wire import gateway_url
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.serving.bound_notes import BATCHES, SECOND_FORM, Noted, id_of, things_in
from dragoman.storage.bound import BoundId
from dragoman.upstream.response import UpstreamResponse

_log = logging.getLogger("dragoman.gateway")

_TAKEN = Fault(
    FaultKind.INTERNAL, "The service gave an id that it has given before.", code="server_error"
)

FindOwn = Callable[[EndpointCall, Sequence[str]], Awaitable[list[BoundId]]]
"""Finds the caller's things of these names. Raises DragomanError where one is not the caller's."""


class BoundRecorder:
    """Records the things that answers name, and shows answers as the client has them."""

    def __init__(self, exchange: EndpointExchange, batches: Batches, find_own: FindOwn) -> None:
        self._server = exchange.server
        self._bindings = exchange.upstreams.ids
        self._batches = batches
        self._find_own = find_own

    async def record(
        self,
        call: EndpointCall,
        account: str,
        content: bytes,
        thing: BoundId | None,
        sending: Sending,
    ) -> bytes:
        """Record the things that an answer names, before the client sees it. Returns what it sees.

        Raises:
            DragomanError: the store cannot be used now, or an id is not new.
        """
        row, caller = call.row, call.caller
        if row.method == "DELETE":
            if row.makes and thing is not None:
                await self._bindings.unbind(thing.name, thing.owner)
            return content
        kind = kind_of(row, call.incoming) if row.makes else ""
        owner = caller.owner if thing is None else thing.owner
        if thing is None:
            by = caller.name if owner != caller.name else ""
            most = (caller.most_output or 0) if sending.path else 0
            noted = Noted(shares=as_noted(sending.shares), by=by, path=sending.path, most=most)
        else:
            noted = Noted.of(thing.details)
        if row.body == "raw":
            noted = await self._noted_of_file(call, account, content, noted.by, sending)
        if kind == "google_batch":
            names = {str(share[0]): model for model, share in noted.shares.items()}
            content = await shown_batch(content, names)
        if kind == "google_cache" and noted.shares:
            content = replaced(content, "model", to_json(MODELS + next(iter(noted.shares))))
        is_counted = kind == "google_file" and noted.path
        if is_counted and (sending.counted is None or not sending.counted.is_whole):
            # It was noted before. It may be deleted by now, and another have its name.
            return content
        answer: JsonObject = jsontext.object_of(content) or {}
        things = things_in(answer, kind, owner, account, noted)
        if thing is None and kind in BATCHES:
            due = time.time() + FIRST_LOOK_S
            things = [replace(one, due=due) if one.kind == kind else one for one in things]
        refused = await self._bindings.bind(things) if things else []
        if kind and any(one.name in refused for one in things if one.kind == kind):
            _log.error("the account %s gave an id again: %.80r", account, refused)
            raise DragomanError(_TAKEN)
        if kind not in BATCHES:
            return content
        if sending.held is not None:
            self._batches.keep(sending.held, owner, str(id_of(answer, kind)))
        elif thing is not None and has_ended(answer):
            found = self._bindings.account_of(thing)
            if found is not None:
                await self._batches.seen(thing, answer, found)
        url = answer.get("results_url")
        if isinstance(url, str):
            base = gateway_url(call.incoming, self._server)
            own = f"{base}/v1/messages/batches/{answer.get('id')}/results"
            content = replaced(content, "results_url", to_json(own))
        return content

    async def record_upload(
        self, call: EndpointCall, account: str, answer: UpstreamResponse
    ) -> Headers:
        """The headers of an answer about an upload, with the gateway's URL, whose upload is its
        client's.

        Raises:
            DragomanError: the store cannot be used now.
        """
        base = gateway_url(call.incoming, self._server) + call.incoming.path
        headers, name = answered_headers(answer.headers, base)
        if name:
            caller, now = call.caller, time.time()
            by = caller.name if caller.owner != caller.name else ""
            upload = BoundId(
                name=name,
                owner=caller.owner,
                account=account,
                kind="google_upload",
                created=now,
                expires=now + UPLOAD_LIFE_S,
                details=Noted(
                    by=by, path=COUNTED if begins_lines(call.incoming.headers) else ""
                ).details(),
            )
            if await self._bindings.bind([upload]):
                raise DragomanError(_TAKEN)
        return headers

    async def _noted_of_file(
        self, call: EndpointCall, account: str, content: bytes, by: str, sending: Sending
    ) -> Noted:
        """What is noted of a file that was uploaded: of one of lines, what was counted of it, if
        what it names is its client's."""
        counted = sending.counted
        file = (jsontext.object_of(content) or {}).get("file")
        if not isinstance(file, dict) or counted is None or not counted.is_whole:
            name = id_of(file, "google_file") if isinstance(file, dict) else None
            # It may be shown again.
            known = await self._bindings.find([name], call.caller) if isinstance(name, str) else {}
            return next((Noted.of(one.details) for one in known.values()), Noted(by=by))
        if not counted.is_of(file):
            return Noted(by=by)
        problem = counted.problem
        try:
            used = await self._find_own(call, list(counted.requests.named))
            if used:
                self._bindings.one_account(used, account)
        except DragomanError as error:
            problem = problem or error.fault.message
        if problem:
            return Noted(by=by, problem=problem)
        shares, most = as_noted({"": counted.requests.share}), call.caller.most_output or 0
        return Noted(shares=shares, by=by, path=COUNTED, most=most)


async def deliver_content(
    call: EndpointCall, lease: Lease, answer: UpstreamResponse, noted: Noted
) -> None:
    """Pass content on, with the client's names of models in that of a batch."""
    if not noted.shares:
        await deliver_bytes(call, lease, answer, b"")
        return
    results = Results({str(share[0]): model for model, share in noted.shares.items()})
    chunk = await anext(answer, b"")
    call.begins(lease)
    lease.succeeded()
    media = answer.headers.get("content-type", "application/octet-stream")
    call.incoming.start(200, call.headers(), b"content-type: %b\r\n" % media.encode("latin-1"))
    while chunk:
        if shown := results.lines.feed(chunk):
            await call.incoming.write(shown)
        chunk = await anext(answer, b"")
    call.incoming.end(results.lines.finish())


def kind_of(row: Row, incoming: IncomingRequest) -> str:
    """The kind of what a row makes, shows and lists."""
    second = row.face == "by_header" and is_anthropic(incoming)
    return SECOND_FORM if second else row.makes[0]
