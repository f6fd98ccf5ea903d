"""Whole answers, both ways."""

from __future__ import annotations

from dragoman.canonical.blocks import Block, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.events import Event, Failed
from dragoman.canonical.losses import LossKind
from dragoman.canonical.responses import FinishReason, Response
from dragoman.canonical.tools import wrap_custom
from dragoman.jsontext import object_of
from dragoman.protocols.anthropic_messages.errors import fault_of
from dragoman.protocols.anthropic_messages.outcome import write_finish, write_usage
from dragoman.protocols.anthropic_messages.partial_json import read_cut_object
from dragoman.protocols.anthropic_messages.stream_reader import MessagesReader
from dragoman.protocols.anthropic_messages.visibility import (
    Reporter,
    Visibility,
    is_redacted,
    own_citation,
    signature_of,
    tool_use_head,
)
from dragoman.protocols.base import Inbound, Reply
from dragoman.protocols.fields import JsonObject

_STOP_FIELDS = ("stop_reason", "stop_sequence", "stop_details")


def read_response(body: JsonObject, inbound: Inbound) -> list[Event]:
    """A `message` object as the events of its stream.

    Raises:
        UpstreamError: it is an error, or not an answer of this protocol.
    """
    content = body.get("content")
    if body.get("type") == "error" or (body.get("error") and content is None):
        raise UpstreamError(fault_of(body.get("error")))
    if not isinstance(content, list):
        raise UpstreamError.unreadable("it has no content")
    reader = MessagesReader(inbound)
    stop = {name: body[name] for name in _STOP_FIELDS if name in body}
    if not content and not stop.get("stop_reason"):
        raise UpstreamError.unreadable("it says nothing, not even why it stopped")
    events = reader.take("message_start", {"message": body})
    for index, block in enumerate(content):
        events += reader.take("content_block_start", {"index": index, "content_block": block})
        events += reader.take("content_block_stop", {"index": index})
    events += reader.take("message_delta", {"delta": stop})
    events += reader.take("message_stop", {})
    for event in events:
        if type(event) is Failed:
            raise UpstreamError(event.fault)
    return events


def write_response(response: Response, reply: Reply) -> JsonObject:
    """The client's `message` object.

    Raises:
        UpstreamError: a tool call's arguments are not a JSON object although the answer was
            not cut.
    """
    writer = _ContentWriter(response, reply)
    for block in response.blocks:
        writer.add(block)
    stop = write_finish(response.finish, writer.calls, writer.refusal)
    usage = write_usage(response.usage, response.service_tier)
    writer.report.tier(response.service_tier, "service_tier" in usage)
    writer.report.moderation(response.moderation)
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": writer.content,
        **stop.fields(),
        "usage": usage,
    }


class _ContentWriter:
    """Collects the content of an answer."""

    __slots__ = ("_reply", "_response", "_visibility", "calls", "content", "refusal", "report")

    def __init__(self, response: Response, reply: Reply) -> None:
        self._response = response
        self._reply = reply
        self.report = Reporter(reply.ledger)
        self._visibility = Visibility.of(reply)
        self.content: list[JsonObject] = []
        self.calls = False
        self.refusal: str | None = None

    def add(self, block: Block) -> None:
        if type(block) is Text:
            if self._visibility.leaves_out(block):
                self.report.remark()
            else:
                self._add_text(block)
        elif type(block) is Refusal:
            self.refusal = (self.refusal or "") + block.text
            if block.text and not self._visibility.single_text:
                self.content.append({"type": "text", "text": block.text})
        elif type(block) is Reasoning:
            if self._visibility.reasoning:
                self._add_reasoning(block)
            else:
                self.report.reasoning()
        elif type(block) is ToolCall:
            self.calls = True
            self.report.call(block)
            self.content.append({**tool_use_head(block), "input": self._input(block)})
        else:
            self.report.block(block)

    def _add_text(self, block: Text) -> None:
        if block.logprobs is not None:
            self.report.logprobs()
        citations = []
        for annotation in block.annotations:
            citation = own_citation(annotation)
            if citation is None:
                self.report.citation()
            else:
                citations.append(citation)
        if not block.text and not citations:
            return
        last = self.content[-1] if self.content else None
        if self._visibility.single_text and last is not None and last["type"] == "text":
            last["text"] += block.text
        else:
            last = {"type": "text", "text": block.text}
            self.content.append(last)
        if citations:
            last["citations"] = [*last.get("citations", ()), *citations]

    def _add_reasoning(self, block: Reasoning) -> None:
        if block.opaque is not None and is_redacted(block):
            self.content.append({"type": "redacted_thinking", "data": block.opaque.data})
        elif block.opaque is not None or block.text:
            shown = self._visibility.reasoning_text and not block.redacted
            text = block.text if shown else ""
            signature = signature_of(block, self._reply.sealer)
            self.content.append({"type": "thinking", "thinking": text, "signature": signature})

    def _input(self, call: ToolCall) -> JsonObject:
        if call.custom:
            return wrap_custom(call.arguments)
        if not call.arguments.strip():
            return {}
        value = object_of(call.arguments)
        if value is not None:
            return value
        if self._response.finish.reason is not FinishReason.LENGTH:
            problem = f"the arguments of tool call {call.name} are not a JSON object"
            message = f"The upstream's answer is unusable: {problem}"
            raise UpstreamError(
                Fault(FaultKind.UPSTREAM_FAILED, message, code="invalid_tool_arguments")
            )
        detail = "the output limit cut the arguments of a tool call"
        self._reply.ledger.add("content", LossKind.REPAIRED, detail)
        return read_cut_object(call.arguments)
