"""The content received in the blocks of an answer, and its comparison with complete blocks at the
end.

Content of a complete block beyond the received pieces is new; different content contradicts them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

from dragoman.canonical.errors import UpstreamError
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.loose import as_known, object_of
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.remainders import rest_of, rest_of_arguments

_TOOL = "tool_use"
_TEXTS = ("thinking", "text")

Received: TypeAlias = tuple[str, str, list[str]]
"""The type of a block, the name of its tool if it is a call, and its pieces."""


def rest_of_block(received: Received, block: JsonObject) -> str:
    """The content of a complete block, given at its end, beyond its pieces.

    Raises:
        UpstreamError: it contradicts them.
    """
    kind, _, pieces = received
    before = "".join(pieces)
    if kind == _TOOL:
        given = block.get("input")
        rest = rest_of_arguments(before, to_json_text(object_of(given))) if given else ""
    else:
        whole = _known(block).get(kind)
        rest = rest_of(before, whole) if isinstance(whole, str) else ""
    if rest is None:
        raise UpstreamError.unreadable("the end of a block says something else than its pieces")
    return rest


def beyond(received: Collection[Received], content: list[Any]) -> list[JsonObject]:
    """The blocks of a complete message, given at its end, beyond those received.

    Raises:
        UpstreamError: it contradicts them.
    """
    blocks = [_known(block) for block in content if isinstance(block, dict)]
    found: list[JsonObject] = []
    for kind in _TEXTS:
        texts = [block.get(kind) for block in blocks if block.get("type") == kind]
        whole = "".join(text for text in texts if isinstance(text, str))
        before = "".join(["".join(pieces) for known, _, pieces in received if known == kind])
        rest = "" if whole in before else rest_of(before, whole)
        if rest is None:
            raise UpstreamError.unreadable("its end has another text than its blocks")
        if rest:
            found.append({"type": kind, kind: rest})
    calls = [block for block in blocks if block.get("type") == _TOOL]
    return found + _calls_beyond(received, calls)


def _calls_beyond(received: Collection[Received], blocks: list[JsonObject]) -> list[JsonObject]:
    known = [(name, object_of("".join(pieces))) for kind, name, pieces in received if kind == _TOOL]
    found = []
    for block in blocks:
        call = block.get("name"), object_of(block.get("input") or {})
        if call in known:
            known.remove(call)
        else:
            found.append(block)
    if found and known:
        raise UpstreamError.unreadable("its end has other tool calls than its blocks")
    return found


def _known(block: JsonObject) -> JsonObject:
    return block if str(block.get("type")) in wire.BLOCK_FIELDS else as_known(block)
