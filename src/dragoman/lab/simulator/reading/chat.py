"""Reading a Chat Completions request."""

from collections.abc import Sequence
from typing import Any, Literal

from dragoman.lab.simulator.reading.conversation import (
    Conversation,
    json_schema,
    media_from_bytes,
    media_from_file,
    media_from_url,
    text_parts,
)
from dragoman.lab.simulator.view import JsonObject, Media, OfferedTool, View


def read(request: JsonObject, organization: str) -> View:
    """The view of a validated Chat request."""
    seen = Conversation()
    after_tool = False
    for message in request["messages"]:
        seen.messages += 1
        role = message["role"]
        content = message.get("content")
        if role == "user":
            _read_user(seen, content)
        elif role in ("system", "developer"):
            seen.add_system_text(text_parts(content))
        elif role == "tool":
            call_id = message["tool_call_id"]
            seen.add_result(call_id, text_parts(content), new_round=not after_tool)
        elif role == "assistant":
            _read_assistant(seen, message)
        after_tool = role == "tool"
    tools, choice, forced = _tools(request)
    limit = request.get("max_completion_tokens")
    return View(
        protocol="chat",
        model=request["model"],
        stream=bool(request.get("stream")),
        user_text=seen.user_text,
        system_text="\n\n".join(seen.system),
        tools=tools,
        hosted=(),
        tool_choice=choice,
        forced=forced,
        parallel=request.get("parallel_tool_calls") is not False,
        results=tuple(seen.results),
        rounds=seen.rounds,
        turns=seen.turns,
        media=tuple(seen.media),
        schema=_schema(request.get("response_format")),
        stop_sequences=_stop(request.get("stop")),
        max_tokens=request.get("max_tokens") if limit is None else limit,
        reasoning_asked=request.get("reasoning_effort") not in (None, "none"),
        thinking=request.get("reasoning_effort") != "none",
        thinking_hidden=False,
        returned=tuple(seen.returned),
        logprobs=(request.get("top_logprobs") or 0) if request.get("logprobs") else None,
        choices=request.get("n") or 1,
        include_usage=bool((request.get("stream_options") or {}).get("include_usage")),
        prompt_tokens=seen.prompt_tokens(request.get("tools") or ()),
        request=request,
    )


def _read_user(seen: Conversation, content: str | Sequence[JsonObject]) -> None:
    if not isinstance(content, str):
        seen.media.extend(m for part in content if (m := _media(part)) is not None)
    seen.add_user_text(text_parts(content))


def _media(part: JsonObject) -> Media | None:
    match part["type"]:
        case "image_url":
            return media_from_url("image", part["image_url"]["url"], "user")
        case "input_audio":
            audio = part["input_audio"]
            return media_from_bytes("audio", f"audio/{audio['format']}", audio["data"], "user")
        case "file":
            file = part["file"]
            if data := file.get("file_data"):
                return media_from_file(data, "user", file.get("filename"))
            return Media("document", "file", None, None, None, "user", file.get("filename"))
    return None


def _read_assistant(seen: Conversation, message: JsonObject) -> None:
    seen.add_assistant_turn()
    content = message.get("content")
    if content is not None:
        seen.add_other(text_parts(content))
    for call in message.get("tool_calls") or ():
        body = call[call["type"]]
        seen.add_other(body["name"] + (body.get("arguments") or body.get("input") or ""))
    for name in ("reasoning_content", "reasoning"):
        if isinstance(reasoning := message.get(name), str) and reasoning:
            seen.add_other(reasoning)
            seen.returned.append(reasoning)
            break


def _tools(
    request: JsonObject,
) -> tuple[tuple[OfferedTool, ...], Literal["auto", "none", "required"], str | None]:
    tools = tuple(
        OfferedTool(
            tool[tool["type"]]["name"],
            tool["type"],
            json_schema(tool["function"].get("parameters")) if tool["type"] == "function" else None,
        )
        for tool in request.get("tools") or ()
    )
    choice: Any = request.get("tool_choice")
    if choice is None:
        return tools, "auto" if tools else "none", None
    if isinstance(choice, str):
        return tools, choice, None  # type: ignore[return-value]
    if choice["type"] == "allowed_tools":
        allowed = choice["allowed_tools"]
        names = {tool[tool["type"]]["name"] for tool in allowed["tools"]}
        return tuple(t for t in tools if t.name in names), allowed["mode"], None
    return tools, "required", choice[choice["type"]]["name"]


def _schema(response_format: JsonObject | None) -> JsonObject | None:
    if response_format is None or response_format["type"] == "text":
        return None
    if response_format["type"] == "json_object":
        return {}
    return response_format["json_schema"].get("schema") or {}


def _stop(stop: str | list[str] | None) -> tuple[str, ...]:
    if stop is None:
        return ()
    return (stop,) if isinstance(stop, str) else tuple(stop)
