"""Ids of things that a service holds for an account, as requests and answers name them: files,
containers, vector stores, conversations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from msgspec import Raw

from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.protocols.raw import hides_words

MOST_NAMED: Final = 100
"""Ids that one request may name. Of more, one more than these is found."""

_NAMING: Final = frozenset(
    {
        *("file_id", "file_ids", "input_file_id", "container_id", "vector_store_ids", "container"),
        *("cachedContent", "cached_content"),
    }
)
"""Members whose texts are ids, wherever they stand."""
_URIS: Final = frozenset({"fileUri", "file_uri", "uri"})
"""Members whose texts may be URIs of Google's files."""
_FREE: Final = frozenset({"args", "arguments", "input_schema", "metadata", "parameters", "schema"})
"""Members in which a client may have anything."""
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Parts whose `input` may have anything, too."""
FILES: Final = (b'"file_id',)
"""Words by which files are named."""
URIS: Final = (b'"fileUri"', b'"file_uri"')
"""Words by which Google's files are named."""
TOOLS: Final = (*FILES, b'"container', b'"vector_store_ids"')
"""Words by which tools name what they are to use."""
_ALL: Final = (
    *TOOLS,
    *URIS,
    b'"cachedContent"',
    b'"cached_content"',
    b'"input_file_id"',
    b'"conversation"',
    b'"previous_response_id"',
    b'"item_reference"',
    b'"id"',
)


def naming(
    within: Mapping[str, tuple[bytes, ...]], whole: Iterable[str] = ()
) -> Callable[[Mapping[str, Raw]], tuple[str, ...]]:
    """The function behind `Passthrough.bound_ids`, for a protocol that names ids anywhere in the
    members `within`, each by some of these words, and as the members `whole`: as a text, or an
    object with an `id`.

    A request that has no word for an id is only searched for these words.
    """
    direct = tuple(whole)

    def bound_ids(members: Mapping[str, Raw]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for name in direct:
            if name in members:
                value = _decoded(name, members[name])
                if isinstance(value, dict):
                    value = value.get("id")
                found |= dict.fromkeys(_texts(value))
        for name, words in within.items():
            raw = members.get(name)
            if raw is not None and _may_name(bytes(raw), words):
                named = ids_in(_decoded(name, raw))
                found |= dict.fromkeys(islice(named, MOST_NAMED + 1))
        return tuple(found)

    return bound_ids


def ids_in(value: Any) -> Iterator[str]:
    """The ids that JSON names, wherever they stand: not in what a client has made up itself."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += reversed(value)
        elif isinstance(value, dict):
            for name, inner in reversed(value.items()):
                if name in _NAMING:
                    yield from _texts(inner)
                elif name in _URIS:
                    yield from filter(None, map(google_file, _texts(inner)))
                if isinstance(inner, dict | list) and not is_free(value, name):
                    left.append(inner)


def google_file(uri: str) -> str:
    """The name of Google's file that a URI is of, empty for those of anything else. What else is
    at that service has no name that anybody could have."""
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), uri).strip()
    found = _FILE_URI.fullmatch(text)
    if found is not None:
        return found[1].lower()
    return text if _AT_GOOGLE.match(text) else ""


_ESCAPED: Final = re.compile("%([0-9a-fA-F]{2})")
_FILE_URI: Final = re.compile(
    r"(?:[a-z]+://[^/?#]+/v1(?:alpha|beta)?/|/)?(files/[a-z0-9-]{1,80})(?::download)?/?(?:[?#].*)?",
    re.IGNORECASE | re.DOTALL,
)
_AT_GOOGLE: Final = re.compile(r"(?:[^/]*//)?[^/]*generativelanguage|/?files/", re.I)


def is_free(value: Mapping[str, Any], name: str) -> bool:
    """Whether the member of that name of an object may have anything: a client or a model has made
    it up."""
    if name in _FREE or (name == "response" and "name" in value):
        return True
    kind = value.get("type")
    return name == "input" and isinstance(kind, str) and kind in _CALLS


def named_in(body: bytes) -> list[str]:
    """All ids that a request's body of any protocol names, of answers that a service stores, too.

    Raises:
        InvalidRequest: it is not JSON.
    """
    if not _may_name(body, _ALL):
        return []
    value = _decoded("", Raw(body))
    found = dict.fromkeys(ids_in(value))
    if isinstance(value, dict):
        conversation = value.get("conversation")
        if isinstance(conversation, dict):
            conversation = conversation.get("id")
        for name in (conversation, value.get("previous_response_id"), *_referred(value)):
            found |= dict.fromkeys(_texts(name))
    return list(found)


def _referred(value: dict[str, Any]) -> Iterator[Any]:
    """The ids of stored items to which a request refers."""
    for given in (value.get("input"), value.get("items")):
        for item in given if isinstance(given, list) else ():
            if not isinstance(item, dict) or item.get("role") is not None:
                continue
            if (item.get("type") or _REFERENCE) == _REFERENCE:
                yield item.get("id")


_REFERENCE: Final = "item_reference"


def _may_name(text: bytes, words: tuple[bytes, ...]) -> bool:
    if any(text.find(word) >= 0 for word in words):
        return True
    return text.find(b"\\u00") >= 0 and hides_words(text)


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) and value else []


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with all values of a member that it has several times: services may take any."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        made[name] = [made[name], value] if name in made else value
    return made


def _decoded(name: str, raw: Raw) -> Any:
    try:
        return json.loads(bytes(raw), object_pairs_hook=_object)
    except (ValueError, RecursionError):
        raise InvalidRequest.at(name, "is not valid JSON text") from None


def not_held(name: str) -> DragomanError:
    """The error for an id that is unknown, or another client's, in the vendors' words."""
    shown = name[:_LONGEST_SHOWN].encode(errors="replace").decode()
    if name.startswith("file-"):
        return DragomanError(Fault(FaultKind.NOT_FOUND, f"No such File object: {shown}", "id"))
    for collection, (kind_of_fault, message) in _GOOGLES.items():
        if name.startswith(collection):
            message = message.format(shown.removeprefix(collection))
            return DragomanError(Fault(kind_of_fault, message))
    if name.startswith("file_"):
        return DragomanError(Fault(FaultKind.NOT_FOUND, f"File not found: {shown}"))
    kind = next((words for prefix, words in _KINDS.items() if name.startswith(prefix)), "Object")
    return DragomanError(Fault(FaultKind.NOT_FOUND, f"{kind} with id '{shown}' not found."))


_LONGEST_SHOWN: Final = 256
_UNKNOWN: Final = (FaultKind.NOT_FOUND, "Requested entity was not found.")
_GOOGLES: Final = {
    "files/": (
        FaultKind.FORBIDDEN,
        "You do not have permission to access the File {} or it may not exist.",
    ),
    "cachedContents/": (
        FaultKind.FORBIDDEN,
        "CachedContent not found (or permission denied)",
    ),
    "batches/": _UNKNOWN,
    "uploads/": _UNKNOWN,
}
"""What Google answers to names of what is unknown, or another's."""
_KINDS: Final = {
    "batch_": "Batch",
    "conv_": "Conversation",
    "cntr_": "Container",
    "msgbatch_": "Message batch",
    "upload_": "Upload",
    "vs_": "Vector store",
}
