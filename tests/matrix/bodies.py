"""Native requests of the four protocols for the same wish, written by hand per protocol so that
the tests share nothing with the code they judge.
"""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any

from tests.matrix.google import blob, next_google
from tests.matrix.judges import Api, Seen

WEATHER_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PERSON_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def png() -> str:
    """A 1x1 PNG, base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b"")).decode()


def pdf() -> str:
    """A minimal PDF, base64."""
    return base64.b64encode(
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
    ).decode()


@dataclass(frozen=True)
class Wish:
    """What a client wants, to be said in any protocol."""

    prompt: str = "Say something."
    tools: tuple[str, ...] = ()
    custom_tool: bool = False
    required: bool = False
    thinking: bool = False
    schema: bool = False
    stop: str | None = None
    max_tokens: int = 4096
    image: bool = False
    document: bool = False
    system: str | None = "You are a test."


def body(api: Api, model: str, wish: Wish) -> dict[str, Any]:
    """The native request body of a first turn."""
    made = {"chat": _chat, "messages": _messages, "responses": _responses, "google": _google}
    return made[api](model, wish)


def _chat(model: str, wish: Wish) -> dict[str, Any]:
    content: Any = wish.prompt
    if wish.image or wish.document:
        content = [{"type": "text", "text": wish.prompt}]
        if wish.image:
            content.append(
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png()}"}}
            )
        if wish.document:
            data = f"data:application/pdf;base64,{pdf()}"
            content.append({"type": "file", "file": {"file_data": data, "filename": "a.pdf"}})
    made: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "max_completion_tokens": wish.max_tokens,
    }
    if wish.system:
        made["messages"].insert(0, {"role": "system", "content": wish.system})
    if wish.tools:
        made["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": f"{name} of a city",
                    "parameters": WEATHER_SCHEMA,
                },
            }
            for name in wish.tools
        ]
    if wish.custom_tool:
        made.setdefault("tools", []).append(
            {"type": "custom", "custom": {"name": "apply_patch", "description": "Edit files"}}
        )
    if wish.required:
        made["tool_choice"] = "required"
    if wish.thinking:
        made["reasoning_effort"] = "high"
    if wish.schema:
        made["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "person", "schema": PERSON_SCHEMA, "strict": True},
        }
    if wish.stop:
        made["stop"] = [wish.stop]
    return made


def _messages(model: str, wish: Wish) -> dict[str, Any]:
    content: Any = wish.prompt
    if wish.image or wish.document:
        content = [{"type": "text", "text": wish.prompt}]
        if wish.image:
            source = {"type": "base64", "media_type": "image/png", "data": png()}
            content.append({"type": "image", "source": source})
        if wish.document:
            source = {"type": "base64", "media_type": "application/pdf", "data": pdf()}
            content.append({"type": "document", "source": source, "title": "a.pdf"})
    made: dict[str, Any] = {
        "model": model,
        "max_tokens": wish.max_tokens,
        "messages": [{"role": "user", "content": content}],
    }
    if wish.system:
        made["system"] = wish.system
    if wish.tools:
        made["tools"] = [
            {"name": name, "description": f"{name} of a city", "input_schema": WEATHER_SCHEMA}
            for name in wish.tools
        ]
    if wish.required:
        made["tool_choice"] = {"type": "any"}
    if wish.thinking:
        made["thinking"] = {"type": "adaptive", "display": "summarized"}
        made["output_config"] = {"effort": "high"}
    if wish.schema:
        made.setdefault("output_config", {})["format"] = {
            "type": "json_schema",
            "schema": PERSON_SCHEMA,
        }
    if wish.stop:
        made["stop_sequences"] = [wish.stop]
    return made


def _responses(model: str, wish: Wish) -> dict[str, Any]:
    given: Any = wish.prompt
    if wish.image or wish.document:
        content = [{"type": "input_text", "text": wish.prompt}]
        if wish.image:
            url = f"data:image/png;base64,{png()}"
            content.append({"type": "input_image", "image_url": url, "detail": "auto"})
        if wish.document:
            data = f"data:application/pdf;base64,{pdf()}"
            content.append({"type": "input_file", "file_data": data, "filename": "a.pdf"})
        given = [{"role": "user", "content": content}]
    made: dict[str, Any] = {
        "model": model,
        "input": given,
        "max_output_tokens": wish.max_tokens,
        "store": False,
    }
    if wish.system:
        made["instructions"] = wish.system
    if wish.tools:
        made["tools"] = [
            {
                "type": "function",
                "name": name,
                "description": f"{name} of a city",
                "parameters": WEATHER_SCHEMA,
                "strict": False,
            }
            for name in wish.tools
        ]
    if wish.custom_tool:
        made.setdefault("tools", []).append(
            {"type": "custom", "name": "apply_patch", "description": "Edit files"}
        )
    if wish.required:
        made["tool_choice"] = "required"
    if wish.thinking:
        made["reasoning"] = {"effort": "high", "summary": "auto"}
        made["include"] = ["reasoning.encrypted_content"]
    if wish.schema:
        made["text"] = {
            "format": {
                "type": "json_schema",
                "name": "person",
                "schema": PERSON_SCHEMA,
                "strict": True,
            }
        }
    return made


def _google(model: str, wish: Wish) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": wish.prompt}]
    if wish.image:
        parts.append(blob("image/png", png()))
    if wish.document:
        parts.append(blob("application/pdf", pdf()))
    settings: dict[str, Any] = {"maxOutputTokens": wish.max_tokens}
    made: dict[str, Any] = {
        "model": model,
        "contents": [{"role": "user", "parts": parts}],
        "generationConfig": settings,
    }
    if wish.system:
        made["systemInstruction"] = {"role": "user", "parts": [{"text": wish.system}]}
    if wish.tools:
        declared = [
            {
                "name": name,
                "description": f"{name} of a city",
                "parametersJsonSchema": WEATHER_SCHEMA,
            }
            for name in wish.tools
        ]
        made["tools"] = [{"functionDeclarations": declared}]
    if wish.required:
        made["toolConfig"] = {"functionCallingConfig": {"mode": "ANY"}}
    if wish.thinking:
        settings["thinkingConfig"] = {"includeThoughts": True, "thinkingLevel": "HIGH"}
    if wish.schema:
        settings["responseMimeType"] = "application/json"
        settings["responseJsonSchema"] = PERSON_SCHEMA
    if wish.stop:
        settings["stopSequences"] = [wish.stop]
    return made


@dataclass(frozen=True)
class Result:
    """What running a tool gave: text, and optionally an image beside it."""

    call_id: str
    text: str
    image: bool = False
    custom: bool = False


def next_turn(
    api: Api, first: dict[str, Any], seen: Seen, results: tuple[Result, ...], say: str = ""
) -> dict[str, Any]:
    """The native request of the turn after an answer: history, tool results, more user text."""
    if api == "google":
        given = [(one.call_id, one.text, png() if one.image else None) for one in results]
        return next_google(first, prune(seen.final), given, say)
    return {"chat": _next_chat, "messages": _next_messages, "responses": _next_responses}[api](
        prune(first), prune(seen.final), results, say
    )


def _next_chat(
    first: dict[str, Any], final: dict[str, Any], results: tuple[Result, ...], say: str
) -> dict[str, Any]:
    answer = {
        key: value
        for key, value in final["choices"][0]["message"].items()
        if key in ("role", "content", "tool_calls", "reasoning_content", "refusal")
    }
    for call in answer.get("tool_calls", ()):
        for extra in ("index", "parsed_arguments"):
            call.pop(extra, None)
            call.get("function", {}).pop(extra, None)
    messages = [*first["messages"], answer]
    for result in results:
        content: Any = result.text
        if result.image:
            # Chat's own tool messages carry text only; its clients send the picture as a user.
            content = [{"type": "text", "text": result.text}]
        messages.append({"role": "tool", "tool_call_id": result.call_id, "content": content})
    for result in results:
        if result.image:
            url = f"data:image/png;base64,{png()}"
            messages.append(
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
            )
    if say:
        messages.append({"role": "user", "content": say})
    return {**first, "messages": messages}


def _next_messages(
    first: dict[str, Any], final: dict[str, Any], results: tuple[Result, ...], say: str
) -> dict[str, Any]:
    for block in final["content"]:
        for extra in ("citations", "parsed_output"):
            block.pop(extra, None)
    content: list[dict[str, Any]] = []
    for result in results:
        parts: list[dict[str, Any]] = [{"type": "text", "text": result.text}]
        if result.image:
            source = {"type": "base64", "media_type": "image/png", "data": png()}
            parts.append({"type": "image", "source": source})
        content.append({"type": "tool_result", "tool_use_id": result.call_id, "content": parts})
    if say:
        content.append({"type": "text", "text": say})
    turns = [
        *first["messages"],
        {"role": "assistant", "content": final["content"]},
        {"role": "user", "content": content},
    ]
    return {**first, "messages": turns}


def _next_responses(
    first: dict[str, Any], final: dict[str, Any], results: tuple[Result, ...], say: str
) -> dict[str, Any]:
    given = first["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    for item in final["output"]:
        item.pop("parsed_arguments", None)
        for part in item.get("content", ()):
            part.pop("parsed", None)
        items.append(item)
    for result in results:
        kind = "custom_tool_call_output" if result.custom else "function_call_output"
        output: Any = result.text
        if result.image:
            url = f"data:image/png;base64,{png()}"
            output = [
                {"type": "input_text", "text": result.text},
                {"type": "input_image", "image_url": url, "detail": "auto"},
            ]
        items.append({"type": kind, "call_id": result.call_id, "output": output})
    if say:
        items.append({"role": "user", "content": say})
    return {**first, "input": items}


def prune(value: Any) -> Any:
    """A copy without nulls, as clients send what they were given."""
    if isinstance(value, dict):
        return {key: prune(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [prune(item) for item in value]
    return value


def with_prompt(wish: Wish, prompt: str) -> Wish:
    """The same wish with another prompt."""
    return replace(wish, prompt=prompt)
