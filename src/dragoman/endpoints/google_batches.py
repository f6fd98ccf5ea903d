"""Google's batches: their requests, which stand in the request that makes a batch or in a file that
was uploaded, and what their service shows of them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest
from dragoman.edge.auth import Caller
from dragoman.endpoints.batch_lines import Counted, Lines, Results, Share, in_turn
from dragoman.endpoints.google_uploads import MODELS
from dragoman.endpoints.uploads import Unread
from dragoman.jsontext import JsonError
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json
from dragoman.protocols.google_generate_content.spelling import member, snake
from dragoman.protocols.raw import join_list, join_object, split_list, split_object, text_of
from dragoman.serving.bound_notes import outputs_of, responses_file

COUNTED: Final = ":generateContent"
"""What is noted of a file whose lines were counted, and of an upload of such a file."""
_GOOGLE: Final = CODECS["google_generate_content"]
_AT: Final = "batch.inputConfig"
_LONGEST_PROBLEM: Final = 200
UNCOUNTED: Final = (
    "its requests were not counted: upload it here again, at once and without a break, with the"
    " type application/jsonl"
)


class GoogleRequests(Counted):
    """Counts the requests of one batch of `caller`: its `share` is for the one model of the
    batch."""

    def __init__(self, caller: Caller) -> None:
        super().__init__()
        self._most = caller.most_output
        self.share = Share("")

    def limited(self, request: Raw, at: str, sent: str) -> Raw:
        """The next request, as it is sent for the model `sent`.

        Raises:
            InvalidRequest: it is not one.
        """
        members = _object(request, at)
        if self._most is not None:
            check_once(bytes(request), at)
            lowered = _GOOGLE.endpoint.limited(members, self._most)
            self.lowered = self.lowered or lowered is not members
            members = lowered
        if "model" in members:
            members = {**members, "model": Raw(to_json(MODELS + sent))}
        self.read(members, at)
        return Raw(join_object(members))

    def read(self, members: Mapping[str, Raw], at: str) -> int:
        """Count a request of these members. Returns its output limit, 0 if it has none.

        Raises:
            InvalidRequest: it cannot be sent.
        """
        _GOOGLE.passthrough.check_names(members)
        limit = _GOOGLE.endpoint.limits(members) or 0
        answers = _GOOGLE.passthrough.choices(members)
        self.add(self.share, bytes(join_object(members)), limit, answers, at)
        return limit


class CountedFile(Unread):
    """Counts the requests in a file of lines, `{"key", "request"}` each, while it comes in one
    piece or more: none of it can be changed. `offset` bytes have come. It `is_whole` once the piece
    has come that `ends` it. `problem` is why no batch can be made of it: it may be for something
    else."""

    def __init__(self, caller: Caller) -> None:
        self._most = caller.most_output
        self.requests = GoogleRequests(caller)
        self._lines = Lines(self._line)
        self._hash = sha256()
        self.offset = 0
        self.ends = False
        self.is_whole = False
        self.problem = ""

    @property
    def held(self) -> int:
        """Bytes of a line that has not ended."""
        return self._lines.held

    def feed(self, data: bytes) -> None:
        """Count more lines."""
        self.offset += len(data)
        self._hash.update(data)
        self._try(lambda: self._lines.feed(data))

    def finish(self) -> None:
        """A piece has ended."""
        if self.ends and not self.is_whole:
            self._try(self._lines.finish)
            self.is_whole = True
            if not self.requests.count:
                self.problem = self.problem or "it has no requests"

    def is_of(self, file: Mapping[str, Any]) -> bool:
        """Whether a file, as its service shows it, has what was counted: a piece may have been
        refused, or sent again with something else. The hash is shown of its bytes, or in hex."""
        shown = (self._hash.digest(), self._hash.hexdigest().encode())
        return file.get("sha256Hash") in [b64encode(one).decode() for one in shown]

    def _try(self, count: Callable[[], bytes]) -> None:
        if self.problem:
            return
        try:
            count()
        except InvalidRequest as error:
            self.problem = error.fault.message[:_LONGEST_PROBLEM]
            self._lines = Lines(self._line)

    def _line(self, line: bytes, number: int) -> bytes:
        at = f"line {number}"
        check_once(line, at)
        request = _object(_object(Raw(line), at).get("request"), at)
        if "model" in request:
            raise InvalidRequest.at(at, "must name no model: the batch has one")
        limit = self.requests.read(request, at)
        if self._most is not None and not 0 < limit <= self._most:
            problem = f"must have a maxOutputTokens of at most {self._most}, as this API key has"
            raise InvalidRequest.at(at, problem)
        return line


def check_once(text: bytes, at: str) -> None:
    """
    Raises:
        InvalidRequest: the text is no JSON, or has two members of one name in an object: which of
            them counts is not known.
    """
    try:
        json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        problem = "is not JSON whose members each stand there once"
        raise InvalidRequest.at(at, problem) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object.

    Raises:
        ValueError: a member stands there twice.
    """
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError
    return made


async def batch_of(body: bytes, sent: str, requests: GoogleRequests) -> tuple[bytes, str]:
    """The body of a request for a batch as it is sent, for the model `sent`, its `requests`
    counted; and the name of the file that has them, if it is in a file.

    Raises:
        InvalidRequest: it is none.
    """
    outer = _object(Raw(body), "")
    batch = _object(member(outer, "batch"), "batch")
    source = _object(member(batch, "inputConfig"), _AT)
    file, given = text_of(member(source, "fileName")), member(source, "requests")
    if bool(file) is (given is not None):
        raise InvalidRequest.at(_AT, "must have either a fileName or requests")
    if given is not None:
        inlined = _object(given, f"{_AT}.requests")
        listed = split_list(member(inlined, "requests"))
        if not listed:
            raise InvalidRequest.at(f"{_AT}.requests.requests", "must be a list of requests")
        changed = []
        for place, one in enumerate(listed):
            at = f"{_AT}.requests.requests[{place}]"
            await in_turn(place)
            wrapped = _object(one, at)
            request = member(wrapped, "request")
            if request is None:
                raise InvalidRequest.at(at, "has no request")
            changed.append(join_object({**wrapped, "request": requests.limited(request, at, sent)}))
        inlined = {**inlined, "requests": join_list(changed)}
        source = _with(source, "requests", join_object(inlined))
    else:
        source = _with(source, "fileName", Raw(to_json(file)))
    batch = _with(batch, "inputConfig", join_object(source))
    if "model" in batch:
        batch = {**batch, "model": Raw(to_json(MODELS + sent))}
    return bytes(join_object(_with(outer, "batch", join_object(batch)))), file


def _with(members: Mapping[str, Raw], name: str, value: Raw) -> Mapping[str, Raw]:
    """The members with one replaced, in whichever spelling it has, which is one.

    Raises:
        InvalidRequest: it has both.
    """
    other = snake(name)
    if name != other and name in members and other in members:
        raise InvalidRequest.at(other, f"is given twice, with {name}")
    return {**members, name if name in members else other: value}


def _object(raw: Raw | None, at: str) -> Mapping[str, Raw]:
    found = split_object(raw)
    if found is None:
        raise InvalidRequest.at(at, "must be an object")
    return found


async def shown_batch(content: bytes, names: Mapping[str, str]) -> bytes:
    """A batch as its service shows it, with the clients' names of models, by the upstream's."""
    try:
        members = dict(jsontext.members(content))
    except JsonError:
        return content
    results = Results(names)
    if (metadata := split_object(members.get("metadata"))) is not None:
        sent = text_of(metadata.get("model")).removeprefix(MODELS)
        if sent in names:
            metadata = {**metadata, "model": Raw(to_json(MODELS + names[sent]))}
        if "output" in metadata:
            metadata = {**metadata, "output": await _renamed(metadata["output"], results)}
        members["metadata"] = join_object(metadata)
    if "response" in members:
        members["response"] = await _renamed(members["response"], results)
    return bytes(join_object(members))


async def _renamed(output: Raw, results: Results) -> Raw:
    """What came of a batch, with other names of models in answers that stand in it."""
    outer = split_object(output)
    inner = split_object(None if outer is None else outer.get(_INLINED))
    listed = split_list(None if inner is None else inner.get(_INLINED))
    if outer is None or inner is None or not listed:
        return output
    changed = []
    for place, one in enumerate(listed):
        await in_turn(place)
        changed.append(Raw(results.line(bytes(one))))
    return join_object({**outer, _INLINED: join_object({**inner, _INLINED: join_list(changed)})})


_INLINED: Final = "inlinedResponses"


def output_of(answer: Mapping[str, Any]) -> tuple[Sequence[Any], str]:
    """What came of a batch, as its service shows it: the answers that stand in it, or the name of
    the file that has them."""
    for output in outputs_of(answer):
        inlined = output.get(_INLINED)
        listed = inlined.get(_INLINED) if isinstance(inlined, dict) else None
        if isinstance(listed, list):
            return listed, ""
    return (), responses_file(answer)
