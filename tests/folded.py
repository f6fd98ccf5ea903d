"""Answers as one value, for comparing: from events, and back to events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Annotation,
    Block,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
    WebSearch,
)
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Metered,
    Opened,
    PartBreak,
    Sealed,
    Started,
)
from dragoman.canonical.finish import Finish
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import Codec, Reply


class Response(Struct, frozen=True, kw_only=True):
    """One answer: ordered blocks, how it ended, what it cost.

    `id` and `model` are the upstream's own; `created` is in Unix seconds, 0 if unknown.
    `service_tier` is in the words of the OpenAI protocols. `usage` is None when the upstream
    did not report any. `moderation` is what a moderation that the client asked for found:
    `input` and `output`, each one result or error in the words of the OpenAI protocols.
    """

    id: str
    model: str
    created: int
    blocks: tuple[Block, ...]
    finish: Finish
    usage: Usage | None = None
    service_tier: str | None = None
    moderation: dict[str, Any] | None = None


class _Growing(Struct):
    """A block under construction."""

    head: Block
    pieces: list[str] = []
    parts: list[str] = []
    annotations: list[Annotation] = []
    logprobs: list[Any] | None = None
    opaque: Opaque | None = None

    def add(self, event: PartBreak | Annotated | Sealed) -> None:
        """Take what is said of the block besides its text."""
        match event:
            case PartBreak():
                self.parts.append("".join(self.pieces))
                self.pieces.clear()
            case Annotated():
                self.annotations.append(event.annotation)
            case Sealed():
                self.opaque = event.opaque

    def build(self) -> Block:
        text = "".join(self.pieces)
        head = self.head
        match head:
            case Text():
                annotations = head.annotations
                if self.annotations:
                    annotations = (*annotations, *self.annotations)
                logprobs = None if self.logprobs is None else tuple(self.logprobs)
                text = head.text + text
                return replace(head, text=text, annotations=annotations, logprobs=logprobs)
            case Refusal():
                return replace(head, text=head.text + text)
            case ToolCall():
                return replace(head, arguments=head.arguments + text)
            case Reasoning():
                parts = (*self.parts, text) if text or self.parts else ()
                return replace(head, parts=(*head.parts, *parts), opaque=self.opaque or head.opaque)
            case WebSearch():
                found = [note.url for note in self.annotations if isinstance(note, UrlCitation)]
                return replace(head, query=head.query + text, sources=(*head.sources, *found))
        return head


def fold(events: Iterable[Event]) -> Response:
    """Build the whole answer from its events, in the order blocks opened.

    Raises:
        UpstreamError: the events end in `Failed`, or without `Ended`.
    """
    started = Started("", "")
    growing: dict[int, _Growing] = {}
    finish: Finish | None = None
    usage: Usage | None = None
    service_tier: str | None = None
    end: Ended | None = None
    for event in events:
        # The exact type, for a pattern that does not match costs much more than it.
        if type(event) is Delta:
            block = growing[event.index]
            block.pieces.append(event.text)
            if event.logprobs is not None:
                block.logprobs = [*(block.logprobs or ()), *event.logprobs]
        elif type(event) is Opened:
            growing[event.index] = _Growing(event.block)
        elif type(event) is Closed:
            pass
        elif type(event) is Metered:
            usage = event.usage
            service_tier = event.service_tier or service_tier
        elif type(event) is Started:
            started = event
            service_tier = event.service_tier
        elif type(event) is Finished:
            finish = event.finish
        elif type(event) is Ended:
            end = event
        elif type(event) is Failed:
            raise UpstreamError(event.fault)
        elif type(event) is PartBreak or type(event) is Annotated or type(event) is Sealed:
            growing[event.index].add(event)
    if finish is None or end is None:
        raise UpstreamError.unreadable("it ends before the model finished")
    return Response(
        id=started.id,
        model=started.model,
        created=started.created,
        blocks=tuple([block.build() for block in growing.values()]),
        finish=finish,
        usage=usage,
        service_tier=service_tier,
        moderation=end.moderation,
    )


def unfold(answer: Response) -> Iterator[Event]:
    """The events of an answer, as a reader gives those of a whole one: each text in one piece."""
    yield Started(answer.id, answer.model, answer.created, answer.service_tier)
    for index, block in enumerate(answer.blocks):
        match block:
            case Text():
                yield Opened(index, replace(block, text="", annotations=(), logprobs=None))
                if block.text or block.logprobs is not None:
                    yield Delta(index, block.text, block.logprobs)
                yield from (Annotated(index, note) for note in block.annotations)
            case Refusal():
                yield Opened(index, replace(block, text=""))
                yield Delta(index, block.text)
            case ToolCall():
                yield Opened(index, replace(block, arguments=""))
                yield Delta(index, block.arguments)
            case Reasoning():
                yield Opened(index, replace(block, parts=(), opaque=None))
                for number, part in enumerate(block.parts):
                    if number:
                        yield PartBreak(index)
                    yield Delta(index, part)
                if block.opaque is not None:
                    yield Sealed(index, block.opaque)
            case WebSearch():
                yield Opened(index, replace(block, query="", sources=()))
                if block.query:
                    yield Delta(index, block.query)
                yield from (Annotated(index, UrlCitation(url=url)) for url in block.sources)
            case _:
                yield Opened(index, block)
        yield Closed(index)
    yield Finished(answer.finish)
    if answer.usage is not None:
        yield Metered(answer.usage, answer.service_tier)
    yield Ended(answer.moderation)


def write_whole(codec: Codec, answer: Response, reply: Reply) -> dict[str, Any]:
    """The client's whole answer."""
    writer = codec.translate.answer_writer(reply, False)
    for event in unfold(answer):
        writer.write(event)
    return writer.answer()
