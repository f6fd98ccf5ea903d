"""Endpoints of things that one account has for one client, such as files: made, listed, shown,
changed, downloaded and deleted, by the account that has them alone."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from dragoman import jsontext
from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.edge.errors import Headers, refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.endpoints.batch_lines import Results, check_path, path_of
from dragoman.endpoints.batches import FIRST_LOOK_S, Batches, as_noted, has_ended, shares_of
from dragoman.endpoints.bound_bodies import BoundBodies, Sending, is_anthropic
from dragoman.endpoints.bound_lists import ListForm, asked_ids, asked_page, listed
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.delivery import reading
from dragoman.endpoints.exchange import EndpointExchange
from dragoman.endpoints.google_batches import COUNTED, UNCOUNTED, shown_batch
from dragoman.endpoints.google_uploads import (
    MODELS,
    UPLOAD_LIFE_S,
    answered_headers,
    begins_lines,
    upload_headers,
    upload_name,
)
from dragoman.endpoints.members import replaced
from dragoman.endpoints.streams import deliver_bytes
from dragoman.endpoints.table import UPLOADING, Row
from dragoman.endpoints.wire import gateway_url, path_at
from dragoman.protocols.base import to_json
from dragoman.protocols.bound_ids import not_held
from dragoman.protocols.fields import JsonObject
from dragoman.serving.answers import MOST_BYTES
from dragoman.serving.bound_notes import BATCHES, SECOND_FORM, Noted, id_of, things_in
from dragoman.storage.bound import BoundId, Page
from dragoman.upstream.request import BodySource
from dragoman.upstream.response import UpstreamResponse

_log = logging.getLogger("dragoman.gateway")

_PASSED = (b"openai-beta", b"range")
"""Headers of clients that are passed on besides those of the protocol."""
_FILE_NAME = "batch.inputConfig.fileName"
_BYTES = b"application/octet-stream"
_TAKEN = Fault(
    FaultKind.INTERNAL, "The service gave an id that it has given before.", code="server_error"
)


class BoundThings:
    """Serves the rows of things that accounts have."""

    def __init__(self, exchange: EndpointExchange) -> None:
        self._exchange = exchange
        self._bindings = exchange.upstreams.ids
        self._batches = Batches(exchange.parts)
        self._bodies = BoundBodies(exchange.server, self._batches)

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
        if row.makes == ("batch",) and thing is None:
            if len(used) != 1:
                raise InvalidRequest.at("input_file_id", "must be the only file that is named")
            self._check_file(call, Noted.of(used[0].details), sending)
        if row.makes == ("google_batch",) and any(not s.requests for s in sending.shares.values()):
            self._check_lines(call, Noted.of(used[0].details), sending)
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

    def _check_file(self, call: EndpointCall, file: Noted, sending: Sending) -> None:
        """Have a batch made of a file, as far as its maker may do now what the requests in it ask
        for: another key may have sent it, or this one under other rules.

        Raises:
            DragomanError: it cannot be made.
        """
        caller = call.caller
        if not file.shares or not file.path:
            problem = "its requests were not counted: upload it here for the purpose batch"
            raise InvalidRequest.at("input_file_id", problem)
        endpoint = (jsontext.object_of(sending.body) or {}).get("endpoint")
        if path_of(endpoint, "endpoint") != file.path:
            raise InvalidRequest.at("endpoint", f"the requests in the file are for {file.path}")
        check_path(caller, file.path, "endpoint")
        if caller.most_output is not None and not 0 < file.most <= caller.most_output:
            problem = "its answers may be longer than this API key's: upload it with this key"
            raise InvalidRequest.at("input_file_id", problem)
        may_use = self._batches.rename(caller, call.incoming.codec, [])
        for model in file.shares:
            may_use(model)
        # A second member of the name would hide this one.
        sending.body = replaced(sending.body, "endpoint", to_json(endpoint))
        sending.shares = shares_of(file.shares)

    def _check_lines(self, call: EndpointCall, file: Noted, sending: Sending) -> None:
        """As `_check_file`, for a batch of Google's.

        Raises:
            DragomanError: it cannot be made.
        """
        most = call.caller.most_output
        if file.path != COUNTED or not file.shares:
            raise InvalidRequest.at(_FILE_NAME, file.problem or UNCOUNTED)
        if most is not None and not 0 < file.most <= most:
            problem = "its answers may be longer than this API key's: upload it with this key"
            raise InvalidRequest.at(_FILE_NAME, problem)
        (counted,) = shares_of(file.shares).values()
        for share in sending.shares.values():
            share.requests, share.bytes = counted.requests, counted.bytes
            share.output, share.unlimited = counted.output, counted.unlimited

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
                await self._download(call, lease, answer, noted)
                return
            content = await answer.read(MOST_BYTES, incoming.reserve)
        call.begins(lease)
        lease.succeeded()
        content = builder.mask.secrets_in(content)
        content = await self._note(call, lease.account.name, content, thing, sending)
        shown = call.headers()
        if row.body == "raw":
            shown += await self._of_upload(call, lease.account.name, answer)
        incoming.reply(answer.status, content, shown)

    async def _of_upload(
        self, call: EndpointCall, account: str, answer: UpstreamResponse
    ) -> Headers:
        """The headers of an answer about an upload, with the gateway's URL, whose upload is its
        client's.

        Raises:
            DragomanError: the store cannot be used now.
        """
        base = gateway_url(call.incoming, self._exchange.server) + call.incoming.path
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
            used = await self._own(call, list(counted.requests.named))
            if used:
                self._bindings.one_account(used, account)
        except DragomanError as error:
            problem = problem or error.fault.message
        if problem:
            return Noted(by=by, problem=problem)
        shares, most = as_noted({"": counted.requests.share}), call.caller.most_output or 0
        return Noted(shares=shares, by=by, path=COUNTED, most=most)

    async def _download(
        self, call: EndpointCall, lease: Lease, answer: UpstreamResponse, noted: Noted
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

    async def _note(
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
            base = gateway_url(call.incoming, self._exchange.server)
            own = f"{base}/v1/messages/batches/{answer.get('id')}/results"
            content = replaced(content, "results_url", to_json(own))
        return content


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


def kind_of(row: Row, incoming: IncomingRequest) -> str:
    """The kind of what a row makes, shows and lists."""
    second = row.face == "by_header" and is_anthropic(incoming)
    return SECOND_FORM if second else row.makes[0]
