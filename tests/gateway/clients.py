"""The three clients: how each asks, what each reads, and where its errors stand."""

from __future__ import annotations

from typing import Any

from tests.gateway.http import Answer, events

PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}
APIS = tuple(PATHS)


def body(api: str, model: str, text: str = "Hello", **more: Any) -> dict[str, Any]:
    """A request of the client's own protocol."""
    if api == "responses":
        return {"model": model, "input": text, **more}
    made: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    if api == "messages":
        made.setdefault("max_tokens", 500)
    return made


def text_of(api: str, answer: Answer) -> str:
    """The text of a whole answer."""
    value = answer.json
    if api == "chat":
        return str(value["choices"][0]["message"]["content"])
    if api == "messages":
        return "".join(block["text"] for block in value["content"] if block["type"] == "text")
    return "".join(
        part["text"]
        for item in value["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


def streamed_text(api: str, stream: bytes) -> str:
    """The text of a streamed answer."""
    told = []
    for _, data in events(stream):
        if data == "[DONE]":
            continue
        if api == "chat":
            told += [choice["delta"].get("content") or "" for choice in data.get("choices", ())]
        elif api == "messages":
            if data["type"] == "content_block_delta":
                told.append(data["delta"].get("text", ""))
        elif data["type"] == "response.output_text.delta":
            told.append(data["delta"])
    return "".join(told)


def completed(api: str, stream: bytes) -> bool:
    """Whether a stream ended as a good answer does."""
    found = events(stream)
    if api == "chat":
        finished = any(
            choice.get("finish_reason")
            for _, data in found
            if data != "[DONE]"
            for choice in data.get("choices", ())
        )
        return finished and found[-1][1] == "[DONE]"
    return bool(found) and found[-1][0] in ("message_stop", "response.completed")


def stream_error(api: str, stream: bytes) -> dict[str, Any] | None:
    """The error in a stream, None if there is none."""
    for name, data in events(stream):
        if data == "[DONE]":
            continue
        if api == "responses" and name == "response.failed":
            return dict(data["response"]["error"])
        if data.get("error"):
            return dict(data["error"])
    return None


def error_of(api: str, answer: Answer) -> dict[str, Any]:
    """The error object of an error answer, its envelope checked."""
    value = answer.json
    if api == "messages":
        assert value["type"] == "error"
        assert value["request_id"] == answer.headers["request-id"]
    else:
        assert value["error"].keys() >= {"message", "type", "param", "code"}
    error: dict[str, Any] = value["error"]
    assert error["message"]
    assert error["type"]
    return error
