"""A client's request, read once for all upstreams that it may be sent to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import Ledger
from dragoman.canonical.requests import Request
from dragoman.jsontext import JsonError
from dragoman.protocols import CODECS
from dragoman.protocols.base import NOTHING, Beginning, Codec, Operation, to_json
from dragoman.protocols.fields import decode_object
from dragoman.translation.estimate import Files, files_in
from dragoman.translation.named_models import MOST_NAMED, models_besides


class Outline(Struct, frozen=True):
    """The outline of a body, as `ClientRequest` determines it. `members` are the start and end
    offsets of its top-level members' values; `mended` is as in `ClientRequest`, with offsets in its
    body; `named` is as `models_besides` returns it."""

    model: str
    stream: bool
    members: dict[str, tuple[int, int]]
    beginning: Beginning
    mended: bool
    named: tuple[str, ...] | None
    files: Files = Files()
    bound_ids: tuple[str, ...] = ()


class ClientRequest:
    """A client's request, read once and written for one upstream after another.

    `model` and `stream` are read at once, the whole body only if an upstream of another protocol
    needs it. `shown` are members that answers repeat instead of those in `body`. `is_large`: the
    body is large, and is processed in another process. `is_lowered`: its output limit is lower than
    the client's."""

    __slots__ = (
        "_beginning",
        "_bound_ids",
        "_checked",
        "_files",
        "_for_answer",
        "_named",
        "_own",
        "_request",
        "body",
        "codec",
        "is_large",
        "is_lowered",
        "members",
        "mended",
        "model",
        "operation",
        "shown",
        "stream",
    )

    codec: Codec
    model: str
    stream: bool
    body: bytes
    members: Mapping[str, msgspec.Raw]
    shown: Mapping[str, Any]
    operation: Operation | None
    mended: bool
    """Whether texts of the client had lone surrogates, which no upstream accepts."""
    _own: bytes | None
    _request: Request | None
    _for_answer: Request | None
    _beginning: Beginning | None
    _files: Files | None
    _named: tuple[str, ...] | None
    _bound_ids: tuple[str, ...] | None

    def __init__(
        self,
        protocol: str,
        body: bytes,
        shown: Mapping[str, Any] | None = None,
        operation: Operation | None = None,
        members: Mapping[str, msgspec.Raw] | None = None,
        own: bytes | None = None,
    ) -> None:
        """Read the head of `body`; `operation` is the operation in the request's path, `members`
        the body's members, if known, `own` the body that the client sent, if it is not this one.

        Raises:
            InvalidRequest: not a JSON object, or model or stream are missing or of the wrong
                type.
        """
        self._set_bare(protocol)
        try:
            members = _decode_members(body, members)
        except InvalidRequest:
            if not jsontext.has_halves(body):
                raise
            self.mended, body = True, to_json(decode_object(body))
            members = _decode_members(body)
        self.codec.passthrough.check_names(members)
        self.body, self.members = body, members
        self.shown, self.operation, self._own = shown or NOTHING, operation, own
        model, self.stream = _read_head(members, operation)
        self.model = model.removeprefix(self.codec.endpoint.model_prefix)

    @classmethod
    def of(cls, protocol: str, request: Request) -> ClientRequest:
        """A request made by the gateway, without a body: it is written for every upstream,
        including those of the same protocol."""
        made = cls.__new__(cls)
        made._set_bare(protocol)
        made.model, made.stream, made._request = request.model, request.stream, request
        return made

    @classmethod
    def outlined(
        cls, protocol: str, body: bytes, operation: Operation | None, outline: Outline
    ) -> ClientRequest:
        """A request with the `outline` that another process made of its body."""
        made = cls.__new__(cls)
        made._set_bare(protocol)
        made.body, made.operation, made.is_large = body, operation, True
        made.model, made.stream, made.mended = outline.model, outline.stream, outline.mended
        made._beginning, made._files = outline.beginning, outline.files
        made._named = outline.named
        made._bound_ids = outline.bound_ids
        view = memoryview(body)
        made.members = {
            name: msgspec.Raw(view[start:end]) for name, (start, end) in outline.members.items()
        }
        return made

    def outline(self) -> Outline:
        """The part of the body known without reading all of it."""
        places = {}
        end = 0
        for name, raw in self.members.items():
            text = bytes(raw)
            # Any other occurrence of the same text is as good, so the first one found is used.
            start = self.body.find(text, end)
            if start < 0:
                start = self.body.find(text)
            end = start + len(text)
            places[name] = start, end
        named = models_besides(self.members, self.codec.endpoint.names_no_model)
        return Outline(
            model=self.model,
            stream=self.stream,
            members=places,
            beginning=self.beginning(),
            mended=self.mended,
            named=named,
            files=self.files(),
            bound_ids=self.bound_ids(),
        )

    def __getstate__(self) -> tuple[Any, ...]:
        """The pickled state has what the translation of an answer needs, without the body."""
        named = self.codec.name, self.model, self.stream, self.operation, self.shown
        return *named, self._for_answer

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._set_bare(state[0])
        _, self.model, self.stream, self.operation, self.shown, self._for_answer = state

    def _set_bare(self, protocol: str) -> None:
        """Set all members but model and stream to those of a request without a body."""
        self.codec, self.body = CODECS[protocol], b""
        self.members = self.shown = NOTHING
        self.mended = self.is_large = self.is_lowered = False
        self.operation = self._own = self._checked = self._request = self._for_answer = None
        self._beginning = self._files = self._named = self._bound_ids = None

    def with_body(self, body: bytes, shown: Mapping[str, Any] | None = None) -> ClientRequest:
        """The same request with another body.

        Raises:
            InvalidRequest: as the constructor.
        """
        made = ClientRequest(self.codec.name, body, shown, self.operation)
        made.mended = made.mended or self.mended
        made.is_lowered, made._own = self.is_lowered, self._own
        made._named = self._named
        return made

    def read(self, sealer: Sealer) -> Request:
        """The whole request in canonical form.

        Raises:
            InvalidRequest: naming the field.
        """
        if self._request is None:
            request = self.codec.translate.read_request(self.body, sealer)
            if self.operation is not None:
                request = replace(request, model=self.model, stream=self.stream)
            if self.codec.translate.repeated:
                request = replace(request, source=self._repeated())
            self._request = request
        return self._request

    def for_answer(self, sealer: Sealer) -> Request:
        """The part of the request that its answer depends on, in canonical form: without the
        conversation if the body was read in another process.

        Raises:
            InvalidRequest: naming the field.
        """
        return self._for_answer or self.read(sealer)

    def reduce(self, sealer: Sealer, *, is_passed: bool = False) -> None:
        """Extract the part that its answer depends on, for a request that is pickled or passed
        through. One that `is_passed` may have unknown members: then only the model is extracted.

        Raises:
            InvalidRequest: naming the field.
        """
        if self._for_answer is not None:
            return
        try:
            request = self.read(sealer)
        except InvalidRequest:
            if not is_passed:
                raise
            self._for_answer = Request(model=self.model, turns=(), stream=self.stream)
            return
        self._for_answer = replace(request, turns=(), instructions=(), tools=(), extras=())

    def _repeated(self) -> dict[str, Any]:
        """The members that the writer of the answer uses, decoded."""
        ways = self.codec.translate.repeated
        given = {
            name: _member(self.members, name, ways[name]) for name in self.members if name in ways
        }
        return given | {name: value for name, value in self.shown.items() if name in ways}

    @property
    def is_reduced(self) -> bool:
        """Whether the part that its answer depends on was extracted."""
        return self._for_answer is not None

    def take_reduced(self, other: ClientRequest) -> None:
        """Take over the part of the same request that another process extracted."""
        self._for_answer = other._for_answer

    def member(self, name: str) -> Any:
        """A top-level member, decoded; None if there is none.

        Raises:
            InvalidRequest: it is not JSON text.
        """
        return _member(self.members, name) if name in self.members else None

    def check(self) -> Any:
        """The validated part of the body.

        Raises:
            InvalidRequest: as `Passthrough.check`.
        """
        if self._checked is None:
            check = self.codec.passthrough.check
            if self._own is not None:
                check(self._own)
            self._checked = check(self.body)
        return self._checked

    def reasoning(self, most: int) -> int:
        """The number of pieces of reasoning in the request that only their maker can read, up to
        `most`."""
        return self.codec.passthrough.without_reasoning(self.members, Ledger(), most)[1]

    def files(self) -> Files:
        """The files in it. Of one that cannot be read everything is text."""
        if self._files is None:
            self._files = Files()
            if self.codec.passthrough.has_media(self.members):
                with suppress(InvalidRequest):
                    self._files = files_in(self.codec.translate.read_request(self.body, Sealer()))
        return self._files

    def named_models(self) -> tuple[str, ...]:
        """The models that it names besides its own.

        Raises:
            InvalidRequest: they are too many, or a member is not JSON text.
        """
        if self._named is None and not self.is_large:
            self._named = models_besides(self.members, self.codec.endpoint.names_no_model)
        if self._named is None:
            raise InvalidRequest.at("", f"The request names more than {MOST_NAMED} models.")
        return self._named

    def bound_ids(self) -> tuple[str, ...]:
        """The ids that it names of things which a service holds for one account, such as files.

        Raises:
            InvalidRequest: a member is not JSON text.
        """
        if self._bound_ids is None:
            self._bound_ids = self.codec.passthrough.bound_ids(self.members)
        return self._bound_ids

    @property
    def choices(self) -> int:
        """How many answers it asks for at once, each with the full output limit."""
        return self.codec.passthrough.choices(self.members)

    def beginning(self) -> Beginning:
        """The beginning that is the same in all requests of the conversation."""
        if self._beginning is None:
            self._beginning = self.codec.passthrough.beginning(self.members)
        return self._beginning


def _decode_members(
    body: bytes, members: Mapping[str, msgspec.Raw] | None = None
) -> Mapping[str, msgspec.Raw]:
    try:
        if members is None:
            members = jsontext.members(body)
        if not body.isascii():
            body.decode()  # the members' values were not decoded
        return members
    except (JsonError, UnicodeDecodeError):
        decode_object(body)
        raise InvalidRequest.at("", "The request body is not valid JSON.") from None


def _read_head(members: Mapping[str, msgspec.Raw], operation: Operation | None) -> tuple[str, bool]:
    if operation is not None and operation.model is not None:
        return operation.model, bool(operation.stream)
    model = _member(members, "model")
    if not model or not isinstance(model, str):
        if model is None or model == "":
            raise InvalidRequest.at("model", "is required", code="missing_required_parameter")
        raise InvalidRequest.at("model", "must be a string")
    if "stream" not in members:
        return model, False
    stream = _member(members, "stream")
    if stream is not None and not isinstance(stream, bool):
        raise InvalidRequest.at("stream", "must be a boolean")
    return model, bool(stream)


def _member(
    members: Mapping[str, msgspec.Raw],
    name: str,
    decode: Callable[[msgspec.Raw], Any] = jsontext.decode,
) -> Any:
    raw = members.get(name)
    try:
        return None if raw is None else decode(raw)
    except JsonError:
        raise InvalidRequest.at(name, "is not valid JSON text") from None
