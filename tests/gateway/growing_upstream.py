"""An upstream whose streams grow without end: text, reasoning, a tool's arguments, or items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.small_servers import Handler, handling

NOTHING = "nothing"
"""Events of a Responses stream that say nothing of an answer."""

KINDS = ("text", "reasoning", "arguments", "items")
FILLER = "x" * 4096


def _chat(kind: str, index: int) -> list[dict[str, Any]]:
    delta: dict[str, Any] = {"content": FILLER}
    if kind == "reasoning":
        delta = {"reasoning_content": FILLER}
    elif kind == "arguments":
        call = {"index": 0, "function": {"arguments": FILLER if index else '{"a": "'}}
        if not index:
            call |= {"id": "call_1", "type": "function"}
            call["function"]["name"] = "look"  # type: ignore[index]
        delta = {"tool_calls": [call]}
    elif kind == "items":
        function = {"name": "look", "arguments": json.dumps({"a": FILLER})}
        call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        delta = {"tool_calls": [call]}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return [{"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}]


def _messages(kind: str, index: int) -> list[dict[str, Any]]:
    blocks: dict[str, dict[str, Any]] = {
        "text": {"type": "text", "text": ""},
        "reasoning": {"type": "thinking", "thinking": "", "signature": ""},
        "arguments": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
        "items": {"type": "tool_use", "id": f"toolu_{index}", "name": "look", "input": {}},
    }
    deltas: dict[str, dict[str, Any]] = {
        "text": {"type": "text_delta", "text": FILLER},
        "reasoning": {"type": "thinking_delta", "thinking": FILLER},
        "arguments": {
            "type": "input_json_delta",
            "partial_json": FILLER if index else '{"a": "',
        },
        "items": {"type": "input_json_delta", "partial_json": json.dumps({"a": FILLER})},
    }
    made: list[dict[str, Any]] = []
    at = index if kind == "items" else 0
    if not index:
        usage = {"input_tokens": 1, "output_tokens": 1}
        message: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        made.append({"type": "message_start", "message": message})
    if not index or kind == "items":
        made.append({"type": "content_block_start", "index": at, "content_block": blocks[kind]})
    made.append({"type": "content_block_delta", "index": at, "delta": deltas[kind]})
    if kind == "items":
        made.append({"type": "content_block_stop", "index": at})
    return made


def _responses(kind: str, index: int) -> list[dict[str, Any]]:
    at = index if kind == "items" else 0
    call = {
        "type": "function_call",
        "id": f"fc_{at}",
        "call_id": f"call_{at}",
        "name": "look",
        "arguments": "",
        "status": "in_progress",
    }
    items: dict[str, dict[str, Any]] = {
        "text": {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [],
            "status": "in_progress",
        },
        "reasoning": {"type": "reasoning", "id": "rs_1", "summary": [], "content": []},
        "arguments": call,
        "items": call,
    }
    said = "output_text" if kind == "text" else "reasoning_text"
    made: list[dict[str, Any]] = []
    if kind == NOTHING:
        told = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
        return [{"type": "response.in_progress", "response": {**told, "instructions": FILLER}}]
    if not index:
        response = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "status": "in_progress",
            "output": [],
        }
        made.append({"type": "response.created", "response": response})
    place = {"item_id": items[kind]["id"], "output_index": at}
    if not index or kind == "items":
        added = {"type": "response.output_item.added", "output_index": at, "item": items[kind]}
        made.append(added)
        if kind in ("text", "reasoning"):
            part: dict[str, Any] = {"type": said, "text": ""} | (
                {"annotations": []} if kind == "text" else {}
            )
            made.append(
                {"type": "response.content_part.added", "content_index": 0, "part": part} | place
            )
    if kind in ("text", "reasoning"):
        made.append({"type": f"response.{said}.delta", "content_index": 0, "delta": FILLER} | place)
        return made
    whole = json.dumps({"a": FILLER})
    arguments = "response.function_call_arguments"
    piece = whole if kind == "items" else FILLER if index else '{"a": "'
    made.append({"type": f"{arguments}.delta", "delta": piece} | place)
    if kind == "items":
        done = {**call, "arguments": whole, "status": "completed"}
        made.append({"type": f"{arguments}.done", "arguments": whole} | place)
        made.append({"type": "response.output_item.done", "output_index": at, "item": done})
    return made


_PIECES = {"completions": _chat, "messages": _messages, "responses": _responses}


def _end(api: str, kind: str) -> list[dict[str, Any]]:
    if api == "completions":
        reason = "stop" if kind in ("text", "reasoning") else "tool_calls"
        choice = {"index": 0, "delta": {}, "finish_reason": reason}
        return [{"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}]
    if api == "messages":
        reason = "end_turn" if kind in ("text", "reasoning") else "tool_use"
        stop = {"stop_reason": reason, "stop_sequence": None}
        stopped = {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 2}}
        closed = [{"type": "content_block_stop", "index": 0}] if kind != "items" else []
        return [*closed, stopped, {"type": "message_stop"}]
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [],
    }
    return [{"type": "response.completed", "response": response}]


def _written(events: list[dict[str, Any]]) -> bytes:
    made = ""
    for event in events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        made += f"{name}data: {json.dumps(event)}\n\n"
    return made.encode()


class Growing:
    """What streams are made of, and how large: settings of the upstream that `growing` serves."""

    def __init__(self) -> None:
        self.url = ""
        self.kind = "text"
        self.size = 0
        """Bytes after which a stream ends."""
        self.sent = 0
        """Bytes of the last stream that were taken."""


@contextmanager
def growing() -> Iterator[Growing]:
    """Serve on loopback, in a thread."""
    settings = Growing()

    class Own(Handler):
        def post(self) -> None:
            self.taken()
            api = self.path.rsplit("/", 1)[-1]
            make = _PIECES[api]
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            settings.sent = index = 0
            again = _written(make(settings.kind, 1)) if settings.kind != "items" else b""
            try:
                while settings.sent < settings.size:
                    written = again if index and again else _written(make(settings.kind, index))
                    self.wfile.write(written)
                    settings.sent += len(written)
                    index += 1
                self.wfile.write(_written(_end(api, settings.kind)))
            except OSError:
                pass
            self.close_connection = True

    with handling(Own) as settings.url:
        yield settings
