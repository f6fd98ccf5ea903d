"""Reading a Responses request. ``previous_response_id`` has been resolved before."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from dragoman.lab.simulator.reading.conversation import (
    Conversation,
    Where,
    json_schema,
    media_from_file,
    media_from_url,
    text_parts,
)
from dragoman.lab.simulator.seals import decrypt
from dragoman.lab.simulator.view import JsonObject, Media, OfferedTool, View

_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_CLIENT_TOOLS = ("function", "custom", "namespace")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def read(request: JsonObject, organization: str) -> View:
    """The view of a validated Responses request."""
    seen = Conversation()
    if instructions := request.get("instructions"):
        seen.add_system_text(instructions)
    offered = list(request.get("tools") or ())
    items = request.get("input") or ""
    if isinstance(items, str):
        seen.messages += 1
        seen.add_user_text(items)
        items = []
    after_output = False
    for item in items:
        kind = item.get("type", "message")
        if kind in _OUTPUTS:
            _read_output(seen, item, new_round=not after_output)
        elif kind in ("additional_tools", "tool_search_output"):
            offered.extend(item["tools"])
        else:
            _read_item(seen, kind, item, organization)
        after_output = kind in _OUTPUTS
    tools, choice, forced = _choose(tuple(_tools(offered)), request.get("tool_choice"))
    reasoning = request.get("reasoning") or {}
    wants_logprobs = "message.output_text.logprobs" in (request.get("include") or ())
    return View(
        protocol="responses",
        model=request["model"],
        stream=bool(request.get("stream")),
        user_text=seen.user_text,
        system_text="\n\n".join(seen.system),
        tools=tools,
        hosted=tuple(tool["type"] for tool in offered if tool["type"] not in _CLIENT_TOOLS),
        tool_choice=choice,
        forced=forced,
        parallel=request.get("parallel_tool_calls") is not False,
        results=tuple(seen.results),
        rounds=seen.rounds,
        turns=seen.turns,
        media=tuple(seen.media),
        schema=_schema((request.get("text") or {}).get("format")),
        stop_sequences=(),
        max_tokens=request.get("max_output_tokens"),
        reasoning_asked=reasoning.get("effort") not in (None, "none") or "summary" in reasoning,
        thinking=(reasoning.get("summary") or reasoning.get("generate_summary")) is not None,
        thinking_hidden=False,
        returned=tuple(seen.returned),
        logprobs=(request.get("top_logprobs") or 0) if wants_logprobs else None,
        choices=1,
        include_usage=True,
        prompt_tokens=seen.prompt_tokens(offered),
        request=request,
    )


def _read_item(seen: Conversation, kind: str, item: JsonObject, organization: str) -> None:
    if kind == "message":
        seen.messages += 1
        content = item["content"]
        text = text_parts(content, _TEXTS)
        if item["role"] == "user":
            seen.media.extend(_media(content, "user"))
            seen.add_user_text(text)
        elif item["role"] == "assistant":
            seen.add_assistant_turn()
            seen.add_other(text)
        else:
            seen.add_system_text(text)
    elif kind in ("function_call", "custom_tool_call"):
        seen.add_assistant_turn()
        seen.add_other(item["name"] + (item.get("arguments") or item.get("input") or ""))
    elif kind == "reasoning" and (encrypted := item.get("encrypted_content")):
        opened = decrypt(encrypted, organization)
        seen.returned.append(opened[1] if opened else "")


def _read_output(seen: Conversation, item: JsonObject, *, new_round: bool) -> None:
    output = item["output"]
    seen.media.extend(_media(output, "tool_result"))
    seen.add_result(item["call_id"], text_parts(output, _TEXTS), new_round=new_round)


def _media(content: str | Sequence[JsonObject], where: Where) -> Iterator[Media]:
    for part in () if isinstance(content, str) else content:
        if part["type"] == "input_image":
            if url := part.get("image_url"):
                yield media_from_url("image", url, where)
            else:
                yield Media("image", "file", None, None, None, where)
        elif part["type"] == "input_file":
            name = part.get("filename")
            if data := part.get("file_data"):
                yield media_from_file(data, where, name)
            else:
                source: Literal["url", "file"] = "url" if part.get("file_url") else "file"
                yield Media("document", source, None, None, None, where, name)


def _tools(offered: Iterable[JsonObject], namespace: str | None = None) -> Iterator[OfferedTool]:
    for tool in offered:
        if tool["type"] == "function":
            schema = json_schema(tool.get("parameters"))
            yield OfferedTool(tool["name"], "function", schema, namespace)
        elif tool["type"] == "custom":
            yield OfferedTool(tool["name"], "custom", None, namespace)
        elif tool["type"] == "namespace":
            yield from _tools(tool["tools"], tool["name"])


def _choose(
    tools: tuple[OfferedTool, ...], choice: Any
) -> tuple[tuple[OfferedTool, ...], Literal["auto", "none", "required"], str | None]:
    if choice is None:
        return tools, "auto" if tools else "none", None
    if isinstance(choice, str):
        return tools, choice, None  # type: ignore[return-value]
    if choice["type"] == "allowed_tools":
        names = {tool.get("name") for tool in choice["tools"]}
        return tuple(t for t in tools if t.name in names), choice["mode"], None
    if choice["type"] in ("function", "custom"):
        return tools, "required", choice["name"]
    return tools, "auto", None


def _schema(text_format: JsonObject | None) -> JsonObject | None:
    if text_format is None or text_format["type"] == "text":
        return None
    if text_format["type"] == "json_object":
        return {}
    return dict(text_format["schema"])
