"""An answer, as it streams.

The grammar, once a `Sequencer` has put blocks one after another:

    Started (Opened (Delta | PartBreak | Annotated | Sealed)* Closed)* Finished Metered? Ended

`Metered` may come anywhere after `Started` and may repeat: the last one counts. `Failed` may
come anywhere and ends the stream. Readers may interleave blocks; `index` identifies the block.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from dragoman.canonical.blocks import Annotation, Block, Opaque
from dragoman.canonical.errors import Fault
from dragoman.canonical.finish import Finish
from dragoman.canonical.usage import Usage


class Started(Struct, frozen=True):
    """The upstream has begun to answer.

    `usage` is what is known now, exact or estimated, for clients whose streams begin with
    it; it is not counted, `Metered` is.
    """

    id: str
    model: str
    created: int = 0
    service_tier: str | None = None
    usage: Usage | None = None


class Opened(Struct, frozen=True):
    """A block begins. `block` is its head: no text, no arguments, no annotations yet."""

    index: int
    block: Block


class Delta(Struct, frozen=True):
    """More of the block's text, reasoning or tool arguments, or of what is searched for.
    `logprobs` belong to this piece."""

    index: int
    text: str
    logprobs: tuple[Any, ...] | None = None


class PartBreak(Struct, frozen=True):
    """In a reasoning block, a further readable part begins (never before the first)."""

    index: int


class Annotated(Struct, frozen=True):
    """The text block cites a source, or the web search found it."""

    index: int
    annotation: Annotation


class Sealed(Struct, frozen=True):
    """The reasoning block's opaque state; replaces any earlier one."""

    index: int
    opaque: Opaque


class Closed(Struct, frozen=True):
    """Nothing more of the block will come. If `Finished` then says LENGTH, the last block was
    cut by the output limit. `cut` tells that the arguments of a tool call are not whole JSON, as
    the `ToolRestorer` found; they are those of an answer that ends in LENGTH, or fails. Of a web
    search it tells that it failed.
    """

    index: int
    cut: bool = False


class Finished(Struct, frozen=True):
    """The model stopped, for this reason. Every block is closed."""

    finish: Finish


class Metered(Struct, frozen=True):
    """Usage so far: cumulative totals, replacing earlier ones."""

    usage: Usage
    service_tier: str | None = None


class Ended(Struct, frozen=True):
    """The upstream's own terminator was seen: the answer is whole.

    `moderation` is what a moderation that the client asked for found: `input` and `output`, each
    one result or error in the words of the OpenAI protocols.
    """

    moderation: dict[str, Any] | None = None


class Failed(Struct, frozen=True):
    """The answer ends here and is not whole."""

    fault: Fault


Event: TypeAlias = (
    Started
    | Opened
    | Delta
    | PartBreak
    | Annotated
    | Sealed
    | Closed
    | Finished
    | Metered
    | Ended
    | Failed
)
