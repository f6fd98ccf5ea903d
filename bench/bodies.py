"""Requests that the load client sends, in the four protocols."""

import base64
import json
from typing import Any

_GOOGLE = "google_generate_content"
_TOOLS = 18
TURNS = 22
"""Turns of a session whose request has 120 KB."""


def small(protocol: str, model: str, *, stream: bool, pace: str = "", **more: Any) -> bytes:
    """A short question; ``pace`` tells the load upstream how to answer."""
    text = "Say a few words about the sea. " * 4 + pace
    return _body(protocol, model, [("user", text)], stream=stream, **more)


def turn(protocol: str, model: str, conversation: int) -> bytes:
    """A later turn of a short conversation; each number begins differently."""
    said = [
        ("user", f"This is number {conversation}. " + "Say a few words about the sea. " * 2),
        ("assistant", "It is wide, and salty."),
        ("user", "And of its fish?"),
    ]
    return _body(protocol, model, said, stream=False)


def embeddings(model: str) -> bytes:
    """A request for one vector, as OpenAI's SDKs make it."""
    text = "Say a few words about the sea. " * 4
    return json.dumps({"input": text, "model": model, "encoding_format": "base64"}).encode()


def image(protocol: str, model: str, size: int) -> bytes:
    """A question with one picture of about ``size`` bytes in base64."""
    picture = b"\x89PNG\r\n\x1a\n" + bytes(max(0, size * 3 // 4 - 8))
    encoded = base64.b64encode(picture).decode()
    url = f"data:image/png;base64,{encoded}"
    question = "What is in this picture?"
    parts: list[dict[str, Any]]
    if protocol == "openai_chat":
        parts = [
            {"type": "text", "text": question},
            {"type": "image_url", "image_url": {"url": url}},
        ]
    elif protocol == "anthropic_messages":
        source = {"type": "base64", "media_type": "image/png", "data": encoded}
        parts = [{"type": "text", "text": question}, {"type": "image", "source": source}]
    elif protocol == _GOOGLE:
        blob = {"mimeType": "image/png", "data": encoded}
        parts = [{"text": question}, {"inlineData": blob}]
    else:
        parts = [
            {"type": "input_text", "text": question},
            {"type": "input_image", "image_url": url, "detail": "auto"},
        ]
    return _body(protocol, model, [("user", parts)], stream=False)


def agent(protocol: str, model: str, count: int = TURNS, **fields: Any) -> bytes:
    """What a coding agent sends deep in a session: about 120 KB of instructions, tools, turns, or
    more with more turns."""
    system = "You are a careful engineer. Read before you write, and test what you change. " * 100
    tools = [_tool(protocol, number) for number in range(_TOOLS)]
    turns: list[Any] = [("user", "Please find out why the test fails and mend it.")]
    for number in range(count):
        turns.extend(_tool_turn(protocol, number))
    more: dict[str, Any] = {"tools": tools, **fields}
    if protocol == "openai_chat":
        turns.insert(0, ("system", system))
    elif protocol == "anthropic_messages":
        more["system"] = system
    elif protocol == _GOOGLE:
        more["systemInstruction"] = {"parts": [{"text": system}]}
        more["tools"] = [{"functionDeclarations": tools}]
    else:
        more["instructions"] = system
    return _body(protocol, model, turns, stream=False, **more)


def _body(protocol: str, model: str, turns: list[Any], *, stream: bool, **more: Any) -> bytes:
    if protocol == _GOOGLE:
        return _google_body(turns, **more)
    said = [
        {"role": turn[0], "content": turn[1]} if isinstance(turn, tuple) else turn for turn in turns
    ]
    body: dict[str, Any] = {"model": model}
    if protocol == "openai_responses":
        body |= {"input": said, "max_output_tokens": 512, "store": False}
    else:
        body |= {"messages": said, "max_tokens": 512}
    body |= more
    if stream:
        body["stream"] = True
        if protocol == "openai_chat":
            body["stream_options"] = {"include_usage": True}
    return json.dumps(body).encode()


def _google_body(turns: list[Any], **more: Any) -> bytes:
    """Model and streaming are in the path."""
    contents = []
    for turn in turns:
        if isinstance(turn, tuple):
            role, said = turn
            parts = [{"text": said}] if isinstance(said, str) else said
            turn = {"role": "model" if role == "assistant" else role, "parts": parts}
        contents.append(turn)
    settings = {"maxOutputTokens": 512}
    return json.dumps({"contents": contents, "generationConfig": settings, **more}).encode()


def _tool(protocol: str, number: int) -> dict[str, Any]:
    name = f"tool_{number}"
    description = f"Does the job number {number} on files of the project. " * 8
    schema = {
        "type": "object",
        "properties": {
            field: {"type": "string", "description": f"What {field} the tool works on. " * 3}
            for field in ("path", "pattern", "replacement", "encoding")
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    if protocol == "openai_chat":
        function = {"name": name, "description": description, "parameters": schema}
        return {"type": "function", "function": function}
    if protocol == "anthropic_messages":
        return {"name": name, "description": description, "input_schema": schema}
    if protocol == _GOOGLE:
        return {"name": name, "description": description, "parametersJsonSchema": schema}
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": schema,
        "strict": False,
    }


def _tool_turn(protocol: str, number: int) -> list[dict[str, Any]]:
    call, name = f"call_{number}", f"tool_{number % _TOOLS}"
    arguments = {"path": f"src/module_{number}.py", "pattern": "def handler(" * 8}
    said = "Let me look at the next file, and see who calls it. " * 3
    result = f"{number}: def handler(event, context): return event['detail']  # line\n" * 45
    if protocol == "openai_chat":
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": call, "type": "function", "function": function}]
        return [
            {"role": "assistant", "content": said, "tool_calls": calls},
            {"role": "tool", "tool_call_id": call, "content": result},
        ]
    if protocol == "anthropic_messages":
        use = {"type": "tool_use", "id": call, "name": name, "input": arguments}
        answer = {"type": "tool_result", "tool_use_id": call, "content": result}
        return [
            {"role": "assistant", "content": [{"type": "text", "text": said}, use]},
            {"role": "user", "content": [answer]},
        ]
    if protocol == _GOOGLE:
        parts = [{"text": said}, {"functionCall": {"id": call, "name": name, "args": arguments}}]
        response = {"id": call, "name": name, "response": {"output": result}}
        return [
            {"role": "model", "parts": parts},
            {"role": "user", "parts": [{"functionResponse": response}]},
        ]
    return [
        {"role": "assistant", "content": said},
        {
            "type": "function_call",
            "call_id": call,
            "name": name,
            "arguments": json.dumps(arguments),
        },
        {"type": "function_call_output", "call_id": call, "output": result},
    ]
