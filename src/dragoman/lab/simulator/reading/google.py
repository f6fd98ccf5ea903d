"""Reading a Google request, of which all names have been made those of its JSON."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from dragoman.lab.simulator.reading.conversation import (
    Conversation,
    Kind,
    Where,
    json_schema,
    media_from_bytes,
)
from dragoman.lab.simulator.seals import open_signature
from dragoman.lab.simulator.view import JsonObject, Media, OfferedTool, View

_HOSTED = {"googleSearch": "web_search", "urlContext": "web_fetch", "codeExecution": "code"}
_MODES: dict[str, Literal["auto", "none", "required"]] = {"NONE": "none", "ANY": "required"}
DUMMIES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Signatures that are taken in place of any other."""


def read(request: JsonObject, organization: str) -> View:
    """The view of a validated request."""
    seen = Conversation()
    system = request.get("systemInstruction") or {}
    for part in system.get("parts") or ():
        seen.add_system_text(part["text"])
    for content in request.get("contents") or ():
        seen.messages += 1
        if content.get("role") == "model":
            _read_model(seen, content["parts"], organization)
        else:
            _read_user(seen, content["parts"])
    tools = request.get("tools") or []
    calling = (request.get("toolConfig") or {}).get("functionCallingConfig") or {}
    allowed = calling.get("allowedFunctionNames")
    offered = tuple(tool for tool in _tools(tools) if not allowed or tool.name in allowed)
    settings = request.get("generationConfig") or {}
    thinking = settings.get("thinkingConfig") or {}
    return View(
        protocol="google",
        model=request["model"],
        stream=bool(request.get("stream")),
        user_text=seen.user_text,
        system_text="\n\n".join(seen.system),
        tools=offered,
        hosted=tuple(_HOSTED.get(name, name) for tool in tools for name in tool),
        tool_choice=_MODES.get(calling.get("mode") or "", "auto") if offered else "none",
        forced=allowed[0] if allowed and len(allowed) == 1 else None,
        parallel=True,
        results=tuple(seen.results),
        rounds=seen.rounds,
        turns=seen.turns,
        media=tuple(seen.media),
        schema=_schema(settings),
        stop_sequences=tuple(settings.get("stopSequences") or ()),
        max_tokens=settings.get("maxOutputTokens"),
        reasoning_asked=bool(thinking) and thinking.get("thinkingBudget") != 0,
        thinking=bool(thinking.get("includeThoughts")),
        thinking_hidden=False,
        returned=tuple(seen.returned),
        logprobs=(settings.get("logprobs") or 0) if settings.get("responseLogprobs") else None,
        choices=settings.get("candidateCount") or 1,
        include_usage=True,
        prompt_tokens=seen.prompt_tokens(tools),
        request=request,
        array=bool(request.get("array")),
    )


def _read_user(seen: Conversation, parts: Sequence[JsonObject]) -> None:
    new_round = True
    for part in parts:
        if (result := part.get("functionResponse")) is not None:
            for inner in result.get("parts") or ():
                _read_media(seen, inner, "tool_result")
            call_id = result.get("id") or result["name"]
            seen.add_result(call_id, _result_text(result["response"]), new_round=new_round)
            new_round = False
    for part in parts:
        _read_media(seen, part, "user")
    seen.add_user_text("".join(part.get("text") or "" for part in parts))


def _result_text(response: JsonObject) -> str:
    """The conventional keys of a result, else all of it as JSON."""
    said: Any = response
    for name in ("output", "error", "result"):
        if list(response) == [name]:
            said = response[name]
    return said if isinstance(said, str) else msgspec.json.encode(said).decode()


def _read_media(seen: Conversation, part: JsonObject, where: Where) -> None:
    if (blob := part.get("inlineData")) is not None:
        data = blob["data"].replace("-", "+").replace("_", "/")
        kind, name = _kind(blob["mimeType"]), blob.get("displayName")
        seen.media.append(media_from_bytes(kind, blob["mimeType"], data, where, name))
    elif (file := part.get("fileData")) is not None:
        kind = _kind(file.get("mimeType") or "")
        seen.media.append(Media(kind, "url", file.get("mimeType"), None, None, where))


def _kind(mime_type: str) -> Kind:
    if mime_type.startswith("image/"):
        return "image"
    return "audio" if mime_type.startswith("audio/") else "document"


def _read_model(seen: Conversation, parts: Sequence[JsonObject], organization: str) -> None:
    seen.add_assistant_turn()
    for part in parts:
        seen.add_other(part.get("text"))
        if (call := part.get("functionCall")) is not None:
            seen.add_other(call["name"])
            seen.characters += len(msgspec.json.encode(call.get("args") or {}))
        signature = part.get("thoughtSignature")
        if signature is not None and signature not in DUMMIES:
            seen.returned.append(
                open_signature(signed_content(part), signature, organization) or ""
            )


def signed_content(part: JsonObject) -> str:
    """What of a part its signature is bound to."""
    if (call := part.get("functionCall")) is not None:
        signed = [call["name"], call.get("args") or {}]
        return msgspec.json.encode(signed, order="sorted").decode()
    return part.get("text") or ""


def _tools(tools: Sequence[JsonObject]) -> tuple[OfferedTool, ...]:
    return tuple(
        OfferedTool(declared["name"], "function", json_schema(_parameters(declared)))
        for tool in tools
        for declared in tool.get("functionDeclarations") or ()
    )


def _parameters(declared: JsonObject) -> Any:
    return declared.get("parametersJsonSchema") or lowered(declared.get("parameters"))


def _schema(settings: JsonObject) -> JsonObject | None:
    if settings.get("responseMimeType") != "application/json":
        return None
    schema = settings.get("responseJsonSchema") or lowered(settings.get("responseSchema"))
    return {} if schema is None else dict(schema)


def lowered(schema: Any) -> Any:
    """A schema of Google's dialect with the types of JSON Schema."""
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    if isinstance(kind := found.get("type"), str):
        found["type"] = kind.lower()
    if isinstance(inner := found.get("properties"), dict):
        found["properties"] = {name: lowered(value) for name, value in inner.items()}
    if "items" in found:
        found["items"] = lowered(found["items"])
    if isinstance(options := found.get("anyOf"), list):
        found["anyOf"] = [lowered(option) for option in options]
    for name in ("minItems", "maxItems", "minLength", "maxLength"):
        if isinstance(found.get(name), str):
            found[name] = int(found[name])
    return found
