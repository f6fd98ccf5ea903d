"""Endpoints whose body is a form with files: it is passed on while it comes, as it is but for the
name of the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import msgspec

from dragoman.accounts.pool import Lease
from dragoman.edge.incoming import IncomingRequest
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.delivery import deliver
from dragoman.endpoints.exchange import EndpointExchange
from dragoman.endpoints.held import model_of
from dragoman.endpoints.members import Members
from dragoman.endpoints.uploads import Upload, Uploads
from dragoman.endpoints.wire import path_at, read_passed
from dragoman.protocols.base import to_json

_FIELDS: Mapping[str, int] = {
    "model": 1024,
    "stream": 16,
    "n": 16,
    "size": 64,
    "quality": 64,
    "user": 1024,
}
"""The fields that are read, with the most bytes of each."""

_MOST_SIGNED = 8 * 1024 * 1024
"""Bytes of a body that is held because its signature goes before it."""

_WORD = re.compile(rb"true|false|[1-9]\d{0,8}")
_WORDS = ("stream", "n")
"""The fields that are taken for words and numbers of JSON, where they are such."""


class RelayedBodies:
    """Serves endpoints with forms."""

    def __init__(self, exchange: EndpointExchange) -> None:
        self._exchange = exchange
        server = exchange.server
        self._uploads = Uploads(server.upload_limit_bytes, server.spool_dir)

    async def serve(self, call: EndpointCall) -> None:
        """Serve one request.

        Raises:
            DragomanError: it cannot be sent; nothing was sent to the client.
            ClientGone: the client left.
        """
        upload = call.upload = await self._uploads.form(call.incoming, _FIELDS, {"model"})
        try:
            call.members = _members_of(upload, call.incoming)
            call.names(model_of(call))
            call.stream = call.record.stream = call.members.get("stream") is True
            self._exchange.resolve(call)
            await self._exchange.admit(call)
            await self._exchange.run(call, partial(self._attempt, upload))
        finally:
            call.record.bytes_up = upload.read
            upload.close()

    async def _attempt(self, upload: Upload, call: EndpointCall, lease: Lease) -> None:
        """Call the upstream with one account, and deliver its answer.

        Raises:
            Failure: nothing of an answer was sent to the client.
        """
        incoming, plan = call.incoming, call.plan
        path, is_root = path_at(plan.upstream, call.row.path, plan.target.model)
        renamed = {} if plan.target.model == call.model else {"model": plan.target.model.encode()}
        body = upload.body(renamed)
        own = {
            name.decode(): incoming.headers[name].decode("latin-1")
            for name in (b"content-type", b"accept")
            if name in incoming.headers
        }
        is_signed = self._exchange.upstreams.builders.of(lease.account).signs_bodies
        sent = body if isinstance(body, bytes) or not is_signed else await body.whole(_MOST_SIGNED)
        answer, builder = await self._exchange.post(call, lease, path, sent, own, is_root=is_root)
        # All fields have come by now, wherever they stand.
        call.members = _members_of(upload, incoming)
        await deliver(
            call,
            lease,
            answer,
            builder.mask,
            self._exchange.server,
            partial(read_passed, call),
        )


def _members_of(upload: Upload, incoming: IncomingRequest) -> Members:
    """The fields of a form, as members of an object. The size of its files is that of the body."""
    raw = {
        name: part.value
        if name in _WORDS and _WORD.fullmatch(part.value)
        else to_json(part.value.decode("utf-8", "replace"))
        for name, part in upload.fields.items()
    }
    raw["file"] = b"%d" % max(incoming.length, upload.read)
    return Members({name: msgspec.Raw(value) for name, value in raw.items()})
