"""Reading an Anthropic Messages request."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from dragoman.lab.simulator.reading.conversation import (
    Conversation,
    Where,
    json_schema,
    media_from_bytes,
    media_from_text,
    text_parts,
)
from dragoman.lab.simulator.seals import open_redacted
from dragoman.lab.simulator.view import JsonObject, Media, OfferedTool, View

_CHOICES: dict[str, Literal["auto", "none", "required"]] = {
    "auto": "auto",
    "none": "none",
    "any": "required",
    "tool": "required",
}


def read(request: JsonObject, organization: str) -> View:
    """The view of a validated Messages request."""
    seen = Conversation()
    if (system := request.get("system")) is not None:
        seen.add_system_text(text_parts(system))
    for message in request["messages"]:
        seen.messages += 1
        if message["role"] == "user":
            _read_user(seen, message["content"])
        elif message["role"] == "system":
            seen.add_system_text(text_parts(message["content"]))
        else:
            _read_assistant(seen, message["content"], organization)
    choice = request.get("tool_choice") or {"type": "auto"}
    tools = _tools(request)
    thinking = request.get("thinking") or {"type": "disabled"}
    output = request.get("output_config") or {}
    output_format = output.get("format") or request.get("output_format")
    return View(
        protocol="messages",
        model=request["model"],
        stream=bool(request.get("stream")),
        user_text=seen.user_text,
        system_text="\n\n".join(seen.system),
        tools=tools,
        hosted=_hosted(request),
        tool_choice=_CHOICES[choice["type"]] if tools else "none",
        forced=choice.get("name"),
        parallel=not choice.get("disable_parallel_tool_use"),
        results=tuple(seen.results),
        rounds=seen.rounds,
        turns=seen.turns,
        media=tuple(seen.media),
        schema=None if output_format is None else output_format["schema"],
        stop_sequences=tuple(request.get("stop_sequences") or ()),
        max_tokens=request.get("max_tokens"),
        reasoning_asked=thinking["type"] in ("enabled", "adaptive"),
        thinking=thinking["type"] in ("enabled", "adaptive"),
        thinking_hidden=thinking.get("display") in ("omitted", "updates"),
        returned=tuple(seen.returned),
        logprobs=None,
        choices=1,
        include_usage=True,
        prompt_tokens=seen.prompt_tokens(request.get("tools") or ()),
        request=request,
    )


def _read_user(seen: Conversation, content: str | Sequence[JsonObject]) -> None:
    if isinstance(content, str):
        seen.add_user_text(content)
        return
    new_round = True
    for block in content:
        if block["type"] == "tool_result":
            inner = block.get("content") or ""
            if not isinstance(inner, str):
                _read_media(seen, inner, "tool_result")
            seen.add_result(block["tool_use_id"], _result_text(inner), new_round=new_round)
            new_round = False
    _read_media(seen, content, "user")
    seen.add_user_text(text_parts(content))


def _result_text(content: str | Sequence[JsonObject]) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for block in content:
        if block["type"] == "text":
            texts.append(block["text"])
        elif block["type"] == "search_result":
            texts.append(text_parts(block["content"]))
        elif block["type"] == "tool_reference":
            texts.append(block["tool_name"])
    return "".join(texts)


def _read_media(seen: Conversation, blocks: Sequence[JsonObject], where: Where) -> None:
    for block in blocks:
        if block["type"] == "image":
            seen.media.append(_image(block["source"], where))
        elif block["type"] == "document":
            _read_document(seen, block, where)
        elif block["type"] == "search_result":
            seen.add_other(text_parts(block["content"]))


def _image(source: JsonObject, where: Where) -> Media:
    if source["type"] == "base64":
        return media_from_bytes("image", source["media_type"], source["data"], where)
    kind: Literal["url", "file"] = "url" if source["type"] == "url" else "file"
    return Media("image", kind, None, None, None, where)


def _read_document(seen: Conversation, block: JsonObject, where: Where) -> None:
    source, title = block["source"], block.get("title")
    match source["type"]:
        case "base64":
            media = media_from_bytes("document", source["media_type"], source["data"], where, title)
        case "text":
            media = media_from_text(source["data"], source["media_type"], where, title)
        case "content":
            inner = source["content"]
            if not isinstance(inner, str):
                _read_media(seen, inner, where)
            media = media_from_text(text_parts(inner), "text/plain", where, title)
        case kind:
            reference: Literal["url", "file"] = "url" if kind == "url" else "file"
            media = Media("document", reference, None, None, None, where, title)
    seen.media.append(media)


def _read_assistant(
    seen: Conversation, content: str | Sequence[JsonObject], organization: str
) -> None:
    seen.add_assistant_turn()
    if isinstance(content, str):
        seen.add_other(content)
        return
    for block in content:
        match block["type"]:
            case "text":
                seen.add_other(block["text"])
            case "tool_use":
                seen.add_other(block["name"])
                seen.characters += len(msgspec.json.encode(block["input"]))
            case "thinking":
                seen.add_other(block["thinking"])
                seen.returned.append(block["thinking"])
            case "redacted_thinking":
                text = open_redacted(block["data"], organization)
                seen.returned.append(text or "")


def _tools(request: JsonObject) -> tuple[OfferedTool, ...]:
    tools: list[Any] = request.get("tools") or []
    return tuple(
        OfferedTool(tool["name"], "function", json_schema(tool["input_schema"]))
        for tool in tools
        if tool.get("type") in (None, "custom")
    )


def _hosted(request: JsonObject) -> tuple[str, ...]:
    """The types of Anthropic's own tools, without their dates."""
    types = (tool.get("type") for tool in request.get("tools") or ())
    return tuple(kind.partition("_20")[0] for kind in types if kind not in (None, "custom"))
