"""Whole answers of the Responses protocol, read and written."""

from __future__ import annotations

import time

from dragoman.canonical.blocks import (
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
    WebSearch,
)
from dragoman.canonical.envelope import MARKER
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import Ended, Event, Finished
from dragoman.canonical.losses import LossKind
from dragoman.canonical.responses import FinishReason, Response
from dragoman.protocols.base import Inbound, Reply
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.openai_responses.annotations import write_annotation
from dragoman.protocols.openai_responses.assembler import Assembler
from dragoman.protocols.openai_responses.outcome import (
    read_finish,
    read_moderation,
    write_finish,
    write_usage,
)
from dragoman.protocols.openai_responses.output_items import (
    call_item,
    call_prefix,
    encrypted_content,
    message_item,
    reasoning_item,
    refusal_part,
    text_part,
)
from dragoman.protocols.openai_responses.settings import ResponsesOptions
from dragoman.protocols.openai_responses.skeleton import (
    echo,
    required_action,
    selected,
    service_tier,
)
from dragoman.protocols.openai_responses.stream_reader import metered, report_unread, started
from dragoman.protocols.openai_responses.web_search import (
    search_item,
    tells_sources,
    tool_usage,
)


def read_response(body: JsonObject, inbound: Inbound) -> list[Event]:
    """A whole answer as the events of its stream.

    Raises:
        UpstreamError: the answer failed, is not finished, or is not an answer.
    """
    status, output, error = body.get("status"), body.get("output"), body.get("error")
    if error or status == "failed":
        raise UpstreamError(fault_of(error))
    if status not in (None, "completed", "incomplete"):
        raise UpstreamError.unreadable(f"its status is {status}")
    if not isinstance(output, list):
        raise UpstreamError.unreadable("it has no output")
    answer = Assembler(inbound)
    events: list[Event] = [started(body)]
    for number, item in enumerate(output):
        if not isinstance(item, dict):
            raise UpstreamError.unreadable("an output item is not an object")
        events += answer.complete(number, item, f"output[{number}]")
    report_unread(body, "", inbound)
    complete = status != "incomplete"
    finish = read_finish(complete, body.get("incomplete_details"), answer.has_calls)
    return [*events, Finished(finish), *metered(body, inbound), Ended(read_moderation(body))]


def write_response(response: Response, reply: Reply) -> JsonObject:
    """The client's body. Its output is what the stream of the same answer ends with."""
    status = write_finish(response.finish, reply.options, reply.ledger)
    completed = status.response == "completed"
    source = reply.request.source
    created = response.created or reply.created
    output = _Output(reply).write(response, status.last_item)
    action = None
    waits = response.finish.reason is FinishReason.TOOL_CALLS
    if waits and reply.options.of(ResponsesOptions).tool_turn == "required_action":
        action = required_action(output)
    written = {
        "id": reply.id,
        "object": "response",
        "created_at": created,
        "model": reply.model,
        "status": status.response if action is None else "incomplete",
        "completed_at": max(created, int(time.time())) if completed and not action else None,
        "error": None,
        "incomplete_details": status.details,
        "service_tier": response.service_tier or service_tier(source),
        "usage": write_usage(response.usage),
        "output": output,
        **echo(source),
    }
    if response.usage is not None and response.usage.searches:
        written["tool_usage"] = tool_usage(response.usage.searches)
    if response.moderation is not None:
        written["moderation"] = response.moderation
    shown = selected(written, reply.options)
    return shown if action is None else {**shown, "required_action": action}


class _Output:
    """Makes the output items of one answer."""

    __slots__ = ("_current", "_items", "_reply")

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._items: list[JsonObject] = []
        self._current: JsonObject | None = None
        """The item of the last block: what follows may belong to it, or it may be cut."""

    def write(self, response: Response, last_status: str) -> list[JsonObject]:
        for block in response.blocks:
            match block:
                case Text() | Refusal():
                    self._speak(block)
                case Reasoning():
                    self._current = None
                    self._reason(block)
                case ToolCall():
                    item_id = self._reply.mint(call_prefix(block))
                    self._add(call_item(item_id, block, block.arguments, "completed"))
                case WebSearch():
                    self._current = None
                    sources = block.sources if tells_sources(self._reply) else None
                    item_id = self._reply.mint("ws_")
                    self._items.append(search_item(item_id, block.query, sources, "completed"))
                case _:
                    self._current = None
                    detail = f"{type(block).__name__.lower()} blocks have no counterpart"
                    self._lose("content", detail)
        if not self._items:
            # Clients expect at least one item.
            self._add(message_item(self._reply.mint("msg_"), None, [text_part()], "completed"))
        if self._current is not None and last_status != "completed":
            self._current["status"] = last_status
        return self._items

    def _lose(self, path: str, detail: str) -> None:
        self._reply.ledger.add(path, LossKind.KNOB, detail)

    def _add(self, item: JsonObject) -> JsonObject:
        self._items.append(item)
        self._current = item
        return item

    def _speak(self, block: Text | Refusal) -> None:
        """Add to the message that is being made, or begin one."""
        message = self._current
        text = block if isinstance(block, Text) else None
        phase = None if text is None else text.phase
        if message is not None:
            joins = text is None or message.get("phase") == phase
            message = message if message["type"] == "message" and joins else None
        if not (block.text or (text is not None and (text.annotations or text.logprobs))):
            self._current = message
            return
        if message is None:
            message = self._add(message_item(self._reply.mint("msg_"), phase, [], "completed"))
        parts = message["content"]
        if text is None:
            _continue(parts, refusal_part())["refusal"] += block.text
        else:
            self._speak_text(_continue(parts, text_part()), text)

    def _speak_text(self, part: JsonObject, block: Text) -> None:
        offset = len(part["text"])
        part["text"] += block.text
        if block.logprobs:
            part["logprobs"] += block.logprobs
        for annotation in block.annotations:
            if isinstance(annotation, UrlCitation) and annotation.cited_text is not None:
                self._lose("citations", "citations do not quote")
            written = write_annotation(annotation, offset, len(block.text))
            if written is None:
                self._lose("citations", "such a citation has no counterpart for the client")
            else:
                part["annotations"].append(written)

    def _reason(self, block: Reasoning) -> None:
        options = self._reply.options
        item_id = self._reply.mint("rs_")
        encrypted = encrypted_content(block, self._reply.sealer)
        if options.show_reasoning == "never":
            self._lose("reasoning", "reasoning is not shown")
        if options.show_reasoning != "never":
            as_summary = (
                block.style == "summary" or options.of(ResponsesOptions).reasoning_as == "summary"
            )
            self._add(reasoning_item(item_id, block, encrypted, "completed", as_summary=as_summary))
        elif block.opaque is not None and block.opaque.origin != MARKER:
            empty = Reasoning()
            self._items.append(
                reasoning_item(item_id, empty, encrypted, "completed", as_summary=True)
            )


def _continue(parts: list[JsonObject], fresh: JsonObject) -> JsonObject:
    """The last part if it is of the same type, else the fresh one."""
    if not parts or parts[-1]["type"] != fresh["type"]:
        parts.append(fresh)
    return parts[-1]
