"""An upstream of all three protocols whose every byte a test decides, one behaviour per key."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from tests.upstream.servers import Call, Handler, Server, chunk

SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"


GENERATES = (":generateContent", ":streamGenerateContent")
"""How paths end that name a model of Google's."""


def api_of(call: Call) -> str:
    path = call.target.partition("?")[0]
    names = {"completions": "chat", "messages": "messages", "responses": "responses"}
    return "google" if path.endswith(GENERATES) else names[path.rpartition("/")[2]]


def key_of(call: Call) -> str:
    headers = dict(call.headers)
    own = headers.get("x-api-key") or headers.get("x-goog-api-key")
    return own or headers.get("authorization", "").removeprefix("Bearer ")


def is_streamed(call: Call) -> bool:
    return ":stream" in call.target or json.loads(call.body).get("stream") is True


def answer(
    body: bytes, status: int = 200, *lines: str, content_type: str = "application/json"
) -> bytes:
    """A whole answer."""
    own = [f"content-type: {content_type}", f"content-length: {len(body)}", *lines]
    return "\r\n".join([f"HTTP/1.1 {status} X", *own, "", ""]).encode() + body


def event(value: Any) -> bytes:
    """One event as the vendors write it."""
    if isinstance(value, bytes):
        return b"data: " + value + b"\n\n"
    name = f"event: {value['type']}\n" if "type" in value else ""
    return f"{name}data: {json.dumps(value)}\n\n".encode()


def events(api: str, *texts: str) -> list[bytes]:
    """The events of an answer that says `texts`, one delta each."""
    return [event(value) for value in _EVENTS[api](texts)]


def streamed(parts: list[bytes], end: bytes = LAST_CHUNK) -> bytes:
    """A streamed answer of these parts, each a chunk of its own."""
    return SSE_HEAD + b"".join(map(chunk, parts)) + end


def whole(api: str, text: str) -> bytes:
    """The body of a whole answer."""
    return json.dumps(_WHOLE[api](text)).encode()


async def good(call: Call) -> None:
    """A handler that says "Good"."""
    api = api_of(call)
    if is_streamed(call):
        await call.send(streamed(events(api, "Go", "od")))
    else:
        await call.send(answer(whole(api, "Good")))


def _chat_chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def _chat_events(texts: tuple[str, ...]) -> list[Any]:
    start = _chat_chunk({"role": "assistant", "content": ""})
    deltas = [_chat_chunk({"content": text}) for text in texts]
    return [start, *deltas, _chat_chunk({}, "stop"), b"[DONE]"]


def _chat(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _message(content: list[Any], stop: str | None) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _messages_events(texts: tuple[str, ...]) -> list[Any]:
    block = {"type": "text", "text": ""}
    deltas = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": text},
        }
        for text in texts
    ]
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": _message([], None)},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]


def _response(status: str, output: list[Any]) -> dict[str, Any]:
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "m",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "usage": usage if status == "completed" else None,
    }


def _item(text: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _responses_events(texts: tuple[str, ...]) -> list[Any]:
    item = _item("".join(texts))
    part = item["content"][0]
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    begun: dict[str, Any] = {**item, "status": "in_progress", "content": []}
    deltas = [{"type": "response.output_text.delta", **at, "delta": text} for text in texts]
    values: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response("in_progress", [])},
        {"type": "response.in_progress", "response": _response("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *deltas,
        {"type": "response.output_text.done", **at, "text": part["text"]},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": _response("completed", [item])},
    ]
    return [{**value, "sequence_number": number} for number, value in enumerate(values)]


_EVENTS: dict[str, Callable[[tuple[str, ...]], list[Any]]] = {
    "chat": _chat_events,
    "messages": _messages_events,
    "responses": _responses_events,
}
_WHOLE: dict[str, Callable[[str], dict[str, Any]]] = {
    "chat": _chat,
    "messages": lambda text: _message([{"type": "text", "text": text}], "end_turn"),
    "responses": lambda text: _response("completed", [_item(text)]),
}


class Upstream:
    """A server in a thread. `behaviours` has the handler of each key, `good` for all others."""

    def __init__(self) -> None:
        self.behaviours: dict[str, Handler] = {}
        self.loop = asyncio.new_event_loop()
        self.server = Server(self._handle)

    async def _handle(self, call: Call) -> None:
        await self.behaviours.get(key_of(call), good)(call)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def calls(self) -> list[Call]:
        """What came so far; the loop of the server appends to it."""
        return self.server.calls

    def asked(self, keys: Collection[str] = ()) -> list[str]:
        """The keys of the calls that came, in order; of these alone where some are given."""
        asked = [key_of(call) for call in self.server.calls]
        return [key for key in asked if key in keys] if keys else asked


@contextmanager
def running_upstream() -> Iterator[Upstream]:
    """Serve while the context lasts."""
    upstream = Upstream()
    thread = threading.Thread(target=upstream.loop.run_forever, daemon=True)
    thread.start()

    def run(work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, upstream.loop).result(10)

    run(upstream.server.__aenter__())
    try:
        yield upstream
    finally:
        run(upstream.server.__aexit__())
        upstream.loop.call_soon_threadsafe(upstream.loop.stop)
        thread.join(10)
        upstream.loop.close()
