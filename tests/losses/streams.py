"""Good upstream streams, each with one event that is given from outside.

The given event takes the place of the first of its type, in the first stream that has one; of
its fields only the one under test is taken over, so that ids and indexes still agree. The
field "" takes over none, None leaves the event out.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tests.losses.values import FILLER

Event: TypeAlias = dict[str, Any]

_HEAD = {"id": FILLER, "object": "chat.completion.chunk", "created": 5, "model": FILLER}


def _data(event: Any) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"


def _named(events: list[Event]) -> bytes:
    return b"".join(b"event: " + event["type"].encode() + b"\n" + _data(event) for event in events)


def chat_stream(chunk: Event, name: str | None) -> bytes:
    """A Chat stream with the given chunk in its middle."""
    choice = {"index": 0, "finish_reason": None, "logprobs": None}
    role = {**choice, "delta": {"role": "assistant", "content": ""}}
    finish: Event = {**choice, "delta": {}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    finished = any(given.get("finish_reason") for given in chunk.get("choices", ()))
    chunks = [{**_HEAD, "choices": [role]}, chunk]
    if not finished:
        chunks.append({**_HEAD, "choices": [finish]})
    if name not in (None, "choices", "usage"):
        # What stands at the top of a chunk stands in all of them.
        everywhere = {name: chunk[name]} if name in chunk else {}
        chunks = [{**item, **everywhere} for item in chunks]
    if name != "usage":
        chunks.append({**_HEAD, "choices": [], "usage": usage})
    return b"".join(_data(item) for item in chunks) + b"data: [DONE]\n\n"


def _place(streams: tuple[list[Event], ...], event: Event, name: str | None) -> list[Event]:
    """The stream with the event in it; only the field `name` of the event is new."""
    kind = event["type"]
    for stream in streams:
        for number, own in enumerate(stream):
            if own["type"] != kind or not _fits(own, event, name):
                continue
            before, after = stream[:number], stream[number + 1 :]
            if name is None:
                return [*before, *after]
            return [*before, _with(own, event, name), *after]
    # Events that belong to no item may come anywhere.
    stream = streams[0]
    return [*stream[:2], *([] if name is None else [event]), *stream[2:]]


def _with(own: Event, event: Event, name: str) -> Event:
    """The event in its place, with the one field of the given event."""
    kept = {field: value for field, value in own.items() if field != name}
    return {**kept, name: event[name]} if name in event else kept


def _fits(own: Event, event: Event, name: str | None) -> bool:
    """Whether the field's new value is of the kind that stands there."""
    if name not in ("delta", "part", "item") or not isinstance(event.get(name), dict):
        return True
    given, here = event[name].get("type"), own[name].get("type")
    return given == here or given is None


_MESSAGE: Event = {
    "id": "msg_filler",
    "type": "message",
    "role": "assistant",
    "model": FILLER,
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 1},
}


def _messages(block: Event, deltas: list[Event], reason: str = "end_turn") -> list[Event]:
    events: list[Event] = [
        {"type": "message_start", "message": _MESSAGE},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    events += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    stop = {"stop_reason": reason, "stop_sequence": None}
    return [
        *events,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


_CITED = {
    "type": "citations_delta",
    "citation": {
        "type": "web_search_result_location",
        "url": "https://example.com/",
        "title": FILLER,
        "cited_text": FILLER,
        "encrypted_index": FILLER,
    },
}
_MESSAGES_STREAMS = (
    _messages({"type": "text", "text": ""}, [{"type": "text_delta", "text": FILLER}, _CITED]),
    _messages(
        {"type": "thinking", "thinking": "", "signature": ""},
        [
            {"type": "thinking_delta", "thinking": FILLER},
            {"type": "signature_delta", "signature": FILLER},
        ],
    ),
    _messages(
        {"type": "tool_use", "id": FILLER, "name": FILLER, "input": {}},
        [{"type": "input_json_delta", "partial_json": "{}"}],
        "tool_use",
    ),
)


def _ending(delta: Event) -> Event:
    """The stop reason that goes with what is told of the end."""
    if delta.get("stop_details"):
        return {"stop_reason": "refusal", "stop_sequence": None}
    if delta.get("stop_sequence"):
        return {"stop_reason": "stop_sequence"}
    return {"stop_reason": "end_turn", "stop_sequence": None}


def messages_stream(event: Event, name: str | None) -> bytes:
    """A Messages stream with the given event in it."""
    streams: tuple[list[Event], ...] = _MESSAGES_STREAMS
    if event["type"] == "content_block_start" and name == "content_block":
        # A block given whole needs no deltas, and none would fit every kind.
        streams = (_messages({}, []),)
    if event["type"] == "message_delta" and "delta" in event:
        event = {**event, "delta": {**_ending(event["delta"]), **event["delta"]}}
    return _named(_place(streams, event, name))


def _response(status: str, **more: Any) -> Event:
    return {
        "id": "resp_filler",
        "object": "response",
        "created_at": 5,
        "model": FILLER,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": status,
        **more,
    }


USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 18,
}


def _responses(*body: Event, terminal: str = "completed", **more: Any) -> list[Event]:
    events = [
        {"type": "response.created", "response": _response("in_progress")},
        {"type": "response.in_progress", "response": _response("in_progress")},
        *body,
        {
            "type": f"response.{terminal}",
            "response": _response(terminal, usage=USAGE, **more),
        },
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _item(item: Event, *body: Event, **final: Any) -> list[Event]:
    """The events of one item around those of its content."""
    place = {"item_id": item["id"], "output_index": 0}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({**place, **event, "type": f"response.{event['type']}"} for event in body),
        {"type": "response.output_item.done", "output_index": 0, "item": {**item, **final}},
    ]


def _part(part: Event, field: str, family: str, *more: Event) -> list[Event]:
    """The events of one content part."""
    index = {"content_index": 0}
    logprobs: Event = {"logprobs": []} if part["type"] == "output_text" else {}
    return [
        {"type": "content_part.added", **index, "part": {**part, field: ""}},
        {"type": f"{family}.delta", **index, "delta": part[field], **logprobs},
        *more,
        {"type": f"{family}.done", **index, field: part[field], **logprobs},
        {"type": "content_part.done", **index, "part": part},
    ]


def _summary() -> list[Event]:
    index = {"summary_index": 0}
    part = {"type": "summary_text", "text": FILLER}
    return [
        {"type": "reasoning_summary_part.added", **index, "part": {**part, "text": ""}},
        {"type": "reasoning_summary_text.delta", **index, "delta": FILLER},
        {"type": "reasoning_summary_text.done", **index, "text": FILLER},
        {"type": "reasoning_summary_part.done", **index, "part": part},
    ]


_TEXT = {"type": "output_text", "text": FILLER, "annotations": [], "logprobs": []}
_REFUSAL = {"type": "refusal", "refusal": FILLER}
_THOUGHT = {"type": "reasoning_text", "text": FILLER}
_OUTPUT_MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
_REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
_CITATION = {
    "type": "url_citation",
    "url": "https://example.com/",
    "title": FILLER,
    "start_index": 0,
    "end_index": 3,
}
_CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": FILLER,
    "name": FILLER,
    "arguments": "",
    "status": "in_progress",
}
_CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": FILLER, "name": FILLER}


def _hosted(item: Event, *kinds: str | Event) -> list[Event]:
    body = [{"type": kind} if isinstance(kind, str) else kind for kind in kinds]
    return _responses(*_item({"status": "in_progress", **item}, *body, status="completed"))


_ERROR = {"code": "server_error", "message": FILLER}
_SHELL_OUTPUT = {"stdout": FILLER, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}

_RESPONSES_STREAMS = (
    _responses(
        *_item(
            _OUTPUT_MESSAGE,
            *_part(
                _TEXT,
                "text",
                "output_text",
                {
                    "type": "output_text.annotation.added",
                    "content_index": 0,
                    "annotation_index": 0,
                    "annotation": _CITATION,
                },
            ),
            content=[_TEXT],
        )
    ),
    _responses(*_item(_OUTPUT_MESSAGE, *_part(_REFUSAL, "refusal", "refusal"), content=[_REFUSAL])),
    _responses(*_item(_REASONING, *_summary(), summary=[{"type": "summary_text", "text": FILLER}])),
    _responses(*_item(_REASONING, *_part(_THOUGHT, "text", "reasoning_text"), content=[_THOUGHT])),
    _responses(
        *_item(
            _CALL,
            {"type": "function_call_arguments.delta", "delta": "{}"},
            {"type": "function_call_arguments.done", "arguments": "{}"},
            arguments="{}",
            status="completed",
        )
    ),
    _responses(
        *_item(
            {**_CUSTOM, "input": ""},
            {"type": "custom_tool_call_input.delta", "delta": FILLER},
            {"type": "custom_tool_call_input.done", "input": FILLER},
            input=FILLER,
        )
    ),
    _responses(terminal="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    _responses(terminal="failed", error=_ERROR),
    _hosted(
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "name": FILLER,
            "server_label": FILLER,
            "arguments": "",
        },
        "mcp_call.in_progress",
        {"type": "mcp_call_arguments.delta", "delta": "{}"},
        {"type": "mcp_call_arguments.done", "arguments": "{}"},
        "mcp_call.completed",
        "mcp_call.failed",
    ),
    _hosted(
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": FILLER, "tools": []},
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "mcp_list_tools.failed",
    ),
    _hosted(
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": FILLER}},
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
    ),
    _hosted(
        {"type": "file_search_call", "id": "fs_1", "queries": [FILLER]},
        "file_search_call.in_progress",
        "file_search_call.searching",
        "file_search_call.completed",
    ),
    _hosted(
        {"type": "code_interpreter_call", "id": "ci_1", "container_id": FILLER, "code": ""},
        "code_interpreter_call.in_progress",
        {"type": "code_interpreter_call_code.delta", "delta": FILLER},
        {"type": "code_interpreter_call_code.done", "code": FILLER},
        "code_interpreter_call.interpreting",
        "code_interpreter_call.completed",
    ),
    _hosted(
        {"type": "image_generation_call", "id": "ig_1", "result": None},
        "image_generation_call.in_progress",
        "image_generation_call.generating",
        {
            "type": "image_generation_call.partial_image",
            "partial_image_index": 0,
            "partial_image_b64": FILLER,
        },
        "image_generation_call.completed",
    ),
    _hosted(
        {"type": "shell_call", "id": "sh_1", "call_id": FILLER, "action": {"commands": []}},
        {"type": "shell_call_command.added", "command_index": 0, "command": ""},
        {"type": "shell_call_command.delta", "command_index": 0, "delta": FILLER},
        {"type": "shell_call_command.done", "command_index": 0, "command": FILLER},
    ),
    _hosted(
        {"type": "shell_call_output", "id": "sho_1", "call_id": FILLER, "output": []},
        {
            "type": "shell_call_output_content.delta",
            "command_index": 0,
            "delta": {"stdout": FILLER},
        },
        {
            "type": "shell_call_output_content.done",
            "command_index": 0,
            "output": [_SHELL_OUTPUT],
        },
    ),
    _hosted(
        {"type": "compaction", "id": "cmp_1", "encrypted_content": FILLER},
        "compaction.compacting",
    ),
)

_EMPTIED = {"content": [], "summary": [], "arguments": "", "input": ""}


def responses_stream(event: Event, name: str | None) -> bytes:
    """A Responses stream with the given event in it."""
    kind = event["type"]
    if kind in ("response.output_item.added", "response.output_item.done") and name == "item":
        return _named(_whole_item(kind, event))
    return _named(_place(_RESPONSES_STREAMS, event, name))


def _whole_item(kind: str, event: Event) -> list[Event]:
    """A stream of one item that comes without any event for its content."""
    item = event.get("item")
    if not isinstance(item, dict):
        return _responses({**event, "output_index": 0})
    head = {name: _EMPTIED.get(name, value) for name, value in item.items()}
    added = item if kind.endswith("added") else head
    return _responses(
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    )
