"""Messages of MCP (JSON-RPC 2.0), read as far as the gateway decides by them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.jsontext import JsonError, JsonMismatch, decoder, members

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SERVER_ERROR: Final = -32000
UNKNOWN_SESSION: Final = -32001

CALLERS_CODES: Final = (PARSE_ERROR, INVALID_REQUEST, -32601, INVALID_PARAMS)
"""Codes of errors in what a client has sent."""

LIST_TOOLS: Final = "tools/list"
CALL_TOOL: Final = "tools/call"
LISTEN: Final = "subscriptions/listen"
CALLS: Final = frozenset({CALL_TOOL, "prompts/get", "resources/read"})
"""The methods that have a server do something, which limits of requests count."""

_MEMBERS = ("jsonrpc", "id", "method", "params", "result", "error")
_PARAMS = ("name", "arguments", "_meta", "task")
_LONGEST_ID = 256

_text = decoder(str)
_texts = decoder(list[Raw])
_number = decoder(int)
_encode = msgspec.json.Encoder().encode


class BadMessage(ValueError):
    """A body that is no message, or one that is not passed on. `code` is that of JSON-RPC, `id`
    the JSON text of the request's, None if it has none."""

    def __init__(self, message: str, code: int = INVALID_REQUEST, id: bytes | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.id = id


class Message(Struct, frozen=True):
    """A message of a client.

    `id` is the JSON text of a request's, None for a notification or an answer; `method` is empty
    for an answer, `tool` for all but the call of a tool. `body` is what is passed on: the message
    as it was read, so that the server reads nothing else.
    """

    method: str
    id: bytes | None
    tool: str
    body: bytes


def read_message(body: bytes) -> Message:
    """The message in a body.

    Raises:
        BadMessage: it is none.
    """
    try:
        found = members(body)
    except JsonMismatch:
        message = "The body must be one JSON-RPC message: batches are not part of the protocol."
        raise BadMessage(message) from None
    except JsonError:
        raise BadMessage("The body is not JSON.", PARSE_ERROR) from None
    _check_spelling(found, _MEMBERS, None)
    id = None
    if "id" in found:
        id = bytes(found["id"]).strip()
        if id[:1] not in b'"-0123456789' or len(id) > _LONGEST_ID:
            raise BadMessage("The id of a message must be a text or a number.")
    if "method" not in found:
        if id is None or not found.keys() & {"result", "error"}:
            raise BadMessage("The message has no method.", id=id)
        return Message("", None, "", _encode(found))
    try:
        method = _text(found["method"])
    except JsonError:
        raise BadMessage("The method of a message must be a text.", id=id) from None
    tool = ""
    if method == CALL_TOOL:
        try:
            params = members(found.get("params", b"{}"))
            tool = _text(params.get("name", b"null"))
        except JsonError:
            raise BadMessage("A call needs the name of a tool.", INVALID_PARAMS, id) from None
        _check_spelling(params, _PARAMS, id)
        found["params"] = Raw(_encode(params))
    return Message(method, id, tool, _encode(found))


def _check_spelling(found: dict[str, Raw], known: tuple[str, ...], id: bytes | None) -> None:
    """Refuse members that some servers would take for known ones."""
    for name in found:
        if name not in known and name.casefold() in known:
            message = f"The message has a member {name[:20]!r}, which some servers misread."
            raise BadMessage(message, id=id)


def error_answer(id: bytes | None, code: int, message: str) -> bytes:
    """An answer with an error, to the request of this id; None if that is not known."""
    error = {"code": code, "message": message}
    given = None if id is None else Raw(id)
    return _encode({"jsonrpc": "2.0", "id": given, "error": error})


class Answer(Struct, frozen=True):
    """What became of a request: whether it was served, else `code`, that of the JSON-RPC error, or
    0 where the tool itself has failed."""

    is_good: bool
    code: int = 0


def read_answer(data: bytes) -> Answer | None:
    """What a message of a server answers; None if it is no answer.

    Raises:
        JsonError: it is no message.
    """
    found = members(data)
    if "method" in found or not found.keys() & {"result", "error"}:
        return None
    if "error" in found:
        try:
            return Answer(False, _number(members(found["error"]).get("code", b"0")))
        except JsonError:
            return Answer(False)
    try:
        failed = members(found["result"]).get("isError", b"false")
    except JsonError:
        failed = b"false"
    return Answer(bytes(failed).strip() != b"true")


def with_allowed_tools(data: bytes, allows: Callable[[str], bool]) -> bytes:
    """A message of a server without the tools in its result that are not allowed; the same bytes if
    it lists none.

    Raises:
        JsonError: it is no message.
    """
    found = members(data)
    if "result" not in found:
        return data
    try:
        result = members(found["result"])
        listed = _texts(result["tools"])
    except (JsonMismatch, KeyError):
        return data
    kept = []
    for tool in listed:
        try:
            if allows(_text(members(tool)["name"])):
                kept.append(tool)
        except (JsonError, KeyError):
            continue
    result["tools"] = Raw(_encode(kept))
    return _encode(found | {"result": Raw(_encode(result))})
