"""Compaction of a conversation for upstreams that have none of their own.

A client ends its input with `compaction_trigger`, and is answered with one `compaction` item that
only its maker can read; later it sends that item in place of what it stands for. For an upstream of
another protocol the trigger is a request for a summary, and the item has the summary in the
gateway's envelope, so that any upstream can go on from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from dragoman.canonical.blocks import Foreign, Opaque, Reasoning, Text
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest, UpstreamError
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Event,
    Failed,
    Finished,
    Opened,
    Sealed,
)
from dragoman.canonical.finish import NO_SUMMARY, Finish, FinishReason
from dragoman.jsontext import decode
from dragoman.protocols.base import AnswerWriter, Reply, to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.conversations import given_items, shown_input
from dragoman.protocols.openai_responses.stream_writer import ResponsesWriter

TRIGGER: Final = "compaction_trigger"
COMPACTION: Final = "compaction"

ASK: Final = (
    "The conversation is about to be continued without its earlier messages. Write a summary of it"
    " for whoever goes on: the task and its constraints, what was decided and why, what was done"
    " (files, commands, results), what is left to do, and every name, path and value that is"
    " needed. Answer with the summary alone, and call no tools."
)
"""What an upstream is asked in place of the trigger."""

_INTRODUCTION: Final = "A summary of the conversation so far, whose messages are not repeated here:"


def read_compaction(item: JsonObject, path: str, sealer: Sealer) -> Text:
    """The text for a compaction in the gateway's envelope.

    Raises:
        InvalidRequest: it is no intact envelope.
    """
    opened = sealer.open(item["encrypted_content"])
    if opened is None or not opened.parts:
        problem = "is not an intact compaction of this gateway"
        raise InvalidRequest.at(f"{path}.encrypted_content", problem)
    return Text(text=f"{_INTRODUCTION}\n\n{opened.text}", path=path)


def compacting(members: Mapping[str, Raw]) -> JsonObject:
    """The members of a request to the endpoint that only compacts, as those of one for an answer:
    the trigger is the last item of the input.

    Raises:
        InvalidRequest: the input is neither text nor an array of objects.
    """
    given = given_items(members.get("input"))
    if given is None:
        raise InvalidRequest.at("input", "must be a string or an array of items")
    items = [*decode(given.body), {"type": TRIGGER}]
    return {**members, "input": items, "stream": False, "store": False}


def users_messages(members: Mapping[str, Raw]) -> bytes:
    """The messages of the user in the input of a request, as a JSON array."""
    given = decode(members["input"])
    said = [
        shown_input({"type": "message", "id": f"msg_{place}", **item})
        for place, item in enumerate(given)
        if item.get("role") == "user"
    ]
    return to_json(said)


def compacted(response: JsonObject, said: bytes) -> JsonObject:
    """The answer of that endpoint: the messages of the user, and what the conversation was
    compacted to.

    Raises:
        UpstreamError: the response has no compaction.
    """
    found = [item for item in response.get("output") or () if item.get("type") == COMPACTION]
    if not found:
        raise UpstreamError(_without("compaction"))
    parts = [part for part in (said[1:-1], to_json(found)[1:-1]) if part]
    return {
        "id": response["id"],
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": Raw(b"[" + b",".join(parts) + b"]"),
        "usage": response.get("usage"),
    }


def _without(what: str) -> Fault:
    message = f"The upstream's answer is unusable: it has no {what} of the conversation"
    return Fault(FaultKind.UPSTREAM_FAILED, message, code=NO_SUMMARY)


class CompactionWriter(ResponsesWriter):
    """The writer of a compaction: the text of the answer becomes one item."""

    __slots__ = ("_mint_id", "_passed", "_sealing", "_texts")

    def __init__(self, reply: Reply, streamed: bool) -> None:
        super().__init__(reply, streamed)
        self._sealing, self._mint_id = reply.sealer, reply.mint
        self._texts: dict[int, list[str]] = {}
        self._passed: set[int] = set()
        """Blocks of an upstream that compacts by itself."""

    def write(self, event: Event) -> bytes:
        """Take one event."""
        if type(event) is Opened:
            if type(event.block) is Foreign and event.block.type == COMPACTION:
                self._passed.add(event.index)
                return super().write(event)
            if type(event.block) is Text:
                self._texts[event.index] = [event.block.text]
            return b""
        if type(event) in (Delta, Closed, Sealed, Annotated):
            if event.index in self._passed:  # type: ignore[union-attr]
                return super().write(event)
            if type(event) is Delta and event.index in self._texts:
                self._texts[event.index].append(event.text)
            return b""
        if type(event) is Finished and not self._passed:
            return self._compaction()
        return super().write(event)

    def _compaction(self) -> bytes:
        summary = "".join([piece for text in self._texts.values() for piece in text]).strip()
        if not summary:
            return super().write(Failed(_without("summary")))
        envelope = self._sealing.seal(
            Reasoning(parts=(summary,), opaque=Opaque(COMPACTION, "summary"))
        )
        item = {"id": self._mint_id("cmp_"), "type": COMPACTION, "encrypted_content": envelope}
        write = super().write
        opened = write(Opened(0, Foreign(origin=wire.NAME, type=COMPACTION, raw=item)))
        return opened + write(Closed(0)) + write(Finished(Finish(FinishReason.STOP)))


def answer_writer(reply: Reply, streamed: bool) -> AnswerWriter:
    """The writer of an answer."""
    kind = CompactionWriter if reply.request.compacts else ResponsesWriter
    return kind(reply, streamed)
