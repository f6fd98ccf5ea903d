"""Endpoints of things that one account has for one client, such as files: made, listed, shown,
changed, downloaded and deleted, by the account that has them alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.edge.errors import refusal
from dragoman.endpoints.batches import Batches
from dragoman.endpoints.bound_bodies import BoundBodies, Sending, is_anthropic
from dragoman.endpoints.bound_lists import ListForm, asked_ids, asked_page, listed
from dragoman.endpoints.bound_recorder import BoundRecorder, deliver_content, kind_of
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.delivery import reading
from dragoman.endpoints.exchange import EndpointExchange
from dragoman.endpoints.google_uploads import upload_headers, upload_name
from dragoman.endpoints.table import UPLOADING, Row
from dragoman.endpoints.wire import path_at
from dragoman.protocols.base import to_json
from dragoman.protocols.bound_ids import not_held
from dragoman.serving.answers import MOST_BYTES
from dragoman.serving.bound_notes import BATCHES, Noted
from dragoman.storage.bound import BoundId, Page
from dragoman.upstream.request import BodySource

_PASSED = (b"openai-beta", b"range")
"""Headers of clients that are passed on besides those of the protocol."""
_BYTES = b"application/octet-stream"


class BoundThings:
    """Serves the rows of things that accounts have."""

    def __init__(self, exchange: EndpointExchange) -> None:
        self._exchange = exchange
        self._bindings = exchange.upstreams.ids
        self._batches = Batches(exchange.parts)
        self._bodies = BoundBodies(exchange.server, self._batches)
        self._recorder = BoundRecorder(exchange, self._batches, self._own)

    async def serve(self, call: EndpointCall) -> None:
        """Serve one request.

        Raises:
            DragomanError: it cannot be sent; nothing was sent to the client.
            ClientGone: the client left.
        """
        if self._bindings.store is None:
            message = (
                f"{call.row.path} needs a store in this gateway, which knows whose each thing is."
            )
            raise DragomanError(Fault(FaultKind.NOT_FOUND, message, code="unsupported_endpoint"))
        name = call.parameters.get("id", "")
        if not name and call.row.method == "GET":
            await self._list(call)
            return
        if call.row.body == "raw" and (upload := upload_name(call.incoming.query)):
            call.row, name = UPLOADING, upload
        elif name:
            name = call.row.collection + name
        # An unknown id is refused before a body is read.
        (thing,) = await self._own(call, [name]) if name else (None,)
        sending = await self._bodies.read(call.row, call.incoming, call.caller, thing)
        try:
            await self._send(call, thing, sending)
        finally:
            sending.close()

    async def _list(self, call: EndpointCall) -> None:
        """Answer with a page of the caller's own things.

        Raises:
            DragomanError: there is no such page.
        """
        incoming, caller = call.incoming, call.caller
        form: ListForm = "anthropic" if is_anthropic(incoming) else "openai"
        if call.row.collection:
            form = "google"
        page, owner = asked_page(incoming.query, form), caller.owner
        kind = kind_of(call.row, incoming)
        store = self._bindings.store
        assert store is not None
        if form == "anthropic" and (ids := asked_ids(incoming.query)):
            known = (await self._bindings.find(ids, caller)).values()
            things = [one for one in known if one.kind == kind]
            incoming.reply(200, to_json(listed(things, Page(len(things) + 1), form)))
            return
        found = await store.ask(lambda store: store.bound.page(owner, kind, page))
        if found is None and form == "google":
            raise InvalidRequest.at("pageToken", "is none of this list")
        if found is None:
            raise not_held(page.before or page.after)
        incoming.reply(200, to_json(listed(found, page, form, call.row.collection)))

    async def _send(self, call: EndpointCall, thing: BoundId | None, sending: Sending) -> None:
        row, caller = call.row, call.caller
        call.size = len(sending.body)
        used = await self._own(call, sending.named)
        if thing is not None:
            used.insert(0, thing)
        if used:
            account = self._bindings.one_account(used)
            call.only, upstream = account.name, account.upstream
            if sending.plan is not None:
                pinned = self._bindings.at_account(sending.plan, used[0], account)
                call.only, upstream = pinned.only, pinned.upstream.name
            call.plans = [self._exchange.plan_at(caller, upstream)]
        else:
            chosen = self._exchange.chosen(call) if sending.plan is None else sending.plan.upstream
            call.plans = [self._exchange.plan_at(caller, chosen.name)]
            call.first = await self._usual_account(call)
        call.follow(call.plans[0])
        if thing is None:
            self._bodies.check_named(call, used, sending)
        if row.model == "id":
            await self._exchange.admit_unpriced(call)
        else:
            await self._exchange.admit(call)
            if row.makes[0] in BATCHES:
                sending.held = await self._batches.reserve(call, sending.shares)
        if row.method == "DELETE" and row.makes and thing is not None and thing.due is not None:
            # What it came to cannot be learned any more afterwards.
            is_known = await self._batches.look(thing)
            if not is_known:
                message = "What this batch came to cannot be read at the moment: delete it later."
                raise refusal(FaultKind.OVERLOADED, message)
            if thing.kind == "google_batch" and await self._batches.is_running(thing):
                # Its service would go on with it, and show no more what it comes to.
                raise InvalidRequest.at("", "This batch has not ended: cancel it first.")

        if row.method == "DELETE" and thing is not None and thing.kind == "google_file":
            await self._forget_counted(thing)
        if sending.file is None:
            call.upload = sending.upload
        try:
            await self._exchange.run(call, partial(self._attempt, sending, thing))
        finally:
            if sending.held is not None:
                self._batches.give_back(sending.held)

    async def _forget_counted(self, file: BoundId) -> None:
        """Forget what was counted of a file before it is deleted: another may be given its name,
        also where nobody reads that it is gone."""
        noted = Noted.of(file.details)
        if noted.path:
            noted = replace(noted, shares={}, path="")
            await self._bindings.bind([replace(file, details=noted.details())])

    async def _own(self, call: EndpointCall, names: Sequence[str]) -> list[BoundId]:
        """The caller's things of these names, each once; what was made past the gateway is one
        where there is nobody else whose it could be.

        Raises:
            DragomanError: NOT_FOUND: one is not the caller's.
        """
        return await self._bindings.own(names, call.caller, partial(self._elsewhere, call))

    def _elsewhere(self, call: EndpointCall, name: str) -> BoundId | None:
        account = self._exchange.elsewhere(call, name)
        if account is None:
            return None
        return BoundId(name=name, owner=call.caller.owner, account=account.name)

    async def _usual_account(self, call: EndpointCall) -> str:
        """The account to ask for something new: the one that made what the client has, so that one
        request may name both, while it can be asked; empty for any."""
        pool, upstream = self._exchange.upstreams.pool, call.plans[0].upstream.name
        names = [one.name for one in pool.accounts() if one.upstream == upstream]
        store, owner = self._bindings.store, call.caller.owner
        if len(names) < 2 or store is None:
            return ""
        newest = await store.ask(lambda store: store.bound.newest(owner, names))
        if newest is None:
            return ""
        state = pool.state(newest)
        return "" if state.disabled or state.exhausted or state.cooling else newest

    async def _attempt(
        self, sending: Sending, thing: BoundId | None, call: EndpointCall, lease: Lease
    ) -> None:
        """Call the upstream with one account, and deliver its answer. `thing` is what the path
        names.

        Raises:
            Failure: nothing of an answer was sent to the client.
        """
        incoming, row = call.incoming, call.row
        noted = Noted() if thing is None else Noted.of(thing.details)
        path, is_root = _path_at_upstream(row, incoming.path)
        if sending.plan is not None and "{model}" in row.path:
            path, is_root = path_at(sending.plan.upstream, row.path, sending.plan.target.model)
        query = incoming.query.decode("latin-1")
        if query and row.body != "none":
            path = f"{path}?{query}"
        headers = dict(incoming.codec.endpoint.passed_on(incoming.headers))
        if row.body == "raw":
            headers |= upload_headers(incoming.headers)
        for header in _PASSED:
            if header in incoming.headers:
                headers[header.decode()] = incoming.headers[header].decode("latin-1")
        if noted.shares:
            headers.pop("range", None)
        body: bytes | BodySource = sending.body
        if sending.file is not None:
            body = sending.file
        elif sending.upload is not None:
            body = sending.upload.body({})
        if sending.upload is not None:
            media = incoming.headers.get(b"content-type", _BYTES)
            headers["content-type"] = media.decode("latin-1")
        if row.stream != "none":
            headers["accept"] = "*/*"
        answer, builder = await self._exchange.send(
            call,
            lease,
            lambda builder: (
                builder.bodyless(row.method, path, query, headers, is_root=is_root)
                if row.method in ("GET", "DELETE")
                else builder.post(
                    path,
                    body,
                    headers,
                    stream=False,
                    proxy=lease.proxy,
                    is_root=is_root,
                    method=row.method,
                )
            ),
        )
        with reading(call, answer, builder.mask):
            if row.stream != "none":
                await deliver_content(call, lease, answer, noted)
                return
            content = await answer.read(MOST_BYTES, incoming.reserve)
        call.begins(lease)
        lease.succeeded()
        content = builder.mask.secrets_in(content)
        content = await self._recorder.record(call, lease.account.name, content, thing, sending)
        shown = call.headers()
        if row.body == "raw":
            shown += await self._recorder.record_upload(call, lease.account.name, answer)
        incoming.reply(answer.status, content, shown)


_VERSION = re.compile(
    r"/v1(?:beta1?|alpha)?(?:/projects/[^/]+/locations/[^/]+)?(?:/publishers/[^/]+)?(?=/)"
)


def _path_at_upstream(row: Row, path: str) -> tuple[str, bool]:
    """Where an upstream has what a client calls by a path, and whether that is beside its
    version."""
    if row.face != "google":
        return path.removeprefix("/v1"), False
    is_root = _VERSION.match(path) is None
    return path if is_root else _VERSION.sub("", path, count=1), is_root
