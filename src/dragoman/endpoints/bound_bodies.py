"""Bodies of requests for things that one account has: forms that are passed on while they come,
JSON that is held, and batches, of which every request is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.config import Server
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest, is_json
from dragoman.edge.record import Record
from dragoman.endpoints.batch_files import BatchFile, batch_file
from dragoman.endpoints.batch_lines import Counted, Requests, Share, check_path, in_turn, path_of
from dragoman.endpoints.batches import Batches, shares_of
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.faces import FACES
from dragoman.endpoints.google_batches import (
    COUNTED,
    UNCOUNTED,
    CountedFile,
    GoogleRequests,
    batch_of,
)
from dragoman.endpoints.google_uploads import COMMAND, MODELS, OFFSET, declared_size
from dragoman.endpoints.members import Members, replaced
from dragoman.endpoints.table import Row
from dragoman.endpoints.uploads import Unread, Upload, Uploads
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.protocols.bound_ids import named_in
from dragoman.protocols.raw import join_list, join_object, split_list, split_object
from dragoman.serving.bound_notes import Noted
from dragoman.serving.limits.responses import CLAMPED_HEADER
from dragoman.serving.plan import Plan
from dragoman.storage.bound import BoundId

_FIELDS = {"purpose": 64, "file_id": 1024}
_MOST_HELD = 8 * 1024 * 1024
"""Bytes of a JSON body that is not a batch."""
_MESSAGES = "/v1/messages"
_FILE_NAME = "batch.inputConfig.fileName"
_UNCHECKED = Fault(
    FaultKind.POLICY_BLOCKED,
    "The requests in a batch's file cannot be checked, as the operator of this gateway has requests"
    " checked: send each by itself.",
    code=FaultKind.POLICY_BLOCKED,
)
_MOST_COUNTED, _HELD_AT_LEAST = 64 * 1024 * 1024, 64 * 1024
"""Bytes that are held of files of lines between their pieces, and of each."""


class Sending(Struct):
    """What a request sends: a body that is held, or comes, or of a batch waits in a file; where its
    models lead to, if it has any; what of it is for each of them; the ids that it names; and the
    path of the API that the requests in a batch's file are for. `held` has what is reserved for a
    batch."""

    body: bytes = b""
    upload: Upload | None = None
    file: BatchFile | None = None
    plan: Plan | None = None
    shares: Mapping[str, Share] = {}
    named: Sequence[str] = ()
    path: str = ""
    held: Record | None = None
    counted: CountedFile | None = None

    def close(self) -> None:
        """Free what is held."""
        for one in (self.upload, self.file):
            if one is not None:
                one.close()


class BoundBodies:
    """Reads the bodies of requests for things that accounts have."""

    def __init__(self, server: Server, batches: Batches) -> None:
        self._server = server
        self._batches = batches
        self._uploads = Uploads(server.upload_limit_bytes, server.spool_dir)
        self._counting: dict[str, CountedFile] = {}
        """Files of which further pieces are to come, by their uploads."""

    async def read(
        self, row: Row, incoming: IncomingRequest, caller: Caller, thing: BoundId | None
    ) -> Sending:
        """What a request sends. `thing` is what its path names.

        Raises:
            DragomanError, ClientGone: it cannot be read, or is no request.
        """
        if row.body == "none":
            return Sending()
        if row.body == "raw":
            self._uploads.check_size(declared_size(incoming.headers))
            if row.model == "id":
                # Clients send pieces of files with the content type of what began the upload.
                incoming.headers[b"content-type"] = b"application/octet-stream"
            return await self._raw(incoming, caller, thing)
        is_checked = incoming.check is not None
        if is_checked and row.new == "batch":
            raise DragomanError(_UNCHECKED)
        chosen: list[Plan] = []
        requests = Requests(self._batches.rename(caller, incoming.codec, chosen), caller)
        if row.body == "multipart" and not is_json(incoming.headers):
            is_new_file = row.new == "file" and not is_anthropic(incoming)
            needed = {"purpose"} if is_new_file else set()
            if row.capability == "containers":
                # It names a file in the place of one, wherever it stands.
                needed = {"file_id"}
            upload = await self._uploads.form(incoming, _FIELDS, needed)
            purpose = upload.fields.get("purpose")
            if not is_new_file or purpose is None or purpose.value != b"batch":
                file_id = upload.fields.get("file_id")
                return Sending(
                    upload=upload, named=[file_id.value.decode("latin-1")] if file_id else ()
                )
            try:
                if is_checked:
                    raise DragomanError(_UNCHECKED)
                file = await batch_file(upload, self._server.spool_dir, requests)
            except BaseException:
                upload.close()
                raise
            _report_lowered(incoming, caller, requests)
            named = list(requests.named)
            return Sending(b"", upload, file, chosen[0], requests.shares, named, requests.path)
        if row.new == "google_cache":
            return await self._cached(incoming, caller)
        if row.new == "google_batch":
            return await self._batch_of_google(incoming, caller)
        is_batch = row.new == "message_batch"
        most = self._server.body_limit_bytes
        body = await incoming.body(most if is_batch else min(most, _MOST_HELD))
        if row.new == "upload" and (jsontext.object_of(body) or {}).get("purpose") == "batch":
            problem = "upload a batch's file by POST /v1/files: its requests are counted there"
            raise InvalidRequest.at("purpose", problem)
        if not is_batch:
            if body and jsontext.object_of(body) is None:
                # Others might read it in another encoding, and find ids in it.
                raise InvalidRequest.at("", "The request body is not a JSON object.")
            return Sending(body, named=named_in(body) if body else ())
        body = await _renamed(body, requests)
        _report_lowered(incoming, caller, requests)
        return Sending(body, None, None, chosen[0], requests.shares, list(requests.named))

    async def _cached(self, incoming: IncomingRequest, caller: Caller) -> Sending:
        """A cached content of Google's, for the model that it names."""
        body = await incoming.body(self._server.body_limit_bytes)
        try:
            members = Members(jsontext.members(body))
        except JsonError:
            raise InvalidRequest.at("", "The request body is not a JSON object.") from None
        model = members.get("model")
        if not isinstance(model, str) or not model.removeprefix(MODELS):
            raise InvalidRequest.at("model", "must be models/ with a model")
        model, chosen = model.removeprefix(MODELS), list[Plan]()
        sent = self._batches.rename(caller, incoming.codec, chosen, "caches")(model)
        # A second member of the name would hide this one.
        body = replaced(body, "model", to_json(MODELS + sent))
        return Sending(body, plan=chosen[0], shares={model: Share(sent)}, named=named_in(body))

    async def _raw(
        self, incoming: IncomingRequest, caller: Caller, thing: BoundId | None
    ) -> Sending:
        """A file of Google's, or a piece of it: its lines are counted if it is one of them, as long
        as it comes here without a break."""
        commands = incoming.headers.get(COMMAND, b"").replace(b",", b" ").split()
        is_file = thing is not None and Noted.of(thing.details).path == COUNTED
        if thing is None or not is_file or not {b"upload", b"finalize"} & set(commands):
            return Sending(upload=await self._uploads.raw(incoming, Unread()))
        counted = self._counting.pop(thing.name, None)
        offset = incoming.headers.get(OFFSET, b"0")
        if b"upload" in commands and offset == b"0":
            counted = CountedFile(caller)
        if counted is None or (b"upload" in commands and offset != b"%d" % counted.offset):
            return Sending(upload=await self._uploads.raw(incoming, Unread()))
        counted.ends = b"finalize" in commands
        if not counted.ends:
            self._counting[thing.name] = counted
            while sum(one.held + _HELD_AT_LEAST for one in self._counting.values()) > _MOST_COUNTED:
                del self._counting[next(iter(self._counting))]
        return Sending(upload=await self._uploads.raw(incoming, counted), counted=counted)

    async def _batch_of_google(self, incoming: IncomingRequest, caller: Caller) -> Sending:
        """A batch of Google's, whose requests stand in it or in a file that it names."""
        path = incoming.path.replace(":batchG", ":g")
        if not caller.may_call(path):
            raise InvalidRequest.at("", f"This API key may not be used for {path[:200]}.")
        model = (incoming.operation and incoming.operation.model) or ""
        chosen, requests = list[Plan](), GoogleRequests(caller)
        is_checked = incoming.check is not None
        body = await incoming.body(self._server.body_limit_bytes)
        sent = self._batches.rename(caller, incoming.codec, chosen)(model)
        body, file = await batch_of(body, sent, requests)
        if file and is_checked:
            raise DragomanError(_UNCHECKED)
        _report_lowered(incoming, caller, requests)
        requests.share.sent = sent
        named = [file] if file else list(requests.named)
        return Sending(body, plan=chosen[0], shares={model: requests.share}, named=named)

    def check_named(self, call: EndpointCall, used: Sequence[BoundId], sending: Sending) -> None:
        """Check a new batch against what was counted of the file that it names, which is among
        `used`.

        Raises:
            DragomanError: it cannot be made.
        """
        makes = call.row.makes
        if makes == ("batch",):
            if len(used) != 1:
                raise InvalidRequest.at("input_file_id", "must be the only file that is named")
            self._check_file(call, Noted.of(used[0].details), sending)
        elif makes == ("google_batch",) and any(not s.requests for s in sending.shares.values()):
            _check_lines(call, Noted.of(used[0].details), sending)

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
        _check_length(caller, file, "input_file_id")
        may_use = self._batches.rename(caller, call.incoming.codec, [])
        for model in file.shares:
            may_use(model)
        # A second member of the name would hide this one.
        sending.body = replaced(sending.body, "endpoint", to_json(endpoint))
        sending.shares = shares_of(file.shares)


def _check_length(caller: Caller, file: Noted, where: str) -> None:
    """Make sure that no answer to a request in a file may be longer than its caller's.

    Raises:
        InvalidRequest: one may be.
    """
    most = caller.most_output
    if most is not None and not 0 < file.most <= most:
        problem = "its answers may be longer than this API key's: upload it with this key"
        raise InvalidRequest.at(where, problem)


def _check_lines(call: EndpointCall, file: Noted, sending: Sending) -> None:
    """Have a batch of Google's made of a file, as far as its maker may do what the requests in it
    ask for.

    Raises:
        DragomanError: it cannot be made.
    """
    if file.path != COUNTED or not file.shares:
        raise InvalidRequest.at(_FILE_NAME, file.problem or UNCOUNTED)
    _check_length(call.caller, file, _FILE_NAME)
    (counted,) = shares_of(file.shares).values()
    for share in sending.shares.values():
        share.requests, share.bytes = counted.requests, counted.bytes
        share.output, share.unlimited = counted.output, counted.unlimited


def _report_lowered(incoming: IncomingRequest, caller: Caller, requests: Counted) -> None:
    if requests.lowered:
        incoming.shared.append((CLAMPED_HEADER, b"%d" % (caller.most_output or 0)))


def is_anthropic(incoming: IncomingRequest) -> bool:
    """Whether a client speaks Anthropic's form of a path that both vendors have."""
    return incoming.codec is FACES["anthropic"]


async def _renamed(body: bytes, requests: Requests) -> bytes:
    """The body of a message batch, with the models of its requests renamed and counted.

    Raises:
        InvalidRequest: it is none.
        DragomanError: a model cannot be used.
    """
    try:
        members = jsontext.members(body)
        given = split_list(members.get("requests"))
    except JsonError:
        given = None
    if not given:
        raise InvalidRequest.at("requests", "must be an array of requests")
    sent: list[Raw] = []
    for place, one in enumerate(given):
        at = f"requests.{place}"
        params = (split_object(one) or {}).get("params")
        if params is None:
            raise InvalidRequest.at(at, "has no params")
        renamed = requests.body(params, at, _MESSAGES)
        sent.append(Raw(replaced(bytes(one), "params", renamed)))
        await in_turn(place)
    return bytes(join_object({**members, "requests": join_list(sent)}))
