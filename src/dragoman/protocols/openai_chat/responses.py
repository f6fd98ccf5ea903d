"""Whole answers, both ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.canonical.blocks import (
    Annotation,
    Block,
    Foreign,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
)
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import Event, Failed
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.responses import Finish, FinishReason, Response
from dragoman.protocols.base import Inbound, Reply
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.reasoning import details_entry, is_foreign_state, joined
from dragoman.protocols.openai_chat.settings import ChatOptions
from dragoman.protocols.openai_chat.stream_reader import ChatStreamReader
from dragoman.protocols.openai_chat.usage import write_usage

# --- reading ------------------------------------------------------------------------------------


def read_response(body: JsonObject, inbound: Inbound) -> list[Event]:
    """A whole answer as the events of its stream: it is read as a stream of one chunk.

    Raises:
        UpstreamError: it is an error, has not exactly one choice, or did not finish.
    """
    reader = ChatStreamReader(inbound, "message")
    events = reader.take(_as_chunk(body))
    events += reader.finish()
    for event in events:
        if type(event) is Failed:
            raise UpstreamError(event.fault)
    return events


def _as_chunk(body: JsonObject) -> JsonObject:
    """An answer that can be read as a chunk: itself, unless something has to be put right."""
    if body.get("error"):
        return body
    choices = body.get("choices")
    if type(choices) is not list or len(choices) != 1:
        count = len(choices) if type(choices) is list else "no"
        raise UpstreamError.unreadable(f"it has {count} choices, not one")
    choice = choices[0]
    message = choice.get("message") if type(choice) is dict else None
    if type(message) is not dict:
        raise UpstreamError.unreadable("its choice has no message")
    mended: JsonObject = {}
    if choice.get("finish_reason") == "":
        # Some servers leave it blank; that the answer is whole is told by its being here.
        mended["finish_reason"] = "stop"
    calls = message.get("tool_calls")
    if type(calls) is list and calls:
        # Whole calls have no index; their order is their index.
        indexed = [
            {**call, "index": number} if type(call) is dict else call
            for number, call in enumerate(calls)
        ]
        mended["message"] = {**message, "tool_calls": indexed}
    return {**body, "choices": [{**choice, **mended}]} if mended else body


# --- writing ------------------------------------------------------------------------------------

FINISH_WORDS = {
    FinishReason.STOP: "stop",
    FinishReason.STOP_SEQUENCE: "stop",
    FinishReason.PAUSE: "stop",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.LENGTH: "length",
    FinishReason.CONTEXT_WINDOW: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
}
_PAUSE = FinishReason.PAUSE


def finish_word(finish: Finish, *, calls: bool, ledger: Ledger) -> str:
    """`finish_reason`; whether the answer has tool calls decides between stop and tool_calls."""
    if finish.stop_sequence is not None and finish.reason is FinishReason.STOP_SEQUENCE:
        ledger.add("stop_sequence", LossKind.KNOB, "the matched stop sequence is not named")
    if finish.reason is _PAUSE:
        ledger.add("stop_reason", LossKind.CONVERTED, "the paused turn ends here")
    if finish.category is not None:
        ledger.add("stop_details.category", LossKind.KNOB, "has no counterpart downstream")
    word = FINISH_WORDS[finish.reason]
    if word in ("stop", "tool_calls"):
        return "tool_calls" if calls else "stop"
    return word


def write_response(response: Response, reply: Reply) -> JsonObject:
    """The client's `chat.completion`, with exactly one choice."""
    message = _message(response, reply)
    word = finish_word(response.finish, calls="tool_calls" in message, ledger=reply.ledger)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": _logprobs(response),
        "finish_reason": word,
    }
    body: JsonObject = {
        "id": reply.id,
        "object": "chat.completion",
        "created": response.created or reply.created,
        "model": reply.model,
        "choices": [choice],
        "usage": None if response.usage is None else write_usage(response.usage),
    }
    tier = shown_tier(response.service_tier, reply.ledger)
    if tier is not None:
        body["service_tier"] = tier
    if reply.request.metadata:
        body["metadata"] = reply.request.metadata
    if response.moderation is not None:
        body["moderation"] = write_moderation(response.moderation)
    return body


def _message(response: Response, reply: Reply) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": None, "refusal": None}
    texts: list[str] = []
    refusals: list[str] = []
    calls: list[JsonObject] = []
    annotations: list[JsonObject] = []
    thoughts: list[Reasoning] = []
    length = 0
    for block in response.blocks:
        if calls and (type(block) is Text or type(block) is Refusal):
            lose_order(reply.ledger)
        if type(block) is Text:
            end = length + len(block.text)
            if block.annotations:
                annotations += write_annotations(block.annotations, length, end, reply.ledger)
            length = end
            texts.append(block.text)
        elif type(block) is Refusal:
            refusals.append(block.text)
        elif type(block) is ToolCall:
            calls.append(whole_call(block))
        elif type(block) is Reasoning:
            thoughts.append(block)
        else:
            lose_block(block, reply.ledger)
    if thoughts:
        _add_reasoning(message, thoughts, reply)
    if texts or not (refusals or calls):
        message["content"] = "".join(texts)
    if refusals:
        message["refusal"] = "".join(refusals)
    if annotations:
        message["annotations"] = annotations
    if calls:
        message["tool_calls"] = calls
    return message


def _add_reasoning(message: JsonObject, blocks: list[Reasoning], reply: Reply) -> None:
    if reply.options.show_reasoning == "never":
        reply.ledger.add("reasoning", LossKind.KNOB, "reasoning is not shown")
        return
    text = joined(blocks)
    if text:
        for name in reasoning_fields(reply):
            message[name] = text
    opaque = [block for block in blocks if is_foreign_state(block.opaque)]
    if opaque and reply.options.reasoning_details:
        message["reasoning_details"] = [
            details_entry(block, number, reply.sealer) for number, block in enumerate(opaque)
        ]
    elif opaque:
        lose_state(reply.ledger)


def reasoning_fields(reply: Reply) -> tuple[str, ...]:
    """The message fields in which the client is given reasoning text."""
    field = reply.options.of(ChatOptions).reasoning_field
    return ("reasoning_content", "reasoning") if field == "both" else (field,)


def lose_state(ledger: Ledger) -> None:
    """Report that the client gets no reasoning state to send back."""
    ledger.add("reasoning", LossKind.KNOB, "signatures and encrypted reasoning are not shown")


def lose_order(ledger: Ledger) -> None:
    """Report that text after a tool call seems to come before it: a message has no order."""
    ledger.add("content", LossKind.CONVERTED, "text is put before tool calls")


def lose_block(block: Block, ledger: Ledger) -> None:
    """Report a block that a Chat message has no place for."""
    kind, name = LossKind.KNOB, "content"
    if isinstance(block, Foreign):
        kind, name = block.loss, block.type
    ledger.add(block.path or name, kind, "has no place in a Chat message")


def whole_call(block: ToolCall) -> JsonObject:
    """A tool call of a message."""
    name = shown_name(block)
    if block.custom:
        inner = {"name": name, "input": block.arguments}
        return {"id": block.id, "type": "custom", "custom": inner}
    inner = {"name": name, "arguments": block.arguments}
    return {"id": block.id, "type": "function", "function": inner}


def shown_name(block: ToolCall) -> str:
    """The name a Chat client knows a tool by; it has no namespaces."""
    return f"{block.namespace}__{block.name}" if block.namespace else block.name


def write_annotations(
    annotations: Iterable[Annotation], start: int, end: int, ledger: Ledger
) -> list[JsonObject]:
    """Citations of a text block that stands at `start` to `end` in the whole message."""
    written: list[JsonObject] = []
    for annotation in annotations:
        if not isinstance(annotation, UrlCitation):
            ledger.add("annotations", LossKind.KNOB, "only citations of URLs can be shown")
            continue
        if annotation.cited_text is not None:
            ledger.add("annotations.cited_text", LossKind.KNOB, "has no counterpart downstream")
        citation = {
            "start_index": start if annotation.start is None else start + annotation.start,
            "end_index": end if annotation.end is None else start + annotation.end,
            "title": annotation.title,
            "url": annotation.url,
        }
        written.append({"type": "url_citation", "url_citation": citation})
    return written


def write_moderation(found: JsonObject) -> JsonObject:
    """What a moderation found: Chat has a list of results where others have one."""
    return {side: _moderated(result) for side, result in found.items()}


def _moderated(result: JsonObject) -> JsonObject:
    if result.get("type") != "moderation_result":
        return result
    return {"type": "moderation_results", "model": result.get("model"), "results": [result]}


def _logprobs(response: Response) -> JsonObject | None:
    records: list[Any] = []
    for block in response.blocks:
        if type(block) is Text and block.logprobs:
            records += block.logprobs
    return {"content": records, "refusal": None} if records else None


def shown_tier(tier: str | None, ledger: Ledger) -> str | None:
    """`service_tier` in the words Chat clients know."""
    if tier is None or tier in wire.SERVICE_TIERS:
        return tier
    if tier == "ultrafast":
        return "priority"
    ledger.add("service_tier", LossKind.KNOB, "has no counterpart downstream")
    return None
