"""The requests of a batch, one by one: counted, and their models renamed; and the lines of its
results, in which the client's names stand again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.canonical.usage import Usage, summed
from dragoman.edge.auth import Caller
from dragoman.edge.paths import normal_path
from dragoman.endpoints.members import replaced
from dragoman.endpoints.table import PATHS, place_of
from dragoman.endpoints.usage import first_count
from dragoman.jsontext import JsonError
from dragoman.protocols import CODECS
from dragoman.protocols.base import to_json
from dragoman.protocols.bound_ids import MOST_NAMED, named_in
from dragoman.protocols.google_generate_content.usage import read_usage
from dragoman.protocols.limits import lowered_to
from dragoman.protocols.numbers import token_count
from dragoman.protocols.raw import join_object
from dragoman.serving.limits.use import MOST_OUTPUT

LONGEST_LINE = 32 * 1024 * 1024
"""Bytes of one line."""
MOST_REQUESTS = 100_000
_IN_A_TURN = 100
"""Requests or answers of a batch that are read before others have their turn."""
_MOST_MODELS = 5
"""Models that one batch may name."""
_MOST_NAMES = 250
"""Characters that their names may have: they are stored with the file."""
_MOST_ANSWERS = 1000
"""Answers to one request that are reserved for."""
_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_NEWLINE = b"\n"

_PATH = re.compile(r"(?=.{1,64}\Z)(?:/[A-Za-z0-9_-]+)+")
"""Paths that no service reads as others. They are stored with the file, too."""

Limited = Callable[[Mapping[str, Raw], int], Mapping[str, Raw]]
"""As `Endpoint.limited`."""
Rename = Callable[[str], str]
"""The upstream's name of a client's model. Raises DragomanError if the client may not use it, or it
leads elsewhere."""


class Share(Struct):
    """What of a batch is for one model: requests, bytes of their bodies, and output limits in all;
    `unlimited` answers have none. `sent` is the upstream's name of the model."""

    sent: str
    requests: int = 0
    bytes: int = 0
    output: int = 0
    unlimited: int = 0


class Counted:
    """What is counted of the requests of one batch: `count` is how many they are, `named` has the
    ids that they name. `lowered`: some had no output limit, or a higher one than they may."""

    def __init__(self) -> None:
        self.lowered = False
        self.named: dict[str, None] = {}
        self.count = 0

    def add(self, share: Share, text: bytes, limit: int, answers: int, at: str) -> None:
        """Count one more of this text, which asks for so many answers of at most `limit` tokens, 0
        for any number.

        Raises:
            InvalidRequest: there are too many.
        """
        self.count += 1
        if self.count > MOST_REQUESTS:
            raise InvalidRequest.at(at, f"the batch has more than {MOST_REQUESTS} requests")
        answers = min(answers, _MOST_ANSWERS)
        share.requests += 1
        share.bytes += len(text)
        share.output += min(limit, MOST_OUTPUT) * answers
        share.unlimited += 0 if limit else answers
        self.named |= dict.fromkeys(named_in(text))
        if len(self.named) > MOST_NAMED:
            raise InvalidRequest.at(at, f"the batch names more than {MOST_NAMED} files")


class Requests(Counted):
    """Counts the requests of one batch of `caller`, renames their models by `rename`, and lowers
    their output limits to the caller's. `shares` has what is for each model, by the client's name
    of it, `path` is that of the API which all are for."""

    def __init__(self, rename: Rename, caller: Caller) -> None:
        super().__init__()
        self._rename = rename
        self._caller = caller
        self.path = ""
        self._limited: Limited = _unlimited
        self.shares: dict[str, Share] = {}

    def body(self, body: Raw | bytes, at: str, path: str) -> bytes:
        """The body of the next request, which stands `at` a line or a place and is for this path of
        the API, as it is sent.

        Raises:
            InvalidRequest: it is not one, or not for the path of those before it, or for one that
                the caller may not call.
            DragomanError: its model is none that the client may use here.
        """
        if path != self.path:
            self._begin(path, at)
        members = _members(body, at)
        text = bytes(body)
        if self._caller.most_output is not None:
            limited = self._limited(members, self._caller.most_output)
            self.lowered = self.lowered or limited is not members
            # Written anew in any case: a second member of a name would hide a limit.
            members, text = limited, bytes(join_object(limited))
        model = _value(members, "model")
        if not isinstance(model, str) or not model:
            raise InvalidRequest.at(at, "the request names no model")
        share = self.shares.get(model)
        if share is None:
            share = self._share(model, at)
        limit = max(token_count(_value(members, name)) or 0 for name in _LIMITS)
        self.add(share, text, limit, token_count(_value(members, "n")) or 1, at)
        if share.sent == model and _has_once(text, b'"model"'):
            return text
        return replaced(text, "model", to_json(share.sent))

    def _begin(self, path: str, at: str) -> None:
        if self.path:
            raise InvalidRequest.at(at, f"is for {path}, the requests before it for {self.path}")
        check_path(self._caller, path, at)
        self.path, self._limited = path, limited_at(path) or _unlimited

    def _share(self, model: str, at: str) -> Share:
        try:
            sent = self._rename(model)
        except DragomanError as error:
            message = f"{at}: the model {model[:200]!r} cannot be used: {error.fault.message}"
            fault = Fault(FaultKind.INVALID_REQUEST, message, param="model", code="invalid_model")
            raise InvalidRequest(fault) from None
        names = sum(len(one) + len(share.sent) for one, share in self.shares.items())
        if len(self.shares) >= _MOST_MODELS or names + len(model) + len(sent) > _MOST_NAMES:
            raise InvalidRequest.at(at, f"a batch may name {_MOST_MODELS} models, no more")
        share = self.shares[model] = Share(sent)
        return share


async def in_turn(place: int) -> None:
    """Let others have their turn, before what is at this place of many is read."""
    if not place % _IN_A_TURN:
        await asyncio.sleep(0)


def path_of(url: Any, at: str) -> str:
    """The path of the API that a batch, or a request of one, is for.

    Raises:
        InvalidRequest: it is none.
    """
    if not isinstance(url, str) or _PATH.fullmatch(url) is None:
        raise InvalidRequest.at(at, "must have a path of the API, such as /v1/chat/completions")
    return normal_path(url)


def check_path(caller: Caller, path: str, at: str) -> None:
    """
    Raises:
        InvalidRequest: the caller may not call a path, or not without an output limit that is not
            known there.
    """
    if not caller.may_call(path):
        raise InvalidRequest.at(at, f"this API key may not be used for {path}")
    if caller.most_output is not None and limited_at(path) is None:
        raise InvalidRequest.at(at, f"the output of {path} cannot be limited, as this key's is")


def limited_at(path: str) -> Limited | None:
    """What lowers the output limit of requests for a path; None if the path is not known."""
    for codec in CODECS.values():
        endpoint = codec.endpoint
        if endpoint.read_path is None and path == endpoint.version + endpoint.path:
            return endpoint.limited
    place = PATHS.get(path) or place_of(path)
    row = None if place is None else place.rows.get("POST")
    if row is None:
        return None
    return lowered_to(row.output_limit) if row.output_limit else _unlimited


def _unlimited(members: Mapping[str, Raw], most: int) -> Mapping[str, Raw]:
    """As `Limited`, where there are no output limits."""
    return members


class Lines:
    """Splits text that comes in pieces into lines, and joins what `change` makes of each, which is
    given with its number from 1."""

    def __init__(self, change: Callable[[bytes, int], bytes]) -> None:
        self._change = change
        self._rest = bytearray()
        self.number = 0

    @property
    def held(self) -> int:
        """Bytes of a line that has not ended."""
        return len(self._rest)

    def feed(self, data: bytes) -> bytes:
        """The lines that ended, changed.

        Raises:
            InvalidRequest: one is too long, or as `change`.
        """
        self._rest += data
        if _NEWLINE not in data:
            self._check()
            return b""
        *lines, rest = self._rest.split(_NEWLINE)
        self._rest = rest
        self._check()
        return b"".join([self._changed(line) + _NEWLINE for line in lines])

    def finish(self) -> bytes:
        """The last line, if it has no end.

        Raises:
            InvalidRequest: as `feed`.
        """
        rest, self._rest = self._rest, bytearray()
        return self._changed(rest) if rest else b""

    def _changed(self, line: bytearray) -> bytes:
        self.number += 1
        return self._change(bytes(line), self.number) if line.strip() else bytes(line)

    def _check(self) -> None:
        if len(self._rest) > LONGEST_LINE:
            raise InvalidRequest.at(f"line {self.number + 1}", "is too long")


def request_lines(requests: Requests) -> Lines:
    """The lines of a batch's file, `{"custom_id", "method", "url", "body"}` each."""

    def change(line: bytes, number: int) -> bytes:
        at = f"line {number}"
        members = _members(line, at)
        body = members.get("body")
        if body is None:
            raise InvalidRequest.at(at, "has no body")
        path = path_of(_value(members, "url"), at)
        if not _has_once(line, b'"url"'):
            line = replaced(line, "url", bytes(members["url"]))
        sent = requests.body(body, at, path)
        if sent == bytes(body) and _has_once(line, b'"body"'):
            return line
        return replaced(line, "body", sent)

    return Lines(change)


class Results:
    """Reads the results of a batch: renames models by `names`, which has the clients' by the
    upstream's, and sums the `usage` of each model, by the upstream's name, of `counts` requests."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self.usage: dict[str, Usage] = {}
        self.counts: dict[str, int] = {}
        self.lines = Lines(self.line)

    def line(self, line: bytes, number: int = 0) -> bytes:
        """A line, with the client's name of the model: of an answer of any vendor."""
        try:
            outer = jsontext.members(line)
            if "body" in outer and "method" in outer:
                return replaced(line, "body", self._answer(bytes(outer["body"])))
            for way in (("response", "body"), ("result", "message")):
                if way[0] in outer and outer[way[0]] != b"null":
                    inner = jsontext.members(outer[way[0]])
                    if _GOOGLES_MODEL in inner or _GOOGLES_USAGE in inner:
                        return replaced(line, way[0], self._answer(bytes(outer[way[0]])))
                    if way[1] in inner and bytes(inner[way[1]])[:1] == b"{":
                        answer = self._answer(bytes(inner[way[1]]))
                        within = replaced(bytes(outer[way[0]]), way[1], answer)
                        return replaced(line, way[0], within)
        except JsonError:
            pass
        return line

    def _answer(self, answer: bytes) -> bytes:
        members = jsontext.members(answer)
        member = _GOOGLES_MODEL if _GOOGLES_MODEL in members else "model"
        model = _value(members, member)
        name = model if isinstance(model, str) else ""
        sent = _sent_name(name, self._names)
        usage = usage_of(_value(members, "usage"))
        if isinstance(counts := _value(members, _GOOGLES_USAGE), dict):
            usage = read_usage(counts)
        if usage is not None:
            before = self.usage.get(sent)
            self.usage[sent] = usage if before is None else summed(before, usage)
            self.counts[sent] = self.counts.get(sent, 0) + 1
        shown = self._names.get(sent, name)
        return answer if shown == name else replaced(answer, member, to_json(shown))


_GOOGLES_MODEL, _GOOGLES_USAGE = "modelVersion", "usageMetadata"


def usage_of(value: Any) -> Usage | None:
    """The usage that an answer of any of the vendors' forms reports, or a whole batch."""
    if not isinstance(value, dict):
        return None
    given = first_count(value, "input_tokens", "prompt_tokens")
    output = first_count(value, "output_tokens", "completion_tokens")
    if given is None and output is None:
        return None
    read, written = first_count(value, "cache_read_input_tokens"), None
    if "cache_creation_input_tokens" in value:
        written = first_count(value, "cache_creation_input_tokens")
        given = (given or 0) + (read or 0) + (written or 0)
    else:
        read = _part(value, ("input_tokens_details", "prompt_tokens_details"), "cached_tokens")
    details = ("output_tokens_details", "completion_tokens_details")
    return Usage(
        input=given or 0,
        output=output or 0,
        cached=read,
        cache_write=written,
        reasoning=_part(value, details, "reasoning_tokens"),
    )


def _sent_name(model: str, names: Mapping[str, str]) -> str:
    """The upstream's name under which a model was asked for that answers by this name: services
    answer by a longer one, with a date. One that is like none is taken for the first: there is no
    other to count it for."""
    if model in names or not names:
        return model
    begun = [name for name in names if model.startswith(name)]
    if begun:
        return max(begun, key=len)
    return next(iter(names))


def _has_once(text: bytes, name: bytes) -> bool:
    """Whether a text surely has no second member of that name, in whatever spelling."""
    return text.count(name) == 1 and b"\\u00" not in text


def _members(text: Raw | bytes, at: str) -> Mapping[str, Raw]:
    try:
        return jsontext.members(bytes(text))
    except JsonError:
        raise InvalidRequest.at(at, "is not a JSON object") from None


def _value(members: Mapping[str, Raw], name: str) -> Any:
    raw = members.get(name)
    try:
        return None if raw is None else jsontext.decode(raw)
    except JsonError:
        return None


def _part(value: Mapping[str, Any], within: tuple[str, ...], name: str) -> int | None:
    for member in within:
        if isinstance(details := value.get(member), dict):
            return token_count(details.get(name))
    return None
