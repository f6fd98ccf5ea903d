"""The content received in the blocks of an answer, and its comparison with complete blocks at the
end.

Content of a complete block beyond the received pieces is new; different content contradicts them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from dragoman.canonical.errors import UpstreamError
from dragoman.protocols.anthropic_messages.loose import object_of
from dragoman.protocols.anthropic_messages.shapes import (
    AnswerBlock,
    AnswerCall,
    AnswerText,
    AnswerThinking,
)
from dragoman.protocols.base import to_json_text
from dragoman.protocols.initial_text import InitialText
from dragoman.protocols.remainders import rest_of, rest_of_arguments


class Block(Struct, eq=False):
    """A block received so far: its index upstream, its number here, its start."""

    index: int
    number: int
    start: AnswerBlock
    state: str
    pieces: list[str] = []
    """Its text or input, as far as it was passed on."""
    initial: InitialText | None = None
    """The text that it began with, until it is passed on."""
    input: str = ""
    """The input of a call or search that has no pieces."""


def rest_of_block(received: Block, whole: AnswerBlock) -> str:
    """The content of a complete block, given at its end, beyond its pieces.

    Raises:
        UpstreamError: it contradicts them.
    """
    before = "".join(received.pieces)
    rest: str | None = ""
    if type(whole) is type(received.start):
        if isinstance(whole, AnswerCall) and whole.input:
            rest = rest_of_arguments(before, to_json_text(object_of(whole.input)))
        elif isinstance(whole, AnswerText | AnswerThinking) and whole.text:
            rest = rest_of(before, whole.text)
    if rest is None:
        raise UpstreamError.unreadable("the end of a block says something else than its pieces")
    return rest


def beyond(received: Iterable[Block], whole: Collection[AnswerBlock]) -> list[AnswerBlock]:
    """The blocks of a complete message, given at its end, beyond those received.

    Raises:
        UpstreamError: it contradicts them.
    """
    found: list[AnswerBlock] = []
    for kind in (AnswerThinking, AnswerText):
        text = "".join([block.text or "" for block in whole if isinstance(block, kind)])
        before = "".join(["".join(one.pieces) for one in received if type(one.start) is kind])
        rest = "" if text in before else rest_of(before, text)
        if rest is None:
            raise UpstreamError.unreadable("its end has another text than its blocks")
        if rest:
            found.append(kind(rest))
    known = [
        (one.start.name, object_of("".join(one.pieces)))
        for one in received
        if isinstance(one.start, AnswerCall)
    ]
    calls: list[AnswerCall] = []
    for block in whole:
        if isinstance(block, AnswerCall):
            given = block.name, object_of(block.input or {})
            if given in known:
                known.remove(given)
            else:
                calls.append(block)
    if calls and known:
        raise UpstreamError.unreadable("its end has other tool calls than its blocks")
    return [*found, *calls]
